"""Sequences whose element type a model does not tell, as TorchScript's exporter writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from rewriter import cli
from rewriter.model_files import models, on_disk
from tests.passes.loops import model as parse

LOOP = """g (float[N,3] x, int64 n) => ({result} y) {{
    go = Constant <value = bool {{1}}> ()
    none = SequenceEmpty ()
    q = Loop (n, go, none) <body = f (int64 i, bool in, seq(float[]) s)
        => (bool out, seq(float[]) grown) {{
        out = Identity (in) row = Gather <axis = 0> (x, i) e = {element}
        grown = SequenceInsert (s, e) }}>
    y = {end} }}"""
JOIN = "ConcatFromSequence <axis = 0, new_axis = 1> (q)"
# Of each case: the text, and the element type of its sequences.
CASES = {
    "numbers that are inserted": (
        LOOP.format(result="int64[n,1]", element="Shape (row)", end=JOIN),
        "INT64",
    ),
    "floats that are inserted": (
        LOOP.format(result="float[n,3]", element="Relu (row)", end=JOIN),
        "FLOAT",
    ),
    "flags that are inserted": (
        LOOP.format(result="bool[n,3]", element="Greater (row, x)", end=JOIN).replace(
            "Greater (row, x)", "IsNaN (row)"
        ),
        "BOOL",
    ),
    "what a Cast yields": (
        LOOP.format(
            result="double[3]", element="Cast <to = 11> (row)", end="SequenceAt (q, i)"
        ).replace("go =", "i = Constant <value = int64 {0}> () go ="),
        "DOUBLE",
    ),
    "a sequence that leaves the model": (
        LOOP.format(result="seq(int64[1])", element="Shape (row)", end="Identity (q)"),
        "INT64",
    ),
}
FEEDS = {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "n": np.array(4)}


def without_element_types(text: str) -> onnx.ModelProto:
    """Parse a model and take away what its carried sequences hold."""
    proto = parse(text)
    loop = next(node for node in proto.graph.node if node.op_type == "Loop")
    (body,) = (attribute.g for attribute in loop.attribute)
    infos = [*body.input, *body.output, *proto.graph.output]
    for info in infos:
        if info.type.HasField("sequence_type"):
            info.type.sequence_type.Clear()
            info.type.sequence_type.SetInParent()
    return proto


def elements(model: ir.Model) -> set[str]:
    """Return the element types of the sequences that a Loop carries and a model yields."""
    loop = next(node for node in model.graph if node.op_type == "Loop")
    body = loop.attributes["body"].as_graph()
    values = [*body.inputs, *body.outputs, *model.graph.outputs]
    types = [value.type for value in values if not isinstance(value.type, ir.TensorType)]
    return {"none" if type_ is None else type_.dtype.name for type_ in types}


@pytest.mark.parametrize("name", CASES)
def test_the_element_type_follows_from_what_is_inserted(name: str) -> None:
    text, dtype = CASES[name]
    proto = without_element_types(text)
    assert elements(models.take(proto).model) == {dtype}
    for strategy in ("auto", "fuse", "expand"):
        result = rewriter.rewrite(proto, strategy=strategy).model
        onnx.checker.check_model(result)
        rewriter.run(result, FEEDS)


def test_by_every_way_that_a_model_comes_in(tmp_path: Path) -> None:
    text, dtype = CASES["numbers that are inserted"]
    proto = without_element_types(text)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    assert elements(on_disk.load(path)) == {dtype}
    whole = on_disk.load(path)
    (empty,) = (node for node in whole.graph if node.op_type == "SequenceEmpty")
    del empty.attributes["dtype"]
    taken = models.take(whole).model
    (mended,) = (node for node in taken.graph if node.op_type == "SequenceEmpty")
    assert mended.attributes["dtype"].as_int() == onnx.TensorProto.INT64
    assert "dtype" not in empty.attributes  # the argument is never changed


def test_a_model_in_which_nothing_else_is_to_be_done_is_written_with_its_types(
    tmp_path: Path,
) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (int64[N] x) => (int64[M] y) '
        "{ q = SequenceEmpty () s = SequenceInsert (q, x) y = ConcatFromSequence <axis = 0> (s) }"
    )
    given, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    given.write_bytes(proto.SerializeToString())
    assert cli.main(["optimize", str(given), str(out)]) == 0
    assert rewriter.run(onnx.load(out), {"x": np.arange(3)})["y"].tolist() == [0, 1, 2]


def test_what_is_read_tells_the_type_of_an_empty_sequence() -> None:
    proto = parse(
        """g (bool b) => (int64[n] y) {
            none = SequenceEmpty ()
            zero = Constant <value = int64 {0}> ()
            q = If (b) <then_branch = t () => (u) { u = Identity (none) },
                else_branch = e () => (v) { z = Constant <value_ints = [1, 2]> ()
                    v = SequenceInsert (none, z) }>
            y = SequenceAt (q, zero) }"""
    )
    empty = models.take(proto).model.graph[0]
    assert empty.attributes["dtype"].as_int() == onnx.TensorProto.INT64


@pytest.mark.parametrize("name", CASES)
def test_the_floats_that_an_empty_sequence_stands_for_say_nothing(name: str) -> None:
    """As TorchScript's exporter writes a list of masks: it types what the body takes, no more."""
    text, dtype = CASES[name]
    proto = without_element_types(text)
    loop = next(node for node in proto.graph.node if node.op_type == "Loop")
    loop.attribute[0].g.input[2].CopyFrom(
        onnx.helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None)
    )
    assert elements(models.take(proto).model) == {dtype}
    for strategy in ("auto", "fuse", "expand"):
        result = rewriter.rewrite(proto, strategy=strategy).model
        onnx.checker.check_model(result)
        rewriter.run(result, FEEDS)


