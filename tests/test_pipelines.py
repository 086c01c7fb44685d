"""Whole models as exporters write them: right on every vector, and without a loop where none must be."""

from __future__ import annotations

import pathlib
from typing import get_args

import pytest

import rewriter
from rewriter.backends import open_session
from rewriter.feeding.feeds import read_expected, read_feeds
from rewriter.options import Strategy
from rewriter.proof.compare import compare

PIPELINES = sorted((pathlib.Path(__file__).parents[1] / "models" / "pipelines").glob("*.onnx"))
LEFT = {
    "os_smoothed": "few steps, and numbers that are not finite",
    "pd_attention_pooling": "few values, which the loop is faster with",
    "pd_smoothed": "few steps, and numbers that are not finite",
    "seqmap_imagenet_tutorial_classifier": "images of any size",
    "tf_crops_at": "crops at any place, which the loop is faster with",
    "tf_regions": "regions of any size",
    "tf_suppressed": "a recurrence",
    "ts_advantages": "few steps, and numbers that are not finite",
    "ts_clause_encoder": "a few clauses, and those that differ along two axes",
    "ts_crf_viterbi": "a recurrence",
    "ts_crop_classify": "boxes of any size, which the loop is faster with",
    "ts_greedy_decoder_negative": "an early exit",
    "ts_maskrcnn": "masks of any size",
    "ts_masks_by_score": "a plane for each mask, which the loop is no slower with",
    "ts_moving_statistics": "few steps, and numbers that are not finite",
    "ts_nested_images": "images of any size",
    "ts_selective_scan": "few steps, and numbers that are not finite",
    "ts_session_means": "few values, which the loop is faster with",
    "ts_target_encoding": "few values, which the loop is faster with",
    "ts_tokens_packed": "few values, which the loop is faster with",
    "ts_packed_encoder": "attention within segments, which padding makes no faster",
    "ts_path_of_states": "a recurrence",
}
"""Why a model keeps a loop under ``auto``."""
NOT_PORTABLE = {
    "tf_suppressed": "a recurrence",
    "ts_crf_viterbi": "a recurrence",
    "ts_greedy_decoder_negative": "an early exit",
    "ts_path_of_states": "a recurrence",
}
"""Why a model is not portable, not even with tensors at its ends."""


def by_name(path: pathlib.Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", PIPELINES, ids=by_name)
@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(one, marks=() if one == "auto" else pytest.mark.full)
        for one in get_args(Strategy)
    ],
)
def test_a_pipeline_is_right_on_every_vector(path: pathlib.Path, strategy: Strategy) -> None:
    result = rewriter.rewrite(path, strategy=strategy)
    if strategy == "auto":
        assert bool(result.report.after.loops) == (path.stem in LEFT)
    session = open_session(result.model)
    vectors = sorted(path.parent.glob(f"{path.stem}*.npz"))
    assert vectors
    for vector in vectors:
        expected = read_expected(vector, path)
        assert expected is not None
        found = session.run(read_feeds(vector, path))
        difference = compare(expected, found, rtol=2e-3, atol=2e-4)
        assert difference.equal, f"{vector.name}: {difference.message}"


@pytest.mark.long
@pytest.mark.parametrize("path", PIPELINES, ids=by_name)
def test_a_pipeline_is_portable(path: pathlib.Path) -> None:
    """Sequences at its ends aside, only a recurrence and what may fail keep it from being so."""
    report = rewriter.explain(path, target="portable", tensor_io=True)
    assert report.reached == (path.stem not in NOT_PORTABLE)


def test_what_a_slice_to_the_end_takes_for_granted_is_said() -> None:
    (path,) = (one for one in PIPELINES if one.stem == "tf_time_distributed")
    report = rewriter.explain(path)
    assert any("no dimension is larger than 10^9" in said for said in report.assumptions)
