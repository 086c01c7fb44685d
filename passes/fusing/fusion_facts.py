"""What holds for all maps of a model while they are fused."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping

import onnx_ir as ir

from passes.builder import ORIGIN_KEY
from passes.fusing.pack import supposed_elements
from passes.graphs import PATH_KEY, default_opset, node_paths
from passes.promises import Promises
from passes.reading.types import checked_types
from passes.sequence_map import find_sequence_maps
from passes.site import MapSite
from passes.typing import Typings, type_both_ways, type_values

__all__ = ["Check", "FusionFacts", "Relied"]

Relied = Mapping[ir.Value, tuple[int | str | None, ...]]
"""What a guard checks of the elements of sequences: their rank, and every number."""


class Check(enum.StrEnum):
    """What a guard asks before the fused body runs: of elements, or of tensors cut alike."""

    SHAPES = "equal shapes"
    ROWS = "equal rows"
    LENGTHS = "equal rows and lengths"
    SIZES = "equally long tensors"


class FusionFacts:
    """What holds for all maps of a model.

    Attributes:
        model: The model.
        typings: Both typings.
        opset: Version of ONNX's operators.
        promises: What the caller vouches for.
        exact: Keep per-sample what rounding could change by more than rounding.
        auto: Leave a map alone where fusing it gains nothing.
        lacks: Operators that the target does not have.
        paths: Names the nodes for messages; a node that a rewrite wrote is called by the path of
            the node that it stands for.
    """

    def __init__(
        self,
        model: ir.Model,
        promises: Promises,
        *,
        exact: bool = False,
        auto: bool = False,
        lacks: Collection[str] = (),
    ) -> None:
        self.model = model
        self.typings = type_both_ways(model, promises)
        self.opset = default_opset(model)
        self.promises = promises
        self.exact = exact
        self.auto = auto
        self.lacks = lacks
        self.paths = {node: _given(node, path) for node, path in node_paths(model).items()}
        self._checked: dict[bool, Typings] = {}

    def checked_typings(
        self, check: Check | None, site: MapSite, relied: Relied | None = None
    ) -> Typings:
        """Return both typings, or what is proven behind a guard.

        Args:
            check: What the guard asks; None if there is none.
            site: The map.
            relied: What is supposed of the elements; None for what all maps declare.
        """
        if check is None:
            return self.typings
        rows = check is not Check.SHAPES
        if site.was_loop:
            return checked_types(site, self.typings, self.model, relied or {}, rows=rows)
        if relied is not None:
            return self._type_anew(rows, relied)
        if rows not in self._checked:
            self._checked[rows] = self._type_anew(rows, {})
        return self._checked[rows]

    def _type_anew(self, rows: bool, relied: Relied) -> Typings:
        elements = self.typings.declared
        if rows or relied:
            maps = [node for _, node in find_sequence_maps(self.model)]
            elements = supposed_elements(maps, elements, relied, rows=rows)
        typing = type_values(self.model, proven=True, elements=elements)
        return Typings(typing, typing)


def _given(node: ir.Node, path: str) -> str:
    """Return a path that a reader finds in the model as given."""
    return node.meta.get(PATH_KEY) or node.metadata_props.get(ORIGIN_KEY) or path
