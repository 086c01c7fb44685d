"""Every model of ``models/``: it is valid, and rewritten it loads and computes the same."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from rewriter import cli
from rewriter.backends import BackendError, open_session, run
from rewriter.feeding.feeds import read_expected, read_feeds
from rewriter.model_files.model_facts import count_operators
from rewriter.pipeline import Strategy, rewrite
from rewriter.proof.compare import compare

MODELS = pathlib.Path(__file__).parents[1] / "models"
TEXT = sorted((MODELS / "text").glob("*.onnxtxt"))
DEMO = sorted((MODELS / "demo").glob("*.onnx*"))
EXPORTED = sorted((MODELS / "exported").glob("*.onnx"))
BAD_SHAPES = "ts_zip_matmul_badshapes"
UNTYPED = "ts_semseg_postprocess"
STRATEGIES: tuple[Strategy, ...] = ("expand", "auto", "fuse")
TAKEN = [path for path in (*TEXT, *DEMO, *EXPORTED) if path.stem != BAD_SHAPES]
VALID = [path for path in TAKEN if path.stem != UNTYPED]
# Models without a map for `expand`: their Loops and Scans are their own.
HOLDS_A_MAP = ("seqmap_", "spox_", "dy_hstack", "dy_atleast_1d", BAD_SHAPES)
UNTOUCHED = [path for path in EXPORTED if not path.stem.startswith(HOLDS_A_MAP)]
# ConcatFromSequence of nothing is an error: with 0 samples these are not defined.
UNDEFINED_WHEN_EMPTY = {
    "letterbox",
    "pad_behind",
    "ragged_first_axis",
    "scalar_elements",
    "split_map_concat",
    "split_map_stack",
    "ts_images_pyramid",
    "ts_images_soft_argmax",
    "ts_images_statistics",
    "uint8_elements",
}


def by_name(path: pathlib.Path) -> str:
    return path.stem


def load(path: pathlib.Path) -> onnx.ModelProto:
    if path.suffix == ".onnxtxt":
        return onnx.parser.parse_model(path.read_text("utf-8"))
    return onnx.load(path)


def draw(rng: np.random.Generator, elem_type: int, shape: tuple[int, ...]) -> Any:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    if elem_type == onnx.TensorProto.STRING:
        return rng.choice(np.array(["", "a", "bc", "äö"], object), shape)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 9, shape).astype(dtype)


def make_feeds(model: onnx.ModelProto, samples: int) -> dict[str, Any]:
    """Make feeds from the declared types: ``B`` is the number of samples, other symbols vary."""
    rng = np.random.default_rng(samples)
    # One symbol has one extent in the elements of one position, over all inputs.
    extents: dict[tuple[str, int], int] = {}

    def shape(tensor: onnx.TypeProto.Tensor, position: int) -> tuple[int, ...]:
        sizes = []
        for dim in tensor.shape.dim:
            if not dim.dim_param:
                sizes.append(dim.dim_value)
            elif dim.dim_param == "B":
                sizes.append(samples)
            else:
                key = (dim.dim_param, position)
                sizes.append(extents.setdefault(key, int(rng.integers(1, 6))))
        return tuple(sizes)

    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        if value.type.HasField("sequence_type"):
            element = value.type.sequence_type.elem_type.tensor_type
            feeds[value.name] = [
                draw(rng, element.elem_type, shape(element, i)) for i in range(samples)
            ]
        else:
            tensor = value.type.tensor_type
            feeds[value.name] = draw(rng, tensor.elem_type, shape(tensor, -1))
    return feeds


@pytest.mark.parametrize("path", VALID, ids=by_name)
def test_is_valid(path: pathlib.Path) -> None:
    onnx.checker.check_model(load(path), full_check=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("samples", [0, 1, 3])
@pytest.mark.parametrize("path", TEXT, ids=by_name)
def test_text_model_rewritten_computes_the_same(
    path: pathlib.Path, samples: int, strategy: Strategy
) -> None:
    before = load(path)
    feeds = make_feeds(before, samples)
    if samples == 0 and path.stem in UNDEFINED_WHEN_EMPTY:
        with pytest.raises(BackendError):
            run(before, feeds, backend="reference")
        return
    expected = run(before, feeds, backend="reference")
    after = rewrite(before, strategy=strategy).model
    for backend in ("reference", "onnxruntime"):
        difference = compare(expected, run(after, feeds, backend=backend))
        assert difference.equal, f"{backend}: {difference.message}"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("path", TAKEN, ids=by_name)
def test_rewritten_holds_no_map_and_loads(path: pathlib.Path, strategy: Strategy) -> None:
    after = rewrite(load(path), strategy=strategy).model
    assert "SequenceMap" not in count_operators(ir.from_proto(after)).by_type
    onnx.checker.check_model(after, full_check=True)
    open_session(after, "onnxruntime")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "path", [path for path in EXPORTED if path.stem != BAD_SHAPES], ids=by_name
)
def test_exported_model_matches_its_vector(
    path: pathlib.Path, tmp_path: pathlib.Path, strategy: Strategy
) -> None:
    out = tmp_path / "out.onnx"
    arguments = ["optimize", str(path), str(out), "--strategy", strategy, "--no-verify"]
    assert cli.main(arguments) == 0
    for vector in sorted(path.parent.glob(f"{path.stem}.*npz")):
        expected = read_expected(vector, path)
        assert expected is not None
        actual = run(out, read_feeds(vector, path))
        difference = compare(expected, actual)
        assert difference.equal, f"{vector.name}: {difference.message}"


def test_the_model_without_element_types_is_refused_as_it_is() -> None:
    """The exporter wrote no element type; the type follows from what the Loop appends."""
    before = load(MODELS / "exported" / f"{UNTYPED}.onnx")
    with pytest.raises(onnx.shape_inference.InferenceError, match="same elem type"):
        onnx.checker.check_model(before, full_check=True)
    with pytest.raises(Exception, match="Unsupported type proto"):
        onnxruntime.InferenceSession(before.SerializeToString())
    after = rewrite(before, strategy="expand").model
    element = after.graph.output[0].type.sequence_type.elem_type.tensor_type
    assert element.elem_type == onnx.TensorProto.INT64


@pytest.mark.parametrize("path", UNTOUCHED, ids=by_name)
def test_a_model_without_a_map_is_left_as_it_is(path: pathlib.Path) -> None:
    before = load(path)
    after = rewrite(before, strategy="expand").model
    assert operators(after.graph) == operators(before.graph)


def operators(graph: onnx.GraphProto) -> list[Any]:
    """Return every node's operator and the operators of its subgraphs, in order."""
    return [
        (node.op_type, [operators(a.g) for a in node.attribute if a.HasField("g")])
        for node in graph.node
    ]


