"""Which shapes are known of what a Loop carries, and of what it yields at last."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from passes.decisions import Verdict
from rewriter.backends import run
from rewriter.proof.compare import compare
from tests.passes.loops import rows
from tests.passes.typing.typed import HEADER, both, load

Dims = tuple[int | str | None, ...] | None


def loop(
    body: str, states: str = "s", first: str = "x", outs: str = "s2", results: str = "y"
) -> str:
    """Return a graph with a Loop whose body declares no shapes."""
    inputs = "".join(f", float[] {s}" for s in states.split())
    outputs = "".join(f", float[] {s}" for s in outs.split())
    return f"""{HEADER}g (int64 n, float[N,4] x, float[4] v, float[4,4] w) => (float[] last) {{
        t = Constant <value = bool {{1}}> ()
        one = Constant <value_ints = [1]> ()
        {", ".join(results.split())} = Loop (n, t, {", ".join(first.split())}) <body =
            step (int64 i, bool c{inputs}) => (bool go{outputs}) {{
            {body}
            go = Identity (c)
        }}>
        last = Tanh (y)
    }}"""


CASES: dict[str, tuple[str, dict[str, Dims]]] = {
    "kept": (loop("m = MatMul (s, w)  s2 = Tanh (m)"), {"s": ("x.0", 4), "last": ("x.0", 4)}),
    "passed_on": (loop("s2 = Identity (s)"), {"y": ("x.0", 4)}),
    "begun_anew": (loop("s2 = Identity (x)"), {"y": ("x.0", 4)}),
    "rows_added": (loop("s2 = Concat <axis = 0> (s, s)"), {"s": (None, 4), "y": (None, 4)}),
    "transposed": (loop("s2 = Transpose (s)"), {"y": (None, None)}),
    "transposed_square": (loop("s2 = Transpose (s)", first="w"), {"y": (4, 4)}),
    "rank_grows": (loop("s2 = Unsqueeze (s, one)"), {"s": None, "y": None, "last": None}),
    "other_shape_of_one_rank": (loop("s2 = Identity (w)"), {"s": (None, 4), "y": (None, 4)}),
    "unknown_operator": (loop("s2 = other.Op (s)"), {"y": None}),
    "handed_round": (
        loop(
            """k = Constant <value_floats = [1.0]> ()
            a2 = Identity (b)  b2 = Identity (d)  d2 = Concat <axis = 0> (d, k)""",
            "a b d",
            "v v v",
            "a2 b2 d2",
            "y z u",
        ),
        {"y": (None,), "z": (None,), "u": (None,)},
    ),
    "swapped": (
        loop("a2 = Identity (b)  b2 = Identity (a)", "a b", "x w", "a2 b2", "y z"),
        {"y": (None, 4), "z": (None, 4)},
    ),
    "one_of_two": (
        loop("a2 = Tanh (a)  b2 = Unsqueeze (b, one)", "a b", "x v", "a2 b2", "y z"),
        {"y": ("x.0", 4), "z": None},
    ),
    "after_another": (
        loop("s2 = Tanh (s)").replace(
            "last = Tanh (y)",
            """z = Loop (n, t, y) <body = next (int64 i1, bool c1, float[] r) =>
                (bool go1, float[] r2) { r2 = Relu (r)  go1 = Identity (c1) }>
            last = Tanh (z)""",
        ),
        {"z": ("x.0", 4), "last": ("x.0", 4)},
    ),
    "behind_one_that_grows": (
        loop("s2 = Tanh (s)").replace(
            "last = Tanh (y)",
            """y1 = Neg (y)
            z = Loop (n, t, y1) <body = grow (int64 i1, bool c1, float[] r) =>
                (bool go1, float[] r2) { r2 = Concat <axis = 0> (r, w)  go1 = Identity (c1) }>
            k = Constant <value_ints = [-1, 4]> ()
            y2 = Reshape (z, k)
            u = Loop (n, t, y2) <body = keep (int64 i2, bool c2, float[] q) =>
                (bool go2, float[] q2) { q2 = Relu (q)  go2 = Identity (c2) }>
            last = Tanh (u)""",
        ),
        {"y1": ("x.0", 4), "r": (None, 4), "z": (None, 4), "q": (None, 4), "last": (None, 4)},
    ),
    "behind_one_of_another_rank": (
        loop("s2 = Unsqueeze (s, one)").replace(
            "last = Tanh (y)",
            """y1 = Neg (y)
            z = Loop (n, t, y1) <body = keep (int64 i1, bool c1, float[] r) =>
                (bool go1, float[] r2) { r2 = Relu (r)  go1 = Identity (c1) }>
            last = Tanh (z)""",
        ),
        {"s": None, "y": None, "r": None, "z": None, "last": None},
    ),
    "in_a_loop": (
        loop(
            """s1 = Loop (n, t, s) <body = next (int64 i1, bool c1, float[] r) =>
                (bool go1, float[] r2) { r2 = Relu (r)  go1 = Identity (c1) }>
            s2 = MatMul (s1, w)"""
        ),
        {"r": ("x.0", 4), "s1": ("x.0", 4), "y": ("x.0", 4)},
    ),
    "a_number_in_a_loop": (
        f"""{HEADER}g (int64 n, float z) => (float[] y) <bool t = {{1}}> {{
        y = Loop (n, t, z) <body = step (int64 i, bool c, float[] s) => (bool go, float[] s2) {{
            s2 = Loop (n, t, s) <body = next (int64 i1, bool c1, float[] r) =>
                (bool go1, float[] r2) {{ r2 = Relu (r)  go1 = Identity (c1) }}>
            go = Identity (c)
        }}> }}""",
        {"s": (), "r": (), "y": ()},
    ),
    "in_a_branch": (
        f"""{HEADER}g (bool b, int64 n, float[N,4] x) => (float[] last) {{
        t = Constant <value = bool {{1}}> ()
        last = If (b) <then_branch = yes () => (float[] p) {{
            p = Loop (n, t, x) <body = step (int64 i, bool c, float[] s) => (bool go, float[] s2)
                {{ s2 = Tanh (s)  go = Identity (c) }}>
        }}, else_branch = no () => (float[] q) {{ q = Relu (x) }}> }}""",
        {"p": ("x.0", 4), "last": ("x.0", 4)},
    ),
    "in_a_map": (
        f"""{HEADER}g (seq(float[N]) xs, int64 n) => (seq(float[]) ys) {{
        t = Constant <value = bool {{1}}> ()
        ys = SequenceMap (xs) <body = b (float[K] e) => (float[L] q) {{
            q = Loop (n, t, e) <body = step (int64 i, bool c, float[] s) => (bool go, float[] s2)
                {{ s2 = Tanh (s)  go = Identity (c) }}>
            r = Tanh (q)
        }}> }}""",
        {"q": ("unk__e.0",), "r": ("unk__e.0",)},
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", CASES)
def test_shapes_that_a_loop_carries(name: str) -> None:
    text, expected = CASES[name]
    typings, values = both(text)
    for value, dims in expected.items():
        found = typings.proven.dims(values[value])
        known = None if found is None else tuple(d if _says(d, value) else None for d in found)
        assert known == dims, value


def _says(dim: int | str | None, value: str) -> bool:
    """Whether a dimension is a number, or one of another value."""
    return isinstance(dim, int) or (
        dim is not None and "." in dim and not dim.startswith(f"{value}.")
    )


def test_what_the_body_declares_stays() -> None:
    """Its rank is taken from it; numbers only where it is the declared types that are asked."""
    text = loop("s2 = Tanh (s)", first="v").replace("float[] s,", "float[4] s,")
    typings, values = both(text.replace("float[] s)", "float[4] s)"))
    assert typings.declared.dims(values["s"]) == typings.proven.dims(values["s"]) == (4,)


def test_the_model_stays_as_it_is() -> None:
    text = CASES["kept"][0]
    model = load(text)
    before = {value.name: (value.type, value.shape) for value in model.graph.outputs}
    both(text)
    assert before == {value.name: (value.type, value.shape) for value in model.graph.outputs}


@pytest.mark.parametrize("trips", [0, 1, 3])
@pytest.mark.parametrize(
    "name", ["kept", "rows_added", "rank_grows", "after_another", "in_a_loop"]
)
def test_what_is_known_is_so(name: str, trips: int) -> None:
    text, _ = CASES[name]
    typings, values = both(text)
    x = np.zeros((2, 4), np.float32)
    feeds = {"n": np.array(trips), "x": x, "v": x[0], "w": np.zeros((4, 4), np.float32)}
    shape = run(onnx.parser.parse_model(text), feeds)["last"].shape
    dims = typings.proven.dims(values["last"])
    assert dims is None or len(dims) == len(shape)
    assert all(d == {4: 4, "x.0": 2}.get(k, d) for k, d in zip(dims or (), shape, strict=False))


MAPPED = f"""{HEADER}g (float[B,4] x, float[4,4] w, int64 n) => (float[B,5] y)
    <float[1] tail = {{1}}, bool t = {{1}}> {{
    xs = SplitToSequence <axis = 0, keepdims = 0> (x)
    ys = SequenceMap (xs) <body = b (float[4] e) => (float[] q) {{
        h = Loop (n, t, e) <body = step (int64 i, bool c, float[] s) => (bool go, float[] s2) {{
            s1 = MatMul (s, w)
            s2 = Tanh (s1)
            go = Identity (c)
        }}>
        q = Concat <axis = 0> (h, tail)
    }}>
    y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
}}"""


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_what_follows_a_loop_is_batched(trips: int) -> None:
    before = onnx.parser.parse_model(MAPPED)
    result = rewriter.rewrite(before, strategy="fuse")
    assert [d.verdict for d in result.report.decisions] == [Verdict.FUSED]
    for batch in (1, 3):
        feeds = {"x": rows(batch, 4), "w": rows(4, 4, seed=1), "n": np.array(trips)}
        for backend in ("reference", "onnxruntime"):
            difference = compare(
                run(before, feeds, "reference"), run(result.model, feeds, backend)
            )
            assert difference.equal, difference.message
    none = {"x": rows(0, 4), "w": rows(4, 4), "n": np.array(trips)}
    assert run(result.model, none)["y"].shape == (0, 5)


@pytest.mark.parametrize(
    ("between", "first", "dims"),
    [
        ("Identity", "float[N,4]", ("z0.0", 4)),
        ("Tanh", "float[N,4]", ("z0.0", 4)),
        ("Identity", "float", ()),
    ],
)
def test_a_long_chain_of_loops(between: str, first: str, dims: Dims) -> None:
    many = 30
    loops = " ".join(
        f"""y{i} = Loop (n, t, z{i}) <body = step (int64 i, bool c, float[] s) => (bool go, float[] u) {{
            u = Tanh (s)
            go = Identity (c)
        }}> z{i + 1} = {between} (y{i})"""
        for i in range(many)
    )
    text = f"""{HEADER}g (int64 n, {first} z0) => (float[] last) <bool t = {{1}}> {{
        {loops} last = Neg (z{many}) }}"""
    typings, values = both(text)
    assert typings.proven.dims(values[f"y{many - 1}"]) == dims
