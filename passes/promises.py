"""What the caller promises and asks: promises, switches of fusing, and how far a map may go.

Promises stand in the metadata of a model, and the furthest form of a map in that of its node.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Collection, Mapping
from typing import Any, cast

import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.graphs import all_graphs, is_default_domain, node_paths
from passes.graph.metadata import dims_of, read_record

__all__ = [
    "PROMISES_KEY",
    "Ceiling",
    "FuseOptions",
    "Promises",
    "ceiling_of",
    "clear_ceilings",
    "mark_ceilings",
    "safer_forms",
]

PROMISES_KEY = "seqmap.promises"
_CEILING_KEY = "seqmap.ceiling"


@dataclasses.dataclass(frozen=True)
class Promises:
    """Facts that no analysis can prove and that the caller guarantees.

    Attributes:
        uniform: Names of sequences whose elements all have one shape.
        input_shapes: Shape of a tensor input, or of every element of a sequence input;
            ``None`` stands for an unknown dimension.
        trust_types: All declared numbers in sequence element types hold.
    """

    uniform: frozenset[str] = frozenset()
    input_shapes: Mapping[str, tuple[int | None, ...]] = dataclasses.field(default_factory=dict)
    trust_types: bool = False

    def __bool__(self) -> bool:
        return bool(self.uniform or self.input_shapes or self.trust_types)

    def without_shapes(self, names: Collection[str | None]) -> Promises:
        """Return the promises without the shapes of some inputs."""
        shapes = {name: dims for name, dims in self.input_shapes.items() if name not in names}
        return dataclasses.replace(self, input_shapes=shapes)

    def write(self, model: ir.Model) -> None:
        """Record the promises in the model's metadata; no promise leaves no trace."""
        if not self:
            return
        record: dict[str, object] = {}
        if self.uniform:
            record["uniform"] = sorted(self.uniform)
        if self.input_shapes:
            record["input_shapes"] = {k: list(v) for k, v in sorted(self.input_shapes.items())}
        if self.trust_types:
            record["trust_types"] = True
        model.metadata_props[PROMISES_KEY] = json.dumps(record)

    @classmethod
    def read(cls, model: ir.Model) -> Promises:
        """Return the promises that a rewritten model carries (none: an empty record).

        Raises:
            RewriteError: The record is not of the form that `write` gives it.
        """
        return read_record(model, PROMISES_KEY, cls._from_dict)

    @classmethod
    def _from_dict(cls, record: Any) -> Promises:
        names = record.get("uniform", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("uniform is a list of names")
        shapes = {k: dims_of(v) for k, v in record.get("input_shapes", {}).items()}
        if any(isinstance(dim, str) for dims in shapes.values() for dim in dims):
            raise TypeError("a promised dimension is a number or null")
        return cls(
            uniform=frozenset(names),
            input_shapes=cast(dict[str, tuple[int | None, ...]], shapes),
            trust_types=record.get("trust_types", False) is True,
        )


@dataclasses.dataclass(frozen=True)
class FuseOptions:
    """Switches of fusing, handed on whole from the pass to the rules.

    Attributes:
        promises: What the caller promises of sequences and shapes.
        exact: Keep per-sample what rounding could change by more than rounding, and keep a Loop
            whose carried value would be rounded in another order.
        auto: Leave a map alone where fusing it gains nothing.
        lacks: Operators that the target does not have.
        for_device: The model is for a device beside the host: what it computes for few samples
            would be copied to the host to be cut, and is batched like any number.
        for_tensors: Sequences at the ends of the model will be tensors, so that a branch for few
            samples would only make sequences again.
    """

    promises: Promises = dataclasses.field(default_factory=Promises)
    exact: bool = False
    auto: bool = False
    lacks: Collection[str] = ()
    for_device: bool = False
    for_tensors: bool = False

    @property
    def takes_flat(self) -> bool:
        """Whether to batch samples that differ along several axes.

        A runtime that has loops, and sequences, is faster with large images one by one; a device
        is started anew for each node of each image, and waits for the sizes of each. Lists of
        images would be joined and cut there, too.
        """
        return not self.auto or bool(self.lacks) or (self.for_device and self.for_tensors)

    @property
    def takes_packed_as_flat(self) -> bool:
        """Whether packed samples may become flat ones.

        A guard asks for their lengths where the target has an If, and a Loop for all others. With
        tensors at the ends of the model a Loop has nothing to yield its samples in.
        """
        is_asked = self.for_tensors and not self.auto
        return self.takes_flat and (is_asked or not {"If", "Loop"}.isdisjoint(self.lacks))


class Ceiling(enum.StrEnum):
    """The furthest form that a map may take; each is safer than the one before it.

    1. ``guarded``: a SequenceMap is fused behind an If that asks whether all elements have one
       shape, with a loop in the other branch.
    2. ``expanded``: a SequenceMap becomes its fastest loop.
    3. ``as given``: a SequenceMap becomes the Loop of ONNX's specification; a Loop or Scan stays
       as it is.
    """

    GUARDED = "guarded"
    EXPANDED = "expanded"
    AS_GIVEN = "as given"


_FORMS = {
    "SequenceMap": (Ceiling.GUARDED, Ceiling.EXPANDED, Ceiling.AS_GIVEN),
    "Loop": (Ceiling.AS_GIVEN,),
    "Scan": (Ceiling.AS_GIVEN,),
}


def safer_forms(model: ir.Model) -> dict[str, tuple[Ceiling, ...]]:
    """Return the path of every map of a model, with its safer forms, the safest last."""
    paths = node_paths(model)
    nodes = [n for graph in all_graphs(model) for n in graph if is_default_domain(n)]
    return {paths[node]: _FORMS[node.op_type] for node in nodes if node.op_type in _FORMS}


def mark_ceilings(model: ir.Model, ceilings: Mapping[str, Ceiling]) -> None:
    """Mark maps, named by their paths in the model as given.

    Raises:
        RewriteError: There is no node of such a path.
    """
    nodes = {path: node for node, path in node_paths(model).items()} if ceilings else {}
    for path, ceiling in ceilings.items():
        if path not in nodes:
            raise RewriteError(f"there is no map {path!r} in the model: give the path of one")
        nodes[path].metadata_props[_CEILING_KEY] = Ceiling(ceiling).value


def ceiling_of(node: ir.Node) -> Ceiling | None:
    """Return the furthest form that a map may take, None where all are allowed."""
    mark = node.metadata_props.get(_CEILING_KEY)
    return None if mark is None else Ceiling(mark)


def clear_ceilings(model: ir.Model) -> None:
    """Take all marks away."""
    for graph in all_graphs(model):
        for node in graph:
            node.metadata_props.pop(_CEILING_KEY, None)
