"""Regions of interest, any number of them in the images of each sample."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from rewriter.backends import BackendError, run
from tests.passes.batching.harness import Operand, mapped, shared
from tests.passes.batching.ragged import RaggedCase, feeds_of, fused, prove_ragged, wanted

IMAGES = mapped((2, 3, 5, 6))


def boxes(seed: int, *lengths: int) -> Operand:
    """Draw corners, the lesser ones first."""
    rng = np.random.default_rng(seed)
    sorted_ = (np.sort(rng.random((n, 2, 2)) * 4, axis=1).reshape(n, 4) for n in lengths)
    return Operand("ragged", tuple(one.astype(np.float32) for one in sorted_))


REGIONS = boxes(0, 2, 0, 3)


def numbers(*given: list[int]) -> Operand:
    return Operand("ragged", tuple(np.array(one, np.int64) for one in given))


OWN = numbers([1, 0], [], [0, 1, 1])
CASES = [
    RaggedCase(
        "of their own images",
        "y = RoiAlign<output_height = 2, output_width = 3>(x, r, i)",
        {"x": IMAGES, "r": REGIONS, "i": OWN},
    ),
    RaggedCase(
        "of images that all share",
        'y = RoiAlign<output_height = 2, output_width = 2, mode = "max">(x, r, i)',
        {"x": shared(IMAGES.samples[0]), "r": REGIONS, "i": OWN},
    ),
    RaggedCase(
        "of one image each",
        "n = Shape<end = 1>(r) i = ConstantOfShape<value = int64[1] {0}>(n) "
        "y = RoiAlign<spatial_scale = 0.5>(x, r, i)",
        {"x": mapped((1, 3, 5, 6)), "r": REGIONS},
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_regions(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


@pytest.mark.parametrize("number", [2, -1])
def test_no_region_reads_the_image_of_another_sample(number: int) -> None:
    sound = CASES[0]
    model, _ = fused(sound, wanted(sound, 3))
    broken = {**feeds_of(sound, 3)}
    (name,) = (name for name, value in broken.items() if "i" in name and value.dtype == np.int64
               and len(value) == 5)  # fmt: skip
    broken[name] = broken[name].copy()
    broken[name][0] = number
    with pytest.raises(BackendError):
        run(ir.to_proto(model), broken)
