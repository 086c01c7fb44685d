"""If inside of a body: shared conditions, and conditions that differ from sample to sample."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.passes.batching.harness import (
    Case,
    Operand,
    constant,
    fused_model,
    mapped,
    prove,
    shared,
)
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged, reasons_of

X, Z = ragged(2), ragged(2, seed=1)
OTHER = ragged(2, lengths=(1, 4, 0), seed=2)
ROW = shared(np.array([0.5, -1], np.float32))


def _if(then: str, other: str, kind: str = "float") -> str:
    return (
        f"y = If(c) <then_branch = t () => ({kind}[] a) {{ {then} }}, "
        f"else_branch = e () => ({kind}[] b) {{ {other} }}>"
    )


def _then(text: str, more: str) -> str:
    return f"{text.replace('y =', 'v =')} {more}"


TWO = (
    "y, z = If(c) <then_branch = t () => (float[] a, float[] d) { a = Neg(x) d = Abs(x) }, "
    "else_branch = e () => (float[] b, float[] f) { b = Slice(x, s, k) f = Slice(w, s, k) }>"
)
CUT = {"s": constant(np.array([0])), "k": constant(np.array([2]))}

SHARED = [
    RaggedCase(f"{name}, {flag}", text, {"x": X, **operands, "c": shared(np.array(flag))}, **more)
    for flag in (True, False)
    for name, text, operands, more in [
        ("rows of both", _if("a = Neg(x)", "b = Relu(x)"), {}, {}),
        ("one reads another operand", _if("a = Neg(x)", "b = Add(x, z)"), {"z": Z}, {}),
        (
            "a reduction in one",
            _if("a = ReduceSum<keepdims=0>(x, n)", "b = Add(m, m)"),
            {"m": mapped((2,)), "n": constant(np.array([0]))},
            {},
        ),
        ("fewer rows in one", _if("a = Neg(x)", "b = Slice(x, s, k)"), CUT, {}),
        ("other lengths in one", _if("a = Neg(x)", "b = Neg(z)"), {"z": OTHER}, {}),
        (
            "a row for all in one",
            _then(_if("a = Neg(x)", "b = Unsqueeze(w, s)"), "y = Concat<axis=0>(x, v)"),
            {"w": ROW, **CUT},
            {},
        ),
        (
            "one row of a sample in one",
            _then(_if("a = Neg(x)", "b = Unsqueeze(m, s)"), "y = Concat<axis=0>(x, v)"),
            {"m": mapped((2,)), **CUT},
            {},
        ),
        (
            "what follows reads rows of both",
            _then(_if("a = Neg(x)", "b = Relu(x)"), "y = Add(v, x)"),
            {},
            {},
        ),
        (
            "what follows reads other lengths",
            _then(_if("a = Neg(x)", "b = Slice(x, s, k)"), "y = Softmax(v)"),
            CUT,
            {},
        ),
        ("two results", TWO, {"w": Z, **CUT}, {"outputs": ("y", "z")}),
    ]
]


@pytest.mark.quick
@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", SHARED, ids=str)
def test_shared_condition(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        (_if("a = Neg(x)", "b = ReduceSum<keepdims=0>(x)"), {}),
        (_if("a = Neg(x)", "b = Unsqueeze(x, s)"), CUT),
    ],
    ids=["a number in one", "another rank in one"],
)
def test_different_ranks_decline(text: str, operands: dict[str, Operand]) -> None:
    case = RaggedCase("", text, {"x": X, **operands, "c": shared(np.array(True))})
    assert [op for op, _ in reasons_of(case)] == ["If"]


FLAGS = [np.array(f) for f in (True, False, True)]
SIDES = {
    "mixed": mapped(*FLAGS),
    "all": mapped(*[FLAGS[0]] * 3),
    "none": mapped(*[FLAGS[1]] * 3),
}
ROWS = [np.array(r) for r in ([0], [7], [1])]
SMALL = [np.array(r) for r in ([0], [2], [1])]
GATHERED = _if("a = Gather(w, k)", "b = Unsqueeze(x, s)")
EQUAL = [
    Case(f"{name}, {side}", text, {"x": mapped((3,)), **operands, "c": flags}, **more)
    for side, flags in SIDES.items()
    for name, text, operands, more in [
        ("rows", _if("a = Neg(x)", "b = Relu(x)"), {}, {}),
        (
            "one can fail",
            GATHERED,
            {**CUT, "w": shared(np.ones((3, 3), np.float32)), "k": mapped(*SMALL)},
            {},
        ),
        (
            "integers divided",
            _if("a = Div(k, k)", "b = Neg(k)", "int64"),
            {"k": mapped(*(np.array([n, 2]) for n in (3, 5, 1)))},
            {},
        ),
        (
            "a product in one",
            _if("a = MatMul(x, w)", "b = Identity(x)"),
            {"w": shared(np.arange(9, dtype=np.float32).reshape(3, 3))},
            {},
        ),
        (
            "a shared result in one",
            _if("a = MatMul(w, v)", "b = Identity(x)"),
            {
                "w": shared(np.arange(9, dtype=np.float32).reshape(3, 3)),
                "v": shared(np.ones(3, np.float32)),
            },
            {},
        ),
        (
            "a condition of one element",
            _if("a = MatMul(x, w)", "b = Identity(x)").replace("If(c)", "If(d)"),
            {
                "w": shared(np.eye(3, dtype=np.float32)),
                "d": mapped(*(np.array([f]) for f in FLAGS)),
            },
            {},
        ),
        (
            "an If in a branch",
            _if(
                "a = If(d) <then_branch = t2 () => (float[] a2) { a2 = MatMul(x, w) }, "
                "else_branch = e2 () => (float[] b2) { b2 = Neg(x) }>",
                "b = Identity(x)",
            ),
            {
                "w": shared(np.arange(9, dtype=np.float32).reshape(3, 3)),
                "d": mapped(*FLAGS[::-1]),
            },
            {},
        ),
    ]
]


@pytest.mark.quick
@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", EQUAL, ids=str)
def test_condition_per_sample(case: Case, batch: int) -> None:
    prove(case, batch)


@pytest.mark.quick
@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", EQUAL, ids=str)
def test_condition_per_sample_without_if(case: Case, batch: int) -> None:
    prove(case, batch, lacks=("If",))


@pytest.mark.parametrize("kind", ["bool", "int16", "uint16", "uint64", "int8", "double", "int64"])
def test_onnxruntime_has_what_picks(kind: str) -> None:
    text = _if("a = Identity(x)", "b = Concat<axis=0>(x)", kind)
    case = Case("", text, {"x": mapped((3,), dtype=kind), "c": SIDES["mixed"]})
    proto, _ = fused_model(case)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    rows = case.operands["x"].samples
    feeds = {"x_all": np.stack(rows), "c_all": np.stack(SIDES["mixed"].samples)}
    np.testing.assert_array_equal(session.run(None, feeds)[0], feeds["x_all"])


def test_what_fails_runs_for_no_sample_that_does_not_take_it() -> None:
    """Sample 1 has a position that is out of range."""
    operands = {"x": mapped((3,)), **CUT, "k": mapped(*ROWS), "c": SIDES["mixed"]}
    prove(Case("", GATHERED, {**operands, "w": shared(np.ones((3, 3), np.float32))}), 3)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("lacks", [(), ("If",)], ids=["", "a target without If"])
def test_what_fails_for_all_does_not_run_where_no_sample_takes_it(
    batch: int, lacks: tuple[str, ...]
) -> None:
    operands = {
        "x": mapped((3,)),
        **CUT,
        "k": shared(np.array([9])),
        "w": shared(np.ones((3, 3), np.float32)),
        "c": SIDES["none"],
    }
    case = Case("", GATHERED, operands)
    if not lacks:
        prove(case, batch)
        return
    with pytest.raises(AssertionError):  # it keeps the If
        prove(case, batch, lacks)


# What one branch yields, the other one more row: the device runs both, unless one is dear.
FOR_DEVICE = {
    "what is light": ("k = Cast<to = 7>(x) m = Cast<to = 1>(k) a = Concat<axis = 0>(m, x)", 0),
    "a product": ("k = Unsqueeze(x, s) m = MatMul(k, w) a = Squeeze(m, s)", 1),
    "a loop": (
        """one = Constant<value_int = 1>() yes = Constant<value = bool {1}>()
        m = Loop(one, yes, x) <body = l (int64 i, bool g, float[3] h) =>
          (bool g2, float[3] h2) { g2 = Identity(g) h2 = Exp(h) }>
        a = Concat<axis = 0>(m, x)""",
        1,
    ),
    "what could fail, if there are samples": ("m = Gather(w, k) a = Concat<axis = 0>(x, m)", 2),
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", FOR_DEVICE)
def test_a_device_does_not_ask_for_a_branch_that_is_light(name: str, side: str) -> None:
    then, asks = FOR_DEVICE[name]
    operands = {
        "x": mapped((3,)),
        "s": constant(np.array([0])),
        "k": shared(np.array(1)),
        "w": shared(np.ones((3, 3), np.float32)),
        "c": SIDES[side],
    }
    other = "b = Concat<axis = 0>(x, x)" if "Concat" in then else "b = Neg(x)"
    case = Case("", _if(then, other), operands, inside=int("Loop" in then))
    for batch in (0, 1, 3):
        assert prove(case, batch, for_device=True) == asks


RAGGED = [
    RaggedCase(f"{name}, {side}", text, {"x": X, **operands, "c": flags}, **more)
    for side, flags in SIDES.items()
    for name, text, operands, more in [
        ("rows of both", _if("a = Neg(x)", "b = Relu(x)"), {}, {}),
        (
            "a product in one",
            _if("a = MatMul(x, w)", "b = Neg(x)"),
            {"w": shared(np.arange(4, dtype=np.float32).reshape(2, 2))},
            {},
        ),
        (
            "what follows reads rows of both",
            _then(_if("a = MatMul(x, w)", "b = Neg(x)"), "y = Add(v, x)"),
            {"w": shared(np.arange(4, dtype=np.float32).reshape(2, 2))},
            {},
        ),
        ("fewer rows in one", _if("a = Neg(x)", "b = Slice(x, s, k)"), CUT, {}),
        ("other lengths in one", _if("a = Neg(x)", "b = Neg(z)"), {"z": OTHER}, {}),
        (
            "a row for all in one",
            _then(_if("a = Neg(x)", "b = Unsqueeze(w, s)"), "y = Concat<axis=0>(x, v)"),
            {"w": ROW, **CUT},
            {},
        ),
        ("two results", TWO, {"w": Z, **CUT}, {"outputs": ("y", "z")}),
        (
            "what becomes of one shape",
            _if("a = ReduceSum<keepdims=0>(x, s)", "b = ReduceMax<keepdims=0>(q, s)"),
            {"q": mapped((3, 2)), **CUT},
            {},
        ),
    ]
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", RAGGED, ids=str)
def test_condition_per_sample_over_rows(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", RAGGED, ids=str)
def test_condition_per_sample_over_rows_without_if(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch, lacks=("If",))


UNLIKE = [
    RaggedCase(
        f"samples of one shape in each branch, {side}",
        _then(_if("a = MatMul(w, x)", "b = Neg(x)"), "y = ReduceSum<keepdims=0>(v, s)"),
        {
            "x": mapped((2, 3)),
            "s": constant(np.array([0])),
            "w": shared(np.arange(8, dtype=np.float32).reshape(4, 2)),
            "c": flags,
        },
    )
    for side, flags in SIDES.items()
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", UNLIKE, ids=str)
def test_branches_of_different_length(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


COLUMNS = _if("a = ReduceMax<keepdims=1>(x, k)", "b = Neg(x)")
ALONG = "q = Transpose(x) " + _if("a = Concat<axis=0>(q, q)", "b = Neg(q)")


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("side", SIDES)
def test_rows_of_different_width(side: str, batch: int) -> None:
    text = _if("a = Neg(x)", "b = Concat<axis=1>(x, x)")
    prove_ragged(RaggedCase("", text, {"x": mapped((2, 3)), "c": SIDES[side]}), batch)


def test_branches_of_one_shape_run_for_all_samples() -> None:
    operands = {"x": mapped((2, 3)), "c": SIDES["mixed"]}
    case = Case("", _if("a = Neg(x)", "b = Abs(x)"), operands, symbolic=True)
    prove(case, 3)
    proto, _ = fused_model(case)
    assert not {"If", "NonZero"} & {node.op_type for node in proto.graph.node}


@pytest.mark.parametrize("text", [COLUMNS, ALONG], ids=["columns", "rows beside columns"])
def test_what_would_broadcast_declines(text: str) -> None:
    operands = {"x": ragged(1), "k": constant(np.array([1])), "c": SIDES["mixed"]}
    if "Transpose" not in text:
        operands["x"] = X
    assert "If" in [op for op, _ in reasons_of(RaggedCase("", text, operands))]


def test_what_a_branch_yields_has_the_type_of_an_element() -> None:
    nodes = """y = If (c) <then_branch = t () => (float[2] p) { p = Neg (x) },
        else_branch = e () => (float[2] q) { q = Identity (s) }>"""
    operands = {
        "x": mapped((2,)),
        "c": shared(np.array(True)),
        "s": shared(np.ones(2, np.float32)),
    }
    proto, _ = fused_model(Case("", nodes, operands))
    (node,) = (node for node in proto.graph.node if node.op_type == "If")
    for attribute in node.attribute:
        (output,) = attribute.g.output
        assert output.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
