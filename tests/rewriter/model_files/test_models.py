"""Models in and out: nothing is lost, nothing handed in is changed, failures leave no trace."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

import rewriter
from rewriter.errors import ModelError
from rewriter.model_files.models import ModelKind, folder_of, give, take
from rewriter.model_files.on_disk import load, save

EVERYTHING = """
<ir_version: 10, opset_import: ["" : 17, "com.x" : 1], producer_name: "p",
 producer_version: "1", domain: "d", model_version: 3, doc_string: "model doc",
 metadata_props: ["key" : "value", "other" : "two words"]>
g (seq(float[H,W]) xs, float[2,N] y, optional(seq(int64[])) o, float[2] w)
  => (seq(float[H,W]) zs, float[2,N] q, string[K] s)
<float[2] w = {1, 2}, float[2,N] r>
{
    [n1] r = com.x.Own <axis: int = 3> (y, w)
    [n2] q = f <k: float = 2.0> (r)
    [n3] zs = SequenceMap (xs, q) <body = b (float[H,W] x, float[2,N] m) => (float[H,W] z)
    <float c = {1}> { z = Add (x, c) }>
    [n4] s = Constant <value = string[2] {"a", "b"}> ()
}
<domain: "", opset_import: ["" : 17]>
f <k> (a) => (b) { c = Constant <value_float: float = @k> ()  b = Mul (a, c) }
"""

BASIC = """
<ir_version: 10, opset_import: ["" : 17]>
g (float[N] x) => (float[N] y) <float[1] w = {1}> { y = Add (x, w) }
"""


def model(text: str = BASIC) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def documented() -> onnx.ModelProto:
    """Return a model in which everything that may have a doc string or metadata has both."""
    proto = model(EVERYTHING)
    graph = proto.graph
    body = graph.node[2].attribute[0].g
    parts = [graph, body, *graph.node, *body.node, *graph.input[:3], *graph.output, body.input[0]]
    parts += [*graph.value_info, graph.initializer[0], *proto.functions, *proto.functions[0].node]
    for index, part in enumerate(parts):
        part.doc_string = f"doc {index}"
        part.metadata_props.add(key="part", value=str(index))
    graph.node[0].attribute[0].doc_string = "attribute doc"
    return proto


def facts(message) -> list[tuple[str, object]]:
    """Return every field that is set to something, with its path; empty ones do not count."""
    found = []
    for field, value in message.ListFields():
        children = value if field.is_repeated else [value]
        for index, child in enumerate(children):
            name = f"{field.name}[{index}]" if field.is_repeated else field.name
            if field.message_type is not None:
                found += [(f"{name}.{path}", fact) for path, fact in facts(child)]
            elif child not in ("", b""):
                found.append((name, child))
    return found


def contents(proto: onnx.ModelProto) -> list[tuple[str, object]]:
    """Return the facts of a model, less the types that the IR adds for initializers."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for graph in [copy.graph, copy.graph.node[2].attribute[0].g]:
        own = {tensor.name for tensor in graph.initializer}
        kept = [info for info in graph.value_info if info.name not in own]
        del graph.value_info[:]
        graph.value_info.extend(kept)
    imports = sorted(copy.opset_import, key=lambda opset: opset.domain)
    del copy.opset_import[:]
    copy.opset_import.extend(imports)
    return facts(copy)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- nothing is lost ---------------------------------------------------------------------------


def test_a_file_comes_back_with_all_that_it_says(tmp_path):
    before = documented()
    onnx.save(before, tmp_path / "in.onnx")
    save(load(tmp_path / "in.onnx"), tmp_path / "out.onnx")
    after = onnx.load(tmp_path / "out.onnx")
    assert contents(after) == contents(before)
    assert [i.SerializeToString() for i in after.graph.input] == [
        i.SerializeToString() for i in before.graph.input
    ]


def test_text_comes_back_with_all_but_the_doc_strings_of_parts(tmp_path):
    before = model(EVERYTHING)
    (tmp_path / "in.onnxtxt").write_text(onnx.printer.to_text(before))
    save(load(tmp_path / "in.onnxtxt"), tmp_path / "out.onnxtxt")
    after = onnx.parser.parse_model((tmp_path / "out.onnxtxt").read_text())
    assert contents(after) == contents(before)


def test_the_ir_still_doubles_the_metadata_of_tensors():
    proto = ir.to_proto(ir.from_proto(documented()))
    assert len(proto.graph.initializer[0].metadata_props) == 2  # mended? then drop our own mending


