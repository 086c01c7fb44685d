"""Places that stay as they are once they are taken."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter import rewrite
from tests.passes.loops import kept, model, prove, same

TEXT = """g ({type} w, {term} x, bool[N,{size}] p) => ({type} r) {{
    zero = Constant <value = int64 {{0}}> ()  yes = Constant <value = bool {{1}}> ()
    free = Constant <value = {free}> ()
    shape = Shape (p)  n = Gather (shape, zero)
    r = Loop (n, yes, w) <body = b (int64 i, bool on, {type} s) => (bool on2, {type} s2) {{
        v = Gather (x, i)  q = Gather (p, i)
        {body}
        on2 = Identity (on)
    }}>
}}"""
TAKEN = "a = Equal (s, free)  c = And (a, q)  s2 = Where (c, v, s)"
KINDS = {
    "a vector of ids": ("int64[4]", "int64[N]", "4", "int64 {0}", TAKEN),
    "a plane of ids": ("int64[3,4]", "int64[N]", "3,4", "int64 {0}", TAKEN),
    "values for each place": ("int32[3,4]", "int32[N,3,4]", "3,4", "int32 {-1}", TAKEN),
    "values for each column": ("int32[3,4]", "int32[N,4]", "3,4", "int32 {-1}", TAKEN),
    "flags for each column": ("int32[3,4]", "int32[N,3,4]", "4", "int32 {0}", TAKEN),
    "floats": ("float[4]", "float[N,4]", "4", "float {-1}", TAKEN),
    "any place": (
        "int64[4]",
        "int64[N]",
        "4",
        "int64 {0}",
        "a = Equal (free, s)  s2 = Where (a, v, s)",
    ),
    "the number of the iteration, which may be the free number": (
        "int64[4]",
        "int64[N]",
        "4",
        "int64 {0}",
        TAKEN.replace("v, s", "i, s"),
    ),
    "the other way round": (
        "int64[4]",
        "int64[N]",
        "4",
        "int64 {0}",
        "a = Equal (s, free)  o = Cast <to = 9> (a)  c = And (q, o)  d = And (c, q)  s2 = Where (d, v, s)",
    ),
}
MISSES = {
    "a value of its own": (
        "int64[4]",
        "int64[N]",
        "4",
        "int64 {0}",
        f"{TAKEN} ".replace("v, s", "u, s").replace("a =", "u = Add (s, v)  a ="),
    ),
    "less than": ("int64[4]", "int64[N]", "4", "int64 {0}", TAKEN.replace("Equal", "Less")),
    "zeros of floats": ("float[4]", "float[N,4]", "4", "float {0}", TAKEN),
    "one that changes": (
        "int64[4]",
        "int64[N]",
        "4",
        "int64 {0}",
        TAKEN.replace("(s, free)", "(s, v)"),
    ),
    "a larger flag": ("int64[Q]", "int64[N]", "4", "int64 {0}", TAKEN),
}


def feed(n: int, kind: tuple[str, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    type_, term, size, *_ = kind
    dtype = {"int64": np.int64, "int32": np.int32, "float": np.float32}[type_.split("[")[0]]
    shape = [int(d) for d in type_[:-1].split("[")[1].split(",")]
    own = [int(d) for d in term[:-1].split("[")[1].split(",")[1:]]
    flags = rng.random((n, *map(int, size.split(",")))) < 0.4
    values = [rng.integers(-1, 3, s).astype(dtype) for s in (shape, (n, *own))]
    if dtype == np.float32:
        values[1][rng.random(values[1].shape) < 0.2] = np.nan
    return {"w": values[0], "x": values[1], "p": flags}


def written(kind: tuple[str, ...]) -> str:
    type_, term, size, free, body = kind
    return TEXT.format(type=type_, term=term, size=size, free=free, body=body)


@pytest.mark.sampled
@pytest.mark.parametrize("name", KINDS)
def test_the_first_value_stays(name: str) -> None:
    kind = KINDS[name]
    before = model(written(kind))
    found = rewrite(before, target="portable")
    assert found.report.reached
    counts = (0, 1, 2, 7, 20)
    assert same(before, found.model, *(feed(n, kind) for n in counts)) == len(counts)


def test_few_places_end_without_a_loop() -> None:
    kind = KINDS["a vector of ids"]
    prove(written(kind), *(feed(n, kind) for n in (0, 1, 2, 7)))


@pytest.mark.parametrize("name", MISSES)
def test_what_is_more_than_that_stays(name: str) -> None:
    kept(written(MISSES[name]))
