"""Operators that read or write elements at given positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.batching.direct import prove_directly
from tests.passes.batching.harness import (
    BATCHES,
    Case,
    Operand,
    constant,
    decline_of,
    fused_model,
    ints,
    mapped,
    prove,
    run_model,
    shared,
)


def places(*shape: int, below: int, dtype: Any = np.int64, seed: int = 0) -> Operand:
    """Draw positions, negative ones among them."""
    rng = np.random.default_rng(seed)
    return mapped(*(rng.integers(-below, below, shape).astype(dtype) for _ in range(3)))


def rows(count: int, width: int, below: int) -> Operand:
    """Draw positions of which no two in one column are the same."""
    rng = np.random.default_rng(5)
    drawn = [np.stack([rng.permutation(below)[:count] for _ in range(width)], 1) for _ in range(3)]
    return mapped(*(d.astype(np.int64) for d in drawn))


def made(op_type: str, name: str, attributes: str = "", **operands: Any) -> Case:
    settings = {n: operands.pop(n) for n in ("opset", "symbolic") if n in operands}
    text = f"y = {op_type}{attributes}({', '.join(operands)})"
    return Case(f"{op_type} {name}", text, operands, rtol=0, atol=0, **settings)


X, VECTOR = mapped((4, 5, 6)), mapped((5,))
GATHERS = [
    made("Gather", "shared positions", x=X, i=constant(np.array([0, -1]))),
    made("Gather", "of axis 1", "<axis = 1>", x=X, i=shared(np.array([[0, 3]])), symbolic=True),
    made("Gather", "of axis -1", "<axis = -1>", x=X, i=shared(np.array(2))),
    made("Gather", "mapped positions", x=X, i=places(2, 3, below=4), symbolic=True),
    made("Gather", "mapped positions of axis 1", "<axis = 1>", x=X, i=places(2, below=5)),
    made("Gather", "mapped positions of axis -1", "<axis = -1>", x=X, i=places(2, 2, below=6)),
    made("Gather", "one mapped position", "<axis = 1>", x=X, i=places(below=5)),
    made("Gather", "of a vector", x=VECTOR, i=places(3, below=5, dtype=np.int32)),
    made("Gather", "shared data", x=shared(X.first), i=places(2, below=4)),
    made(
        "Gather", "shared data of axis 2", "<axis = 2>", x=shared(X.first), i=places(2, 3, below=6)
    ),
    made(
        "Gather",
        "shared data, one position",
        "<axis = -2>",
        x=constant(X.first),
        i=places(below=5),
    ),
    made("GatherElements", "of axis 0", x=X, i=places(2, 5, 6, below=4), symbolic=True),
    made("GatherElements", "all mapped", x=X, i=places(2, 5, 6, below=4)),
    made(
        "GatherElements",
        "of axis -1",
        "<axis = -1>",
        x=X,
        i=places(4, 5, 2, below=6),
        symbolic=True,
    ),
    made(
        "GatherElements",
        "shared positions",
        "<axis = 1>",
        x=X,
        i=shared(places(4, 2, 6, below=5).first),
    ),
    made(
        "GatherElements",
        "shared data",
        x=shared(VECTOR.first),
        i=places(7, below=5, dtype=np.int32),
    ),
    made("GatherND", "all mapped", x=X, i=places(3, 2, below=4)),
    made("GatherND", "whole coordinates", x=X, i=places(2, 2, 3, below=4), symbolic=True),
    made("GatherND", "shared positions", x=X, i=shared(places(3, 2, below=4).first)),
    made("GatherND", "shared data", x=shared(X.first), i=places(3, 2, below=4)),
    made("GatherND", "of a batch", "<batch_dims = 1>", x=X, i=places(4, 2, below=5)),
    made(
        "GatherND",
        "of a shared batch",
        "<batch_dims = 1>",
        x=shared(X.first),
        i=places(4, 2, below=5),
    ),
]
TABLE, ROW_PLACES = mapped((4, 3)), rows(2, 3, 4)
UPDATES = mapped((2, 3), seed=4)
ND_PLACES = mapped(*(np.array(p) for p in ([[0], [2]], [[3], [1]], [[-1], [0]])))
SCATTERS = [
    made("ScatterElements", "all mapped", x=TABLE, i=ROW_PLACES, u=UPDATES),
    made(
        "ScatterElements",
        "of axis -1",
        "<axis = -1>",
        x=mapped((3, 4)),
        i=shared(rows(2, 3, 4).first.T),
        u=mapped((3, 2)),
        symbolic=True,
    ),
    made(
        "ScatterElements",
        "adding",
        '<reduction = "add">',
        x=TABLE,
        i=places(6, 3, below=4),
        u=mapped((6, 3)),
    ),
    made(
        "ScatterElements",
        "the largest",
        '<reduction = "max">',
        x=TABLE,
        i=places(6, 3, below=4),
        u=mapped((6, 3)),
    ),
    made("ScatterElements", "shared positions", x=TABLE, i=shared(ROW_PLACES.first), u=UPDATES),
    made("ScatterElements", "shared updates", x=TABLE, i=ROW_PLACES, u=shared(UPDATES.first)),
    made("ScatterElements", "shared data", x=shared(TABLE.first), i=ROW_PLACES, u=UPDATES),
    made("ScatterND", "all mapped", x=TABLE, i=ND_PLACES, u=UPDATES),
    made(
        "ScatterND",
        "adding",
        '<reduction = "add">',
        x=TABLE,
        i=places(5, 2, below=3),
        u=mapped((5,)),
    ),
    made(
        "ScatterND",
        "shared positions",
        x=TABLE,
        i=shared(ND_PLACES.first),
        u=UPDATES,
        symbolic=True,
    ),
    made("ScatterND", "shared updates", x=TABLE, i=ND_PLACES, u=shared(UPDATES.first)),
    made(
        "ScatterND", "shared data", x=constant(TABLE.first), i=ND_PLACES, u=UPDATES, symbolic=True
    ),
]
CACHE, NEW = mapped((2, 3, 6, 4)), mapped((2, 3, 2, 4), seed=1)
AT = mapped(*(np.array(n) for n in ([0, 2], [4, 1], [3, 3])))
CACHES = [
    made("TensorScatter", "all mapped", opset=24, x=CACHE, u=NEW, i=AT),
    made("TensorScatter", "without positions", opset=24, x=CACHE, u=NEW),
    made(
        "TensorScatter",
        "in a circle",
        '<mode = "circular", axis = 2>',
        opset=24,
        x=CACHE,
        u=NEW,
        i=shared(np.array([5, 1])),
    ),
    made("TensorScatter", "to a shared cache", opset=24, x=shared(CACHE.first), u=NEW, i=AT),
]
HOT = constant(np.array([0, 1], np.float32))
FIVE = constant(np.array(5))
HOTS = [
    made("OneHot", "by default", i=places(4, below=5), d=FIVE, v=HOT),
    made(
        "OneHot", "of axis 0", "<axis = 0>", i=places(2, 3, below=5), d=FIVE, v=HOT, symbolic=True
    ),
    made(
        "OneHot",
        "of axis 1",
        "<axis = 1>",
        i=places(2, 3, below=5),
        d=shared(np.array([5])),
        v=shared(HOT.first),
    ),
    made("OneHot", "of axis -2", "<axis = -2>", i=places(2, 3, below=5), d=FIVE, v=HOT),
    made("OneHot", "of one position", i=places(below=5), d=FIVE, v=HOT),
    made("OneHot", "mapped values", "<axis = 1>", i=places(2, 3, below=5), d=FIVE, v=mapped((2,))),
    made(
        "OneHot",
        "mapped values, shared positions",
        "<axis = 0>",
        i=shared(places(3, below=5).first),
        d=FIVE,
        v=mapped((2,)),
    ),
    made(
        "OneHot",
        "of floats",
        i=mapped(*(np.array(r, np.float32) for r in ([0, 4], [1, 2], [3, 3]))),
        d=constant(np.array(5, np.float32)),
        v=HOT,
    ),
]
FLAGS = constant(np.array([True, False, True]))
COMPRESSIONS = [
    made("Compress", "of an axis", "<axis = 0>", x=X, c=FLAGS),
    made("Compress", "of axis -1", "<axis = -1>", x=X, c=shared(FLAGS.first), symbolic=True),
    made("Compress", "flattened", x=X, c=FLAGS),
    made(
        "Compress", "flattened, symbolic", x=mapped((2, 3)), c=shared(FLAGS.first), symbolic=True
    ),
]
CASES = [*GATHERS, *SCATTERS, *CACHES, *HOTS, *COMPRESSIONS]


@BATCHES
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


OLD = [
    made("Gather", "mapped at 11", x=X, i=places(2, below=4), opset=11),
    made(
        "Gather", "mapped along axis 1 at 11", "<axis = 1>", x=X, i=places(2, 1, below=4), opset=11
    ),
    made("Gather", "of one number at 11", x=X, i=places(below=4), opset=11),
    made("GatherND", "at 11", x=X, i=places(3, 2, below=4), opset=11),
    made("GatherND", "of rows at 11", x=X, i=places(2, 3, 1, below=4), opset=11),
    made("Gather", "mapped at 12", x=X, i=places(2, below=4), opset=12),
    made("GatherElements", "at 11", x=X, i=places(2, 5, 6, below=4), opset=11),
    made("GatherND", "at 12", x=X, i=places(3, 2, below=4), opset=12),
    made("Scatter", "at 10", x=TABLE, i=ROW_PLACES, u=UPDATES, opset=10),
    made(
        "Scatter",
        "of axis 1 at 10",
        "<axis = 1>",
        x=mapped((3, 4)),
        i=shared(rows(2, 3, 4).first.T),
        u=mapped((3, 2)),
        opset=10,
    ),
    made("ScatterElements", "at 11", x=TABLE, i=ROW_PLACES, u=UPDATES, opset=11),
    made("ScatterND", "at 13", x=TABLE, i=ND_PLACES, u=UPDATES, opset=13),
    made("OneHot", "at 11", i=places(4, below=5), d=FIVE, v=HOT, opset=11),
    made("Compress", "at 11", "<axis = 1>", x=X, c=FLAGS, opset=11),
]


@BATCHES
@pytest.mark.parametrize("case", OLD, ids=str)
def test_forms_of_older_opsets(case: Case, batch: int) -> None:
    prove_directly(case, batch)


KEPT = mapped(*(np.array(c) for c in ([True, False], [True, True], [False, False])))
SIZES = mapped(*(np.array(n) for n in (3, 4, 5)))
DECLINES = [
    made("OneHot", "of mapped depth", i=places(4, below=3), d=SIZES, v=HOT),
]


@pytest.mark.parametrize("case", DECLINES, ids=str)
def test_rule_declines(case: Case) -> None:
    assert decline_of(case) == [(case.name.split()[0], "data-dependent-shape")]


@pytest.mark.parametrize("sizes", [(0, 0, 0, 0), (0, 3, 4, 1), (3, 4, 2, 5)], ids=str)
@pytest.mark.parametrize("kind", [constant, shared])
def test_no_samples_lack_no_place(kind: Any, sizes: tuple[int, ...]) -> None:
    case = made("Gather", "", "<axis = -1>", x=X, i=kind(ints(1, -2)), symbolic=True)
    proto, _ = fused_model(case)
    (got,) = run_model(proto, {"x_all": np.ones(sizes, np.float32), "i": ints(1, -2)})
    assert got.shape == (*sizes[:3], 2)


def test_a_place_that_samples_lack_is_an_error() -> None:
    case = made("Gather", "", "<axis = -1>", x=X, i=constant(ints(1, -2)), symbolic=True)
    proto, _ = fused_model(case)
    with pytest.raises(Exception, match="out of data bounds"):
        run_model(proto, {"x_all": np.ones((2, 3, 4, 1), np.float32)})
