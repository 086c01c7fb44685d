"""Rules along the axis of different lengths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from passes.graph.graphs import all_nodes, constant_value
from tests.passes.batching.harness import BATCHES, constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, fused, prove_ragged, ragged, wanted

X = ragged(4)
POSITIVE = ragged(4, low=0.1)
FULL = ragged(4, lengths=(2, 1, 3))
POSITIVE_FULL = ragged(4, low=0.1, lengths=(2, 1, 3))
FIRST = constant(np.array([0]))

REDUCTIONS = [
    RaggedCase(f"{op} {kept}", f"y = {op}<keepdims={kept}>(x, a)", {"x": x, "a": FIRST})
    for (op, x), kept in itertools.product(
        {
            "ReduceSum": X,
            "ReduceMax": FULL,
            "ReduceMin": FULL,
            "ReduceMean": FULL,
            "ReduceProd": X,
            "ReduceL1": X,
            "ReduceL2": X,
            "ReduceSumSquare": X,
            "ReduceLogSum": POSITIVE_FULL,
            "ReduceLogSumExp": FULL,
        }.items(),
        (0, 1),
    )
]
OTHERS = [
    RaggedCase("all axes", "y = ReduceSum(x)", {"x": ragged(2, 3)}),
    RaggedCase(
        "all axes, mean", "y = ReduceMean<keepdims=0>(x)", {"x": ragged(2, 3, lengths=(2, 1, 3))}
    ),
    RaggedCase(
        "two axes",
        "y = ReduceMean<keepdims=0>(x, a)",
        {"x": ragged(2, 3, lengths=(2, 1, 3)), "a": constant(np.array([-1, 0]))},
    ),
    RaggedCase(
        "two axes kept",
        "y = ReduceMax(x, a)",
        {"x": ragged(2, 3, lengths=(2, 1, 3)), "a": constant(np.array([0, 1]))},
    ),
    RaggedCase("rank 1", "y = ReduceSum(x)", {"x": ragged()}),
    RaggedCase(
        "integers", "y = ReduceSum<keepdims=0>(x, a)", {"x": ragged(4, dtype=np.int64), "a": FIRST}
    ),
    RaggedCase("axes as attribute", "y = ReduceMean<axes=[0]>(x)", {"x": FULL}, opset=17),
    RaggedCase("argmax", "y = ArgMax(x)", {"x": FULL}),
    *[
        RaggedCase(f"{op} of NaN", f"n = Neg(x) w = Log(n) y = {op}(w)", {"x": POSITIVE_FULL})
        for op in ("ArgMax", "ArgMin")
    ],
    RaggedCase(
        "argmin of ties",
        "y = ArgMin<keepdims=0>(x)",
        {"x": ragged(4, dtype=np.int32, low=0, high=2, lengths=(4, 1, 5))},
    ),
    RaggedCase(
        "argmax of ties, last",
        "y = ArgMax<select_last_index=1>(x)",
        {"x": ragged(4, dtype=np.int32, low=0, high=2, lengths=(4, 1, 5))},
    ),
    RaggedCase("softmax", "y = Softmax<axis=0>(x)", {"x": X}),
    RaggedCase("log softmax", "y = LogSoftmax<axis=-2>(x)", {"x": X}),
    RaggedCase("softmax of rank 1", "y = Softmax(x)", {"x": ragged()}),
    RaggedCase(
        "normalized by its sum", "s = ReduceSum(x, a) y = Div(x, s)", {"x": POSITIVE, "a": FIRST}
    ),
    RaggedCase(
        "attention pooling",
        "e = MatMul(x, w) p = Softmax<axis=0>(e) z = Mul(x, p) y = ReduceSum<keepdims=0>(z, a)",
        {"x": X, "w": constant(np.ones((4, 1), np.float32) / 4), "a": FIRST},
    ),
]
NARROW = [
    RaggedCase(
        f"{op} of {np.dtype(dtype)}",
        f"y = {op} (x, a)" if "Red" in op else f"y = {op} (x)",
        {"x": ragged(4, dtype=dtype, lengths=(2, 1, 3)), **({"a": FIRST} if "Red" in op else {})},
    )
    for dtype, ops in {
        np.int8: ("ReduceMax", "ReduceMin", "ArgMax"),
        np.uint8: ("ReduceMax", "ReduceMin", "ArgMin <keepdims = 0>"),
        np.float16: (
            *("ReduceMax <keepdims = 0>", "ReduceSum", "ReduceMean", "ReduceLogSumExp", "ArgMax"),
            *("Softmax <axis = 0>", "LogSoftmax <axis = 0>", "Hardmax <axis = 0>"),
        ),
    }.items()
    for op in ops
]
PICKS = [
    RaggedCase("first row", "y = Gather(x, i)", {"x": FULL, "i": constant(np.array(0))}),
    RaggedCase("last row", "y = Gather(x, i)", {"x": FULL, "i": constant(np.array(-1))}),
    RaggedCase(
        "two rows",
        "y = Gather(x, i)",
        {"x": ragged(4, lengths=(2, 4, 3)), "i": shared(np.array([[0], [-2]]))},
    ),
    RaggedCase(
        "a row of each",
        "y = Gather(x, i)",
        {"x": FULL, "i": mapped(np.array([1]), np.array([0]), np.array([-3]))},
    ),
    RaggedCase(
        "rows by positions",
        "y = Gather(x, i)",
        {"x": FULL, "i": ragged(lengths=(3, 0, 2), dtype=np.int64, low=0, high=0.9)},
    ),
    RaggedCase(
        "embedding",
        "y = Gather(w, i)",
        {"i": ragged(dtype=np.int64, low=0, high=3), "w": constant(np.eye(4, dtype=np.float32))},
    ),
    RaggedCase("columns", "y = Gather<axis=1>(x, i)", {"x": X, "i": constant(np.array([3, 0]))}),
    RaggedCase(
        "one hot",
        "y = OneHot(i, d, v)",
        {
            "i": ragged(dtype=np.int64, low=0, high=3),
            "d": constant(np.array(4)),
            "v": constant(np.array([0.0, 1.0], np.float32)),
        },
    ),
    RaggedCase(
        "slice of columns",
        "y = Slice(x, s, e, a)",
        {
            "x": X,
            "s": constant(np.array([1])),
            "e": constant(np.array([3])),
            "a": constant(np.array([1])),
        },
    ),
    RaggedCase(
        "slice",
        "y = Slice(x, s, e)",
        {"x": X, "s": constant(np.array([1])), "e": constant(np.array([2**62]))},
    ),
    RaggedCase(
        "slice from the back",
        "y = Slice(x, s, e) z = Exp(y)",
        {"x": X, "s": constant(np.array([-2])), "e": constant(np.array([-1]))},
        ("y", "z"),
    ),
    RaggedCase("concat of columns", "z = Neg(x) y = Concat<axis=1>(x, z)", {"x": X}),
    RaggedCase(
        "token in front",
        "y = Concat<axis=0>(t, x)",
        {"x": X, "t": constant(np.ones((1, 4), np.float32))},
    ),
    RaggedCase(
        "concat of three",
        "y = Concat<axis=0>(x, m, z) s = ReduceSum(y, a)",
        {"x": X, "m": mapped((2, 4)), "z": ragged(4, lengths=(1, 3, 1), seed=3), "a": FIRST},
        ("y", "s"),
    ),
]
PICKS += [
    RaggedCase(
        "positive numbers",
        "c = Greater(x, z) y = Compress(x, c)",
        {"x": ragged(), "z": constant(np.float32(0))},
    ),
    RaggedCase(
        "rows by a flag, then their sum",
        "k = Compress<axis=0>(x, c) y = ReduceSum<keepdims=0>(k, a)",
        {"x": X, "c": ragged(dtype=np.bool_, seed=7), "a": FIRST},
    ),
    RaggedCase(
        "columns by a flag",
        "y = Compress<axis=-1>(x, c)",
        {"x": X, "c": constant(np.array([True, False, True, True]))},
    ),
]
SHAPES = [
    RaggedCase("shape", "y = Shape(x)", {"x": X}),
    RaggedCase("shape, one", "y = Shape<start=0, end=1>(x)", {"x": X}),
    RaggedCase("shape, last", "y = Shape<start=-1>(x)", {"x": X}),
    RaggedCase("size", "y = Size(x)", {"x": X}),
    RaggedCase(
        "reshape by numbers", "y = Reshape(x, s)", {"x": X, "s": constant(np.array([-1, 2, 2]))}
    ),
    RaggedCase(
        "reshape by zero",
        "y = Reshape(x, s)",
        {"x": ragged(2, 3, lengths=(2, 1, 3)), "s": constant(np.array([0, -1]))},
    ),
    RaggedCase(
        "reshape by shape",
        "n = Shape<end=1>(x) s = Concat<axis=0>(n, r) y = Reshape(x, s)",
        {"x": X, "r": constant(np.array([2, 2]))},
    ),
    RaggedCase("transpose", "y = Transpose<perm=[0,2,1]>(x)", {"x": ragged(2, 3)}),
    RaggedCase(
        "unsqueeze",
        "u = Unsqueeze(x, a) y = Squeeze(u, a)",
        {"x": X, "a": constant(np.array([1]))},
    ),
    RaggedCase(
        "expand",
        "u = Unsqueeze(x, a) y = Expand(u, s)",
        {"x": X, "a": constant(np.array([1])), "s": constant(np.array([3, 1]))},
    ),
    RaggedCase("tile", "y = Tile(x, r)", {"x": X, "r": constant(np.array([1, 2]))}),
    RaggedCase(
        "mean by shape",
        "s = ReduceSum<keepdims=0>(x, a) n = Shape<end=1>(x) f = Cast<to=1>(n) y = Div(s, f)",
        {"x": FULL, "a": FIRST},
    ),
]

PROVEN = [*REDUCTIONS, *OTHERS, *NARROW, *PICKS, *SHAPES]


@BATCHES
@pytest.mark.parametrize("case", PROVEN, ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


SIDE_BY_SIDE = [
    *[
        RaggedCase(
            f"{op} {kept}", f"y = {op}<axes=[0], keepdims={kept}>(x)", {"x": FULL}, opset=17
        )
        for op in ("ReduceMax", "ReduceMin", "ReduceLogSumExp")
        for kept in (0, 1)
    ],
    RaggedCase("of rank 1", "y = ReduceMax(x)", {"x": ragged(lengths=(2, 1, 3))}, opset=17),
    RaggedCase(
        "two axes",
        "y = ReduceMin<axes=[0, 1]>(x)",
        {"x": ragged(2, 3, lengths=(2, 1, 3))},
        opset=17,
    ),
    *[
        RaggedCase(
            f"of {dtype.__name__}",
            "y = ReduceMax<axes=[0]>(x)",
            {"x": ragged(4, dtype=dtype, low=-9, high=-1, lengths=(2, 1, 3))},
            opset=17,
        )
        for dtype in (np.int32, np.int64, np.float64)
    ],
    RaggedCase(
        "of infinities",
        "w = Relu(x) z = Log(w) y = ReduceMax<axes=[0]>(z)",
        {"x": FULL},
        opset=17,
    ),
    RaggedCase("softmax", "y = Softmax<axis=0>(x)", {"x": X}, opset=17),
    RaggedCase("argmax", "y = ArgMax(x)", {"x": FULL}, opset=17),
]


@BATCHES
@pytest.mark.parametrize("lacks", [(), ("If", "Loop")], ids=["branches", "none"])
@pytest.mark.parametrize("case", SIDE_BY_SIDE, ids=str)
def test_reductions_before_their_opset(
    case: RaggedCase, lacks: tuple[str, ...], batch: int
) -> None:
    prove_ragged(case, batch, lacks=lacks)


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin<select_last_index=1>"])
def test_no_place_is_a_number_that_32_bits_hold(op: str, opset: int) -> None:
    """OpenVINO computes integers in 32 bits, and chooses between them as floats."""
    case = RaggedCase("best", f"y = {op}(x)", {"x": FULL}, opset=opset)
    model, _ = fused(case, wanted(case, 3))
    own = [node for node in all_nodes(model) if (node.name or "").startswith("Arg")]
    chosen = [v for node in own if node.op_type == "Where" for v in node.inputs]
    fills = [
        node.attributes["value"].as_tensor().numpy()
        for node in own
        if node.op_type == "ConstantOfShape" and "value" in node.attributes
    ]
    arrays = [*(constant_value(value) for value in chosen), *fills]
    numbers = [a for a in arrays if a is not None and a.dtype == np.int64]
    assert numbers
    assert all(abs(int(n)) <= 1 << 30 for a in numbers for n in a.reshape(-1))
