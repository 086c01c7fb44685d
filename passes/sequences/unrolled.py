"""A map of a small known number of samples as copies of its body."""

from __future__ import annotations

import onnx_ir as ir

from passes.batching.table import may_draw
from passes.graph.builder import Builder
from passes.graph.graphs import is_used
from passes.graph.hidden import hide_type
from passes.graph.node_copies import copy_body, rank_alone
from passes.loops.copies import FEW_NODES, Copies, constants_apart, weight_of
from passes.numbers.folding import Folder
from passes.sequences.known import KnownSequences
from passes.sequences.parts import Parts, Sliced
from passes.sequences.reads import SequenceReader
from passes.site import MapSite
from passes.typing import Typing

__all__ = ["copy_samples"]


def copy_samples(site: MapSite, typing: Typing, opset: int, *, is_fused: bool) -> Copies | None:
    """Record the copies of a body; None if the map is not to be unrolled."""
    folder = Folder(typing)
    known = KnownSequences(typing, folder)
    sources = site.sequences
    first = known[sources[0][1]]
    count = None if first is None else first.count
    if not count or may_draw(site.node, opset):
        return None
    if count > 1 and count * len(site.body) > 16 * FEW_NODES:
        return None  # not worth the copies that are counted below
    builder, hiding = Builder(site.path), dict[ir.Value, ir.Value]()
    results: list[list[ir.Value]] = [[] for _ in site.body.outputs]
    once: dict[ir.Value, ir.Value | None] = dict(site.shared)
    constants, others = constants_apart(site.body)
    builder.nodes.extend(copy_body(constants, once))
    weight = 0
    for k in range(count):
        values = dict(once)
        for inner, sequence in sources:
            values[inner] = _element(builder, sequence, known, k, hiding, typing)
        nodes = copy_body(others, values)
        builder.nodes.extend(nodes)
        typing.copy(values)
        weight += weight_of(nodes, folder)
        for held, value in zip(results, site.body.outputs, strict=True):
            result = values.get(value, value)
            assert result is not None
            held.append(result)
    limit: float = FEW_NODES
    if not is_fused:
        reader = SequenceReader(typing, known, opset)
        sequences = [known[sequence] for _, sequence in sources]
        if all(_may_batch(parts, reader) for parts in sequences):
            stacking = 0 if all(_is_cut(parts) for parts in sequences) else 2 * count + 2
            limit = min(limit, weight / count + stacking)
    if count > 1 and weight > limit:
        return None
    pairs = [
        (value, builder.op("SequenceConstruct", held))
        for value, held in zip(site.node.outputs, results, strict=True)
        if is_used(value)
    ]
    return Copies(site.node, site.path, builder, pairs, count, weight)


def _element(
    builder: Builder,
    sequence: ir.Value,
    known: KnownSequences,
    position: int,
    hiding: dict[ir.Value, ir.Value],
    typing: Typing,
) -> ir.Value:
    """Return an element of a sequence: itself if it is listed, and read otherwise.

    What is read of an unknown sequence must not have its declared dimensions: onnxruntime would
    take elements of one symbol to have one size, and give one the memory of another.
    """
    parts = known[sequence]
    element = None if parts is None else parts.at(position)
    if isinstance(element, ir.Value):
        return element
    if parts is not None:
        return builder.op("SequenceAt", [sequence, builder.scalar(position)])
    if sequence not in hiding:
        hiding[sequence] = hide_type(builder, sequence, typing.dtype(sequence))
    element = builder.op("SequenceAt", [hiding[sequence], builder.scalar(position)])
    element.shape = rank_alone(sequence.shape)
    return element


def _may_batch(parts: Parts | None, reader: SequenceReader) -> bool:
    """Whether a sequence can be stacked or packed without a guard."""
    if parts is None:
        return False
    if _is_cut(parts):
        return True
    shapes = [reader.element_dims(part) for part in parts.parts]
    first = shapes[0]
    return (
        first is not None
        and all(isinstance(dim, int) for dim in first)
        and all(shape == first for shape in shapes)
    )


def _is_cut(parts: Parts | None) -> bool:
    """Whether the elements are all slices of one tensor."""
    return parts is not None and len(parts.parts) == 1 and isinstance(parts.parts[0], Sliced)
