"""Write the pipelines whose names begin with ``os_``: ``python models/make_onnxscript.py FOLDER``.

It takes onnxscript, whose bodies declare no types and which writes a CastLike around each number.
The expected results are those of the functions run as Python.
"""

import pathlib
import sys
from typing import Any

import numpy as np
import onnx
from onnxscript import FLOAT, INT64, script
from onnxscript import opset18 as op

Rows = FLOAT["N", 4]


@script(default_opset=op)
def first_above(x: Rows, limit: FLOAT) -> INT64:
    """Give the number of the first row with a sum above a limit, or -1."""
    n = op.Squeeze(op.Shape(x, start=0, end=1))
    found = op.Constant(value_int=-1)
    for i in range(n):
        if op.And(op.ReduceSum(op.Gather(x, i), keepdims=0) > limit, found < 0):
            found = op.Identity(i)
    return found


@script(default_opset=op)
def near_pairs(x: Rows, limit: FLOAT) -> INT64:
    """Count the pairs of rows that are near each other."""
    n = op.Squeeze(op.Shape(x, start=0, end=1))
    count = op.Constant(value_int=0)
    for i in range(n):
        for j in range(n):
            if op.ReduceL1(op.Gather(x, i) - op.Gather(x, j), keepdims=0) < limit:
                count = count + 1
    return count


@script(default_opset=op)
def two_totals(x: Rows, limit: FLOAT) -> (FLOAT[4], FLOAT[4], INT64):
    """Add rows above and below a limit apart, and count those above."""
    n = op.Squeeze(op.Shape(x, start=0, end=1))
    above = op.Expand(0.0, [4])
    below = op.Expand(0.0, [4])
    count = op.Constant(value_int=0)
    for i in range(n):
        row = op.Gather(x, i)
        if op.ReduceMax(row, keepdims=0) > limit:
            above = above + row
            count = count + 1
        else:
            below = below + row
    return above, below, count


@script(default_opset=op)
def smoothed(x: Rows, limit: FLOAT) -> Rows:
    """Smooth rows exponentially, clipped: a recurrence, whose list begins with no rows."""
    n = op.Squeeze(op.Shape(x, start=0, end=1))
    state = op.Expand(0.0, [4])
    rows = op.SequenceInsert(op.SequenceEmpty(), op.Slice(x, [0], [0]))
    for i in range(n):
        state = 0.9 * state + 0.1 * op.Min(op.Exp(op.Gather(x, i)), limit)
        rows = op.SequenceInsert(rows, op.Unsqueeze(state, [0]))
    return op.ConcatFromSequence(rows, axis=0)


PROGRAMS = (first_above, near_pairs, smoothed, two_totals)
LENGTHS = (6, 0, 1)


def _vector(program: Any, number: int, count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(number)
    x, limit = rng.standard_normal((count, 4)).astype(np.float32), np.array(2, np.float32)
    found = program(x, limit)
    found = found if isinstance(found, tuple) else (found,)
    results = {f"out__{at}": np.asarray(value) for at, value in enumerate(found)}
    return {"in__x": x, "in__limit": limit, **results}


def main(folder: pathlib.Path) -> None:
    """Write the models, and for each what it yields for several numbers of rows."""
    for program in PROGRAMS:
        name = f"os_{program.name}"
        onnx.save(program.to_model_proto(), folder / f"{name}.onnx")
        for number, count in enumerate(LENGTHS):
            vector = _vector(program, number, count)
            np.savez(folder / f"{name}{f'.v{number}' * bool(number)}.npz", **vector)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
