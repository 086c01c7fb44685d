"""Rows that an iteration reads and writes at a key of its own, checked as JAX's exporter does.

A row is read by a Slice of every axis, and written only where the key is a place of the tensor. A
negative key reads a row that counts from the end, and writes none.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import model, read, rows, same

pytestmark = pytest.mark.quick

TEXT = """g (float[N,3] x, float[5,3] z, int64[N] keys) => (float[M,3] y, float[5,3] last)
  <bool go = {1}, int64 none = {0}, int64 five = {5}, int64 most = {MOST}, int64[1] zero1 = {0},
   int64[1] one1 = {1}, int64[2] sizes = {1, 3}, int64[2] both = {0, 1}, int64[2] row_shape = {1, 3}>
{ shape = Shape <start = 0, end = 1> (x) n = Squeeze (shape, zero1)
  last, y = Loop (n, go, z) <body = b (int64 i, bool c, float[5,3] s)
    => (bool d, float[5,3] s2, float[3] r) {
    e = Gather (x, i) key = Gather (keys, i) b = Less (key, none) m = Add (key, five) READ_KEY
    k1 = Unsqueeze (k, zero1) f = Concat <axis = 0> (k1, zero1) t = Add (f, sizes)
    cut = Slice (s, f, t, both) old = Squeeze (cut, zero1)
    WRITE_KEY p = Reshape (w, one1) l = Unsqueeze (p, one1)
    u = Reshape (e, row_shape) column = Gather <axis = 1> (l, zero1)
    low = GreaterOrEqual (column, none) high = LessOrEqual (column, most) inside = And (low, high)
    flat = Squeeze (inside, one1) found = NonZero (flat) turned = Transpose <perm = [1, 0]> (found)
    kept = Squeeze (turned, one1) l2 = Gather <axis = 0> (l, kept) u2 = Gather <axis = 0> (u, kept)
    s2 = ScatterND (s, l2, u2) r = Sub (e, old) d = Identity (c) }> }"""


def _text(read_key: str, write_key: str, most: int = 4) -> str:
    text = TEXT.replace("READ_KEY", read_key).replace("WRITE_KEY", write_key)
    return text.replace("MOST", str(most))


AS_GIVEN = "k = Identity (key)"
TURNED = "k = Where (b, m, key)"
CASES = {
    "turned round twice": _text(TURNED, "w0 = Where (b, m, key) w = Identity (w0)"),
    "of one number": _text(TURNED, "w = Identity (k)"),
    "as they are": _text(AS_GIVEN, "w = Identity (key)"),
}
KEYS = ([], [3], [-4], [0, 0, 0], [4, 1, 4, 4, 1, 2, 0, 4], [-3, 1, 2, -3, 2, -4, 2, 2])


def _feeds(keys: list[int]) -> dict[str, np.ndarray]:
    x = rows(len(keys), 3, seed=len(keys))
    return {"x": x, "z": rows(5, 3, seed=1), "keys": np.array(keys, np.int64)}


@pytest.mark.parametrize("name", CASES)
def test_no_loop_is_left(name: str) -> None:
    before = model(CASES[name], 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(_feeds, KEYS)) == len(KEYS)


def _joined(by: str, read_key: str = AS_GIVEN, kept: str = "e") -> str:
    """Return a loop that joins a row to the one that stands at its key, and what it collects."""
    text = _text(read_key, "w = Identity (k)").replace("u = Reshape (e", f"{by} u = Reshape (j")
    return text.replace("r = Sub (e, old)", f"r = Identity ({kept})")


JOINED = {
    "sums": _joined("j = Add (old, e)"),
    "sums at a turned key": _joined("j = Add (e, old)", TURNED),
    "differences": _joined("j = Sub (old, e)"),
    "the largest": _joined("j = Max (old, e)", TURNED),
    "the least of one number": _joined("one = ReduceMax <keepdims = 0> (e) j = Min (old, one)"),
    "sums, each collected": _joined("j = Add (old, e)", kept="j"),
    "the largest, what it was before collected": _joined("j = Max (old, e)", kept="old"),
    "products, each collected": _joined("j = Mul (old, e)", TURNED, kept="j"),
    "sums of keys that write nothing, collected": _joined("j = Add (old, e)", kept="old"),
    "a scatter that adds": _text(AS_GIVEN, "w = Identity (key)").replace(
        "s2 = ScatterND", 's2 = ScatterND <reduction = "add">'
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", JOINED)
def test_what_is_joined_to_a_row_at_a_checked_key(name: str) -> None:
    before = model(JOINED[name], 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(_feeds, KEYS)) == len(KEYS)


def _flagged(where: str, text: str) -> str:
    """Return a loop that writes only where a flag of the iteration's row holds."""
    flag = "first = Gather (e, none) zero = Constant <value_float = 0.0> () flag = FLAG "
    flag = flag.replace("FLAG", "Greater (first, zero)")
    text = text.replace("s2 = ScatterND (s, l2, u2)", f"{flag} s1 = ScatterND (s, l2, u2) {where}")
    return text.replace("s2 = ScatterND (s, l, u)", f"{flag} s1 = ScatterND (s, l, u) {where}")


