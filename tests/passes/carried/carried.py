"""Loops that carry more than maps, in the forms in which exporters write them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

__all__ = [
    "COUNT",
    "DIALECTS",
    "INPUTS",
    "LENGTHS",
    "SCALARS",
    "feeds",
    "loop",
    "loop_over_slices",
    "nested",
    "nested_feeds",
]

LENGTHS = (0, 1, 2, 7, 64)

SCALARS = """
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    zero32 = Constant <value = int32 {0}> ()
    one32 = Constant <value = int32 {1}> ()
    zero1 = Constant <value = int64[1] {0}> ()
    one1 = Constant <value = int64[1] {1}> ()
"""

INPUTS = (
    "float[N,4] x, int64[N,4] k, bool[N,4] p, float[4] b, int64[4] c, bool[4] f, float z, "
    "float[R,4] start, int64[N] at, float[N,4] w"
)

COUNT = """
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
"""

_READS = """e = Gather <axis = 0> (x, i)
            ke = Gather <axis = 0> (k, i)
            pe = Gather <axis = 0> (p, i)
"""


def _counted(state: str, body: str, collected: str) -> str:
    """TorchScript and onnxscript: a trip count and a condition that is handed on."""
    return f"""Loop (n, t, begin) <body = step (int64 i, bool cond, {state} s)
            => (bool go, {state} s2{collected}) {{
            {_READS}
            {body}
            go = Identity (cond)
        }}>"""


def _endless(state: str, body: str, collected: str) -> str:
    """onnxscript: a trip count and no condition."""
    return _counted(state, body, collected).replace("Loop (n, t, begin)", "Loop (n, , begin)")


def _while(state: str, body: str, collected: str) -> str:
    """TensorFlow: a counter of its own and a condition on it; the counter is no result."""
    reads = _READS.replace("i)", "own)")
    body = f"i = Cast <to = 7> (own)\n            {body}"
    return f"""WHILE Loop (, more, zero32, begin) <body = step (int64 trip, bool cond, int32 own, {state} s)
            => (bool go, int32 own2, {state} s2{collected}) {{
            {reads}
            {body}
            own2 = Add (own, one32)
            go = Less (own2, n32)
        }}>"""


def _scan(state: str, body: str, collected: str) -> str:
    """Scan, as dynamo's exporter writes it."""
    return f"""Scan <body = step ({state} s, float[4] e, int64[4] ke, bool[4] pe)
            => ({state} s2{collected}) {{
            {body}
        }}, num_scan_inputs = 3> (begin, x, k, p)"""


DIALECTS = {"counted": _counted, "endless": _endless, "while": _while, "scan": _scan}


def loop(
    dialect: str,
    state: str,
    body: str,
    begin: str,
    *,
    collected: str = "",
    result: str = "",
    prepare: str = "",
) -> str:
    """Return a graph whose Loop carries ``s``, which starts as ``begin``.

    Args:
        dialect: How the loop is written.
        state: The type of what is carried.
        body: Computes ``s2`` from ``s``, the rows ``e``, ``ke`` and ``pe``, and the number ``i``.
        begin: The operation, or the value, that yields the initial value.
        collected: The type of ``y``, which the body computes too; nothing by default.
        result: The type of the result, if it is not that of what is carried.
        prepare: Further nodes in front of the loop.
    """
    written = DIALECTS[dialect](state, body, f", {collected} y" if collected else "")
    first = begin if "(" in begin else f"Identity ({begin})"
    outputs, names = f"{result or state} r", "r"
    if collected:
        dtype, _, dims = collected.partition("[")
        outer = f"{dtype}[T,{dims}" if dims else f"{dtype}[T]"
        outputs, names = f"{outputs}, {outer} ys", "r, ys"
    if written.startswith("WHILE "):
        written, names = written.removeprefix("WHILE "), f"last, {names}"
        prepare += """
        n32 = Cast <to = 6> (n)
        more = Less (zero32, n32)"""
    return f"""g ({INPUTS}) => ({outputs}) {{ {SCALARS} {COUNT}
        {prepare}
        begin = {first}
        {names} = {written}
    }}"""


