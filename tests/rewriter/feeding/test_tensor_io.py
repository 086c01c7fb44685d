"""Models that pass sequences as tensors, run and validated from lists all the same."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.errors import RewriteError
from passes.tensors.io import TENSOR_IO_KEY, TensorIo
from rewriter.feeding.feeds import check_feeds, read_feeds
from rewriter.model_files import models
from rewriter.targets import TargetError
from tests.rewriter.feeding.drawn import make_feeds

ROOT = Path(__file__).parents[3]
HEADER = '<ir_version: 10, opset_import: ["" : 21]>'


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEADER} {text}")


MLP = parse("""g (seq(float[N,8]) xs, float[8,4] w) => (seq(float[N,4]) ys) {
    ys = SequenceMap (xs) <body = b (float[N,8] x) => (float[N,4] y) {
        h = MatMul (x, w)  y = Relu (h) }> }""")
WEIGHTS = np.arange(32, dtype=np.float32).reshape(8, 4) - 16


def rows(*lengths: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((n, 8)).astype(np.float32) for n in lengths]


def names(values: Iterable[ir.Value]) -> list[str | None]:
    return [value.name for value in values]


class TestStacked:
    model = rewriter.optimize(MLP, tensor_io=True, uniform=["xs"])

    def test_interface(self) -> None:
        assert names(self.model.graph.input) == ["xs", "w"]
        assert names(self.model.graph.output) == ["ys"]
        assert [node.op_type for node in self.model.graph.node] == ["MatMul", "Relu"]

    def test_lists_and_tensors_are_taken(self) -> None:
        xs = rows(3, 3)
        from_list = rewriter.run(self.model, {"xs": xs, "w": WEIGHTS})["ys"]
        from_tensor = rewriter.run(self.model, {"xs": np.stack(xs), "w": WEIGHTS})["ys"]
        expected = rewriter.run(MLP, {"xs": xs, "w": WEIGHTS})["ys"]
        np.testing.assert_allclose(from_list, np.stack(expected), rtol=1e-5)
        np.testing.assert_array_equal(from_list, from_tensor)

    def test_no_elements(self) -> None:
        assert rewriter.run(self.model, {"xs": [], "w": WEIGHTS})["ys"].shape == (0, 1, 4)

    def test_elements_that_differ_are_refused(self) -> None:
        with pytest.raises(RewriteError, match="breaks the promise uniform: element 1 has shape"):
            rewriter.run(self.model, {"xs": rows(3, 2), "w": WEIGHTS})

    def test_elements_of_another_shape_are_refused(self) -> None:
        xs = [np.zeros((3, 7), np.float32)]
        with pytest.raises(RewriteError, match=r"one stacked tensor \[B,\?,8\]"):
            rewriter.run(self.model, {"xs": xs, "w": WEIGHTS})

    def test_a_scalar_is_refused(self) -> None:
        with pytest.raises(RewriteError, match="is a scalar"):
            rewriter.run(self.model, {"xs": np.float32(1), "w": WEIGHTS})


class TestPacked:
    model = rewriter.optimize(MLP, tensor_io=True)

    def test_interface(self) -> None:
        assert names(self.model.graph.input) == ["xs", "w", "xs.lengths"]
        assert names(self.model.graph.output) == ["ys", "ys.lengths"]

    @pytest.mark.parametrize("lengths", [(3, 1, 2), (2,), (0, 2), (0,), ()], ids=str)
    def test_lists_and_tensors_are_taken(self, lengths: tuple[int, ...]) -> None:
        xs = rows(*lengths)
        packed = np.concatenate([*xs, np.zeros((0, 8), np.float32)])
        feeds = {"xs": packed, "w": WEIGHTS, "xs.lengths": np.array(lengths, np.int64)}
        from_list = rewriter.run(self.model, {"xs": xs, "w": WEIGHTS})
        from_tensor = rewriter.run(self.model, feeds)
        np.testing.assert_allclose(from_list["ys"], np.maximum(packed @ WEIGHTS, 0), rtol=1e-5)
        assert from_list["ys.lengths"].tolist() == list(lengths)
        for name, value in from_list.items():
            np.testing.assert_array_equal(from_tensor[name], value)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"xs": np.zeros((3, 8), np.float32)}, "give 'xs.lengths' too"),
            (
                {"xs": np.zeros((3, 8), np.float32), "xs.lengths": np.int64([1, 1])},
                "must add up to the first dimension",
            ),
            (
                {"xs": np.zeros((3, 8), np.float32), "xs.lengths": np.int64([4, -1])},
                "must add up to the first dimension",
            ),
            ({"xs": [np.zeros((3, 7), np.float32)]}, r"packed tensor \[sum of lengths,8\]"),
            ({"xs": [np.zeros(8, np.float32)]}, "element 0, has shape"),
        ],
        ids=["no lengths", "wrong sum", "negative length", "wrong width", "wrong rank"],
    )
    def test_what_does_not_fit_is_refused(self, given: dict, message: str) -> None:
        with pytest.raises(RewriteError, match=message):
            rewriter.run(self.model, given | {"w": WEIGHTS})

    def test_feeds_are_made_as_lists(self) -> None:
        feeds = make_feeds(self.model)
        assert all(isinstance(feed.values["xs"], list) for feed in feeds)
        assert not any("xs.lengths" in feed.values for feed in feeds)
        for feed in feeds:
            check_feeds(self.model, feed.values)

    def test_feeds_in_a_file(self) -> None:
        arrays = {"in__xs__0": rows(2)[0], "in__w": WEIGHTS}
        assert len(read_feeds(arrays, self.model)["xs"]) == 1
        tensors = {
            "in__xs": np.zeros((3, 8), np.float32),
            "in__xs.lengths": np.int64([1, 2]),
            "in__w": WEIGHTS,
        }
        feeds = read_feeds(tensors, self.model)
        check_feeds(self.model, feeds)
        assert set(feeds) == {"xs", "xs.lengths", "w"}


@pytest.mark.parametrize("backend", ["reference", "onnxruntime"])
def test_the_evaluator_takes_lists_too(backend: str) -> None:
    outputs = rewriter.run(TestStacked.model, {"xs": rows(2), "w": WEIGHTS}, backend)
    assert outputs["ys"].shape == (1, 2, 4)


def test_a_wrong_rewrite_is_noticed() -> None:
    wrong = onnx.ModelProto()
    wrong.CopyFrom(TestStacked.model)
    wrong.graph.node[1].op_type = "Neg"
    check = rewriter.validate(MLP, wrong)
    assert not check.ok
    assert check.mismatch is not None


def test_given_lists_that_break_a_promise_are_refused() -> None:
    with pytest.raises(RewriteError, match="breaks the promise uniform"):
        rewriter.validate(MLP, TestStacked.model, inputs={"xs": rows(3, 2), "w": WEIGHTS})


def test_the_report_and_the_metadata_say_it() -> None:
    result = rewriter.rewrite(MLP, tensor_io=True)
    text = result.report.to_text()
    assert "input xs: packed [sum of lengths, 8], lengths in xs.lengths" in text
    assert "output ys: packed [sum of lengths, 4], lengths in ys.lengths" in text
    assert result.report.assumptions[0].startswith("every element of input 'xs' has")
    (record,) = (
        json.loads(p.value) for p in result.model.metadata_props if p.key == TENSOR_IO_KEY
    )
    assert record == result.report.to_dict()["tensor_io"]
    assert "sequences as tensors" in result.report.to_markdown()
    assert "sequences as tensors" not in rewriter.explain(MLP).to_text()


IMAGES = parse("""g (seq(float[H,W,3]) xs) => (seq(float[H,W,3]) ys) { ys = SequenceMap (xs)
    <body = b (float[H,W,3] x) => (float[H,W,3] y) { y = Relu (x) }> }""")


class TestFlat:
    model = rewriter.optimize(IMAGES, target="portable", tensor_io=True)

    def test_interface(self) -> None:
        assert names(self.model.graph.input) == ["xs", "xs.sizes"]
        assert names(self.model.graph.output) == ["ys", "ys.sizes"]
        passed = TensorIo.read(models.take(self.model).model).inputs["xs"]
        assert (passed.form, passed.dims, passed.lengths) == ("flat", ("H", "W", 3), "xs.sizes")

    def test_lists_and_tensors_are_taken(self) -> None:
        xs = [np.full((2, 3, 3), -1, np.float32), np.full((4, 1, 3), 2, np.float32)]
        found = rewriter.run(self.model, {"xs": xs})
        assert found["ys.sizes"].tolist() == [[2, 3], [4, 1]]
        assert found["ys"].tolist() == [[0.0] * 3] * 6 + [[2.0] * 3] * 4
        rows = np.concatenate([x.reshape(-1, 3) for x in xs])
        tensors = {"xs": rows, "xs.sizes": np.array([[2, 3], [4, 1]])}
        np.testing.assert_array_equal(rewriter.run(self.model, tensors)["ys"], found["ys"])

    def test_no_elements(self) -> None:
        assert rewriter.run(self.model, {"xs": []})["ys"].shape == (0, 3)

    def test_it_is_validated_from_lists(self) -> None:
        check = rewriter.validate(IMAGES, self.model, cases=4)
        assert check.ok and check.cases

    def test_sizes_that_do_not_fit_are_refused(self) -> None:
        tensors = {"xs": np.zeros((6, 3), np.float32), "xs.sizes": np.array([[2, 2]])}
        with pytest.raises(RewriteError, match="must add up to the first dimension"):
            check_feeds(self.model, tensors)

    def test_other_channels_are_refused(self) -> None:
        with pytest.raises(RewriteError, match="element 0, has shape"):
            check_feeds(self.model, {"xs": [np.zeros((2, 2, 4), np.float32)]})

    def test_the_report_names_the_sizes(self) -> None:
        report = rewriter.explain(IMAGES, target="portable", tensor_io=True)
        assert "input xs: flat [P, 3], sizes in xs.sizes" in report.to_text()

    @pytest.mark.parametrize(
        ("strategy", "loops"), [("auto", True), ("expand", True), ("fuse", False)]
    )
    def test_onnxruntime_resizes_large_images_one_by_one(self, strategy: str, loops: bool) -> None:
        model = parse("""g (seq(uint8[H,W,3]) xs) => (uint8[B,4,5,3] y) {
            ys = SequenceMap (xs) <body = b (uint8[H,W,3] x) => (uint8[4,5,3] y) {
                s = Constant <value_ints = [4, 5]> () y = Resize <axes = [0, 1]> (x,,,s) }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (ys) }""")
        result = rewriter.rewrite(model, strategy=strategy, tensor_io=True)
        after = result.model
        assert names(after.graph.input) == ["xs", "xs.sizes"]
        assert loops == ("Loop" in result.report.after.by_type)
        xs = [np.arange(n * m * 3, dtype=np.uint8).reshape(n, m, 3) for n, m in ((2, 7), (9, 4))]
        wanted = rewriter.run(model, {"xs": xs})["y"]
        np.testing.assert_array_equal(rewriter.run(after, {"xs": xs})["y"], wanted)


def test_what_has_no_flat_form_is_not_reached() -> None:
    model = parse("""g (seq(float[H,W]) xs) => (seq(float[H,W]) ys) { ys = SequenceMap (xs)
        <body = b (float[H,W] x) => (float[H,W] y) { y = LpNormalization (x) }> }""")
    with pytest.raises(TargetError, match="output 'ys' cannot be a tensor") as caught:
        rewriter.optimize(model, target="portable", tensor_io=True)
    (reason,) = caught.value.report.decisions[-1].reasons[:1]
    assert "it works along an axis that differs in size" in reason.detail
    assert rewriter.optimize(model, target="portable", tensor_io=True, uniform=["xs"])


def test_the_remedy_for_an_unknown_rank_works() -> None:
    path = ROOT / "models" / "exported" / "seqmap_outer_scope_onnx4892.onnx"
    with pytest.raises(TargetError, match="unknown rank") as caught:
        rewriter.optimize(path, target="portable", tensor_io=True, uniform=["xs"])
    assert caught.value.report.unreached[0].remedy == (
        "--input-shape xs=d0 if the elements of xs have 1 dimension (tried: target reached)"
    )
    shapes = {"xs": (None, None)}
    assert rewriter.optimize(
        path, target="portable", tensor_io=True, uniform=["xs"], input_shapes=shapes
    )


def test_a_promised_shape_is_of_the_elements() -> None:
    """It must not be taken for the shape of the tensor that stands for them."""
    model = parse("""g (seq(float[N,M]) xs) => (seq(float[K]) ys) { ys = SequenceMap (xs)
        <body = b (float[N,M] x) => (float[K] y) { m = Constant <value_ints = [-1]> ()
            y = Reshape (x, m) }> }""")
    after = rewriter.optimize(model, tensor_io=True, input_shapes={"xs": (2, 3)})
    check = rewriter.validate(model, after)
    assert check.ok, check.summary
    assert check.verified == len(check.cases)


def sequences(values: Iterable[ir.Value]) -> list[str | None]:
    return [value.name for value in values if isinstance(value.type, ir.SequenceType)]


def has_sequences(path: Path) -> bool:
    graph = rewriter.load(path).graph
    return bool(sequences([*graph.inputs, *graph.outputs]))


def zoo() -> list[str]:
    return sorted(
        str(path.relative_to(ROOT))
        for folder in ("text", "demo", "exported")
        for path in (ROOT / "models" / folder).iterdir()
        if path.suffix in (".onnx", ".onnxtxt") and has_sequences(path)
    )


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["auto", "expand"])
@pytest.mark.parametrize("path", zoo())
def test_zoo(path: str, strategy: str) -> None:
    """Every model with sequences at its boundary: right as tensors, or refused for a reason."""
    model = rewriter.load(ROOT / path)
    inputs = sequences(model.graph.inputs)
    for uniform in dict.fromkeys([(), tuple(inputs)]):
        report = rewriter.explain(model, strategy=strategy, tensor_io=True, uniform=uniform)
        if report.unreached:
            assert all("cannot be a tensor" in left.reason for left in report.unreached)
            continue
        after = rewriter.optimize(model, strategy=strategy, tensor_io=True, uniform=uniform)
        io = TensorIo.read(after)
        assert {*io.inputs} == {*inputs}
        check = rewriter.validate(model, after, cases=4)
        assert check.ok, check.summary


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "string", "bool", "double"])
@pytest.mark.parametrize("uniform", [True, False])
def test_element_types_that_onnxruntime_cannot_split(dtype: str, uniform: bool) -> None:
    """What still reads the sequence itself gets one that is built by insertion."""
    model = parse(f"""g (seq({dtype}[N]) xs, int64 i, bool c) => ({dtype}[N] y) {{
        zs = If (c) <
            then_branch = a () => (seq({dtype}[N]) p) {{ p = Identity (xs) }},
            else_branch = b () => (seq({dtype}[N]) q) {{ q = SequenceEmpty () }}>
        y = SequenceAt (zs, i) }}""")
    model.graph.node[0].attribute[1].g.node[0].attribute.append(
        onnx.helper.make_attribute("dtype", model.graph.output[0].type.tensor_type.elem_type)
    )
    after = rewriter.optimize(model, tensor_io=True, uniform=["xs"] if uniform else ())
    check = rewriter.validate(model, after)
    assert check.ok, check.summary
    assert check.mismatch is None


def test_outputs_that_are_concatenated_at_run_time_may_be_empty() -> None:
    model = parse("""g (seq(float[N]) xs, bool c) => (seq(float[N]) ys) {
        ys = If (c) <
            then_branch = a () => (seq(float[N]) p) { p = Identity (xs) },
            else_branch = b () => (seq(float[N]) q) { q = SequenceEmpty () }> }""")
    after = rewriter.optimize(model, tensor_io=True)
    for flag, lengths in ((True, [2, 1]), (True, []), (False, [2, 1])):
        xs = [np.arange(n, dtype=np.float32) for n in lengths]
        outputs = rewriter.run(after, {"xs": xs, "c": np.array(flag)})
        kept = lengths if flag else []
        assert outputs["ys.lengths"].tolist() == kept
        assert outputs["ys"].shape == (sum(kept),)
