"""A declared number that is false never makes a result wrong: the model fails, or is right."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_graphs
from rewriter.backends import BackendError, open_session
from rewriter.options import Strategy
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare
from tests.passes.expansion import rows

HEADER = '<ir_version: 10, opset_import: ["" : 20]>\n'

RESHAPED = """g (seq(float[a,b,c]) xs, seq(int64[3]) sizes) => (seq({result}) ys) {{
    ys = SequenceMap (xs, sizes) <body = f (float[a,b,c] x, int64[3] size) => ({result} y)
        <{inside}> {{ {nodes} }}> }}"""
MAPPED = """g (seq({sequence}) xs) => (seq(float[]) ys) {{
    ys = SequenceMap (xs) <body = f ({element} x) => (float[] y) {{ {nodes} }}> }}"""
PAIRED = """g (seq({first}) xs, seq({second}) zs) => (seq(float[]) ys) {{
    ys = SequenceMap (xs, zs) <body = f ({first} x, {second} z) => (float[] y) {{ {nodes} }}> }}"""
JOINED = """g (seq(float[a,3]) xs) => (float[n,m] z) {
    ys = SequenceMap (xs) <body = f (float[a,3] x) => (float[a,3] y) { y = Neg (x) }>
    z = ConcatFromSequence <axis = 0> (ys) }"""
FISSIONED = """g (seq(float[a,b,3]) xs, float[k] w) => (seq(float[]) ys) {
    ys = SequenceMap (xs) <body = f (float[a,b,3] x) => (float[] y) {
        size = Constant <value_ints = [4, 4]> ()
        crop = CenterCropPad <axes = [0, 1]> (x, size)
        e = Exp (crop) n = Neg (e) y = Mul (n, w) }> }"""

SIZES = [np.array([10, 7, 3]), np.array([3, 7, 10])]
BLOCKS = {"xs": rows((10, 7, 3), (10, 7, 3)), "sizes": SIZES}
HEAVY = "a = Exp (x) b = Neg (a) c = Abs (b) d = Sqrt (c) y = Relu (d)"
# Of each case: the model, what it is fed, and whether it must be right, not only not wrong.
CASES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "an output": (
        RESHAPED.format(
            result="float[10,7,3]", inside="int64[3] unused", nodes="y = Reshape (x, size)"
        ),
        BLOCKS,
        False,
    ),
    "an output of one sample": (
        RESHAPED.format(
            result="float[10,7,3]", inside="int64[3] unused", nodes="y = Reshape (x, size)"
        ),
        {"xs": BLOCKS["xs"][1:], "sizes": SIZES[1:]},
        True,
    ),
    "a value inside": (
        RESHAPED.format(
            result="int64[3]",
            inside="float[10,7,3] t",
            nodes="t = Reshape (x, size) y = Shape (t)",
        ),
        BLOCKS,
        True,
    ),
    "what a branch yields": (
        RESHAPED.format(
            result="int64[3]",
            inside="int64[3] unused",
            nodes="""top = ReduceMax <keepdims = 0> (size) nine = Constant <value = int64 {9}> ()
                is_top = Greater (top, nine)
                t = If (is_top) <then_branch = p () => (float[10,7,3] u) { u = Reshape (x, size) },
                    else_branch = q () => (float[10,7,3] v) { v = Identity (x) }>
                y = Shape (t)""",
        ),
        BLOCKS,
        True,
    ),
    "elements that differ": (
        MAPPED.format(sequence="float[2,3]", element="float[2,3]", nodes=HEAVY),
        {"xs": rows((2, 3), (3, 2))},
        False,
    ),
    "elements alike": (
        MAPPED.format(sequence="float[2,3]", element="float[2,3]", nodes=HEAVY),
        {"xs": rows((3, 2), (3, 2))},
        True,
    ),
    "elements that are empty": (
        MAPPED.format(sequence="float[2,3]", element="float[2,3]", nodes=HEAVY),
        {"xs": rows((0, 3), (0, 5))},
        False,
    ),
    "rows that are empty": (
        MAPPED.format(sequence="float[a,3]", element="float[a,3]", nodes=HEAVY),
        {"xs": rows((0, 4), (2, 3), (0, 3))},
        False,
    ),
    "rows alike that are empty": (
        MAPPED.format(sequence="float[a,3]", element="float[a,3]", nodes=HEAVY),
        {"xs": rows((0, 4), (0, 4))},
        True,
    ),
    "a product of elements": (
        PAIRED.format(
            first="float[a,3]",
            second="float[3,b]",
            nodes="p = MatMul (x, z) q = Neg (p) r = MatMul (q, p) y = Add (r, q)",
        ),
        {"xs": rows((2, 3), (7, 5), (1, 1)), "zs": rows((3, 2), (5, 7), (1, 1))},
        True,
    ),
    "elements that broadcast": (
        PAIRED.format(
            first="float[a,3]",
            second="float[c,3]",
            nodes="p = Exp (x) q = Add (p, z) r = Mul (p, q) y = Sub (r, z)",
        ),
        {"xs": rows((1, 4), (5, 1), (1, 7)), "zs": rows((2, 4), (5, 7), (6, 1))},
        False,
    ),
    "elements along an axis": (
        MAPPED.format(
            sequence="float[a,3]", element="float[a,3]", nodes="p = Softmax (x) y = Add (p, x)"
        ),
        {"xs": rows((2, 5), (7, 5), (1, 2))},
        True,
    ),
    "the shape of elements": (
        MAPPED.format(sequence="float[2,3]", element="float[2,3]", nodes="y = Shape (x)")
        .replace("float[] y", "int64[2] y")
        .replace("seq(float[])", "seq(int64[2])"),
        {"xs": rows((2, 3), (3, 2))},
        True,
    ),
    "elements of another shape than the body's": (
        MAPPED.format(sequence="float[2,3]", element="float[3,2]", nodes=HEAVY),
        {"xs": rows((3, 2), (3, 2))},
        True,
    ),
    "joined rows": (JOINED, {"xs": rows((2, 4), (1, 4))}, True),
    "a dimension beside proven ones": (
        FISSIONED,
        {"xs": rows((5, 6, 4), (3, 4, 4)), "w": np.ones((1,), np.float32)},
        True,
    ),
    "a dimension beside proven ones that differs": (
        FISSIONED,
        {"xs": rows((5, 6, 4), (3, 4, 2)), "w": np.ones((1,), np.float32)},
        False,
    ),
    "no samples": (FISSIONED, {"xs": [], "w": np.ones((3,), np.float32)}, True),
}


@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("name", CASES)
def test_a_false_number_is_an_error_at_most(name: str, strategy: Strategy) -> None:
    text, feeds, is_right = CASES[name]
    model = onnx.parser.parse_model(HEADER + text)
    onnx.checker.check_model(model)
    expected = open_session(model, "reference").run(feeds)
    rewritten = rewrite(model, strategy=strategy).model
    for backend in ("onnxruntime", "reference"):
        session = open_session(rewritten, backend)
        try:
            actual = session.run(feeds)
        except BackendError:
            assert not is_right
            continue
        difference = compare(expected, actual)
        assert difference.equal, f"{backend}: {difference.message}"


def test_onnxruntime_compares_only_the_sizes_of_what_a_loop_collects() -> None:
    """The trap behind `passes.loops.one_shape`; when this fails, upstream has mended it."""
    model = onnx.parser.parse_model(
        HEADER
        + """g (float[a,b] x, int64[n,2] sizes) => (float[n,c,d] ys) {
            n = Constant <value = int64 {2}> () go = Constant <value = bool {1}> ()
            ys = Loop (n, go) <body = f (int64 i, bool go_in) => (bool go_out, float[c,d] y) {
                size = Gather <axis = 0> (sizes, i)
                y = Reshape (x, size) go_out = Identity (go_in) }> }"""
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = {"x": np.ones((2, 3), np.float32), "sizes": np.array([[2, 3], [3, 2]])}
    assert session.run(None, feeds)[0].shape == (2, 2, 3)


@pytest.mark.parametrize("element", ["float[2,3]", "float[N,3]"])
def test_a_sequence_of_no_known_type_is_read_as_it_is(element: str) -> None:
    """Nothing is declared of its elements that would have to be hidden from onnxruntime."""
    model = ir.from_proto(
        onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 18, "own": 1]>
        g (float[T] t) => (float[P,Q] out) {{
          xs = own.Parts (t)
          ys = SequenceMap (xs) <body = f ({element} x) => ({element} y) {{ y = Neg (x) }}>
          out = ConcatFromSequence <axis = 0> (ys) }}""")
    )
    fuse = FuseSequenceMapPass()
    fuse(model)
    assert fuse.decisions
    assert not any(n.op_type == "SequenceErase" for g in all_graphs(model) for n in g)