def test_the_model_with_false_shapes_is_left_as_it_is_with_a_warning() -> None:
    before = load(MODELS / "exported" / f"{BAD_SHAPES}.onnx")
    result = rewrite(before, strategy="expand")
    assert any("MatMul" in warning for warning in result.report.warnings)
    assert operators(result.model.graph) == operators(before.graph)


def test_the_model_with_false_shapes_runs_where_its_loop_is_fused() -> None:
    path = MODELS / "exported" / f"{BAD_SHAPES}.onnx"
    result = rewrite(load(path), strategy="auto")
    feeds = read_feeds(path.with_suffix(".npz"), ir.from_proto(result.model))
    found = run(result.model, feeds)["c"]
    with np.load(path.with_suffix(".npz")) as vector:
        wanted = [vector[f"out__0__{i}"].shape for i in range(len(found))]
    assert [part.shape for part in found] == wanted


@pytest.mark.parametrize("path", [p for p in DEMO if p.suffix == ".onnxtxt"], ids=by_name)
def test_onnxruntime_refuses_the_models_of_the_demo(path: pathlib.Path) -> None:
    with pytest.raises(BackendError, match="refuses the model"):
        open_session(load(path), "onnxruntime")


def test_every_file_has_its_vector_and_its_line_in_the_readme() -> None:
    text = (MODELS / "README.md").read_text("utf-8")
    for path in EXPORTED:
        assert path.with_suffix(".npz").is_file(), f"{path.stem} has no vector"
        assert f"`{path.stem}`" in text, f"{path.stem} is not in models/README.md"
    for path in itertools.chain(TEXT, DEMO):
        if path.suffix == ".onnxtxt":
            first = path.read_text("utf-8").splitlines()[0]
            assert first.startswith("# "), f"{path.name} does not say what it is"
