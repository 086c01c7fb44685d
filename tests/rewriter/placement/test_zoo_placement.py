"""How much of the zoo runs on CUDA with tensors at its ends; it may not become less."""

from __future__ import annotations

import pathlib

import pytest

import rewriter
from benchmarks.placement import count, measure

ROOT = pathlib.Path(__file__).parents[3]
PLACED, WHOLE, SHAPES_AT_MOST = 93, 43, 84


@pytest.mark.long
def test_the_zoo_does_not_leave_the_device() -> None:
    rows = [row.tensors for row in measure("onnxruntime-cuda")]
    found = count(rows)
    assert found["placed"] >= PLACED
    assert found["wholly on the device"] >= WHOLE
    assert found["on the host: arithmetic on shapes at most"] >= SHAPES_AT_MOST
    assert found["copying in each iteration"] == 0


@pytest.mark.parametrize("name", ["authored/images.onnx", "demo/pad_to_largest.onnxtxt"])
def test_images_of_any_size_stay_on_the_device(name: str) -> None:
    model = ROOT / "models" / name
    report = rewriter.explain(model, target="onnxruntime-cuda", tensor_io=True)
    placement = report.placement
    assert placement is not None
    assert all(one.is_shapes for one in placement.host) and len(placement.host) <= 3
    assert not placement.copies_per_iteration
    assert not {"Loop", "Scan", "If"} & set(report.after.by_type)
