"""What a guard reads of the elements of sequences, against their shapes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from passes.fusing.questions import read_shapes
from passes.fusing.shape_rows import STEP, Asked
from passes.graph.builder import Builder
from passes.graph.hidden import hide_type
from passes.graph.names import make_names_unique

Dims = tuple[int | None, ...] | None
Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked of one sequence; see `Asked`."""

    dims: Dims
    by_rows: bool = False

    def answers(self, shapes: list[Shape]) -> list[Any]:
        """Return whether shapes are equal, and of rows whether they are alike, and lengths."""
        equal = all(self._fits(shape) for shape in shapes) and len(set(shapes)) == 1
        if not self.by_rows or self.dims is None:
            return [equal]
        rows = dataclasses.replace(self, dims=(None, *self.dims[1:]))
        alike = all(rows._fits(s) for s in shapes) and len({s[1:] for s in shapes}) == 1
        return [equal, alike, [shape[0] for shape in shapes] if alike else None]

    def _fits(self, shape: Shape) -> bool:
        if self.dims is None:
            return True
        return len(shape) == len(self.dims) and all(
            wanted is None or wanted == dim for wanted, dim in zip(self.dims, shape, strict=True)
        )


QUESTIONS = {
    "nothing known": Question(None),
    "rank 0": Question(()),
    "rank 1": Question((None,)),
    "rank 2": Question((None, None)),
    "a number": Question((None, 2)),
    "a number in front": Question((2, None)),
    "numbers": Question((1, 2)),
    "rows of rank 1": Question((None,), by_rows=True),
    "rows of rank 2": Question((None, None), by_rows=True),
    "rows of a number": Question((None, 2), by_rows=True),
    "rows of numbers": Question((1, 2), by_rows=True),
}


def session_of(
    dims: Dims, *, by_rows: bool = False, most: int | None = None, gives_up: bool = True
) -> onnxruntime.InferenceSession:
    """Return a session that answers what is asked of the sequence ``xs``."""
    builder = Builder("guard")
    xs = ir.Value(name="xs", type=ir.SequenceType(ir.TensorType(ir.DataType.FLOAT)))
    hidden = hide_type(builder, xs, ir.DataType.FLOAT)
    asked = Asked(hidden, dims, True, by_rows, most, None)
    count = builder.op("SequenceLength", [xs])
    (shapes,) = read_shapes(builder, count, [asked], gives_up=gives_up)
    outputs = []
    for value in shapes.values():
        kind = ir.DataType.INT64 if value is shapes.lengths else ir.DataType.BOOL
        copied = builder.op("Identity", [value])
        copied.type, copied.name = ir.TensorType(kind), f"y{len(outputs)}"
        outputs.append(copied)
    builder.prune(outputs)
    graph = ir.Graph([xs], outputs, nodes=builder.nodes, name="g", opset_imports={"": 18})
    model = ir.Model(graph, ir_version=10)
    make_names_unique(model)
    return onnxruntime.InferenceSession(
        ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )


def lists(seed: int, number: int) -> list[list[Shape]]:
    """Return lists of shapes: equal, equal but for one, of equal rows, and of any rank."""
    rng = np.random.default_rng(seed)

    def shape(rank: int | None = None) -> Shape:
        size = rng.integers(0, 4) if rank is None else rank
        return tuple(int(n) for n in rng.integers(0, 3, size))

    made: list[list[Shape]] = []
    for i in range(number):
        count = int(rng.integers(1, 3 * STEP))
        first = ((), (1,), (1, 2), (2, 2), (0, 2), shape())[i % 6]
        found = [first] * count
        match i % 5:
            case 1:
                found[int(rng.integers(count))] = shape()
            case 2:
                found = [(int(rng.integers(0, 3)), *first[1:]) for _ in found]
            case 3:
                found = [shape(len(first)) for _ in found]
            case 4 if i % 2:
                found = [shape() for _ in found]
        made.append(found)
    return made


@pytest.mark.parametrize("gives_up", [False, True], ids=["reads all", "gives up"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_read_of_the_elements(name: str, gives_up: bool) -> None:
    question = QUESTIONS[name]
    session = session_of(question.dims, by_rows=question.by_rows, gives_up=gives_up)
    seen = set()
    for shapes in lists(len(name), 150):
        feed = {"xs": [np.zeros(shape, np.float32) for shape in shapes]}
        found = session.run(None, feed)
        wanted = question.answers(shapes)
        flags = [bool(flag) for flag in found[:2]]
        assert flags == wanted[:2], shapes
        if wanted[2:] and wanted[2] is not None:
            assert found[2].tolist() == wanted[2]
        seen.add(tuple(flags))
    assert len(seen) == (3 if question.by_rows else 2)


@pytest.mark.parametrize(("shape", "holds"), [((2, 3), True), ((2, 4), False)])
def test_a_large_element_is_found_out(shape: Shape, holds: bool) -> None:
    session = session_of((None, None), most=6)
    (found,) = session.run(None, {"xs": [np.zeros(shape, np.float32)] * 20})
    assert bool(found) is holds