def test_types_of_onnx_ml_maps_survive(tmp_path):
    proto = model("""
        <ir_version: 10, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        g (float[N,2] x) => (float[N] z)
        { z = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1]> (x) }""")
    kind = proto.graph.output[0].type.sequence_type.elem_type.map_type
    kind.key_type = onnx.TensorProto.INT64
    kind.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    onnx.save(proto, tmp_path / "in.onnx")
    save(load(tmp_path / "in.onnx"), tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx").graph.output == proto.graph.output
    taken = take(proto)
    assert give(taken, taken.model).graph.output == proto.graph.output


def classifier():
    """A nearest-neighbour classifier that ends in a list of maps, as scikit-learn's do."""
    proto = model("""
        <ir_version: 10, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
        g (float[N,2] x) => (float[N,2] z)
        <float[2,2] known = {0, 1, 1, 0}>
        {
          same, distances = Scan <num_scan_inputs = 1, body = step
            (float[2,2] all, float[2] row) => (float[2,2] kept, float[2] squares)
            { kept = Identity (all)  d = Sub (all, row)
              squares = ReduceSumSquare <axes = [1], keepdims = 0> (d) }> (known, x)
          nearer = Neg (distances)
          p = Softmax <axis = 1> (nearer)
          z = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1]> (p)
        }""")
    kind = proto.graph.output[0].type.sequence_type.elem_type.map_type
    kind.key_type = onnx.TensorProto.INT64
    kind.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return proto


@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
def test_a_list_of_maps_at_the_end_is_in_nobodys_way(strategy):
    result = rewriter.rewrite(classifier(), strategy=strategy, verify=True)
    assert result.report.after.loops == (strategy == "expand")
    assert result.model.graph.output == classifier().graph.output


@pytest.mark.long
def test_a_map_that_differs_is_noticed():
    given, other = classifier(), classifier()
    other.graph.node[-1].attribute[0].ints[:] = [0, 2]
    assert not rewriter.validate(given, other).ok
    other = classifier()
    other.graph.initializer[0].float_data[0] = 0.5
    assert not rewriter.validate(given, other).ok


def test_training_graphs_survive(tmp_path):
    proto = model()
    proto.training_info.add().algorithm.name = "sgd"
    onnx.save(proto, tmp_path / "in.onnx")
    save(load(tmp_path / "in.onnx"), tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx").training_info[0].algorithm.name == "sgd"


def test_the_long_name_of_the_default_domain_is_understood():
    proto = model()
    proto.opset_import[0].domain = "ai.onnx"
    assert take(proto).model.opset_imports == {"": 17}


def test_one_model_always_has_the_same_bytes(tmp_path):
    onnx.save(documented(), tmp_path / "in.onnx")
    for name in ("a", "b"):
        save(load(tmp_path / "in.onnx"), tmp_path / f"{name}.onnx")
    save(load(tmp_path / "a.onnx"), tmp_path / "c.onnx")
    first, *others = ((tmp_path / f"{name}.onnx").read_bytes() for name in "abc")
    assert others == [first, first]


# --- kinds -------------------------------------------------------------------------------------


def test_the_same_kind_comes_back(tmp_path):
    import onnx_graphsurgeon as gs

    onnx.save(model(), tmp_path / "m.onnx")
    for handed, kind, expected in [
        (tmp_path / "m.onnx", ModelKind.PATH, onnx.ModelProto),
        (str(tmp_path / "m.onnx"), ModelKind.PATH, onnx.ModelProto),
        (model(), ModelKind.PROTO, onnx.ModelProto),
        (ir.from_proto(model()), ModelKind.IR, ir.Model),
        (gs.import_onnx(model()), ModelKind.GRAPHSURGEON, gs.Graph),
    ]:
        taken = take(handed)
        assert taken.kind is kind
        assert taken.original is handed
        assert isinstance(give(taken, taken.model), expected)


@pytest.mark.parametrize(
    ("handed", "ending"),
    [
        (42, "int"),
        (None, "NoneType"),
        (b"model", "bytes: onnx.load_model_from_string makes a model of bytes"),
        (io.BytesIO(), "BytesIO: give its path, or what onnx.load reads from it"),
        (onnx.GraphProto(), "GraphProto: onnx.helper.make_model makes a model of a graph"),
    ],
    ids=["int", "None", "bytes", "file", "graph"],
)
def test_anything_else_is_refused(handed, ending):
    with pytest.raises(ModelError, match=rf"^a model is a path, .* of type {ending}$"):
        take(handed)


def rough_treatment(taken: ir.Model) -> None:
    """Change a working copy in every way that passes do."""
    graphs = [taken.graph, *taken.graph.subgraphs()]
    graphs += [function.graph for function in taken.functions.values()]
    for graph in graphs:
        for value in [*graph.inputs, *graph.initializers.values()]:
            value.name = f"{value.name}_renamed"
            if value.dtype is not None:
                value.dtype = ir.DataType.DOUBLE
                value.type.denotation = "changed"
            value.metadata_props["k"] = "v"
        for node in graph:
            node.metadata_props["k"] = "v"
            for value in node.outputs:
                value.name = f"{value.name}_renamed"
                if value.dtype is not None:
                    value.dtype = ir.DataType.DOUBLE
    taken.graph.doc_string = "changed"
    taken.metadata_props["k"] = "v"
    taken.opset_imports["x"] = 1
    taken.graph.remove(taken.graph[-1])


def test_a_message_is_never_changed():
    proto = documented()
    before = proto.SerializeToString()
    rough_treatment(take(proto).model)
    assert proto.SerializeToString() == before


def test_a_model_of_the_ir_is_never_changed():
    handed = ir.from_proto(documented())
    for value in handed.graph.initializers.values():
        value.const_value.metadata_props["own"] = "yes"
    handed.graph.initializers["w"].const_value = ir.tensor(np.ones(2, np.float32), name="w")
    before = ir.to_proto(handed).SerializeToString()
    rough_treatment(take(handed).model)
    assert ir.to_proto(handed).SerializeToString() == before


def test_a_copy_of_a_model_of_the_ir_is_whole():
    handed = ir.from_proto(documented())
    assert ir.to_proto(take(handed).model) == ir.to_proto(handed)


# --- what cannot be read -----------------------------------------------------------------------

NESTED = onnx.parser.parse_model(EVERYTHING).SerializeToString()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.onnx", None, "cannot read {}: no such file or directory"),
        ("a.onnx", b"", "{} is empty: export the model again"),
        (
            "a.onnx",
            b"PK\x03\x04rest",
            "{} is a zip archive, as PyTorch and Keras write: export it to ONNX first",
        ),
        ("a.onnx", b"hello world", "{} is not an ONNX model, or is cut short"),
        ("a.onnx", b"\x08\x0a", "{} is not an ONNX model, or is cut short"),
        ("a.onnx", NESTED[: len(NESTED) // 2], "{} is not an ONNX model, or is cut short"),
        (
            "a.onnx",
            onnx.ModelProto(ir_version=10, graph=model().graph).SerializeToString(),
            "{} is cut short: it has no opset",
        ),
        (
            "a.onnx",
            onnx.ModelProto(ir_version=10, opset_import=model().opset_import).SerializeToString(),
            "{} is cut short: it has no graph",
        ),
        (
            "a.onnx",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "{} is a Git LFS pointer: fetch the model itself with `git lfs pull`",
        ),
        (
            "a.onnxtxt",
            b'<ir_version: 10, opset_import: ["" : 17]>\ng (float x) => (float y) { y = Relu(x }',
            "{} is not ONNX text: line 2, column 39: Expected character ) not found",
        ),
        (
            "a.onnxtxt",
            b'<ir_version: 9, opset_import: ["" : 99999999999999999999]> g () => () {}',
            "{} is not ONNX text: a number in it is too large",
        ),
        (
            "a.onnxtxt",
            b'<ir_version: 9, opset_import: ["" : 18]> g () => () { y = Elu <alpha = 1e9999> (x) }',
            "{} is not ONNX text: a number in it is too large",
        ),
        ("a.onnxtxt", b"\xfe\xfe", "{} is not ONNX text: byte 0 is not UTF-8"),
        ("a.onnxtxt", b"\xff\xfe<", "{} is not ONNX text: byte 2 is not UTF-16-LE"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else str(value)[:40],
)
def test_unusable_files_are_refused_in_one_line(tmp_path, name, data, message):
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ModelError) as caught:
        load(path)
    assert str(caught.value) == message.format(path)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(
        ModelError, match=r"is a folder: name the model file in it; seqmap scan takes folders$"
    ):
        load(tmp_path)


def test_a_file_over_two_gigabytes_is_refused_unread(tmp_path):
    path = tmp_path / "big.onnx"
    path.touch()
    os.truncate(path, 2**31)
    with pytest.raises(
        ModelError, match=r"larger than the 2 GB .*: store the weights as external"
    ):
        load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda graph: graph.sparse_initializer.add().values.MergeFrom(
                onnx.TensorProto(name="sparse")
            ),
            "the model has the sparse initializer 'sparse', which is not supported: "
            "store it as a dense one",
        ),
        (
            lambda graph: graph.node.add(op_type="Relu", input=["x"], output=["y"]),
            "the model is not a valid ONNX model: 'y' is defined twice, as Add 'Add_0' and as Relu",
        ),
    ],
    ids=["sparse initializer", "two producers"],
)
def test_what_the_ir_cannot_hold_is_refused(change, message):
    proto = model()
    change(proto.graph)
    with pytest.raises(ModelError) as caught:
        take(proto)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


