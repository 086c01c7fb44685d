"""Compares a rule over many random batches with the body run alone for each sample."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from rewriter.errors import BackendError
from tests.passes.batching.harness import (
    MOST,
    Array,
    Case,
    Operand,
    assert_equal,
    fused_model,
    opened,
    single_model,
    typed_outputs,
)
from tests.passes.batching.images import FlatCase, as_given, assert_same, drawn, without_loops
from tests.passes.batching.ragged import RaggedCase, alone, feeds_by, fused, joined, wanted

__all__ = ["batches_compared"]

BATCHES = 50
_SAMPLES = 6
_ROUNDING = 10
"""Times the tolerance for one draw: the farthest of many draws is farther."""
_Trial = Callable[[np.random.Generator], bool]
"""Compares one random batch; whether the body alone takes its samples."""
_Run = Callable[[Mapping[str, Array]], list[Array]]


def batches_compared(case: Case | RaggedCase | FlatCase) -> int:
    """Compare random batches; return how many the body alone takes."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    trial = _trial_of(case)
    return sum(trial(rng) for _ in range(BATCHES))


def _wider(case: Case) -> Case:
    return dataclasses.replace(case, rtol=case.rtol * _ROUNDING, atol=case.atol * _ROUNDING)


def _trial_of(case: Case | RaggedCase | FlatCase) -> _Trial:
    if isinstance(case, FlatCase):
        return _of_images(case)
    return _of_stacked(case) if isinstance(case, Case) else _of_packed(case)


def _of_images(case: FlatCase) -> _Trial:
    """Take the results of each image as a list: onnxruntime stacks what does not fit, too."""
    before, after = as_given(dataclasses.replace(case, stacked=False)), without_loops(case)
    wider = dataclasses.replace(case, tolerance=case.tolerance * _ROUNDING)

    def trial(rng: np.random.Generator) -> bool:
        images = drawn(case, int(rng.integers(1, _SAMPLES)), int(rng.integers(1 << 30)))
        try:
            expected = before(images)
        except BackendError:
            return False
        if case.stacked:
            if not all(_are_alike(values) for values in expected.values()):
                return False
            expected = {name.removesuffix("s") + "_all": v for name, v in expected.items()}
        assert_same(wider, expected, after(images), len(images))
        return True

    return trial


def _of_stacked(case: Case) -> _Trial:
    before, after = opened(typed_outputs(single_model(case), case)), opened(fused_model(case)[0])

    def trial(rng: np.random.Generator) -> bool:
        places = _places(rng)
        one = dataclasses.replace(case, operands=_shuffled(case.operands, rng))
        expected = _alone(before, one.operands, places)
        if not expected or not all(map(_are_alike, zip(*expected, strict=True))):
            return False
        outputs = after(_stacked(one, places))
        for position, (name, given) in enumerate(zip(case.outputs, outputs, strict=True)):
            for k, values in enumerate(expected):
                assert_equal(given[k], values[position], _wider(case), f"{name} of sample {k}")
        return True

    return trial


def _of_packed(case: RaggedCase) -> _Trial:
    usual = wanted(case, MOST)
    before, after = opened(alone(case)), opened(ir.to_proto(fused(case, usual)[0]))

    def trial(rng: np.random.Generator) -> bool:
        places = _places(rng)
        one = dataclasses.replace(case, operands=_shuffled(case.operands, rng))
        rows = _alone(before, one.operands, places)
        try:
            expected = [
                joined(rows, position, len(rows), usual) for position in range(len(case.outputs))
            ]
        except (IndexError, ValueError):
            return False
        for name, want, given in zip(
            case.outputs, expected, after(feeds_by(one, places)), strict=True
        ):
            assert given.shape == want.shape, f"{name}: {given.shape}, wanted {want.shape}"
            assert_equal(given, want, _wider(case.single()), name)
        return True

    return trial


def _places(rng: np.random.Generator) -> list[int]:
    return [int(k) for k in rng.integers(0, MOST, rng.integers(1, _SAMPLES))]


def _shuffled(operands: Mapping[str, Operand], rng: np.random.Generator) -> dict[str, Operand]:
    """Exchange the floats within each sample; integers may be places and sizes, and stay."""
    return {name: _other(operand, rng) for name, operand in operands.items()}


def _other(operand: Operand, rng: np.random.Generator) -> Operand:
    if operand.kind == "constant" or operand.first.dtype.kind != "f":
        return operand
    samples = tuple(rng.permuted(a.ravel()).reshape(a.shape) for a in operand.samples)
    return dataclasses.replace(operand, samples=samples)


def _alone(before: _Run, operands: Mapping[str, Operand], places: Sequence[int]) -> Any:
    """Return what the body alone gives for each place; nothing where it takes one not."""
    try:
        return [
            before({n: _of(o, k) for n, o in operands.items() if o.kind != "constant"})
            for k in places
        ]
    except Exception:
        return []


def _of(operand: Operand, place: int) -> Array:
    return operand.samples[0 if operand.kind in ("shared", "constant") else place]


def _are_alike(values: Iterable[Array]) -> bool:
    return len({value.shape for value in values}) == 1


def _stacked(case: Case, places: Sequence[int]) -> dict[str, Array]:
    return {
        f"{name}_all" if operand.kind == "mapped" else name: (
            np.stack([operand.of(k) for k in places])
            if operand.kind == "mapped"
            else operand.first
        )
        for name, operand in case.operands.items()
        if operand.kind != "constant"
    }
