"""What a range of seeds covers: operator families, sizes, shapes, sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import onnx
import onnx_ir as ir

from passes.batching import rules, table
from tests.property.programs import Program

__all__ = ["coverage", "operators", "raggedness"]

assert rules


def coverage(programs: Iterable[Program]) -> dict[str, Counter[str]]:
    """Count, in how many programs each feature occurs.

    Returns:
        By kind of feature. ``family`` is that of the rule table; operators that are opened or
        never batched are families of their own.
    """
    found: dict[str, Counter[str]] = {}
    for program in programs:
        for kind, feature in set(_features(program)):
            found.setdefault(kind, Counter())[feature] += 1
    return found


def raggedness(program: Program) -> Iterator[str]:
    """Yield how the samples of a program differ in shape, and whether there may be none."""
    fed = {i for feed in program.feeds for i in feed.samples}
    for value in program.body.mapped:
        source = program.sources[value.name]
        if source.kind == "sizes" and not value.is_uniform:
            yield "packed tensor"
            if source.axis:
                yield "cut behind the first axis"
            if source.sizes_of:
                yield "two tensors of one split"
        if value.rank > 0 and sum(n is None for n in value.dims) > 1:
            yield "doubly ragged"
        if any(0 in value.samples[i].shape for i in fed):
            yield "zero-length samples"
    if any(not feed.samples for feed in program.feeds):
        yield "no samples"


def operators(program: Program) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of the bodies of a program, inner graphs included, without constants."""
    bodies = [program.body] + ([program.first] if program.first is not None else [])
    for body in bodies:
        yield from _nodes(body.nodes)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        if node.op_type != "Constant":
            yield node
        for attribute in node.attribute:
            yield from _nodes(attribute.g.node)


def _family(node: onnx.NodeProto, opset: int) -> str:
    row = table.find(ir.Node(node.domain, node.op_type, [], num_outputs=1), opset)
    return row.family if isinstance(row, table.Row) else node.op_type


def _features(program: Program) -> Iterator[tuple[str, str]]:
    body = program.body
    for node in operators(program):
        yield "operator", node.op_type
        yield "family", _family(node, body.opset)
    yield "nodes", str(sum(n.op_type != "Constant" for n in body.nodes))
    for feed in program.feeds:
        yield "samples", str(len(feed.samples))
    yield "drawn samples", str(len(program.feeds[0].samples))
    yield "element inputs", str(len(body.mapped))
    yield "chained", str(program.first is not None)
    yield "shared inputs", str(len(body.shared))
    yield "captured inputs", str(len(body.captured))
    for source in program.sources.values():
        yield "source", source.kind
    for feature in raggedness(program):
        yield "ragged", feature
    for value in body.mapped:
        declared = program.sources[value.name].declared
        is_static = declared in ("numbers", "some") and program.sources[value.name].kind != "map"
        equal = "static" if is_static else "unknown but equal"
        yield "shapes", equal if value.is_uniform else "ragged"
    for result in program.results:
        yield "result", result.kind
