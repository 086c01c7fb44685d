"""Further readings of a Loop that was raised, which wait until somebody asks for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import onnx_ir as ir

from passes.builder import drop_uses
from passes.maps.operator import DOMAIN
from passes.site import ElementSource, IndexSource, MapSite, SequenceSource, TensorSource

__all__ = ["Reading"]


class Reading:
    """A map as it was read, whose values follow when they are replaced by others.

    Its body stands in no graph. A node that stands in none either reads what the record of the
    map names.
    """

    def __init__(self, site: MapSite, results: Mapping[ir.Value, ir.Value]) -> None:
        """Keep a map.

        Args:
            site: The map as it was read.
            results: For each result of the Loop the value that stands in its place.
        """
        self._site = site
        self._results = [dataclasses.replace(r, value=results[r.value]) for r in site.results]
        self._values = list(dict.fromkeys(_values(site)))
        self._keeper = ir.Node(DOMAIN, "Keeper", self._values, num_outputs=0)

    def site(self, like: MapSite) -> MapSite:
        """Return the map as it is now; ``like`` is another reading, with the number of samples."""
        now = dict(zip(self._values, self._keeper.inputs, strict=True))
        number = next((s for _, s in like.elements if isinstance(s, IndexSource)), None)
        elements = [(inner, _moved(s, now, number)) for inner, s in self._site.elements]
        as_long = [(_of(now, one), _of(now, other)) for one, other in self._site.as_long]
        return dataclasses.replace(
            self._site,
            node=like.node,
            graph=like.graph,
            elements=elements,
            results=self._results,
            finals={},
            loop=like.loop,
            given=like.given,
            as_long=as_long,
        )

    def discard(self) -> None:
        """Take back every use that it makes of the model's values, unless it was taken."""
        beside = [] if self._site.even is None else self._site.even.builder.nodes
        nodes = [*self._site.body, *beside, self._keeper]
        drop_uses([node for node in nodes if node.graph in (None, self._site.body)])


def _values(site: MapSite) -> list[ir.Value]:
    """Return the values of the enclosing graphs that the record of a map names."""
    found: list[ir.Value] = [value for pair in site.as_long for value in pair]
    for _, source in site.elements:
        if isinstance(source, SequenceSource):
            found.append(source.sequence)
        elif isinstance(source, TensorSource):
            found += [source.tensor, *([] if source.split is None else [source.split])]
    return found


def _moved(
    source: ElementSource, now: Mapping[ir.Value, ir.Value | None], number: IndexSource | None
) -> ElementSource:
    match source:
        case SequenceSource():
            return SequenceSource(_of(now, source.sequence))
        case TensorSource():
            split = None if source.split is None else _of(now, source.split)
            return dataclasses.replace(source, tensor=_of(now, source.tensor), split=split)
    return source if number is None else number


def _of(now: Mapping[ir.Value, ir.Value | None], value: ir.Value) -> ir.Value:
    found = now[value]
    assert found is not None
    return found
