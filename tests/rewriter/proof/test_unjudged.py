"""Where the evaluator and onnxruntime are known to compute different values."""

from __future__ import annotations

import time

import numpy as np
import onnx_ir as ir
import pytest

from rewriter.backends import run
from rewriter.evaluator.run_watch import watching
from rewriter.proof.engines import run_on_onnxruntime
from rewriter.proof.unjudged import find_unjudged

RESIZE = """<ir_version: 10, opset_import: ["" : 19]>
g ({type}[1,1,37,41] x) => ({type}[] y) {{
  s = Constant <value = int64[4] {{1, 1, {size}}}> ()
  y = Resize <antialias = {antialias}, mode = "{mode}"> (x, , , s)
}}"""


def resize(type_: str, mode: str, antialias: int = 0, size: str = "13, 11") -> ir.Model:
    text = RESIZE.format(type=type_, mode=mode, antialias=antialias, size=size)
    return ir.from_onnx_text(text)


def an_image(model: ir.Model) -> np.ndarray:
    dtype = model.graph.inputs[0].dtype
    assert dtype is not None
    return np.random.default_rng(0).integers(0, 100, (1, 1, 37, 41)).astype(dtype.numpy())


def share_that_differs(model: ir.Model) -> float:
    image = an_image(model)
    one, other = (run(model, {"x": image}, backend=b)["y"] for b in ("reference", "onnxruntime"))
    return float(np.mean(np.abs(one.astype(float) - other.astype(float)) > 1e-3))


@pytest.mark.parametrize("type_", ["uint8", "int8", "int32"])
@pytest.mark.parametrize("antialias", [0, 1])
def test_interpolated_integers_are_not_judged(type_: str, antialias: int) -> None:
    """When the engines agree here, a row of the table can go."""
    model = resize(type_, "linear", antialias)
    assert find_unjudged(model) == "the evaluator rounds interpolated integers otherwise"
    assert share_that_differs(model) > 0.05


@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("type_", ["uint8", "float"])
def test_a_run_that_judges_nothing_is_lent_the_kernel(type_: str, antialias: int) -> None:
    model = resize(type_, "linear", antialias)
    image = an_image(model)
    with watching(time.monotonic() + 60, 2**30, lender=run_on_onnxruntime):
        lent = run(model, {"x": image}, backend="reference")["y"]
    np.testing.assert_array_equal(lent, run(model, {"x": image}, backend="onnxruntime")["y"])


@pytest.mark.parametrize("type_", ["uint8", "float"])
def test_what_is_not_interpolated_is_judged(type_: str) -> None:
    model = resize(type_, "nearest")
    assert find_unjudged(model) == ""
    assert share_that_differs(model) == 0


def test_floats_are_judged_without_antialias() -> None:
    assert find_unjudged(resize("float", "linear")) == ""
    assert find_unjudged(resize("float", "linear", 1)) != ""


def test_bodies_and_functions_are_looked_into() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 19, "f" : 1]>
        g (seq(uint8[H,W]) xs) => (seq(uint8[3,4]) ys) {
          ys = SequenceMap (xs) <body = b (uint8[H,W] x) => (uint8[3,4] y) { y = f.to (x) }>
        }
        <domain: "f", opset_import: ["" : 19]> to (x) => (y) {
          s = Constant <value = int64[2] {3, 4}> ()
          y = Resize <mode = "linear"> (x, , , s)
        }"""
    )
    assert find_unjudged(model) != ""