@pytest.mark.parametrize("nodes", ["y = Neg (x)", "p = Softmax (x) y = Add (p, x)"])
def test_few_samples_are_read_as_they_are_where_no_operator_asks_for_a_shape(nodes: str) -> None:
    text = MAPPED.format(sequence="float[a,3]", element="float[a,3]", nodes=nodes)
    expanded = rewrite(onnx.parser.parse_model(HEADER + text), strategy="expand").model
    (choice,) = (node for node in expanded.graph.node if node.op_type == "If")
    (few,) = (one.g for one in choice.attribute if one.name == "else_branch")
    assert not any(n.op_type == "SequenceErase" for graph in _graphs(few) for n in graph.node)


PRODUCT = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(float[N,3]) xs, float[3,4] w, float[4] b) => (seq(float[M,4]) ys) {
  ys = SequenceMap (xs) <body = one (float[K,3] x) => (float[L,4] y) {
    m = MatMul (x, w)  y = Add (m, b) }>
}"""


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return [graph, *(one for g in inner for one in _graphs(g))]


def test_a_product_in_a_loop_reads_a_rank_and_no_number() -> None:
    model = onnx.parser.parse_model(PRODUCT)
    after = rewrite(model, strategy="expand").model
    body = next(g for g in _graphs(after.graph) if any(n.op_type == "MatMul" for n in g.node))
    (read,) = (node.output[0] for node in body.node if node.op_type == "SequenceAt")
    (info,) = (one for one in body.value_info if one.name == read)
    dims = info.type.tensor_type.shape.dim
    assert len(dims) == 2
    assert not any(d.HasField("dim_value") or d.HasField("dim_param") for d in dims)
