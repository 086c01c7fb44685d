"""Messages with fields that nothing can be made of: one line, whatever reads them."""

from __future__ import annotations

import json
import pathlib

import onnx
import onnx.parser
import pytest

import rewriter
from rewriter import cli
from rewriter.errors import ModelError
from rewriter.model_files.models import take
from rewriter.model_files.on_disk import load

HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'
MODEL = (
    HEADER
    + """g (seq(float[N]) the_input) => (seq(float[M]) ys)
{ [the_node] ys = SequenceMap (the_input) <body = b (float[N] x) => (float[M] y)
    { the_constant = Constant <value = float[1] {1}> ()
      s = StringSplit <delimiter = "the_text"> (the_strings)
      y = Add (x, the_constant) }> }""".replace(
        '      s = StringSplit <delimiter = "the_text"> (the_strings)\n', ""
    )
)
BAD = b"\xff\xfe\x80"


def constant(proto: onnx.ModelProto) -> onnx.NodeProto:
    return proto.graph.node[0].attribute[0].g.node[0]


def written(proto: onnx.ModelProto, tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "in.onnx").write_bytes(proto.SerializeToString())
    return tmp_path / "in.onnx"


def refused(path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run every command that reads a model; return the line that it fails with."""
    lines = set()
    for words in (
        ["optimize", str(path), str(path.with_name("out.onnx"))],
        ["explain", str(path)],
        ["run", str(path)],
        ["run", str(path), "--backend", "reference"],
        ["validate", str(path), str(path)],
    ):
        assert cli.main(words) == 1
        (line,) = capsys.readouterr().err.splitlines()
        lines.add(line)
    assert not path.with_name("out.onnx").exists()
    (line,) = lines
    return line


@pytest.mark.parametrize("text", ["the_input", "the_node", "the_constant", "b", "SequenceMap"])
def test_text_that_is_not_utf_8(tmp_path, capsys, text):
    data = onnx.parser.parse_model(MODEL).SerializeToString()
    length = bytes([len(text)])
    bad = (BAD * 4)[: len(text)] if len(text) > 1 else b"\xff"
    path = tmp_path / "in.onnx"
    path.write_bytes(data.replace(length + text.encode(), length + bad))
    assert "is not UTF-8: export the model again" in refused(path, capsys)
    with pytest.raises(ModelError, match="is not UTF-8"):
        load(path)
    with pytest.raises(ModelError, match="is not UTF-8"):
        rewriter.ReferenceEvaluator(path)


@pytest.mark.parametrize("field", ["key", "value"])
def test_metadata_that_is_not_utf_8(tmp_path, capsys, field):
    proto = onnx.parser.parse_model(MODEL)
    proto.metadata_props.add(**({"key": "k", "value": "v"} | {field: "the_text"}))
    data = proto.SerializeToString().replace(b"the_text", BAD + b"_text")
    (tmp_path / "in.onnx").write_bytes(data)
    assert f"the {field} '\\xff\\xfe\\x80_text' of a stringstringentry is not UTF-8" in refused(
        tmp_path / "in.onnx", capsys
    )


def test_a_text_attribute_that_is_not_utf_8(tmp_path, capsys):
    proto = onnx.parser.parse_model(MODEL)
    constant(proto).attribute[0].CopyFrom(onnx.helper.make_attribute("value_string", BAD))
    assert "the s '\\xff\\xfe\\x80' of an attribute is not UTF-8" in refused(
        written(proto, tmp_path), capsys
    )


def test_a_constant_without_an_element_type(tmp_path, capsys):
    proto = onnx.parser.parse_model(MODEL)
    constant(proto).attribute[0].t.data_type = 0
    assert "has the element type 0, which is not known" in refused(
        written(proto, tmp_path), capsys
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: setattr(a, "type", 0), "the attribute 'value' has no type"),
        (lambda a: a.ClearField("type"), "the attribute 'value' has no type"),
        (lambda a: a.ClearField("t"), "the attribute 'value' of the type TENSOR is empty"),
        (lambda a: setattr(a, "type", 5), "the attribute 'value' of the type GRAPH is empty"),
    ],
    ids=["type 0", "no type", "no value", "another type"],
)
def test_an_attribute_without_its_value(tmp_path, capsys, change, message):
    proto = onnx.parser.parse_model(MODEL)
    change(constant(proto).attribute[0])
    assert message in refused(written(proto, tmp_path), capsys)


@pytest.mark.parametrize("version", [0, -1, 2**31, 2**63 - 1])
def test_an_opset_of_no_version(tmp_path, capsys, version):
    proto = onnx.parser.parse_model(MODEL)
    proto.opset_import[0].version = version
    assert f"it imports version {version} of 'ai.onnx'" in refused(
        written(proto, tmp_path), capsys
    )


def test_axes_that_are_a_scalar_are_one_axis():
    """Runtimes take them, and onnx.checker does."""
    model = onnx.parser.parse_model(
        HEADER
        + """g (float[B,N] x) => (seq(float[M,1]) ys) { xs = SplitToSequence <keepdims = 0> (x)
        ys = SequenceMap (xs) <body = b (float[N] e) => (float[M,1] o)
            { a = Constant <value = int64 {1}> ()  o = Unsqueeze (e, a) }> }"""
    )
    assert rewriter.explain(model, strategy="fuse").decisions[0].path == "SequenceMap_1"


@pytest.mark.parametrize("key", ["seqmap.promises", "seqmap.tensor_io"])
@pytest.mark.parametrize(
    "value",
    [
        *("", "[", "[]", "null", "7", '{"inputs": 7}', '{"uniform": {"a": 1}}', "[" * 9999),
        '{"inputs": {"the_input": {"form": "x", "dims": [1]}}}',
        '{"inputs": {"the_input": {"form": "packed", "dims": [-1], "lengths": "l"}}}',
        '{"inputs": {"the_input": {"form": "packed", "dims": 3, "lengths": 7}}}',
        '{"inputs": {"other": {"form": "packed", "dims": null, "lengths": "other"}}}',
        '{"outputs": {"ys": {"form": "stacked", "dims": null}}}',
        '{"input_shapes": {"the_input": [1.5]}}',
        '{"input_shapes": {"the_input": [99999999999999999999]}}',
        '{"input_shapes": {"other": [3]}}',
        '{"uniform": ["other"]}',
    ],
    ids=repr,
)
def test_metadata_of_ours_that_somebody_else_wrote(tmp_path, capsys, key, value):
    proto = onnx.parser.parse_model(MODEL)
    proto.metadata_props.add(key=key, value=value)
    path = written(proto, tmp_path)
    for words in (["explain", str(path), "--json"], ["run", str(path)]):
        status = cli.main(words)
        printed = capsys.readouterr()
        assert status in (0, 1)
        assert "Traceback" not in printed.err, printed.err
        assert printed.err.count("\n") == status
        if words[0] == "explain":
            json.loads(printed.out)


def test_take_of_a_message_asks_the_same():
    proto = onnx.parser.parse_model(MODEL)
    constant(proto).attribute[0].ClearField("t")
    with pytest.raises(ModelError, match="is empty"):
        take(proto)
