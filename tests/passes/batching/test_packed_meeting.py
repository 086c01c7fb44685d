"""Operands that differ in length, and are not proven to be equally long, in one operator."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir
import pytest

from rewriter.backends import BackendError, run
from tests.passes.batching.harness import Operand, constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, feeds_of, fused, prove_ragged, ragged, wanted

LENGTHS = {
    "equally long": ((2, 0, 3), (2, 0, 3)),
    "one row beside several": ((2, 1, 3), (2, 4, 1)),
    "one row beside none": ((1, 0, 1), (0, 1, 1)),
    "one row each": ((1, 1, 1), (1, 1, 1)),
}
BODIES = {
    "a sum": "y = Add(x, z)",
    "a choice": "c = Less(x, z) y = Where(c, x, z)",
    "a chain": "s = Mul(z, x) d = Sub(s, x) y = Add(d, z)",
    "three": "s = Exp(z) y = Max(x, z, s)",
    "beside a number of each": "s = Add(x, n) y = Div(s, z)",
    "columns": "t = Transpose(x) u = Transpose(z) y = Mul(t, u)",
    "and their sum": "s = Mul(x, z) y = ReduceSum<keepdims = 0>(s, a)",
    "and their shape": "s = Mul(x, z) y = Shape(s)",
    "a vector beside a row": "v = Gather<axis = 1>(x, i) u = Unsqueeze(v, e) y = Mul(u, z)",
}


def case(name: str, lengths: tuple[tuple[int, ...], ...]) -> RaggedCase:
    operands: dict[str, Operand] = {
        "x": ragged(4, lengths=lengths[0]),
        "z": ragged(4, lengths=lengths[1], seed=1, low=1),
        "n": mapped(()),
        "a": constant(np.array([0])),
        "i": constant(np.array(2)),
        "e": constant(np.array([1])),
    }
    nodes = BODIES[name]
    used = {
        key: value for key, value in operands.items() if f"{key})" in nodes or f"{key}," in nodes
    }
    return RaggedCase(name, nodes, used)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("name", BODIES)
def test_they_meet_as_in_the_body_run_alone(
    name: str, lengths: tuple[tuple[int, ...], ...], batch: int
) -> None:
    if batch or set(lengths[0]) != {1}:  # nothing tells the one length where there is no sample
        prove_ragged(case(name, lengths), batch)


@pytest.mark.parametrize(
    ("own", "other"), [((2, 3), (2, 2)), ((2, 0), (2, 2)), ((3, 2), (2, 2)), ((2, 2), (0, 2))]
)
def test_lengths_that_do_not_meet_are_an_error(
    own: tuple[int, ...], other: tuple[int, ...]
) -> None:
    sound = case("a sum", ((2, 1), (2, 3)))
    model, _ = fused(sound, wanted(sound, 2))
    given = {"x": ragged(4, lengths=own), "z": ragged(4, lengths=other)}
    broken = dataclasses.replace(sound, operands=given)
    run(ir.to_proto(model), feeds_of(sound, 2))
    with pytest.raises(BackendError):
        run(ir.to_proto(model), feeds_of(broken, 2))


def test_parts_that_end_behind_all_rows_are_equally_long() -> None:
    """TensorFlow's exporter ends a slice that goes to the end at 2^31 - 1."""
    nodes = "h = Slice(x, one, end, zero) k = Slice(x, zero, last, zero) y = Sub(h, k)"
    counts = set()
    for end in (2**31 - 1, 2**31, 2**63 - 1):
        numbers = {"one": 1, "end": end, "last": -1, "zero": 0}
        operands = {name: constant(np.array([number])) for name, number in numbers.items()}
        cut = RaggedCase("", nodes, {"x": ragged(4, lengths=(2, 0, 3)), **operands})
        prove_ragged(cut, 3)
        model, _ = fused(cut, wanted(cut, 3))
        counts.add(len(model.graph))
    assert len(counts) == 1, "their lengths are compared"


def test_columns_are_joined_where_rows_are_equally_many() -> None:
    operands = {"x": ragged(4), "z": ragged(3, seed=1)}
    prove_ragged(RaggedCase("", "y = Concat<axis = 1>(x, z)", operands), 3)


def test_neighbours_are_not_reached() -> None:
    poison = np.array([[np.nan, np.inf]], np.float32)
    sound = np.array([[1, 0.5], [2, 1]], np.float32)
    x = Operand("ragged", (poison, sound, poison))
    z = Operand("ragged", (sound, sound[:1], sound))
    prove_ragged(RaggedCase("", "y = Add(x, z)", {"x": x, "z": z}), 3)


def test_a_shared_vector_is_no_sample() -> None:
    operands = {"x": ragged(4), "z": ragged(4, lengths=(2, 1, 3), seed=1)}
    columns = shared(np.ones(4, np.float32))
    prove_ragged(RaggedCase("", "y = Sum(x, z, c)", {**operands, "c": columns}), 3)


PLACED = {
    "elements": 'y = ScatterElements<axis = 0, reduction = "add">(x, z, u)',
    "elements of one size": "y = ScatterElements<axis = 0>(m, z, u)",
    "rows": "k = Gather<axis = 1>(z, o) f = Unsqueeze(k, i) y = ScatterND(x, f, u)",
    "boxes": "b = Unsqueeze(q, j) t = Transpose(u) s = Unsqueeze(t, j) "
    "y = NonMaxSuppression(b, s, n)",
    "regions": "c = Cast<to = 7>(e) f = Abs(u) r = Concat<axis = 1>(f, f) "
    "y = RoiAlign<sampling_ratio = 2>(p, r, c)",
}


def placed(name: str, others: tuple[int, ...]) -> RaggedCase:
    """Make a case that reads products of two lists beside a third one."""
    operands: dict[str, Operand] = {
        "x": ragged(2, lengths=(3, 4, 3)),
        "m": mapped((3, 2)),
        "z": ragged(2, dtype=np.int64, lengths=(2, 0, 3), low=0, high=2.9),
        "v": ragged(2, lengths=(1, 0, 3), seed=2),
        "w": ragged(2, lengths=others, seed=3),
        "o": constant(np.array(0)),
        "i": constant(np.array([1])),
        "j": constant(np.array([0])),
        "n": constant(np.array([9])),
        "q": ragged(4, lengths=(2, 0, 3), low=0, high=1, seed=5),
        "e": ragged(lengths=(2, 0, 3), low=0, high=1.9, seed=6),
        "p": mapped((2, 1, 5, 5)),
    }
    nodes = f"u = Mul(v, w) {PLACED[name]}"
    used = {k: v for k, v in operands.items() if f"{k}," in nodes or f"{k})" in nodes}
    return RaggedCase(name, nodes, used)


@pytest.mark.parametrize("name", PLACED)
def test_places_and_what_is_written_there(name: str) -> None:
    prove_ragged(placed(name, (2, 0, 1)), 3)


@pytest.mark.parametrize("name", PLACED)
def test_more_or_fewer_places_than_are_written_are_an_error(name: str) -> None:
    sound = placed(name, (2, 0, 1))
    model, _ = fused(sound, wanted(sound, 3))
    run(ir.to_proto(model), feeds_of(sound, 3))
    with pytest.raises(BackendError):
        run(ir.to_proto(model), feeds_of(placed(name, (3, 0, 1)), 3))
