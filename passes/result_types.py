"""What the results of a map tell of the samples that they are made of."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.site import MapResult
from passes.typing import Typings

__all__ = ["dims_of_samples"]


def dims_of_samples(
    value: ir.Value, results: Iterable[MapResult], typings: Typings
) -> tuple[int | str | None, ...] | None:
    """Return the declared dimensions of an output of a body; its rank by a result otherwise.

    Args:
        value: The output of the body.
        results: What is made of it.
        typings: Both typings of the model.
    """
    dims = typings.declared.dims(value)
    for result in results:
        outer = typings.declared.dims(result.value)
        if dims is None and outer is not None:
            dims = (None,) * (len(outer) - (result.kind == "stacked"))
    return dims
