"""Pooling over windows and over regions of interest."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.harness import (
    BATCHES,
    Case,
    constant,
    decline_of,
    mapped,
    prove,
    shared,
)

X = mapped((2, 3, 6, 6))
ROIS = np.array([[0, 0, 4, 4], [1, 1, 5, 5], [0, 2, 3, 5]], np.float32)
WHICH = np.array([1, 0, 1], np.int64)
NUMBERED = np.concatenate([WHICH[:, None].astype(np.float32), ROIS], axis=1)


def _indices() -> np.ndarray:
    return np.array([[[[5, 7], [13, 15]]], [[[21, 22], [28, 30]]]], np.int64)


CASES = [
    Case("average pool", "y = AveragePool<kernel_shape=[2, 2]>(x)", {"x": X}),
    Case(
        "average pool symbolic",
        "y = AveragePool<kernel_shape=[2, 2], strides=[2, 2]>(x)",
        {"x": X},
        symbolic=True,
    ),
    Case(
        "average pool with padding, opset 22",
        'y = AveragePool<kernel_shape=[3, 3], auto_pad="SAME_UPPER", count_include_pad=1>(x)',
        {"x": X},
        opset=22,
    ),
    Case(
        "average pool 1-d, opset 17",
        "y = AveragePool<kernel_shape=[2]>(x)",
        {"x": mapped((1, 2, 5))},
        opset=17,
    ),
    Case(
        "average pool 3-d",
        "y = AveragePool<kernel_shape=[2, 2, 2]>(x)",
        {"x": mapped((1, 2, 3, 4, 5))},
    ),
    Case("lp pool", "y = LpPool<kernel_shape=[2, 2], p=3>(x)", {"x": X}, rtol=1e-4),
    Case(
        "lp pool, opset 17",
        "y = LpPool<kernel_shape=[2, 2], strides=[2, 1]>(x)",
        {"x": X},
        opset=17,
    ),
    Case(
        "lp pool, opset 22",
        "y = LpPool<kernel_shape=[2, 2], dilations=[2, 2]>(x)",
        {"x": X},
        opset=22,
    ),
    Case("max pool", "y = MaxPool<kernel_shape=[2, 2]>(x)", {"x": X}, rtol=0, atol=0),
    Case(
        "max pool, opset 22",
        "y = MaxPool<kernel_shape=[3, 3], ceil_mode=1, strides=[2, 2]>(x)",
        {"x": X},
        opset=22,
    ),
    Case(
        "max pool of int8",
        "y = MaxPool<kernel_shape=[2, 2]>(x)",
        {"x": mapped((1, 2, 4, 4), dtype=np.int8)},
    ),
    Case(
        "max pool indices",
        "y, i = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x)",
        {"x": X},
        ("y", "i"),
    ),
    Case(
        "max pool indices symbolic",
        "y, i = MaxPool<kernel_shape=[2, 2], pads=[1, 1, 1, 1]>(x)",
        {"x": X},
        ("y", "i"),
        symbolic=True,
    ),
    Case("max pool indices alone", "y, i = MaxPool<kernel_shape=[2, 2]>(x)", {"x": X}, ("i",)),
    Case(
        "max pool indices by column",
        "y, i = MaxPool<kernel_shape=[2, 2], storage_order=1>(x)",
        {"x": mapped((2, 3, 4, 6))},
        ("y", "i"),
    ),
    Case(
        "max unpool",
        "y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(x, i)",
        {"x": mapped((2, 1, 2, 2)), "i": mapped(_indices(), _indices() - 1, _indices() + 1)},
    ),
    Case(
        "max unpool of shared indices",
        "y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(x, i)",
        {"x": mapped((2, 1, 2, 2)), "i": shared(_indices())},
        symbolic=True,
    ),
    Case(
        "max unpool of shared values, opset 22",
        "y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0]>(x, i)",
        {
            "x": constant(np.ones((2, 1, 2, 2), np.float32)),
            "i": mapped(_indices(), _indices() - 1, _indices() + 1),
        },
        opset=22,
    ),
    Case(
        "max unpool to a given shape",
        "y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(x, i, s)",
        {
            "x": mapped((2, 1, 2, 2)),
            "i": mapped(_indices(), _indices() - 1, _indices() + 1),
            "s": constant(np.array([2, 1, 4, 4], np.int64)),
        },
    ),
    Case(
        "max pool and back",
        """p, i = MaxPool<kernel_shape=[2, 2], strides=[2, 2]>(x)
           y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(p, i)""",
        {"x": X},
    ),
    Case(
        "roi align, all mapped",
        "y = RoiAlign<output_height=2, output_width=3, spatial_scale=0.5>(x, r, i)",
        {"x": X, "r": mapped(ROIS, ROIS + 1, ROIS / 2), "i": mapped(WHICH, 1 - WHICH, WHICH)},
    ),
    Case(
        "roi align of shared regions, symbolic",
        'y = RoiAlign<output_height=2, output_width=2, mode="max">(x, r, i)',
        {"x": X, "r": shared(ROIS), "i": shared(WHICH)},
        symbolic=True,
    ),
    Case(
        "roi align of a shared image",
        "y = RoiAlign(x, r, i)",
        {"x": shared(X.of(0)), "r": mapped(ROIS, ROIS + 1, ROIS / 2), "i": constant(WHICH)},
        opset=17,
    ),
    Case(
        "roi align of shared images and regions",
        "y = RoiAlign(x, r, i)",
        {"x": shared(X.of(0)), "r": shared(ROIS), "i": mapped(WHICH, 1 - WHICH, WHICH)},
    ),
    Case(
        "roi align, opset 22",
        "y = RoiAlign<output_height=2, output_width=2>(x, r, i)",
        {"x": X, "r": shared(ROIS), "i": shared(WHICH)},
        opset=22,
    ),
    Case(
        "max roi pool, all mapped",
        "y = MaxRoiPool<pooled_shape=[2, 2]>(x, r)",
        {"x": X, "r": mapped(NUMBERED, NUMBERED, NUMBERED)},
    ),
    Case(
        "max roi pool of shared regions",
        "y = MaxRoiPool<pooled_shape=[2, 1], spatial_scale=0.5>(x, r)",
        {"x": X, "r": shared(NUMBERED)},
        symbolic=True,
    ),
    Case(
        "max roi pool of shared images",
        "y = MaxRoiPool<pooled_shape=[2, 2]>(x, r)",
        {"x": constant(X.of(0)), "r": mapped(NUMBERED, NUMBERED, NUMBERED)},
        opset=17,
    ),
]


@BATCHES
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


UNPOOL = "y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(x, i, s)"

DECLINES = [
    (
        Case(
            "max unpool to a larger shape",
            UNPOOL,
            {
                "x": mapped((2, 1, 2, 2)),
                "i": shared(_indices()),
                "s": constant(np.array([2, 1, 5, 5])),
            },
        ),
        ("MaxUnpool", "no-rule"),
    ),
    (
        Case(
            "max unpool to a shape known at run time",
            UNPOOL,
            {
                "x": mapped((2, 1, 2, 2)),
                "i": shared(_indices()),
                "s": shared(np.array([2, 1, 4, 4])),
            },
        ),
        ("MaxUnpool", "unknown-shape"),
    ),
    (
        Case(
            "max roi pool in float16",
            "y = MaxRoiPool<pooled_shape=[2, 2]>(x, r)",
            {
                "x": mapped((2, 3, 6, 6), dtype=np.float16),
                "r": shared(NUMBERED.astype(np.float16)),
            },
        ),
        ("MaxRoiPool", "no-rule"),
    ),
]


@pytest.mark.parametrize(
    ("case", "wanted"), DECLINES, ids=lambda x: str(x) if isinstance(x, Case) else ""
)
def test_rule_declines(case: Case, wanted: tuple[str, str]) -> None:
    assert wanted in decline_of(case)
