"""Further readings of a Loop that was raised, which wait until somebody asks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import onnx_ir as ir

from passes.graph.graphs import walk_nodes
from passes.reading.loop_reading import LoopReading
from passes.reading.not_a_map import NotAMapError
from passes.sequence_operators import DOMAIN
from passes.site import GuardCheck, MapSite

__all__ = ["Reading", "other_readings"]


class Reading:
    """A map as it was read, whose values follow when they are replaced by others.

    Its body stands in no graph. A node that stands in none either reads what the record of the
    map names.

    Attributes:
        check: What must hold for it to be right.
    """

    def __init__(
        self, check: GuardCheck, site: MapSite, results: Mapping[ir.Value, ir.Value]
    ) -> None:
        """Keep a map.

        Args:
            check: What must hold for it to be right.
            site: The map as it was read.
            results: For each result of the Loop the value that stands in its place.
        """
        self.check = check
        self._site = site
        self._results = [dataclasses.replace(r, value=results[r.value]) for r in site.results]
        self._values = list(dict.fromkeys(v for _, source in site.elements for v in source.values))
        self._keeper = ir.Node(DOMAIN, "Keeper", self._values, num_outputs=0)

    def site(self, like: MapSite) -> MapSite:
        """Return the map as it is now; ``like`` is another reading, with the number of samples."""
        pairs = zip(self._values, self._keeper.inputs, strict=True)
        now = {before: value for before, value in pairs if value is not None}
        number = {s.kind: s for _, s in like.elements if s.kind == "index"}
        elements = [
            (inner, number.get(s.kind) or s.moved(now)) for inner, s in self._site.elements
        ]
        return dataclasses.replace(
            like,
            elements=elements,
            shared=self._site.shared,
            body=self._site.body,
            results=self._results,
            condition=self._site.condition,
        )

    @property
    def nodes(self) -> list[ir.Node]:
        """The node that reads the model's values for it, unless it was taken."""
        condition = self._site.condition
        beside = [] if condition is None else condition.builder.nodes
        nodes = [*self._site.body, *beside, self._keeper]
        return [node for node in nodes if node.graph in (None, self._site.body)]


def other_readings(
    site: MapSite,
    original: ir.Graph,
    read: Callable[[ir.Node, ir.Graph, GuardCheck | None], LoopReading],
) -> dict[GuardCheck, MapSite]:
    """Read a Loop that cuts tensors as if they were equally long, or the slices were.

    Args:
        site: The Loop as it was read.
        original: Its body.
        read: Reads a Loop of a graph as if a check held.
    """
    found: dict[GuardCheck, MapSite] = {}
    if all(node.op_type != "Slice" for node in walk_nodes(original)):
        return found
    for check in (GuardCheck.SIZES, GuardCheck.SLICES):
        try:
            reading = read(site.node, site.graph, check)
        except NotAMapError:
            continue
        if reading.site.condition is not None and not reading.earlier:
            found[check] = reading.site
    return found
