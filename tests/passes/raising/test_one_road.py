"""One map in five spellings: what becomes of it does not depend on how it is written."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import rewriter
from rewriter.backends import open_session
from rewriter.pipeline import Strategy
from rewriter.proof.compare import compare

_COUNT = """shape = Shape (x) zero = Constant <value_int = 0> () n = Gather (shape, zero)
    go = Constant <value = bool {1}> ()"""
SPELLINGS = {
    "a SequenceMap": """xs = SplitToSequence <keepdims = 0> (x)
        zs = SplitToSequence <keepdims = 0> (z)
        ys = SequenceMap (xs, zs) <body = each (float[3,4] r, float[4] t) => (RESULT q) { BODY }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)""",
    "a Loop of TorchScript": f"""{_COUNT} none = SequenceEmpty ()
        ys = Loop (n, go, none) <body = each (int64 i, bool c, seq(float[]) held)
            => (bool d, seq(float[]) grown) {{
            d = Identity (c) r = Gather (x, i) t = Gather (z, i) BODY grown = SequenceInsert (held, q) }}>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)""",
    "a Loop of PyTorch's dynamo": f"""{_COUNT} y = Loop (n, go) <body = each (int64 i, bool c)
        => (bool d, RESULT q) {{ d = Identity (c) r = Gather (x, i) t = Gather (z, i) BODY }}>""",
    "a Loop of TensorFlow": f"""{_COUNT} runs = Less (zero, n)
        most = Constant <value_int = 9223372036854775807> ()
        j_last, k_last, y = Loop (most, runs, zero, zero) <body = each (int64 i, bool c,
            int64 j, int64 k) => (bool d, int64 j_next, int64 k_next, RESULT q) {{
            step = Constant <value_int = 1> () j_next = Add (j, step) k_next = Add (k, step)
            is_left = Less (j_next, n) is_more = Less (k_next, n) d = And (is_left, is_more)
            r = Gather (x, k) t = Gather (z, k) BODY }}>""",
    "a Scan": """y = Scan <num_scan_inputs = 2, body = each (float[3,4] r, float[4] t)
        => (RESULT q) { BODY }> (x, z)""",
}
# Of each body: the nodes from `r` to `q`, the type of the result, and the nodes of the new model.
BODIES = {
    "one node": ("q = Tanh (r)", "float[3,4]", "Tanh"),
    "a shared matrix": ("q = MatMul (r, w)", "float[3,5]", "MatMul"),
    "a reduction": (
        "a = Exp (r) one = Constant <value_ints = [1]> () q = ReduceSum <keepdims = 0> (a, one)",
        "float[3]",
        "Exp ReduceSum",
    ),
    "axes that move": (
        "a = Softmax <axis = 1> (r) q = Transpose (a)",
        "float[4,3]",
        "Softmax Transpose",
    ),
    "a value that is read twice": (
        "a = Relu (r) b = Sigmoid (a) q = Mul (a, b)",
        "float[3,4]",
        "Mul Relu Sigmoid",
    ),
    "a choice": (
        """low = Constant <value = float {0}> () is_high = Greater (r, low) a = Neg (r)
        q = Where (is_high, r, a)""",
        "float[3,4]",
        "Greater Neg Where",
    ),
    "a row of the element": (
        "at = Constant <value_int = 1> () a = Gather <axis = 0> (r, at) q = Sub (r, a)",
        "float[3,4]",
        "Gather Sub Unsqueeze",
    ),
    "a type that changes": (
        "a = ArgMax <axis = 1, keepdims = 0> (r) q = Cast <to = 1> (a)",
        "float[3]",
        "ArgMax Cast",
    ),
    "a shape that its type tells": (
        """a = Exp (r) all = Constant <value_ints = [-1]> () s = Shape <start = 1> (r)
        u = Concat <axis = 0> (all, s) q = Reshape (a, u)""",
        "float[3,4]",
        "Exp Reshape",
    ),
    "a value of all samples": (
        "q = Tanh (v)",
        "float[4]",
        "Concat Expand Shape Shape Tanh",
    ),
    "elements of two tensors": (
        "q = Add (r, t)",
        "float[3,4]",
        "Add Concat Reshape Shape Slice Unsqueeze",
    ),
    "the element itself": ("q = Identity (r)", "float[3,4]", "Identity"),
}


def model(spelling: str, body: str, result: str) -> onnx.ModelProto:
    text = SPELLINGS[spelling].replace("BODY", body).replace("RESULT", result)
    dims = result.removeprefix("float[")
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> '
        f"g (float[N,3,4] x, float[M,4] z, float[4,5] w, float[4] v) => (float[N,{dims} y) {{ {text} }}"
    )


@pytest.mark.parametrize("strategy", ["auto", "fuse"])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_map_ends_alike_in_every_spelling(spelling: str, name: str, strategy: Strategy) -> None:
    body, result, expected = BODIES[name]
    given = model(spelling, body, result)
    onnx.checker.check_model(given, full_check=True)
    rewritten = rewriter.rewrite(given, strategy=strategy)
    (decision,) = rewritten.report.decisions
    assert decision.verdict == "fused"
    nodes = rewritten.model.graph.node
    assert sorted(node.op_type for node in nodes if node.op_type != "Constant") == expected.split()
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 5)).astype(np.float32)
    for count in (1, 3):
        feed = {"x": rng.standard_normal((count, 3, 4)).astype(np.float32), "w": w}
        feed |= {"z": rng.standard_normal((count, 4)).astype(np.float32), "v": w[:, 0]}
        before, after = (open_session(one).run(feed) for one in (given, rewritten.model))
        difference = compare(before, after)
        assert difference.equal, difference.message


# A second tensor that may be longer: its rows, or its numbers, are cut to the number of samples.
SECOND = {
    "a counter of 32 bits": f"""{_COUNT} first = Constant <value = int32 {{0}}> ()
        k_last, y = Loop (n, go, first) <body = each (int64 i, bool c, int32 k)
            => (bool d, int32 k_next, float[4] q) {{ d = Identity (c)
            one = Constant <value = int32 {{1}}> () k_next = Add (k, one)
            r = Gather (x, i) t = Gather (z, k) q = Add (r, t) }}>""",
    "a SequenceMap": """xs = SplitToSequence <keepdims = 0> (x)
        zs = SplitToSequence <keepdims = 0> (z)
        ys = SequenceMap (xs, zs) <body = each (float[4] r, TYPE t) => (float[4] q)
            { q = Add (r, t) }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)""",
}
ROWS = {
    "float[4]": ("float[M,4]", "Add Concat Reshape Shape Slice"),
    "float": ("float[M]", "Add Reshape Shape Slice Unsqueeze"),
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("spelling", SECOND)
def test_a_second_tensor_is_cut_alike(spelling: str, row: str) -> None:
    tensor, expected = ROWS[row]
    given = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> '
        f"g (float[N,4] x, {tensor} z) => (float[N,4] y) {{ {SECOND[spelling]} }}".replace(
            "TYPE", row
        )
    )
    rewritten = rewriter.rewrite(given)
    nodes = rewritten.model.graph.node
    assert sorted(node.op_type for node in nodes if node.op_type != "Constant") == expected.split()
    rng = np.random.default_rng(0)
    z = rng.standard_normal((4, 4)[: tensor.count(",") + 1]).astype(np.float32)
    for count in (1, 3):
        feed = {"x": rng.standard_normal((count, 4)).astype(np.float32), "z": z}
        before, after = (open_session(one).run(feed) for one in (given, rewritten.model))
        difference = compare(before, after)
        assert difference.equal, difference.message


_LOOPS = """n = SequenceLength (xs) go = Constant <value = bool {1}> () none = SequenceEmpty ()
    b = Loop (n, go, none) <body = one (int64 i, bool c, seq(float[]) held)
        => (bool d, seq(float[]) grown) {
        d = Identity (c) r = SequenceAt (xs, i) q = Tanh (r) grown = SequenceInsert (held, q) }>
    nil = SequenceEmpty () MORE
    ys = Loop (COUNT, go, nil) <body = two (int64 i, bool c, seq(float[]) held)
        => (bool d, seq(float[]) grown) {
        d = Identity (c) r = SequenceAt (b, i) s = SequenceAt (xs, i) q = Mul (r, s)
        grown = SequenceInsert (held, q) }>"""
LISTS = {
    "SequenceMaps": """
        b = SequenceMap (xs) <body = one (float[M] r) => (float[M] q) { q = Tanh (r) }>
        ys = SequenceMap (b, xs) <body = two (float[M] r, float[M] s)
            => (float[M] q) { q = Mul (r, s) }>""",
    "Loops, each as long as its own list": _LOOPS.replace(
        "MORE", "m = SequenceLength (b)"
    ).replace("COUNT", "m"),
    "Loops as long as the first list": _LOOPS.replace("MORE", "").replace("COUNT", "n"),
    "a Loop behind a SequenceMap": """
        b = SequenceMap (xs) <body = one (float[M] r) => (float[M] q) { q = Tanh (r) }>"""
    + _LOOPS[: _LOOPS.index("b = Loop")]
    + _LOOPS[_LOOPS.index("nil =") :].replace("MORE", "").replace("COUNT", "n"),
}


@pytest.mark.parametrize("spelling", LISTS)
def test_two_maps_over_a_list_end_alike(spelling: str) -> None:
    given = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> '
        f"g (seq(float[M]) xs) => (float[N,M] y) {{ {LISTS[spelling]} "
        "y = ConcatFromSequence <axis = 0, new_axis = 1> (ys) }"
    )
    rewritten = rewriter.rewrite(given, uniform=["xs"], require=["loop-free"])
    kinds = {kind: n for kind, n in rewritten.report.after.by_type.items() if kind != "Constant"}
    assert kinds == dict.fromkeys(
        ("ConcatFromSequence", "Greater", "If", "Mul", "SequenceLength", "Tanh"), 1
    )
    rng = np.random.default_rng(0)
    for count in (1, 3):
        feed = {"xs": [rng.standard_normal(4).astype(np.float32) for _ in range(count)]}
        before, after = (open_session(one).run(feed) for one in (given, rewritten.model))
        difference = compare(before, after)
        assert difference.equal, difference.message