INSERTED = {
    "what a branch yields": """e = If (b) <then_branch = t () => (u) { u = Shape (x) },
        else_branch = f () => (v) { v = Constant <value_ints = [1, 2]> () }>""",
    "what a Loop collects": """one = Constant <value = int64 {1}> ()
        e = Loop (one, b) <body = l (int64 i, bool c) => (d, o) {
            d = Identity (c) o = Size (x) }>""",
    "what another sequence holds": """n = Shape (x) other = SequenceConstruct (n, n)
        zero = Constant <value = int64 {0}> () e = SequenceAt (other, zero)""",
    "what a cycle of sequences holds": """n = Shape (x) zero = Constant <value = int64 {0}> ()
        p = SequenceInsert (none, n) r = SequenceAt (p, zero) e = Neg (r)""",
}


@pytest.mark.parametrize("name", INSERTED)
def test_an_element_is_followed_to_where_its_type_is_told(name: str) -> None:
    proto = parse(
        f"""g (float[N] x, bool b) => (seq(int64[]) q) {{
            none = SequenceEmpty () {INSERTED[name]}
            q = SequenceInsert (none, e) }}"""
    )
    proto.graph.output[0].type.sequence_type.Clear()
    proto.graph.output[0].type.sequence_type.SetInParent()
    model = models.take(proto).model
    assert model.graph[0].attributes["dtype"].as_int() == onnx.TensorProto.INT64
    assert model.graph.outputs[0].dtype == ir.DataType.INT64
    found = rewriter.run(ir.to_proto(model), {"x": np.ones(3, np.float32), "b": np.array(True)})
    assert [element.dtype for element in found["q"]] == [np.int64]


def test_what_an_input_or_output_of_the_model_tells_is_left_alone() -> None:
    """Numbers among declared floats are the model's own fault, and onnxruntime's to refuse."""
    proto = parse(
        """g (float[N] x) => (seq(float[]) q) {
            none = SequenceEmpty () e = Shape (x) q = SequenceInsert (none, e) }"""
    )
    assert "dtype" not in models.take(proto).model.graph[0].attributes


@pytest.mark.parametrize(
    "element", ["Relu (x)", "Shape (x)"], ids=["floats as told", "numbers beside floats"]
)
def test_a_type_that_is_told_or_disputed_is_left_alone(element: str) -> None:
    proto = parse(
        f"""g (float[N] x) => (seq(float[]) q) {{
            none = SequenceEmpty () e = {element}
            first = SequenceInsert (none, x) q = SequenceInsert (first, e) }}"""
    )
    assert "dtype" not in models.take(proto).model.graph[0].attributes


def test_a_sequence_that_nothing_tells_of_is_an_error() -> None:
    proto = parse("g (seq(float[]) s) => (int64 n) { n = SequenceLength (s) }")
    proto.graph.input[0].type.sequence_type.Clear()
    proto.graph.input[0].type.sequence_type.SetInParent()
    with pytest.raises(rewriter.RewriteError, match=r"nothing tells the element type.*'s'"):
        rewriter.rewrite(proto)


def test_a_long_chain_of_loops_is_followed_to_its_begin() -> None:
    loop = """none{i} = SequenceEmpty ()
        y{i} = Loop (n, go, none{i}) <body = f{i} (int64 k{i}, bool in, seq(int64[]) s{i})
            => (bool out, seq(int64[]) grown{i}) {{
            out = Identity (in) e{i} = SequenceAt (y{j}, k{i})
            grown{i} = SequenceInsert (s{i}, e{i}) }}> """
    chain = " ".join(loop.format(i=i, j=i - 1) for i in range(1, 401))
    proto = parse(
        f"""g (seq(int64[N]) y0, int64 n) => (seq(int64[N]) y400) {{
        go = Constant <value = bool {{1}}> () {chain} }}"""
    )
    model = models.take(proto).model
    empties = [node for node in model.graph if node.op_type == "SequenceEmpty"]
    assert {node.attributes.get_int("dtype") for node in empties} == {ir.DataType.INT64}
