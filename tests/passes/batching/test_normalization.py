"""Operators that normalize along axes of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.batching.direct import declines_directly, prove_directly
from tests.passes.batching.harness import BATCHES, Case, Operand, constant, mapped, prove, shared

X = mapped((2, 3, 4))


def positive(*shape: int, seed: int = 0) -> Operand:
    rng = np.random.default_rng(seed)
    return mapped(*(rng.random(shape, np.float32) + 0.5 for _ in range(3)))


def vector(size: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).random(size, np.float32) + 0.5


ALONG_AXIS = [
    case
    for op in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
    for case in (
        Case(f"{op} default axis", f"y = {op}(x)", {"x": X}, rtol=0, atol=0),
        Case(f"{op} axis 0", f"y = {op}<axis = 0>(x)", {"x": X}, rtol=0, atol=0),
        Case(f"{op} negative axis", f"y = {op}<axis = -2>(x)", {"x": X}, symbolic=True),
        Case(f"{op} rank 1", f"y = {op}(x)", {"x": mapped((5,))}),
    )
] + [Case("LpNormalization p 1", "y = LpNormalization<p = 1, axis = 1>(x)", {"x": X})]


def layer(name: str, attributes: str = "", opset: int = 18, **operands: Operand) -> Case:
    names = ", ".join(operands)
    return Case(
        f"LayerNormalization {name}",
        f"y, m, i = LayerNormalization{attributes}({names})",
        operands,
        ("y", "m", "i"),
        opset,
    )


def rms(name: str, attributes: str = "", **operands: Operand) -> Case:
    names = ", ".join(operands)
    text = f"y = RMSNormalization{attributes}({names})"
    return Case(f"RMSNormalization {name}", text, operands, opset=23)


MATRIX = np.random.default_rng(9).random((3, 4), np.float32)
TRAILING = [
    layer("default axis", x=X, s=constant(vector(4, 1)), b=constant(vector(4, 2))),
    layer("no bias", x=X, s=shared(vector(4, 1))),
    layer("axis 1", "<axis = 1, epsilon = 0.1>", x=X, s=shared(MATRIX), b=shared(MATRIX)),
    layer("axis 0", "<axis = 0>", x=mapped((3, 4)), s=shared(MATRIX)),
    layer("negative axis", "<axis = -2>", x=X, s=constant(MATRIX), b=constant(MATRIX)),
    layer("mapped scale", x=X, s=mapped((4,), seed=1), b=shared(vector(4, 2))),
    layer("mapped bias", x=X, s=shared(vector(4, 2)), b=mapped((4,), seed=1)),
    layer("all mapped", "<axis = 1>", x=X, s=mapped((3, 4), seed=1), b=mapped((3, 4), seed=2)),
    layer("shared input", x=shared(MATRIX), s=mapped((4,)), b=shared(vector(4, 1))),
    layer("mapped scale, no bias", x=X, s=mapped((4,), seed=1)),
    layer("at 17", opset=17, x=X, s=constant(vector(4, 1)), b=constant(vector(4, 2))),
    layer("rank 1", x=mapped((4,)), s=mapped((4,), seed=3)),
    Case(
        "LayerNormalization symbolic",
        "y = LayerNormalization(x, s, b)",
        {"x": X, "s": mapped((4,)), "b": shared(vector(4, 2))},
        symbolic=True,
    ),
    Case(
        "LayerNormalization of float16",
        "y = LayerNormalization(x, s)",
        {"x": mapped((3, 4), dtype=np.float16), "s": mapped((4,), dtype=np.float16)},
        rtol=1e-2,
        atol=1e-2,
    ),
    rms("default axis", x=X, scale=constant(vector(4, 1))),
    rms("axis 1", "<axis = 1>", x=X, scale=shared(MATRIX)),
    rms("mapped scale", "<axis = -1, epsilon = 0.5>", x=X, scale=mapped((4,), seed=1)),
    rms("shared input", x=shared(MATRIX), scale=mapped((4,), seed=1)),
]

IMAGES = mapped((2, 3, 4, 5))
MEAN_VARIANCE = [
    Case("MeanVarianceNormalization default", "y = MeanVarianceNormalization(x)", {"x": IMAGES}),
    Case(
        "MeanVarianceNormalization negative axes",
        "y = MeanVarianceNormalization<axes = [-1, 2]>(x)",
        {"x": IMAGES},
        symbolic=True,
    ),
]
LOCAL_RESPONSE = [
    Case("LRN", "y = LRN<size = 3>(x)", {"x": IMAGES}, rtol=0, atol=0),
    Case("LRN symbolic", "y = LRN<size = 5, alpha = 0.1>(x)", {"x": IMAGES}, symbolic=True),
]


def batch_norm(
    name: str, x: Operand, kinds: str, *, trains: bool = False, opset: int = 18, **more: Any
) -> Case:
    """Return a case; `kinds` says of scale, bias, mean and variance whether each is mapped."""
    size = x.samples[0].shape[1] if x.samples[0].ndim > 1 else 1
    operands = {"x": x}
    for position, (letter, kind) in enumerate(zip("sbmv", kinds, strict=True)):
        if kind == "m":
            operands[letter] = positive(size, seed=position)
        else:
            make = shared if kind == "s" else constant
            operands[letter] = make(vector(size, position))
    if not trains:
        text = "y = BatchNormalization<epsilon = 0.01>(x, s, b, m, v)"
        return Case(f"BatchNormalization {name}", text, operands, opset=opset, **more)
    text = "y, p, q = BatchNormalization<training_mode = 1, momentum = 0.7>(x, s, b, m, v)"
    return Case(f"BatchNormalization {name}", text, operands, ("y", "p", "q"), opset=opset, **more)


BATCH = [
    batch_norm("image", mapped((1, 3, 4, 5)), "cccc", rtol=0, atol=0),
    batch_norm("images", IMAGES, "ssss", rtol=0, atol=0, symbolic=True),
    batch_norm("rank 3", mapped((2, 3, 4)), "cccc"),
    batch_norm("rank 2", mapped((2, 3)), "cccc"),
    batch_norm("rank 1", mapped((4,)), "cccc"),
    batch_norm("all mapped", IMAGES, "mmmm"),
    batch_norm("mapped scale", IMAGES, "mscs", symbolic=True),
    batch_norm("mapped mean", mapped((2, 3)), "scms"),
    batch_norm("rank 1, mapped variance", mapped((4,)), "sscm"),
    batch_norm("shared input", shared(IMAGES.samples[0]), "smss"),
    batch_norm("training", IMAGES, "cccc", trains=True),
    batch_norm("training, mapped", IMAGES, "msms", trains=True, symbolic=True),
    batch_norm("training, shared input", shared(IMAGES.samples[0]), "ssms", trains=True),
    batch_norm("training of a signal", mapped((2, 3, 4)), "ssss", trains=True),
    Case(
        "BatchNormalization training, result only",
        "y = BatchNormalization<training_mode = 1>(x, s, s, s, s)",
        {"x": IMAGES, "s": shared(vector(3, 1))},
    ),
]


def channels(op: str, name: str, x: Operand, s: Operand, b: Operand, **more: Any) -> Case:
    return Case(
        f"{op.split('<')[0]} {name}", f"y = {op}(x, s, b)", {"x": x, "s": s, "b": b}, **more
    )


INSTANCE = [
    channels("InstanceNormalization", name, x, s, b, **more)
    for name, x, s, b, more in (
        ("shared", IMAGES, constant(vector(3, 1)), shared(vector(3, 2)), {"rtol": 0, "atol": 0}),
        ("one image", mapped((1, 3, 8)), shared(vector(3, 1)), shared(vector(3, 2)), {}),
        ("mapped scale", IMAGES, positive(3), shared(vector(3, 2)), {}),
        ("mapped bias", IMAGES, constant(vector(3, 2)), positive(3), {"symbolic": True}),
        ("mapped", mapped((2, 3, 4)), positive(3), positive(3, seed=1), {}),
        ("shared input", shared(IMAGES.samples[0]), positive(3), shared(vector(3, 2)), {}),
    )
]

FOUR = mapped((2, 4, 3, 5))
GROUP = [
    channels(f"GroupNormalization<num_groups = 2{extra}>", name, x, s, b, **more)
    for opset, size in ((18, 2), (21, 4))
    for extra, name, x, s, b, more in (
        (
            "",
            f"shared at {opset}",
            FOUR,
            constant(vector(size, 1)),
            shared(vector(size, 2)),
            {"opset": opset},
        ),
        (
            "",
            f"mapped scale at {opset}",
            FOUR,
            positive(size),
            shared(vector(size, 2)),
            {"opset": opset},
        ),
        (
            ", epsilon = 0.1",
            f"mapped at {opset}",
            mapped((1, 4, 3)),
            positive(size),
            positive(size, seed=1),
            {"opset": opset, "symbolic": True},
        ),
        (
            "",
            f"shared input at {opset}",
            shared(FOUR.samples[0]),
            shared(vector(size, 1)),
            positive(size),
            {"opset": opset},
        ),
    )
]


@BATCHES
@pytest.mark.parametrize(
    "case",
    [*ALONG_AXIS, *TRAILING, *MEAN_VARIANCE, *LOCAL_RESPONSE, *BATCH, *INSTANCE, *GROUP],
    ids=str,
)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


OLD = [
    *(
        case
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for case in (
            Case(f"{op} flattens at axis 1", f"y = {op}(x)", {"x": X}, opset=12),
            Case(f"{op} flattens at axis 0", f"y = {op}<axis = 0>(x)", {"x": X}, opset=11),
            Case(f"{op} flattens at axis -1", f"y = {op}<axis = -1>(x)", {"x": X}, opset=12),
        )
    ),
    Case("LpNormalization", "y = LpNormalization(x)", {"x": X}, opset=11),
    batch_norm("at 11", IMAGES, "sscc", opset=11),
    batch_norm("at 11, mapped", IMAGES, "mmss", opset=11),
    batch_norm("at 14, training", IMAGES, "mmss", opset=14, trains=True),
    channels(
        "InstanceNormalization",
        "at 11",
        IMAGES,
        shared(vector(3, 1)),
        shared(vector(3, 2)),
        opset=11,
    ),
    Case("LRN at 11", "y = LRN<size = 3>(x)", {"x": IMAGES}, opset=11),
]


@BATCHES
@pytest.mark.parametrize("case", OLD, ids=str)
def test_forms_of_older_opsets(case: Case, batch: int) -> None:
    prove_directly(case, batch)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax", "LpNormalization"])
def test_a_sample_without_axes_is_not_normalized_over_its_stack(op_type: str) -> None:
    case = Case("", f"y = {op_type}(x)", {"x": mapped(())}, opset=13)
    assert declines_directly(case) == [(op_type, "no-rule")]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("opset", [11, 13])
def test_a_mapped_scale_of_images_before_the_newer_reshape(opset: int, batch: int) -> None:
    case = channels("InstanceNormalization", "", IMAGES, positive(3), positive(3), opset=opset)
    prove(case, batch)


def test_a_mapped_scale_of_images_needs_a_slice_by_computed_bounds() -> None:
    case = channels("InstanceNormalization", "", IMAGES, positive(3), positive(3), opset=10)
    assert declines_directly(case) == [("InstanceNormalization", "opset")]


def test_what_follows_a_group_normalization_is_typed() -> None:
    nodes = "z = GroupNormalization<num_groups = 2>(x, s, s) y = ReduceSum(z)"
    prove(Case("", nodes, {"x": FOUR, "s": shared(vector(4, 1))}, opset=21), 3)
