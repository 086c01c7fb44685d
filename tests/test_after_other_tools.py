"""What another tool simplified first is rewritten as well as the model that an exporter wrote."""

from __future__ import annotations

import pathlib

import onnx
import pytest

import rewriter
from rewriter.backends import open_session
from rewriter.feeding.feeds import read_expected, read_feeds
from rewriter.proof.compare import compare
from tests.test_other_tools import Tool, through_onnxruntime, through_onnxsim, through_onnxslim
from tests.test_pipelines import LEFT, PIPELINES, by_name

TOOLS = (through_onnxruntime, through_onnxsim, through_onnxslim)
REFUSING = {
    (through_onnxruntime, "seqmap_imagenet_tutorial_classifier"): "it refuses the model",
    (through_onnxslim, "seqmap_imagenet_tutorial_classifier"): "it makes doubles of floats",
    (through_onnxslim, "pd_erase"): "it folds a list of constants, and has no place for it",
    (through_onnxslim, "ts_best_boxes"): "the same",
    (through_onnxslim, "ts_spoken_tokens"): "the same",
    (through_onnxslim, "skl_knn_imputer_logreg"): "it leaves a call that its function cannot take",
    (through_onnxslim, "tf_od_preprocess_ssd"): "it takes away what a body yields",
    (through_onnxsim, "ts_crf_viterbi"): "it ends in an assertion",
}
"""What a tool makes no valid model of, and why."""


def judge(path: pathlib.Path, tool: Tool) -> None:
    given = tool(onnx.load(path))
    result = rewriter.rewrite(given)
    assert path.stem in LEFT or not result.report.after.loops, result.report
    session = open_session(result.model)
    for vector in sorted(path.parent.glob(f"{path.stem}*.npz")):
        expected = read_expected(vector, path)
        assert expected is not None
        difference = compare(expected, session.run(read_feeds(vector, path)), rtol=2e-3, atol=2e-4)
        assert difference.equal, f"{vector.name}: {difference.message}"


SHOWN = {
    "pd_attention_pooling": through_onnxsim,  # a rank that is declared and false
    "dy_feature_pyramid_hstack": through_onnxruntime,  # lists of a known number in a Loop
    "ts_pointnet_ragged": through_onnxruntime,  # FusedGemm
    "ts_sliding_window_gather": through_onnxruntime,  # FusedConv
    "tf_hysteresis": through_onnxruntime,  # a product by one that is gone
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_pipeline_ends_as_it_does_without_the_tool(name: str) -> None:
    (path,) = (one for one in PIPELINES if one.stem == name)
    judge(path, SHOWN[name])


@pytest.mark.full
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("path", PIPELINES, ids=by_name)
def test_each_pipeline_does(path: pathlib.Path, tool: Tool) -> None:
    if (tool, path.stem) in REFUSING:
        pytest.skip(REFUSING[tool, path.stem])
    judge(path, tool)
