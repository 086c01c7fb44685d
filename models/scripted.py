"""Writes one model from ``torch.jit.script``, and vectors of it: what the scripts beside share."""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

__all__ = ["write_model"]


def write_model(
    folder: pathlib.Path,
    name: str,
    program: type[torch.nn.Module],
    draw: Callable[[int], tuple[Any, ...]],
    open_dims: Sequence[int],
    opset: int = 17,
) -> None:
    """Write a model and three vectors, for 3, 1 and 9 steps.

    Args:
        folder: Where to.
        name: The name of the files.
        program: The module.
        draw: Draws its inputs for a number of steps.
        open_dims: How many dimensions of each input are open, from the front.
        opset: Version of ONNX's operators.
    """
    module = program().eval().requires_grad_(False)
    names = list(inspect.signature(program.forward).parameters)[1:]
    sizes = {
        key: {axis: f"{key}_{axis}" for axis in range(count)}
        for key, count in zip(names, open_dims, strict=True)
    }
    path = folder / f"{name}.onnx"
    options: dict[str, Any] = {"input_names": names, "dynamic_axes": sizes}
    script = torch.jit.script(module)
    torch.onnx.export(script, draw(3), path, opset_version=opset, dynamo=False, **options)
    for number, count in enumerate((3, 1, 9)):
        given = draw(count)
        made = module(*given)
        outputs = made if isinstance(made, tuple) else (made,)
        vector = _entries({f"in__{key}": v for key, v in zip(names, given, strict=True)})
        vector |= _entries({f"out__{at}": value for at, value in enumerate(outputs)})
        np.savez(folder / f"{name}{f'.v{number}' * bool(number)}.npz", **vector)


def _entries(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Name arrays as a vector does, those of a list each by its place."""
    found = {}
    for key, value in values.items():
        each = {f"{key}__{at}": one for at, one in enumerate(value)}
        found |= each if isinstance(value, list) else {key: value}
    return {key: value.numpy() for key, value in found.items()}
