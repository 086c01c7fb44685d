"""Outputs of a model that are declared with other dimensions than they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from passes.typing import type_values

__all__ = ["correct_outputs"]


def correct_outputs(model: ir.Model) -> list[str]:
    """Declare the outputs as what they are, where their declaration is false by proof.

    ONNX's checker does not follow the results of a Loop, so that nobody sees it before the Loop
    is gone. JAX's exporter declares the results of some loops so.

    Args:
        model: Changed in place.

    Returns:
        A sentence for each output that was changed.
    """
    typing = type_values(model, proven=True)
    told = []
    for value in model.graph.outputs:
        proven = typing.dims(value)
        if value.shape is None or proven is None or not _contradicts(value.shape.dims, proven):
            continue
        declared = _in_words(value.shape.dims)
        value.shape = ir.Shape([dim if isinstance(dim, int) else None for dim in proven])
        told.append(
            f"output '{value.name}' is declared {declared} although it is {_in_words(proven)}; "
            "the new model declares it so"
        )
    return told


def _contradicts(declared: Sequence[Any], proven: Sequence[int | str | None]) -> bool:
    pairs = zip(declared, proven, strict=False)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def _in_words(dims: Sequence[Any]) -> str:
    return f"[{','.join(str(d) if isinstance(d, int) else '?' for d in dims)}]"