def feeds(length: int, seed: int = 0, **changed: np.ndarray) -> Mapping[str, np.ndarray]:
    """Make the inputs for a number of iterations."""
    rng = np.random.default_rng((seed, length))

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    made = {
        "x": floats(length, 4),
        "k": rng.integers(-9, 9, (length, 4)),
        "p": rng.integers(0, 2, (length, 4)).astype(np.bool_),
        "b": floats(4),
        "c": rng.integers(-9, 9, 4),
        "f": np.array([True, False, True, False]),
        "z": np.float32(0.5),
        "start": floats(3, 4),
        "at": rng.permutation(length).astype(np.int64),
        "w": floats(length, 4),
    }
    return made | changed


def nested(text: str) -> str:
    """Return a graph that runs that of `loop` for each of several groups of rows."""
    head, _, body = text.partition("{")
    result, name = head.split("=> (")[1].split(")")[0].rsplit(" ", 1)
    inputs = head[head.index("(") + 1 : head.index(") =>")]
    for each in ("x", "k", "p"):
        inputs = inputs.replace(f"[N,4] {each},", f"[G,N,4] {each}s,")
    dtype, _, dims = result.partition("[")
    outer = f"{dtype}[G,{dims}" if dims else f"{dtype}[G]"
    inner = body.rsplit("}", 1)[0]
    return f"""g ({inputs}) => ({outer} rs) {{
        yes = Constant <value = bool {{1}}> ()
        first = Constant <value = int64 {{0}}> ()
        groups = Shape (xs)
        many = Gather <axis = 0> (groups, first)
        rs = Loop (many, yes) <body = outer (int64 g, bool on) => (bool on2, {result} {name}) {{
            on2 = Identity (on)
            x = Gather <axis = 0> (xs, g)
            k = Gather <axis = 0> (ks, g)
            p = Gather <axis = 0> (ps, g)
            {inner}
        }}>
    }}"""


def nested_feeds(groups: int, length: int) -> Mapping[str, np.ndarray]:
    """Make the inputs of what `nested` returns."""
    all_ = [feeds(length, seed) for seed in range(groups)]
    made = dict(feeds(length))
    for name in ("x", "k", "p"):
        one = made.pop(name)
        stacked = np.stack([f[name] for f in all_]) if all_ else np.zeros((0, *one.shape))
        made[f"{name}s"] = stacked.astype(one.dtype)
    return made


def loop_over_slices(
    inputs: str,
    state: str,
    begin: str,
    body: str,
    *,
    constants: str = "",
    result: str = "",
    behind: str = "",
) -> str:
    """Return a graph whose Loop carries ``s`` beside the start of a slice ``e`` of ``x``.

    Args:
        inputs: The inputs of the graph.
        state: The type of ``s``.
        begin: What ``s`` begins with.
        body: Computes ``s2``; ``size`` is the length of the slice.
        constants: Nodes in front of the Loop.
        result: The type of the result, where it is another.
        behind: Computes the result ``r`` of the last value ``all``; without it they are the same.
    """
    return f"""g ({inputs}) => ({result or state} r) {{ {SCALARS}
        {constants}
        shape = Shape (lengths)
        n = Gather <axis = 0> (shape, zero)
        begin = {begin}
        last, {"all" if behind else "r"} = Loop (n, t, zero, begin) <
            body = step (int64 i, bool cond, int64 from, {state} s)
            => (bool go, int64 to, {state} s2) {{
            size = Gather <axis = 0> (lengths, i)
            to = Add (from, size)
            a = Unsqueeze (from, zero1)
            o = Unsqueeze (to, zero1)
            e = Slice (x, a, o, zero1, one1)
            {body}
            go = Identity (cond)
        }}>
        {behind}
    }}"""
