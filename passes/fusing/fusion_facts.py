"""What holds for all maps of a model while they are fused."""

from __future__ import annotations

import enum
from collections.abc import Collection

import onnx_ir as ir

from passes.builder import ORIGIN_KEY
from passes.fusing.pack import rows_of_elements
from passes.graphs import PATH_KEY, default_opset, node_paths
from passes.promises import Promises
from passes.reading.types import checked_types
from passes.sequence_map import find_sequence_maps
from passes.site import MapSite
from passes.typing import Typings, type_both_ways, type_values

__all__ = ["Check", "FusionFacts"]


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

    def checked_typings(self, check: Check | None, site: MapSite) -> Typings:
        """Return both typings, or what is proven behind a guard of all maps."""
        if check is None:
            return self.typings
        rows = check is not Check.SHAPES
        if site.was_loop:
            return checked_types(site, self.typings, self.model, rows=rows)
        if rows not in self._checked:
            elements = self.typings.declared
            if rows:
                maps = [node for _, node in find_sequence_maps(self.model)]
                elements = rows_of_elements(maps, elements)
            typing = type_values(self.model, proven=True, elements=elements)
            self._checked[rows] = Typings(typing, typing)
        return self._checked[rows]


def _given(node: ir.Node, path: str) -> str:
    """Return a path that a reader finds in the model as given."""
    return node.meta.get(PATH_KEY) or node.metadata_props.get(ORIGIN_KEY) or path
