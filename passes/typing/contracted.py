"""The shape of what an Einsum computes: an axis of size 1 is spread to those of its letter.

``ba,ba->ba`` of shapes ``[1, 3]`` and ``[5, 3]`` is ``[5, 3]``. ONNX's inference takes the first
size that it meets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from passes.graph.equations import lettered, terms_of
from passes.typing.own_operators import NodeCall

__all__ = ["contracted"]


def contracted(call: NodeCall) -> None:
    """Einsum: a dimension is not known where it is open which of several it is."""
    found = call.attribute("equation")
    equation = "" if found is None else found.s.decode()
    terms, _ = terms_of(equation)
    shapes = [call.dims(at) for at in range(len(terms))]
    if "." not in equation:  # tells the ranks, too
        shapes = [
            [None] * len(term) if s is None else s for s, term in zip(shapes, terms, strict=True)
        ]
    known = [dims for dims in shapes if dims is not None]
    named = lettered(equation, list(map(len, known))) if len(known) == len(shapes) else None
    if named is None:
        call.set(call.elem_type(), None)
        return
    sizes: dict[str, list[Any]] = {}
    for term, dims in zip(named[0], known, strict=True):
        for letter, dim in zip(term, dims, strict=True):
            sizes.setdefault(letter, []).append(dim)
    call.set(call.elem_type(), [_spread(sizes.get(letter, [None])) for letter in named[1]])


def _spread(dims: Sequence[Any]) -> Any:
    """Return the dimension that several are broadcast to, None if it is not known."""
    first, others = dims[0], [dim for dim in dims if dim is None or dim.dim_value != 1]
    if not others:
        return first
    numbers = [dim for dim in others if dim is not None and dim.HasField("dim_value")]
    if numbers:
        return numbers[0]
    names = {None if dim is None else dim.dim_param for dim in others}
    return others[0] if len(names) == 1 and all(names) else None
