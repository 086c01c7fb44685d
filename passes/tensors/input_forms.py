"""Chooses the tensor that a sequence input becomes, or says why it stays a sequence."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from passes.flat_views import LEAST_OPSET
from passes.graph.graphs import name_of
from passes.graph.opsets import CARRIES_SEQUENCES
from passes.loops.forms import SPLITTABLE
from passes.maps.sequence_map import is_sequence_map
from passes.promises import Promises
from passes.tensors.io import PassedSequence, Refusal
from passes.typing.value_types import dim_of

__all__ = ["InputForms"]

Dims = tuple[int | str | None, ...]
_OPTIONAL = "make it a plain sequence or a tensor in the model"
_OLD_OPSET = f"convert the model to opset {CARRIES_SEQUENCES}"
_UNKNOWN_RANK = "promise equal shapes with --uniform, or shapes with --input-shape NAME=?,3"


class InputForms:
    """Chooses the tensor that each sequence input becomes.

    1. Elements of one shape, by a promise or because their declared type is all numbers: one
       tensor ``[B, *s]``. Where the sequence declares no rank, it is that of the bodies that read
       it.
    2. Elements that may differ along their first axis only: one tensor ``[sum(len_i), *rest]``
       and their lengths, int64 ``[B]``.
    3. Elements that may differ along other axes: one tensor ``[P, *rest]``, the elements
       row-major one behind the other, and their sizes, int64 ``[B, k]``.
    4. Where the caller asks for it: one tensor ``[B, *s]``, each element padded to the size of
       the largest, and their sizes likewise.
    5. What has an unknown rank, or differs along other axes before opset 14, stays a sequence.

    A declared number that is not promised is relied on: a list that breaks it cannot be given to
    the new model at all.

    Attributes:
        assumptions: What is relied on without a promise.
    """

    def __init__(self, promises: Promises, padded: Collection[str], opset: int) -> None:
        """Set up the choice.

        Args:
            promises: What the caller promises.
            padded: Names of inputs whose elements are padded to the largest, where they differ.
            opset: The opset of the model.
        """
        self._promises, self._padded, self._opset = promises, padded, opset
        self.assumptions: list[str] = []

    def choose(self, value: ir.Value) -> PassedSequence | Refusal | None:
        """Return the form of an input, why it stays a sequence, or None if it is no sequence."""
        name = name_of(value)
        if isinstance(value.type, ir.OptionalType):
            is_sequence = isinstance(value.type.elem_type, ir.SequenceType)
            return Refusal("input", name, "may be absent", _OPTIONAL) if is_sequence else None
        if not isinstance(value.type, ir.SequenceType):
            return None
        if self._opset < CARRIES_SEQUENCES and value.dtype not in SPLITTABLE:
            reason = f"has elements of {value.dtype}, which no Loop of opset {self._opset} inserts"
            return Refusal("input", name, reason, _OLD_OPSET)
        dims = self._dims(value)
        if name in self._promises.uniform:
            return PassedSequence("stacked", self._dims_in_bodies(value) if dims is None else dims)
        if dims is None:
            return Refusal("input", name, "has elements of unknown rank", _UNKNOWN_RANK)
        return self._of_rank(value, dims)

    def _of_rank(self, value: ir.Value, dims: Dims) -> PassedSequence | Refusal:
        """Return the form of a sequence whose elements have a known rank."""
        ragged = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
        if ragged and value.name in self._padded:
            form = PassedSequence("padded", dims)
        elif not ragged:
            form = PassedSequence("stacked", dims)
        elif ragged == [0]:
            form = PassedSequence("packed", dims)
        elif self._opset >= LEAST_OPSET:
            form = PassedSequence("flat", dims)
        else:
            return _too_old(name_of(value), dims, ragged)
        self._note(value, dims)
        return form

    def _dims(self, value: ir.Value) -> Dims | None:
        """Return the promised dimensions, and the declared ones where no promise is made.

        A dimension that is promised to be unknown is so, whatever number is declared.
        """
        declared = None if value.shape is None else tuple(dim_of(d) for d in value.shape)
        promised = self._promises.input_shapes.get(name_of(value))
        if promised is None:
            return declared
        if declared is None or len(declared) != len(promised):
            return tuple(promised)
        trusted = self._promises.trust_types
        return tuple(
            (None if isinstance(d, int) and not trusted else d) if p is None else p
            for p, d in zip(promised, declared, strict=True)
        )

    def _dims_in_bodies(self, value: ir.Value) -> Dims | None:
        """Return as many unknown dimensions as the bodies that read an element declare."""
        bodies = [
            (node.attributes["body"].as_graph(), position)
            for node, position in value.uses()
            if is_sequence_map(node)
        ]
        ranks = {
            None if (shape := body.inputs[position].shape) is None else len(shape)
            for body, position in bodies
        }
        rank = ranks.pop() if len(ranks) == 1 else None
        if rank is None:
            return None
        self.assumptions.append(
            f"every element of input '{value.name}' has rank {rank}, as the map that reads it "
            "declares: no other can be passed to the new model"
        )
        return (None,) * rank

    def _note(self, value: ir.Value, dims: Dims) -> None:
        promised = self._promises.input_shapes.get(name_of(value), ())
        all_promised = self._promises.trust_types or all(
            not isinstance(dim, int) or (axis < len(promised) and promised[axis] == dim)
            for axis, dim in enumerate(dims)
        )
        if not all_promised:
            shown = ",".join(str(d) if isinstance(d, int) else "?" for d in dims)
            self.assumptions.append(
                f"every element of input '{value.name}' has the declared shape [{shown}]: no "
                "other can be passed to the new model"
            )


def _too_old(name: str, dims: Dims, ragged: Collection[int]) -> Refusal:
    """Say why elements that differ along other axes than the first stay a sequence."""
    axes = " and ".join(map(str, ragged))
    reason = f"has elements that may differ along axes {axes}"
    if len(ragged) == 1:
        reason = f"has elements that may differ along axis {axes}, which is not the first"
    known = ",".join(str(d) if isinstance(d, int) else "?" for d in (None, *dims[1:]))
    remedy = (
        f"promise equal shapes with --uniform {name}, or numbers for all dimensions but "
        f"the first with --input-shape {name}={known}; or convert the model to opset {LEAST_OPSET}"
    )
    return Refusal("input", name, reason, remedy)
