"""Says how what goes into a map and comes out of it is held in its batched forms."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from passes.batching.walk import Walk
from passes.decisions import BoundaryValue
from passes.site import MapSite
from passes.typing import Typing, ValueType

__all__ = ["boundary_values"]


def boundary_values(site: MapSite, walks: Iterable[Walk], declared: Typing) -> list[BoundaryValue]:
    """Return each input of the body and each result, and its layout in every form.

    Args:
        site: The map.
        walks: Its batched forms, and what a guard takes where none of them fits.
        declared: The types that the model declares, for the shape of one sample.
    """
    inputs = [(inner, inner.name) for inner, _ in [*site.elements, *site.shared]]
    results = [(site.body.outputs[one.output], one.value.name) for one in site.results]
    forms = list(walks)
    return [
        BoundaryValue(name or "", kind, _sample(declared[value]), _layouts(value, forms))
        for kind, values in (("reads", inputs), ("yields", results))
        for value, name in values
    ]


def _layouts(value: ir.Value, forms: list[Walk]) -> tuple[str, ...]:
    held = (walk.held(value) for walk in forms)
    return tuple(dict.fromkeys(one.layout.value for one in held if one is not None))


def _sample(known: ValueType) -> str:
    if not isinstance(known.type, ir.TensorType):
        return "?"
    name = known.type.dtype.name.lower()
    if known.dims is None:
        return f"{name}[...]"
    dims = ",".join("?" if dim is None else str(dim) for dim in known.dims)
    return f"{name}[{dims}]" if dims else name
