"""Writes the models of ``models/pipelines`` that come from JAX: ``jax_*``, with two vectors each.

Run ``python models/make_jax.py DIRECTORY`` where jax and jax2onnx (0.17 wrote the files here) are
installed. Nothing else needs them: tests use the files that are checked in.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax
from jax2onnx import to_onnx

SEGMENTS = np.array([0, 1, 0, 2, 1, 2, 0, 3, 3, 1, 1, 0])


def segment_sum(x: Any) -> Any:
    """Sum rows by segment with ``fori_loop`` and ``at[].add``."""

    def step(i: Any, carried: Any) -> Any:
        rows, sums = carried
        return rows, sums.at[jnp.asarray(SEGMENTS)[i]].add(rows[i])

    return lax.fori_loop(0, 12, step, (x, jnp.zeros((4, 6))))[1]


def write_rows(x: Any) -> Any:
    """Write rows backwards with ``while_loop`` and ``at[].set``."""

    def step(carried: Any) -> Any:
        i, rows, made = carried
        return i + 1, rows, made.at[11 - i].set(jnp.tanh(rows[i]))

    return lax.while_loop(lambda carried: carried[0] < 12, step, (0, x, jnp.zeros((12, 6))))[2]


def rolling_mean(x: Any) -> Any:
    """Give the mean of the last four rows with ``scan``."""

    def step(buffer: Any, row: Any) -> Any:
        buffer = jnp.concatenate([buffer[1:], row[None]])
        return buffer, buffer.mean(0)

    return lax.scan(step, jnp.zeros((4, 6)), x)[1]


def best_two(x: Any) -> Any:
    """Give the two best of each row with ``map``; the file declares the indices as [2,2]."""
    return lax.map(lambda row: lax.top_k(row, 2), x)


def energies(x: Any) -> Any:
    """Sum squares over time for each of several signals: ``scan`` in ``map``."""

    def energy(signal: Any) -> Any:
        return lax.scan(lambda total, row: (total + row * row, None), jnp.zeros(6), signal)[0]

    return lax.map(energy, x)


def smoothed(x: Any) -> Any:
    """Give windows around each row, where the first reaches before the first row."""

    def step(i: Any, carried: Any) -> Any:
        rows, made = carried
        return rows, made.at[i].set((rows[i - 1] + rows[i]) / 2)

    return lax.fori_loop(0, 12, step, (x, x))[1]


TAGS = np.array([0, 1, 5, 2, 3, 3, 0, 4, 1, 2, 5, 0])


def path_score(x: Any) -> Any:
    """Score a path of tags as a CRF does: each tag, and each step from one to the next."""

    def step(total: Any, i: Any) -> Any:
        tags = jnp.asarray(TAGS)
        return total + x[i, tags[i]] + x[tags[i - 1], tags[i]], None

    return lax.scan(step, jnp.float32(0), jnp.arange(1, 12))[0]


SHAPES = {
    path_score: (12, 6),
    best_two: (12, 6),
    energies: (3, 12, 6),
    rolling_mean: (12, 6),
    segment_sum: (12, 6),
    smoothed: (12, 6),
    write_rows: (12, 6),
}


def main(folder: pathlib.Path) -> None:
    for program, shape in SHAPES.items():
        name = f"jax_{program.__name__}"
        given = jax.ShapeDtypeStruct(shape, np.float32)
        model = to_onnx(program, [given], model_name=name)
        onnx.save(model, folder / f"{name}.onnx")
        for number in range(2):
            x = np.random.default_rng(number).standard_normal(shape).astype(np.float32)
            outputs = jax.tree_util.tree_leaves(program(jnp.asarray(x)))
            vector = {f"out__{at}": np.asarray(value) for at, value in enumerate(outputs)}
            vector[f"in__{model.graph.input[0].name}"] = x
            np.savez(folder / f"{name}{f'.v{number}' * bool(number)}.npz", **vector)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
