"""The cost of each form of a map, by measured numbers, for the strategy ``auto``.

B samples cost ``fixed + B * each`` microseconds. What is inserted into a sequence costs more the
longer the sequence is. The numbers, and how they were measured, stand in `measured_costs`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from passes.fusing.fused_body import FusedBody
from passes.fusing.measured_costs import (
    AGAIN,
    ASKED,
    BATCHED,
    BLOCKED,
    COLLECTED,
    COPIED,
    COUNTED,
    FIRST_ASKED,
    HEAVY,
    HEAVY_STARTED,
    INSERTED,
    JOINED,
    KERNEL,
    LARGEST,
    LOOP,
    LOSS,
    MARGIN,
    MEASURED,
    MOST_BYTES,
    MOVED,
    NEXT_ASKED,
    PER_ITERATION,
    PLACED,
    READ,
    RECURRENT,
    ROW,
    SCATTERED,
    SLOWEST,
    SMALL,
    SPLIT,
    STARTED,
    WRITTEN,
)
from passes.graph.graphs import reads_of, subgraphs, walk_nodes
from passes.graph.made import that_run
from passes.loops.forms import Form, OutputPlan
from passes.maps.element_source import ElementSource
from passes.site import MapSite
from passes.typing import Typing, Typings
from passes.typing.value_types import is_number

__all__ = [
    "Cost",
    "cost_of_body",
    "cost_of_given",
    "cost_of_loop",
    "cost_of_nodes",
    "cost_of_stages",
]


@dataclasses.dataclass(frozen=True)
class Cost:
    """Microseconds that a form takes.

    Attributes:
        fixed: For any number of samples.
        each: For each sample.
        inserted: Values that are inserted into a sequence for each sample.
        blocked: Values that are collected in blocks, or inserted where there are few samples.
    """

    fixed: float
    each: float
    inserted: int = 0
    blocked: int = 0

    def of(self, samples: int) -> float:
        """Return what so many samples cost."""
        return float(self._of(np.array(samples)))

    def _of(self, samples: np.ndarray) -> np.ndarray:
        """Return what each of some numbers of samples costs."""
        insertion = INSERTED + COPIED * samples / 2
        collected = self.inserted * insertion + self.blocked * np.minimum(insertion, BLOCKED)
        return np.asarray(self.fixed + samples * (self.each + collected))

    def bears(self, microseconds: float) -> int:
        """Return from how many samples on a time is a share of the cost that may be lost."""
        return next(n for n in itertools.count() if microseconds <= LOSS * self.of(n))

    def pays_from(self, other: Cost) -> int | None:
        """Return from how many samples on this form is surely faster than another.

        Returns:
            The number; None if it never is, or for very many samples only.
        """
        numbers = np.arange(LARGEST)
        slower = np.flatnonzero(self._of(numbers) > other._of(numbers))
        if not slower.size:
            return 0
        last = int(slower[-1])
        return None if last == LARGEST - 1 else math.ceil(MARGIN * (last + 1))

    def stands_from(self, other: Cost) -> int:
        """Return from how many samples on, 1 at least, this form is as fast as it has to be.

        Args:
            other: What it takes the place of; it may fall a little short of its speed.
        """
        numbers = np.arange(1, LARGEST)
        stands = np.flatnonzero(self._of(numbers) <= other._of(numbers) / SLOWEST)
        return int(numbers[stands[0]]) if stands.size else LARGEST


def cost_of_loop(site: MapSite, outputs: Mapping[int, OutputPlan], typing: Typing) -> Cost:
    """Return what a map costs as a Loop.

    Args:
        site: The map.
        outputs: How each used output of the body is collected.
        typing: The declared typing.
    """
    reads = sum(_read(source) for _, source in site.elements)
    forms = [plan.form for plan in outputs.values()]
    each = PER_ITERATION + reads + KERNEL * _count(site.body)
    each += COLLECTED * forms.count(Form.SCAN_OUTPUT)
    each += sum(
        _split(site, result.output, typing)
        for result in site.results
        if result.kind == "sequence" and outputs[result.output].form is not Form.INSERTION
    )
    return Cost(LOOP, each, forms.count(Form.INSERTION), forms.count(Form.BLOCKS))


def cost_of_body(body: FusedBody, typings: Typings, asked: Sequence[ir.Value] = ()) -> Cost:
    """Return what a map costs in a form that batches all of it, or a part.

    Args:
        body: The form.
        typings: Both typings of the model.
        asked: The sequences that a guard reads.
    """
    read = {*asked, *body.asked}
    fixed = FIRST_ASKED + NEXT_ASKED * (len(read) - 1) if read else 0.0
    joined = sum(node.op_type == "ConcatFromSequence" for node in body.prelude.nodes)
    nodes = [node for stage in body.walk.stages for node in stage.nodes]
    fixed += WRITTEN * _count([*body.prelude.nodes, *nodes])
    large = (n for n in walk_nodes(body.site.body) if not _is_small(n, typings.declared))
    batched = min(_count(nodes), _count_of(large))
    each = ASKED * len(read) + JOINED * joined
    each += BATCHED * batched + COUNTED * (_count(nodes) - batched)
    each += PLACED * sum(node.op_type == "Range" for node in nodes)
    wanted = body.wanted_from_loops(typings)
    promotions = body.walk.promotions
    forms = [
        Form.BLOCKS if promotions.is_packable(value) else Form.SCAN_OUTPUT
        for value in promotions.values
    ]
    forms += [plan.form for plan in wanted.values()]
    each += COLLECTED * forms.count(Form.SCAN_OUTPUT)
    each += (BLOCKED + MEASURED) * forms.count(Form.BLOCKS)
    scattered = sum(node.op_type == "ScatterElements" for node in nodes)
    each += SCATTERED * scattered * _numbers_in_a_row(body.site, typings.declared)
    loops = [loop for loop in body.walk.loops if loop] or ([[]] if wanted else [])
    fixed += STARTED * max(0, len(loops) - 1)
    for loop in loops:
        each += PER_ITERATION + KERNEL * _count(loop) + sum(_reads(body, loop))
    each += AGAIN * _read_again(body, loops, typings.declared)
    each += sum(
        _split(body.site, result.output, typings.declared)
        for result in body.site.results
        if result.kind == "sequence"
        and not (result.output in wanted and wanted[result.output].form is Form.INSERTION)
    )
    return Cost(fixed, each, forms.count(Form.INSERTION))


def cost_of_given(loop: ir.Node) -> Cost:
    """Return what a Loop or Scan costs as its model has it, beside what it costs to start it."""
    bodies = [graph for _, graph in subgraphs(loop)]
    heavy = sum(node.op_type in HEAVY for body in bodies for node in walk_nodes(body))
    count = sum(_count(body, kept=that_run) for body in bodies)
    return Cost(0.0, PER_ITERATION + KERNEL * count + HEAVY_STARTED * heavy)


def cost_of_stages(nodes: Iterable[ir.Node]) -> float:
    """Return the cost of nodes that run once; an If runs the nodes for many iterations.

    What stands in an If that is inside of another one is for many more iterations.
    """
    nodes = list(nodes)
    branches = [subgraphs(node) for node in nodes if node.op_type == "If"]
    inner = sum(max(_count_of(graph) for _, graph in graphs) for graphs in branches)
    recurrent = sum(node.op_type in ("GRU", "LSTM", "RNN") for node in nodes)
    return WRITTEN * (_count_of(nodes) + inner) + RECURRENT * recurrent


def cost_of_nodes(nodes: Iterable[ir.Node]) -> float:
    """Return what nodes cost that run once, whatever the number of samples."""
    return WRITTEN * _count(nodes)


def _reads(body: FusedBody, nodes: Sequence[ir.Node]) -> Iterable[float]:
    """Yield what a loop over some nodes of a body pays for each value that it reads."""
    own = {value for node in nodes for value in node.outputs}
    for value in {v for node in nodes for v in reads_of(node)} - own:
        if value in body.sources:
            yield _read(body.sources[value])
            continue
        x = body.walk.read(value)
        if x.is_packed or body.walk.promotions.is_packable(value):
            yield READ["slice"]
        elif x.is_stacked or value in body.walk.promotions.values:
            yield READ["row"]


def _read_again(body: FusedBody, loops: Sequence[Sequence[ir.Node]], typing: Typing) -> int:
    """Return how often loops read images of any size that another one reads, too."""
    read = [{v for node in loop for v in reads_of(node)} for loop in loops]
    images = [v for v, source in body.sources.items() if _is_image(v, source, typing)]
    return sum(max(0, sum(v in values for values in read) - 1) for v in images)


def _is_image(value: ir.Value, source: ElementSource, typing: Typing) -> bool:
    dims = typing.dims(value)
    is_element = source.read_kind == "element"
    return is_element and dims is not None and sum(not isinstance(d, int) for d in dims) > 1


def _split(site: MapSite, output: int, typing: Typing) -> float:
    """Return what it costs to split off one element of a result."""
    value = site.body.outputs[output]
    dims, dtype = typing.static_dims(value), typing.dtype(value)
    if dims is None or not is_number(dtype):
        return SPLIT
    size = math.prod(dims) * dtype.itemsize
    return SPLIT + MOVED * size / 1024 * (size > MOST_BYTES)


def _read(source: ElementSource) -> float:
    return READ.get(source.read_kind, 0.0)


def _count(
    nodes: Iterable[ir.Node], kept: Callable[[Iterable[ir.Node]], Iterable[ir.Node]] = iter
) -> int:
    """Return how many nodes run, those inside of others too; of an If the longer branch."""
    count = 0
    for node in kept(nodes):
        inner = [_count(graph, kept) for _, graph in subgraphs(node)]
        if node.op_type != "Constant":
            count += 1 + (max if node.op_type == "If" else sum)(inner)
    return count


def _count_of(nodes: Iterable[ir.Node]) -> int:
    return sum(node.op_type != "Constant" for node in nodes)


def _numbers_in_a_row(site: MapSite, typing: Typing) -> int:
    """Return how many numbers the results of a map have for each sample, if that is known."""
    sizes = [typing.static_dims(site.body.outputs[i]) for i in site.used_outputs()]
    return max((ROW if one is None else math.prod(one) for one in sizes), default=ROW)


def _is_small(node: ir.Node, typing: Typing) -> bool:
    """Whether a node yields a few numbers for each sample, as arithmetic with positions does."""
    dims = [typing.static_dims(value) for value in node.outputs]
    return all(one is not None and math.prod(one) <= SMALL for one in dims)