# --- what cannot be written --------------------------------------------------------------------


def test_a_model_may_be_written_over_itself(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    path.chmod(0o640)
    save(load(path), path)
    assert onnx.load(path).graph.node[0].op_type == "Add"
    assert path.stat().st_mode & 0o777 == 0o640
    assert leftovers(tmp_path) == ["m.onnx"]


def test_a_link_stays_and_what_it_leads_to_too(tmp_path):
    (tmp_path / "store").write_bytes(b"shared by others")
    (tmp_path / "m.onnx").symlink_to("store")
    with pytest.raises(ModelError, match=r"is a symbolic link to store; name that file, or"):
        save(model(), tmp_path / "m.onnx")
    assert (tmp_path / "store").read_bytes() == b"shared by others"
    assert (tmp_path / "m.onnx").is_symlink()
    assert leftovers(tmp_path) == ["m.onnx", "store"]


def test_an_address_is_no_file():
    with pytest.raises(ModelError, match=r"^https://a\.b/m\.onnx is an address: download"):
        load("https://a.b/m.onnx")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "cannot write {}: it is a folder"),
        ("missing/m.onnx", "cannot write {0}: there is no folder {0.parent}; make it first"),
        ("file/m.onnx", "cannot write {0}: there is no folder {0.parent}; make it first"),
        ("pipe", "cannot write {}: it is not a regular file"),
    ],
    ids=lambda value: value,
)
def test_an_unwritable_place_is_named(tmp_path, name, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    os.mkfifo(tmp_path / "pipe")
    before = leftovers(tmp_path)
    with pytest.raises(ModelError) as caught:
        save(model(), tmp_path / name)
    assert str(caught.value) == message.format(tmp_path / name)
    assert leftovers(tmp_path) == before


def test_a_failure_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ModelError, match=r"^cannot write .*: no space left on device$"):
        save(model(), path)
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == ["m.onnx"]


