"""A model whose parts do not fit together is refused in one line; what runtimes take is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

import rewriter
from rewriter.errors import ModelError, ModelWarning
from tests.rewriter.cli_models import HEADER, seqmap

BRANCHES = """
  y = If (b) <then_branch = p () => (float[N] t) { t = Relu (x) },
              else_branch = q () => (float[N] e) { e = Neg (x) }>"""
LOOP = """
  y, z = Loop (m, "", x) <body = p (int64 i, bool c, float[N] s) =>
    (bool d, float[N] t, float[N] u) { d = Identity (c)  t = Relu (s)  u = Neg (s) }>"""
SCAN = """
  y = Scan (x) <num_scan_inputs = 1, body = p (float s) => (float t) { t = Relu (s) }>"""
MAP = """
  ys = SequenceMap (xs) <body = p (float[N] s) => (float[N] t) { t = Relu (s) }>
  y = ConcatFromSequence <axis = 0> (ys)"""


def model(nodes: str, more: str = "") -> onnx.ModelProto:
    inputs = "float[N] x, bool b, int64 m, seq(float[N]) xs"
    return onnx.parser.parse_model(HEADER + f"g ({inputs}) => (float[N] y) {more} {{ {nodes} }}")


MEND = "mend the model where it is made"
CORRECT = "add the node that makes it, or correct the name"
FAULTS: dict[str, tuple[str, str]] = {
    "an undefined input": (
        "y = Add (x, c)",
        f"Add 'Add_0' reads 'c', which is not defined: {CORRECT}",
    ),
    "an undefined input of a body": (
        BRANCHES.replace("Neg (x)", "Neg (w)"),
        f"Neg 'If_0/else_branch/Neg_0' reads 'w', which is not defined: {CORRECT}",
    ),
    "a name of another body": (
        BRANCHES.replace("Neg (x)", "Neg (t)"),
        f"Neg 'If_0/else_branch/Neg_0' reads 't', which is not defined: {CORRECT}",
    ),
    "an undefined output": (
        "z = Relu (x)",
        f"the output 'y' of the graph is not defined: {CORRECT}",
    ),
    "an undefined output of a body": (
        BRANCHES.replace("e = Neg", "f = Neg"),
        f"the output 'e' of 'If_0/else_branch' is not defined: {CORRECT}",
    ),
    "two producers": (
        "y = Relu (x)  [n] y = Neg (x)",
        "'y' is defined twice, as Relu 'Relu_0' and as Neg 'n': rename one of them",
    ),
    "an input made again": (
        "x = Relu (x)  y = Neg (x)",
        "'x' is defined twice, as an input and as Relu 'Relu_0': rename one of them",
    ),
    "a circle": (
        "[p] y = Add (x, c)  [q] c = Neg (d)  [r] d = Neg (c)",
        "the nodes 'p', 'q', 'r' read each other's results in a circle: break it where the model "
        "is made",
    ),
    "too few inputs": (
        "y = Add (x)",
        f"Add 'Add_0' has 1 input, and the operator takes 2: {MEND}",
    ),
    "too many inputs": (
        "y = Relu (x, x)",
        f"Relu 'Relu_0' has 2 inputs, and the operator takes 1: {MEND}",
    ),
    "an input left out": (
        'y = Add (x, "")',
        f"Add 'Add_0' leaves out its input 1 (B), which is not optional: {MEND}",
    ),
    "too many outputs": (
        "y, z = Relu (x)",
        f"Relu 'Relu_0' has 2 outputs, and the operator yields 1: {MEND}",
    ),
    "an attribute missing": (
        "y = Concat (x, x)",
        f"Concat 'Concat_0' lacks its attribute 'axis': {MEND}",
    ),
    "an attribute of another type": (
        "y = Concat <axis: float = 1.0> (x, x)",
        f"the attribute 'axis' of Concat 'Concat_0' is not of the type INT: {MEND}",
    ),
    "a branch with more outputs": (
        BRANCHES.replace("(float[N] t)", "(float[N] t, float[N] x)"),
        f"the then_branch of If 'If_0' has 2 outputs, and the node needs 1: {MEND}",
    ),
    "a branch with inputs": (
        BRANCHES.replace("p ()", "p (float[N] k)"),
        f"the then_branch of If 'If_0' has 1 input, and the node gives it 0: {MEND}",
    ),
    "a Loop with fewer outputs": (
        LOOP.replace("y, z", "y"),
        f"the body of Loop 'Loop_0' has 3 outputs, and the node needs 2: {MEND}",
    ),
    "a Loop with more states": (
        LOOP.replace('"", x', '"", x, x'),
        f"the body of Loop 'Loop_0' has 3 inputs, and the node gives it 4: {MEND}",
    ),
    "a Scan with more inputs": (
        SCAN.replace("(x)", "(x, x)"),
        f"the body of Scan 'Scan_0' has 1 input, and the node gives it 2: {MEND}",
    ),
    "a map with more inputs": (
        MAP.replace("(xs)", "(xs, x)"),
        f"the body of SequenceMap 'SequenceMap_0' has 1 input, and the node gives it 2: {MEND}",
    ),
    "a map without outputs": (
        MAP.replace("(float[N] t)", "()"),
        f"the body of SequenceMap 'SequenceMap_0' has 0 outputs, and the node needs 1: {MEND}",
    ),
}


@pytest.mark.parametrize(("nodes", "message"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_with_its_remedy(nodes: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        rewriter.optimize(model(nodes))
    assert str(caught.value) == f"the model is not a valid ONNX model: {message}"


def test_an_if_without_else() -> None:
    proto = model(BRANCHES)
    proto.graph.node[0].attribute.pop()
    with pytest.raises(ModelError, match=r"If 'If_0' lacks its attribute 'else_branch': mend"):
        rewriter.optimize(proto)


def tensor(
    data_type: int, dims: list[int], raw: bytes = b"", **fields: object
) -> onnx.TensorProto:
    made = onnx.TensorProto(name="w", data_type=data_type, dims=dims, **fields)
    if raw:
        made.raw_data = raw
    return made


FLOAT, INT4, STRING = onnx.TensorProto.FLOAT, onnx.TensorProto.INT4, onnx.TensorProto.STRING
TENSORS = {
    "too few bytes": (tensor(FLOAT, [2], b"1234"), "float[2], which takes 8 bytes, and holds 4"),
    "too many bytes": (
        tensor(FLOAT, [], b"12345678"),
        "float[], which takes 4 bytes, and holds 8",
    ),
    "too few numbers": (
        tensor(FLOAT, [2], float_data=[1.0]),
        "float[2], which takes 2 numbers, and holds 1",
    ),
    "the wrong field": (
        tensor(FLOAT, [1], int64_data=[1]),
        "float[1], which takes 1 numbers, and holds 0",
    ),
    "packed": (tensor(INT4, [3], b"1"), "int4[3], which takes 2 bytes, and holds 1"),
    "strings as bytes": (tensor(STRING, [1], b"a"), "string[1], which takes 1 numbers"),
    "a negative dimension": (tensor(FLOAT, [-1]), "the shape [-1]"),
    "none of numbers that no memory holds": (
        tensor(FLOAT, [0, 2**62]),
        "the shape [0, 4611686018427387904], which no array can have",
    ),
    "no element type": (tensor(0, [1]), "the element type 0, which is not known"),
    "an unknown element type": (tensor(99, [1]), "the element type 99, which is not known"),
}


@pytest.mark.parametrize(("bad", "message"), TENSORS.values(), ids=TENSORS)
def test_bytes_that_do_not_fit(bad: onnx.TensorProto, message: str) -> None:
    in_graph, in_node = model("y = Relu (x)"), model("w = Constant ()  y = Relu (x)")
    in_graph.graph.initializer.append(bad)
    in_node.graph.node[0].attribute.append(onnx.helper.make_attribute("value", bad))
    for proto, where in (
        (in_graph, "the initializer 'w'"),
        (in_node, "the attribute 'value' of Constant 'Constant_0'"),
    ):
        with pytest.raises(ModelError) as caught:
            rewriter.optimize(proto)
        assert where in str(caught.value)
        assert message in str(caught.value)


TAKEN = {
    "a name of a body that the graph has later": MAP + "  t = Neg (x)",
    "an input of a body named like an outer value": MAP.replace(
        "float[N] s", "float[N] x"
    ).replace("Relu (s)", "Relu (x)"),
    "an output that a node leaves out": 'y, "" = Dropout (x)',
    "an operator that nobody knows": "y = com.x.Own <axis = 3> (x, x, x)",
    "branches": BRANCHES,
    "inputs left out at the end": """
      z = Loop (m, "") <body = p (int64 i, bool c) => (bool d, float[N] u)
        { d = Identity (c)  u = Neg (x) }>
      w = ReduceSum <keepdims = 0, noop_with_empty_axes = 0> (z, "")
      y = Add (w, x)""",
    "a loop": LOOP,
    "a scan": SCAN,
}


@pytest.mark.parametrize("nodes", TAKEN.values(), ids=TAKEN)
def test_what_runtimes_take_is_taken(nodes: str) -> None:
    proto = model(nodes, "<int64[1] k = {1}>")
    proto.opset_import.add(domain="com.x", version=1)
    rewriter.explain(proto)
    rewriter.explain(ir.from_proto(proto))


def test_every_way_to_hold_numbers_is_taken() -> None:
    proto = model("y = Relu (x)")
    known = {*onnx.TensorProto.DataType.keys()} - {"UNDEFINED"}
    for number, dtype in enumerate(ir.DataType):
        if dtype.name not in known:
            continue
        values = ["a", "b", "c"] if dtype == ir.DataType.STRING else [1, 0, 1]
        made = onnx.helper.make_tensor(f"w{number}", dtype, [3], values)
        proto.graph.initializer.append(made)
        if dtype != ir.DataType.STRING:
            raw = onnx.helper.make_tensor(
                f"r{number}", dtype, [3], ir.from_proto(made).tobytes(), raw=True
            )
            proto.graph.initializer.append(raw)
    assert len(proto.graph.initializer) > 40
    rewriter.explain(proto)


UNSORTED = "[late] y = Add (c, x)  [early] c = Neg (x)"
UNSORTED_BODY = BRANCHES.replace("Neg (x)", "Neg (c)") + "  [early] c = Neg (x)"


@pytest.mark.parametrize("nodes", [UNSORTED, UNSORTED_BODY], ids=["nodes", "read by a body"])
def test_nodes_are_sorted_with_a_warning(nodes: str) -> None:
    proto = model(nodes)
    with pytest.warns(ModelWarning, match=r"not topologically sorted.* before 'early' makes it"):
        new = rewriter.optimize(proto)
    assert new.graph.node[0].name == "early"
    onnx.checker.check_model(new, full_check=True)
    assert proto.graph.node[1].name == "early"


def test_an_unsorted_model_of_the_ir_is_refused_with_the_remedy() -> None:
    built = ir.from_proto(model("[early] c = Neg (x)  [late] y = Add (c, x)"))
    nodes = list(built.graph)
    built.graph.remove(nodes[0])
    built.graph.append(nodes[0])
    with pytest.raises(ModelError, match=r"model\.graph\.sort\(\)"):
        rewriter.optimize(built)


def test_a_model_of_the_ir_is_checked_too() -> None:
    built = ir.from_proto(model(BRANCHES))
    del next(iter(built.graph)).attributes["else_branch"]
    with pytest.raises(ModelError, match=r"If 'If_0' lacks its attribute 'else_branch'"):
        rewriter.optimize(built)


def test_functions_are_checked() -> None:
    text = """
    g (float[N] x) => (float[N] y) { y = f (x) }
    <domain: "", opset_import: ["" : 18]>
    f (a) => (b) { b = Add (a, c) }
    """
    with pytest.raises(ModelError, match=r"Add 'f/Add_0' reads 'c', which is not defined"):
        rewriter.optimize(onnx.parser.parse_model(HEADER + text))
    call = text.replace("f (x)", "f (x, x)").replace("(a, c)", "(a, a)")
    with pytest.raises(ModelError, match=r"f 'f_0' has 2 inputs, and the function 1"):
        rewriter.optimize(onnx.parser.parse_model(HEADER + call))


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (onnx.ModelProto(), "the model has no graph: export the model again"),
        (onnx.ModelProto(graph=onnx.GraphProto()), "the model imports no opset"),
    ],
    ids=["nothing", "no opset"],
)
def test_an_empty_message(proto: onnx.ModelProto, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        rewriter.optimize(proto)


@pytest.mark.parametrize("command", ["optimize", "explain", "run", "bench", "validate"])
def test_one_line_and_status_1(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    source = tmp_path / "in.onnx"
    source.write_bytes(model("z = Relu (x)").SerializeToString())
    more = {"optimize": [tmp_path / "out.onnx"], "validate": [source]}.get(command, [])
    assert seqmap(command, source, *more) == 1
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith(f"seqmap: error: {source} is not a valid ONNX model: the output 'y'")


def negative(text: str) -> onnx.ModelProto:
    """Return the model with -1 for every named dimension."""
    proto = onnx.parser.parse_model(text)
    data = onnx.ModelProto()
    data.CopyFrom(proto)

    def visit(message: object) -> None:
        for field, value in message.ListFields():  # type: ignore[attr-defined]
            if field.message_type is None:
                continue
            for child in value if field.is_repeated else [value]:
                if isinstance(child, onnx.TensorShapeProto.Dimension) and child.dim_param:
                    child.dim_value = -1
                visit(child)

    visit(data)
    return data


SOFTMAX = (
    HEADER
    + """
g (seq(float[N,3]) xs) => (seq(float[N,3]) ys)
{ ys = SequenceMap (xs) <body = b (float[N,3] p) => (float[N,3] q)
  { q = Softmax <axis = 0> (p) }> }
"""
)


@pytest.mark.long
def test_negative_dimensions_are_unknown() -> None:
    proto = negative(SOFTMAX)
    declared = [*proto.graph.input, *proto.graph.output]
    assert declared[0].type.sequence_type.elem_type.tensor_type.shape.dim[0].dim_value == -1
    rng = np.random.default_rng(0)
    feed = {"xs": [rng.standard_normal((n, 3)).astype(np.float32) for n in (2, 3)]}
    for given in (proto, ir.from_proto(proto)):
        for options in ({}, {"strategy": "fuse"}, {"trust_types": True}):
            new = rewriter.optimize(given, **options)
            assert rewriter.validate(proto, new, inputs=feed).ok
    assert rewriter.validate(proto, rewriter.optimize(proto)).ok


def test_no_negative_dimension_is_left() -> None:
    proto = negative(SOFTMAX)
    new = rewriter.optimize(proto, tensor_io=True, uniform=["xs"])
    assert "dim_value: -1" not in str(new)