WHERE, TURNED_WHERE = "s2 = Where (flag, s1, s)", "s2 = Where (flag, s, s1)"
PLAIN = _text(AS_GIVEN, "w = Identity (key)").replace("(s, l2, u2)", "(s, l, u)")
FLAGGED = {
    "set at a checked key": _flagged(WHERE, _text(TURNED, "w = Identity (k)")),
    "set where the flag does not hold": _flagged(TURNED_WHERE, CASES["as they are"]),
    "set at a key that is not checked": _flagged(WHERE, PLAIN),
    "sums, each collected": _flagged(WHERE, JOINED["sums, each collected"]),
    "sums": _flagged(WHERE, JOINED["sums"]),
    "the largest, what it was before collected": _flagged(
        TURNED_WHERE, JOINED["the largest, what it was before collected"]
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", FLAGGED)
def test_rows_at_keys_under_a_flag(name: str) -> None:
    before = model(FLAGGED[name], 18)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(_feeds, KEYS)) == len(KEYS)


NEAR = {
    "the flag depends on what is read": _flagged(WHERE, CASES["of one number"]).replace(
        "Gather (e, none)", "Gather (old, none)"
    ),
    "each element has its flag": _flagged(WHERE, CASES["of one number"]).replace(
        "Greater (first, zero)", "Greater (e, zero)"
    ),
    "what the write alone makes is read": _flagged(WHERE, CASES["as they are"]).replace(
        "r = Sub (e, old)", "q = Gather (s1, key) r = Add (q, old)"
    ),
    "what stands there behind it is read": _flagged(WHERE, CASES["as they are"]).replace(
        "r = Sub (e, old)", "q = Gather (s2, key) r = Add (q, old)"
    ),
    "it is joined to another row": _joined("o = Gather (s, none) j = Add (o, e)"),
    "it is joined to what is not there": _joined("j = Mul (old, old)"),
    "it is subtracted from": _joined("j = Sub (e, old)"),
    "it saturates": _joined(
        "m2 = Add (old, e) one = Constant <value_float = 1.0> () j = Min (m2, one)"
    ),
    "the key is read of the rows": _joined("j = Add (old, e)").replace(
        "key = Gather (keys, i)",
        "k0 = Gather (keys, i) row0 = Gather (s, none) big = ReduceMax <keepdims = 0> (row0) "
        "huge = Constant <value_float = 9.0> () is = Greater (big, huge) "
        "key = Where (is, none, k0)",
    ),
    "it writes beside what it reads": _text(TURNED, "w = Mod (m, five)"),
    "it writes to fewer places": _text(TURNED, "w = Identity (k)", most=2),
    "a byte of the key is checked": _text(
        AS_GIVEN, "h = Cast <to = 3> (key) w = Cast <to = 7> (h)"
    ),
    "half of the key is checked": _text(AS_GIVEN, "h = Cast <to = 6> (key) w = Cast <to = 7> (h)"),
    "more is read elsewhere": _text(TURNED, "w = Identity (k)").replace(
        "r = Sub (e, old)", "q = ReduceMax <keepdims = 0> (s, zero1) r = Sub (q, old)"
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", NEAR)
def test_what_is_close_to_it_stays_and_computes_what_it_did(name: str) -> None:
    before = model(NEAR[name], 18)
    found = read(before)
    assert found.loops == 1
    assert same(before, found.model, *map(_feeds, KEYS)) == len(KEYS)


def test_a_key_that_does_not_fit_in_32_bits_is_another_key_there() -> None:
    text = _text("h = Cast <to = 6> (key) k = Cast <to = 7> (h)", "w = Identity (k)")
    before = model(text, 18)
    found = read(before)
    assert found.loops == 0
    assert same(before, found.model, _feeds([1, 2, 2**32 + 1, 1])) == 1