def test_a_model_over_two_gigabytes_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("rewriter.model_files.files.LIMIT", 10)
    with pytest.raises(ModelError, match=r"would be larger than the 2 GB .*as external data$"):
        save(model(), tmp_path / "m.onnx")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("kind", [onnx.TensorProto.COMPLEX64, onnx.TensorProto.INT4])
def test_text_that_would_lose_something_is_not_written(tmp_path, kind):
    proto = model()
    tensor = onnx.helper.make_tensor("c", kind, [1], [1])
    proto.graph.initializer.append(tensor)
    with pytest.raises(ModelError, match=r"ONNX text cannot hold this model, use \.onnx$"):
        save(proto, tmp_path / "m.onnxtxt")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("handed", ["a path", 42])
def test_only_a_model_is_saved(tmp_path, handed):
    with pytest.raises(ModelError, match=r"^only a model can be saved, not a (str|int)$"):
        save(handed, tmp_path / "m.onnx")


# --- size --------------------------------------------------------------------------------------

MEASURE = """
import resource, sys
from rewriter import load, save
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
save(load(sys.argv[1]), sys.argv[2])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_weights_of_gigabytes_are_never_read(tmp_path):
    proto = model()
    weights = proto.graph.initializer[0]
    weights.ClearField("float_data")
    weights.dims[:] = [625_000_000]
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="weights.bin")
    onnx.save(proto, tmp_path / "in.onnx")
    (tmp_path / "weights.bin").touch()
    os.truncate(tmp_path / "weights.bin", 2_500_000_000)
    untouched = (tmp_path / "weights.bin").stat()
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path / "in.onnx", tmp_path / "out.onnx"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 50  # MB on top of the imports
    assert (tmp_path / "weights.bin").stat().st_mtime_ns == untouched.st_mtime_ns
    assert (tmp_path / "out.onnx").stat().st_size < 1000
    assert folder_of(load(tmp_path / "out.onnx")) == tmp_path


HANDED_ON = """<ir_version: 8, opset_import: ["" : 17]>
g (seq(float[3,4]) s, float[2,N] x) => (seq(float[a,b]) s, float[c,d] x, seq(float[?,?]) y) {
    y = SequenceMap (s) <body = step (float[3,4] v) => (float[3,4] r) { r = Relu (v) }>
}"""


def test_an_input_that_is_an_output_keeps_its_type() -> None:
    before = onnx.parser.parse_model(HANDED_ON)
    after = rewriter.rewrite(before, strategy="expand").model
    assert list(after.graph.input) == list(before.graph.input)
    assert [value.name for value in after.graph.output] == ["s", "x", "y"]
