"""Operators that cut, pad, mask and reorder along axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.batching.direct import prove_directly
from tests.passes.batching.harness import (
    BATCHES,
    Case,
    constant,
    decline_of,
    ints,
    mapped,
    prove,
    shared,
)


def made(op_type: str, name: str, attributes: str = "", **operands: Any) -> Case:
    settings = {n: operands.pop(n) for n in ("opset", "symbolic") if n in operands}
    text = f"y = {op_type}{attributes}({', '.join(operands)})"
    return Case(f"{op_type} {name}", text, operands, rtol=0, atol=0, **settings)


X, IMAGES = mapped((4, 5, 6)), mapped((2, 8, 4, 6))
BYTES = mapped((4, 5), dtype=np.bool_)
S, E = constant(ints(1, 0)), constant(ints(3, 4))
SLICES = [
    made("Slice", "of the first axes", x=X, s=S, e=E),
    made("Slice", "of the first axes, run-time", x=X, s=shared(ints(1, 0)), e=shared(ints(3, 9))),
    made("Slice", "of axes", x=X, s=S, e=E, a=constant(ints(2, 0)), symbolic=True),
    made("Slice", "of negative axes", x=X, s=S, e=E, a=constant(ints(-1, -3))),
    made("Slice", "of run-time axes", x=X, s=S, e=E, a=shared(ints(-1, 1))),
    made(
        "Slice",
        "backwards",
        x=X,
        s=constant(ints(-1, 4)),
        e=constant(ints(-99, 0)),
        a=constant(ints(0, 1)),
        t=constant(ints(-1, -2)),
    ),
    made(
        "Slice",
        "by int32",
        x=X,
        s=shared(ints(1, dtype=np.int32)),
        e=shared(ints(3, dtype=np.int32)),
        a=shared(ints(-2, dtype=np.int32)),
        t=shared(ints(2, dtype=np.int32)),
    ),
    made(
        "Slice",
        "without axes by int32",
        x=X,
        s=shared(ints(1, dtype=np.int32)),
        e=shared(ints(3, dtype=np.int32)),
    ),
    Case(
        "Slice with steps, without axes",
        'y = Slice(x, s, e, "", t)',
        {"x": X, "s": S, "e": E, "t": constant(ints(1, 2))},
    ),
    made("Slice", "to nothing", x=X, s=constant(ints(2)), e=constant(ints(2)), symbolic=True),
    made("Slice", "of a vector", x=mapped((6,)), s=constant(ints(-3)), e=constant(ints(99))),
]
P = constant(ints(1, 0, 2, 0, 3, 1))
NAN = np.float32(np.nan)
PADS = [
    made("Pad", "with zeros", x=X, p=P),
    made("Pad", "with a constant", x=X, p=P, v=constant(np.float32(7)), symbolic=True),
    made("Pad", "with a run-time value", x=X, p=shared(P.first), v=shared(np.float32(7))),
    made("Pad", "at the edge", '<mode = "edge">', x=X, p=P),
    made("Pad", "by reflection", '<mode = "reflect">', x=X, p=shared(P.first), symbolic=True),
    made("Pad", "by wrapping", '<mode = "wrap">', x=X, p=P, opset=19),
    made("Pad", "by less than nothing", x=X, p=constant(ints(-1, 0, 2, 0, -2, 0))),
    made(
        "Pad",
        "of axes",
        x=X,
        p=constant(ints(1, 2, 0, 1)),
        v=constant(np.float32(1)),
        a=constant(ints(2, 0)),
    ),
    made(
        "Pad",
        "of negative axes",
        x=X,
        p=constant(ints(1, 2)),
        v=constant(np.float32(1)),
        a=constant(ints(-2)),
    ),
    made(
        "Pad",
        "of run-time axes",
        x=X,
        p=shared(ints(1, 2)),
        v=shared(np.float32(1)),
        a=shared(ints(-1)),
    ),
    Case(
        "Pad of axes with zeros",
        'y = Pad(x, p, "", a)',
        {"x": X, "p": constant(ints(1, 1)), "a": constant(ints(1))},
    ),
    Case(
        "Pad by run-time amounts of an axis",
        'y = Pad(x, p, "", a)',
        {"x": X, "p": shared(ints(1, 2)), "a": constant(ints(1))},
    ),
    made("Pad", "with a mapped value", x=X, p=P, v=mapped((), seed=2), symbolic=True),
    made("Pad", "with a mapped value of shape [1]", x=X, p=P, v=mapped((1,), seed=2)),
    made(
        "Pad",
        "with a mapped value, of axes",
        x=X,
        p=constant(ints(1, 2)),
        v=mapped((), seed=2),
        a=constant(ints(-1)),
    ),
    made("Pad", "of a shared tensor", x=shared(X.first), p=P, v=mapped((), seed=2)),
    made("Pad", "with NaN", x=X, p=P, v=mapped(NAN, np.float32(1), np.float32(np.inf))),
    made(
        "Pad",
        "of booleans",
        x=BYTES,
        p=constant(ints(1, 0, 0, 2)),
        v=mapped(*(np.array(b) for b in (True, False, True))),
    ),
    made(
        "Pad",
        "with a mapped value that does not count",
        '<mode = "edge">',
        x=X,
        p=P,
        v=mapped((), seed=2),
    ),
]
CROPS = [
    made("CenterCropPad", "of all axes", x=X, s=constant(ints(2, 7, 6))),
    made("CenterCropPad", "of all axes, symbolic", x=X, s=shared(ints(2, 7, 6)), symbolic=True),
    made("CenterCropPad", "of axes", "<axes = [0, 2]>", x=X, s=constant(ints(6, 3))),
    made("CenterCropPad", "of negative axes", "<axes = [-2, -3]>", x=X, s=shared(ints(6, 3))),
]
MATRIX = mapped((3, 5))
K = mapped(*(np.array(n, np.int64) for n in (0, 2, -1)))
TRIANGLES = [
    made("Trilu", "upper", x=MATRIX),
    made("Trilu", "lower", "<upper = 0>", x=mapped((2, 4, 4)), symbolic=True),
    made("Trilu", "upper of a diagonal", x=MATRIX, k=constant(np.array(1, np.int64))),
    made(
        "Trilu",
        "lower of a run-time diagonal",
        "<upper = 0>",
        x=MATRIX,
        k=shared(np.array(-1, np.int64)),
    ),
    made("Trilu", "upper of mapped diagonals", x=MATRIX, k=K),
    made(
        "Trilu",
        "lower of mapped diagonals",
        "<upper = 0>",
        x=mapped((2, 3, 4)),
        k=K,
        symbolic=True,
    ),
    made("Trilu", "mapped diagonals of integers", x=mapped((3, 4), dtype=np.int64), k=K),
    made("Trilu", "mapped diagonals of a shared matrix", x=shared(MATRIX.first), k=K),
]
SEQUENCES = mapped((4, 3, 2))
COUNTS = mapped(ints(1, 4, 2), ints(2, 2, 2), ints(4, 1, 3))
ROW_COUNTS = mapped(ints(1, 3, 2, 1), ints(2, 2, 2, 3), ints(3, 1, 3, 1))
REVERSALS = [
    made("ReverseSequence", "by default", x=SEQUENCES, n=COUNTS),
    made(
        "ReverseSequence", "of rows", "<batch_axis = 0, time_axis = 1>", x=SEQUENCES, n=ROW_COUNTS
    ),
    made("ReverseSequence", "shared lengths", x=SEQUENCES, n=shared(ints(1, 4, 2)), symbolic=True),
    made("ReverseSequence", "shared data", x=shared(SEQUENCES.first), n=COUNTS),
    made("ReverseSequence", "of rank 2, symbolic", x=mapped((4, 3)), n=COUNTS, symbolic=True),
]
BLOCKS = [
    made("DepthToSpace", "by default", "<blocksize = 2>", x=IMAGES),
    made(
        "DepthToSpace",
        "column by column",
        '<blocksize = 2, mode = "CRD">',
        x=IMAGES,
        symbolic=True,
    ),
    made("SpaceToDepth", "of images", "<blocksize = 2>", x=IMAGES),
    made("SpaceToDepth", "of one image", "<blocksize = 2>", x=mapped((1, 3, 4, 2)), symbolic=True),
]
COLUMNS = [
    made(
        "Col2Im",
        "of images",
        "<strides = [2, 2]>",
        x=mapped((2, 4, 4)),
        i=constant(ints(4, 4)),
        b=constant(ints(2, 2)),
    ),
    made(
        "Col2Im",
        "run-time shapes",
        x=mapped((1, 8, 9)),
        i=shared(ints(4, 4)),
        b=shared(ints(2, 2)),
        symbolic=True,
    ),
    made(
        "Col2Im",
        "with pads",
        "<pads = [1, 0, 1, 0], dilations = [1, 1]>",
        x=mapped((1, 4, 20)),
        i=constant(ints(4, 5)),
        b=constant(ints(2, 2)),
    ),
]
CASES = [*SLICES, *PADS, *CROPS, *TRIANGLES, *REVERSALS, *BLOCKS, *COLUMNS]


@BATCHES
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


OLD = [
    made("Slice", "at 10", x=X, s=S, e=E, opset=10),
    made("Slice", "negative axes at 11", x=X, s=S, e=E, a=constant(ints(-1, -3)), opset=11),
    made("Pad", "at 11", x=X, p=P, v=constant(np.float32(7)), opset=11),
    made("Pad", "run-time at 13", '<mode = "reflect">', x=X, p=shared(P.first), opset=13),
    made("Pad", "of a mapped value at 13", x=X, p=P, v=mapped((), seed=2), opset=13),
    made("Trilu", "at 14", x=MATRIX, k=K, opset=14),
    made("ReverseSequence", "at 10", x=SEQUENCES, n=COUNTS, opset=10),
    made("DepthToSpace", "at 11", "<blocksize = 2>", x=IMAGES, opset=11),
    made("SpaceToDepth", "at 10", "<blocksize = 2>", x=IMAGES, opset=10),
]


@BATCHES
@pytest.mark.parametrize("case", OLD, ids=str)
def test_forms_of_older_opsets(case: Case, batch: int) -> None:
    prove_directly(case, batch)


MANY = mapped(*(ints(n, 0, 1, 0) for n in (1, 0, 1)))
SIZES = mapped(*(ints(n, 3) for n in (2, 3, 4)))
DECLINES = [
    (
        made(
            "Slice",
            "by mapped steps",
            x=X,
            s=S,
            e=E,
            a=constant(ints(0, 1)),
            t=mapped(*(ints(n, 1) for n in (1, 2, 1))),
        ),
        "data-dependent-shape",
    ),
    (
        made("Slice", "of mapped axes", x=X, s=S, e=E, a=mapped(*(ints(n, 0) for n in (1, 2, 1)))),
        "batched-operand",
    ),
    (
        made(
            "Slice", "to ends of two axes", x=X, s=S, e=mapped(*(ints([n, 2]) for n in (1, 2, 1)))
        ),
        "no-rule",
    ),
    (
        made("Slice", "to an end of none", x=X, s=S, e=mapped(*(ints(n)[0] for n in (1, 2, 1)))),
        "no-rule",
    ),
    (made("Pad", "by mapped amounts", x=mapped((3, 4)), p=MANY), "data-dependent-shape"),
    (made("CenterCropPad", "to mapped sizes", x=mapped((3, 4)), s=SIZES), "data-dependent-shape"),
    (
        made("Col2Im", "of a mapped shape", x=mapped((1, 4, 4)), i=SIZES, b=constant(ints(2, 2))),
        "data-dependent-shape",
    ),
]


@pytest.mark.parametrize(("case", "code"), DECLINES, ids=str)
def test_rule_declines(case: Case, code: str) -> None:
    assert decline_of(case) == [(case.name.split()[0], code)]
