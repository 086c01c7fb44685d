"""Facts about a model: versions, sizes, inputs and outputs, operators."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import onnx_ir as ir

from passes.graph.graphs import all_graphs, all_nodes
from passes.sequence_operators import SEQUENCE_OPERATORS

__all__ = [
    "LOOP_OPERATORS",
    "ModelFacts",
    "OperatorCounts",
    "bytes_text",
    "count_operators",
    "external_tensors",
    "model_facts",
    "type_text",
]


@dataclasses.dataclass(frozen=True)
class ModelFacts:
    """The label of a model: what it declares of itself.

    Attributes:
        name: The name of its graph.
        producer: What made it, with the version.
        opset: The version of the default domain, 0 if it imports none.
        ir_version: The version of the format.
        weight_bytes: The size of its initializers, wherever they lie.
        inputs: The type of every input, by name.
        outputs: The type of every output, by name.
        file_bytes: The size of its file, without weights in other files; None for a model that
            is in memory only.
    """

    name: str = ""
    producer: str = ""
    opset: int = 0
    ir_version: int = 0
    weight_bytes: int = 0
    inputs: dict[str, str] = dataclasses.field(default_factory=dict)
    outputs: dict[str, str] = dataclasses.field(default_factory=dict)
    file_bytes: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values, fit for JSON."""
        return dataclasses.asdict(self)


def model_facts(model: ir.Model) -> ModelFacts:
    """Read what a model declares; no weight is read."""
    tensors = {
        id(value.const_value): value.const_value
        for graph in all_graphs(model)
        for value in getattr(graph, "initializers", {}).values()
        if value.const_value is not None
    }
    producer = " ".join(filter(None, [model.producer_name, model.producer_version]))
    return ModelFacts(
        name=model.graph.name or "",
        producer=producer,
        opset=model.opset_imports.get("", 0),
        ir_version=model.ir_version,
        weight_bytes=sum(tensor.nbytes for tensor in tensors.values()),
        inputs={v.name or "": type_text(v.type, v.shape) for v in model.graph.inputs},
        outputs={v.name or "": type_text(v.type, v.shape) for v in model.graph.outputs},
    )


def external_tensors(model: ir.Model) -> Iterator[ir.ExternalTensor]:
    """Yield every tensor of a model whose bytes lie in another file."""
    for graph in all_graphs(model):
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                yield value.const_value
        for node in graph:
            for attribute in node.attributes.values():
                several = attribute.type == ir.AttributeType.TENSORS
                # The value itself: `as_tensor` asks a protocol, which is slow.
                held = (attribute.value or ()) if several else (attribute.value,)
                yield from (t for t in held if isinstance(t, ir.ExternalTensor))


def type_text(kind: ir.TypeProtocol | None, shape: ir.Shape | None) -> str:
    """Return a type as ONNX's text form writes it, such as ``seq(float[N,4])``."""
    if isinstance(kind, ir.SequenceType):
        return f"seq({type_text(kind.elem_type, shape)})"
    if isinstance(kind, ir.OptionalType):
        return f"optional({type_text(kind.elem_type, shape)})"
    if not isinstance(kind, ir.TensorType | ir.SparseTensorType):
        return "?"
    dims = "[...]"
    if shape is not None:
        inner = ",".join(str(d) if isinstance(d, int) else d.value or "?" for d in shape)
        dims = f"[{inner}]" if len(shape) else ""
    return f"{kind.dtype.name.lower()}{dims}"


def bytes_text(count: int) -> str:
    """Return a size in the unit that fits, such as ``2.4 GB``."""
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


LOOP_OPERATORS = frozenset({"Loop", "Scan", "SequenceMap"})


@dataclasses.dataclass(frozen=True)
class OperatorCounts:
    """How many nodes of every operator a model holds, subgraphs and functions included.

    Attributes:
        by_type: Count by operator type, ``domain::type`` outside of the default domain; sorted
            by name.
    """

    by_type: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of nodes."""
        return sum(self.by_type.values())

    @functools.cached_property
    def operators(self) -> frozenset[str]:
        """The operators that it holds, of whatever domain."""
        return frozenset(name.rpartition("::")[2] for name in self.by_type)

    @property
    def sequences(self) -> int:
        """The number of nodes that make, read or map a sequence."""
        return self._count(SEQUENCE_OPERATORS)

    @property
    def loops(self) -> int:
        """The number of Loop, Scan and SequenceMap nodes."""
        return self._count(LOOP_OPERATORS)

    def _count(self, op_types: frozenset[str]) -> int:
        return sum(count for op_type, count in self.by_type.items() if op_type in op_types)

    def changes(self, before: OperatorCounts) -> str:
        """Say by how many nodes of each operator a model has changed."""
        one, other = before.by_type, self.by_type
        differences = {kind: other.get(kind, 0) - one.get(kind, 0) for kind in {**one, **other}}
        changed = [f"{kind} {n:+d}" for kind, n in sorted(differences.items()) if n]
        return ", ".join(changed) or "changed, with as many nodes of each operator"

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values, fit for JSON."""
        return {
            "total": self.total,
            "sequences": self.sequences,
            "loops": self.loops,
            "by_type": dict(sorted(self.by_type.items())),
        }


def count_operators(model: ir.Model) -> OperatorCounts:
    """Count the nodes of the main graph, of every subgraph and of every model-local function."""
    counter = collections.Counter(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for node in all_nodes(model)
    )
    return OperatorCounts(dict(sorted(counter.items())))
