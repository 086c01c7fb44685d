"""Lists the options that are tried as remedies before a report offers them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from passes.graph.graphs import default_opset
from passes.typing.value_types import dim_of
from rewriter.option_values import Dims
from rewriter.options import Options
from rewriter.reporting.remedies import Candidate

__all__ = ["candidates", "newer_opset"]

_NEWER = 18
"""The opset that is tried: from it on, most rules have all operators that they write."""

_RANKS = (1, 2, 3)
"""The ranks that are tried for elements of unknown rank."""

_STAND_IN = {True: 32, False: 4}
"""The number that stands for unknown dimensions: of elements, and of a tensor."""


_TENSORS = Candidate("--tensor-io", {"tensor_io": True})


def newer_opset(options: Options, model: ir.Model) -> int | None:
    """Return the opset that a model may be converted to, None if it is new enough.

    Args:
        options: The options as given.
        model: The model as given.
    """
    newest = min(_NEWER, options.row.highest_opset or _NEWER)
    return newest if options.opset is None and default_opset(model) < newest else None


def candidates(
    options: Options, model: ir.Model, *, fused: bool, opset: int | None = None
) -> Iterator[Candidate]:
    """Yield changes of options that are not given yet; what asks less of the user comes first.

    Args:
        options: The options as given.
        model: The model as given.
        fused: Whether a form that costs more than a loop would be better than what is there.
        opset: What to convert the model to, None if it is new enough.
    """
    if options.strategy == "expand":
        auto = Candidate("--strategy auto", {"strategy": "auto"})
        yield auto
        if not options.tensor_io and _passes_sequences(model):
            yield _TENSORS
        asked = dataclasses.replace(options, strategy="auto")
        rest = candidates(asked, model, fused=False, opset=opset)
        yield from (_both(auto, one) for one in rest)
        return
    for switch in options.strict:
        yield Candidate(f"leave out --{switch}", {switch: False})
    if fused and options.strategy == "auto":
        yield Candidate("--strategy fuse", {"strategy": "fuse"})
    if opset is not None:
        yield Candidate(f"--opset {opset}", {"opset": opset})
    uniform = [name for name in _sequences(model) if not _is_uniform(options, name)]
    every = _uniform(options, uniform) if uniform else None
    yield from (_uniform(options, [name]) for name in uniform)
    if every and len(uniform) > 1:
        yield every
    tensors = None
    if not options.tensor_io and _passes_sequences(model):
        tensors = _TENSORS
        yield tensors
        if every:
            yield _both(tensors, every)
    if not options.trust_types and _declares_numbers(model):
        yield Candidate("--trust-types", {"trust_types": True})
    shapes = _shapes_of_all(options, model)
    yield from shapes
    if tensors:
        yield from (_both(tensors, shape) for shape in shapes)


def _shapes_of_all(options: Options, model: ir.Model) -> list[Candidate]:
    """Return promises of the shape of one input, and of those of all inputs of known rank."""
    found = {value: list(_shapes(options, value)) for value in model.graph.inputs}
    last = [shapes[-1] for v, shapes in found.items() if shapes and v.shape is not None]
    together = [functools.reduce(_both, last)] if len(last) > 1 else []
    return [*(shape for shapes in found.values() for shape in shapes), *together]


def _both(one: Candidate, other: Candidate) -> Candidate:
    changes = {**one.changes, **other.changes}
    if "input_shapes" in one.changes and "input_shapes" in other.changes:
        changes["input_shapes"] = {**one.changes["input_shapes"], **other.changes["input_shapes"]}
    return Candidate(
        f"{one.option} {other.option}", changes, {**one.unknown, **other.unknown}, other.where
    )


def _sequences(model: ir.Model) -> list[str]:
    inputs = model.graph.inputs
    return [v.name for v in inputs if v.name and isinstance(v.type, ir.SequenceType)]


def _passes_sequences(model: ir.Model) -> bool:
    values = (*model.graph.inputs, *model.graph.outputs)
    return any(isinstance(value.type, ir.SequenceType) for value in values)


def _declares_numbers(model: ir.Model) -> bool:
    return any(
        isinstance(dim, int)
        for value in model.graph.inputs
        if isinstance(value.type, ir.SequenceType)
        for dim in value.shape or ()
    )


def _is_uniform(options: Options, name: str) -> bool:
    promised = options.promises.input_shapes.get(name)
    is_whole = promised is not None and None not in promised
    return is_whole or name in options.promises.uniform


def _uniform(options: Options, names: list[str]) -> Candidate:
    option = " ".join(f"--uniform {name}" for name in names)
    return Candidate(option, {"uniform": (*options.uniform, *names)})


def _shapes(options: Options, value: ir.Value) -> Iterator[Candidate]:
    """Yield promises of the shape of an input, the last with a number for each dimension."""
    if not value.name or value.is_initializer():
        return
    is_sequence = isinstance(value.type, ir.SequenceType)
    promised = (options.input_shapes or {}).get(value.name)
    for known in _possible_dims(value, promised):
        names = _named(known)
        unknown = dict.fromkeys(
            (dim for dim in names if isinstance(dim, str)), _STAND_IN[is_sequence]
        )
        adds_rank = value.shape is None and promised is None
        where = ""
        if adds_rank:
            dims = "1 dimension" if len(names) == 1 else f"{len(names)} dimensions"
            where = f"if {'the elements of ' if is_sequence else ''}{value.name} have {dims}"
        adds_numbers = is_sequence and promised is None and len(unknown) < len(names)
        if adds_rank or adds_numbers:
            yield _shape(options, value.name, names, {}, where)
        if unknown:
            yield _shape(options, value.name, names, unknown, where)


def _possible_dims(value: ir.Value, promised: Dims | None) -> list[list[int | str | None]]:
    """Return what the dimensions of an input may be, as far as they are known."""
    declared = None
    if value.shape is not None:
        declared = [dim_of(d) for d in value.shape]
    if promised is not None:
        declared = declared or [None] * len(promised)
        pairs = zip(promised, declared, strict=True)
        return [[one if isinstance(one, int) else other for one, other in pairs]]
    if declared is None:
        return [[None] * rank for rank in _RANKS]
    return [declared]


def _named(dims: list[int | str | None]) -> list[int | str]:
    """Name the dimensions that are not known."""
    return [
        dim if isinstance(dim, int) or (dim and dim.isidentifier()) else f"d{i}"
        for i, dim in enumerate(dims)
    ]


def _shape(
    options: Options, name: str, dims: list[int | str], unknown: Mapping[str, int], where: str
) -> Candidate:
    option = f"--input-shape {name}={','.join(map(str, dims))}"
    promised = [unknown.get(dim, dim) if isinstance(dim, str) else dim for dim in dims]
    shapes = {**(options.input_shapes or {}), name: promised}
    return Candidate(option, {"input_shapes": shapes}, unknown, where)
