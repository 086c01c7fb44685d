"""Makes loops of SequenceMaps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import onnx_ir as ir

from passes.decisions import Code, Decision, Reason, Verdict
from passes.flat_views import read_view
from passes.fold_branches import fold_branches
from passes.graph.builder import Builder, given_paths
from passes.graph.graphs import all_nodes, graphs_in_loops, is_operator, walk_nodes
from passes.graph.made import made_by, operand
from passes.graph.names import make_names_unique
from passes.graph.splice import splice
from passes.loops.few_samples import write_by_count
from passes.loops.plain import write_plain
from passes.loops.plan import LoopPlan, element_type, plan_loop, untyped
from passes.maps.sequence_map import find_sequence_maps, prepare, read_sequence_map
from passes.maps.sequence_source import cut_tensor
from passes.numbers.folding import Folder
from passes.promises import Ceiling, ceiling_of
from passes.site import MapSite
from passes.typing import Typings, type_both_ways, type_values

__all__ = ["ExpandSequenceMapPass"]


def _apply_linear(site: MapSite, typings: Typings, plan: LoopPlan) -> None:
    """Replace a map by its loop."""
    builder = Builder(site.path)
    _replace(builder, site, typings, write_by_count(builder, site, typings, plan))


def _apply_plain(site: MapSite, typings: Typings) -> None:
    dtypes = []
    for output, value in enumerate(site.body.outputs):
        results = [r for r in site.results if r.output == output]
        dtype = element_type(value, results, typings)
        if dtype is None:
            raise untyped(site, output)
        dtypes.append(dtype)
    builder = Builder(site.path)
    _replace(builder, site, typings, write_plain(builder, site, dtypes))


def _replace(
    builder: Builder, site: MapSite, typings: Typings, values: Sequence[ir.Value]
) -> None:
    pairs = [(r.value, v) for r, v in zip(site.results, values, strict=True)]
    # A map around this one reads the types of the new values.
    typings.copy(splice(builder, site.node, pairs))


def _is_open(site: MapSite, typings: Typings) -> bool:
    """Whether elements of a sequence that a map reads may differ in shape."""
    return any(
        source.sequence is not None and not source.has_one_shape(typings.proven)
        for _, source in site.elements
    )


def _is_plain(node: ir.Node) -> bool:
    """Whether a map may only become the expansion of ONNX's specification."""
    return ceiling_of(node) is Ceiling.AS_GIVEN


def _fold_known_branches(model: ir.Model) -> bool:
    """Fold each If of a body whose condition is a constant, or depends on proven shapes only.

    onnxruntime does so too, but in the body of a Loop it loses values that a branch hands on.
    """
    maps = [node for _, node in find_sequence_maps(model) if not _is_plain(node)]
    if not any(node.op_type == "If" for node in walk_nodes(maps)):
        return False
    return fold_branches(maps, Folder(type_values(model, proven=True, ranks=False)))


def _readers(node: ir.Node, paths: Mapping[ir.Node, str]) -> tuple[str, ...]:
    """Return the paths of the maps that read flat samples one by one; none for other maps."""
    elements = node.outputs[0]
    if read_view(elements) is None:
        return ()
    reading = [use.node for use in elements.uses()]
    return tuple(dict.fromkeys(paths[node] for node in reading if node in paths))


class ExpandSequenceMapPass(ir.passes.InPlacePass):
    """Replace every SequenceMap, wherever it stands, by a Loop.

    1. ``form="linear"``: each output in the fastest form that is right for it: a scan output, or
       blocks, or insertion into a sequence (see `passes.loops.loop`). A split before the map and a
       concatenation after it become part of the loop.
    2. ``form="plain"``: the expansion of ONNX's specification, a Loop with SequenceAt and
       SequenceInsert.

    Attributes:
        decisions: What was done with each map, in the order of the work.
    """

    only_for = (("SequenceMap",),)

    def __init__(
        self,
        form: Literal["linear", "plain"] = "linear",
        *,
        reason: Reason | None = None,
        lacks: Collection[str] = (),
        in_loops: bool = False,
    ) -> None:
        """Set up the pass.

        Args:
            form: See the class.
            reason: Why maps are made loops at all; it goes into every decision.
            lacks: Operators that the target does not have.
            in_loops: Leave all maps alone but those in Loops and Scans over sequences whose
                elements may differ in shape.
        """
        super().__init__()
        if form not in ("linear", "plain"):
            raise ValueError(f"form is 'linear' or 'plain', not {form!r}")
        self.form = form
        self._lacks = lacks
        self._in_loops = in_loops
        self.decisions: list[Decision] = []
        self._reasons = [] if reason is None else [reason]

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Expand the maps of a model, those inside of other maps first."""
        self.decisions = []
        modified, lengths = prepare(model), list[ir.Node]()
        if self.form == "linear":
            modified |= _fold_known_branches(model)
            lengths = _read_lengths_before_maps(model)
            modified |= bool(lengths)
        maps = find_sequence_maps(model)
        if self._in_loops:
            inside = set(graphs_in_loops(model.graph))
            maps = [(graph, node) for graph, node in maps if graph in inside]
        if not maps:
            return ir.passes.PassResult(model, modified)
        typings = type_both_ways(model)
        _count_slices(lengths, typings)
        paths = given_paths(model)
        if self._in_loops:
            maps = [
                (graph, node)
                for graph, node in maps
                if _is_open(read_sequence_map(node, graph, paths[node], typings.declared), typings)
            ]
        # A loop does not show any more that its results are as many as its samples.
        equal_lengths = {
            node: self._read(node, graph, paths, typings).lengths_are_equal(typings.proven)
            for graph, node in maps
        }
        for graph, node in maps:
            if node.graph is None or not any(node.inputs):
                continue  # it is gone: only a map that nothing reads needed its results
            site = self._read(node, graph, paths, typings)
            readers = _readers(node, paths)
            decision = self._expand(site, typings, equal_lengths=equal_lengths[node])
            decision.readers = readers
            repaired = [Reason(Code.REPAIRED)] if ceiling_of(node) else []
            decision.reasons[:0] = [*self._reasons, *repaired]
            self.decisions.append(decision)
        make_names_unique(model)
        return ir.passes.PassResult(model, modified or bool(maps))

    def _read(
        self, node: ir.Node, graph: ir.Graph, paths: Mapping[ir.Node, str], typings: Typings
    ) -> MapSite:
        is_linear = self.form == "linear" and not _is_plain(node)
        return read_sequence_map(
            node, graph, paths[node], typings.declared, with_boundaries=is_linear
        )

    def _expand(self, site: MapSite, typings: Typings, *, equal_lengths: bool) -> Decision:
        if self.form == "linear" and not _is_plain(site.node):
            plan = plan_loop(site, typings, equal_lengths=equal_lengths, lacks=self._lacks)
            _apply_linear(site, typings, plan)
            return plan.decision
        _apply_plain(site, typings)
        reasons = [] if equal_lengths else [Reason(Code.SURPLUS_IGNORED)]
        return Decision(site.path, "SequenceMap", Verdict.EXPANDED, "plain Loop", reasons)


def _read_lengths_before_maps(model: ir.Model) -> list[ir.Node]:
    """Let each SequenceLength of what maps yield read the first sequence that these go through.

    Where only the length of its result is read, a map need not run.

    Returns:
        Those that read another sequence now.
    """
    changed = []
    for node in list(all_nodes(model)):
        if not is_operator(node, "SequenceLength"):
            continue
        given = operand(node, 0)
        while (mapped := made_by(operand(node, 0), "SequenceMap")) is not None:
            node.replace_input_with(0, operand(mapped, 0))
        if operand(node, 0) is not given:
            changed.append(node)
    return changed


def _count_slices(lengths: Iterable[ir.Node], typings: Typings) -> None:
    """Count the slices of a tensor that a map goes through: its loop does not need the cut."""
    for node in lengths:
        source = cut_tensor(operand(node, 0), typings.declared)
        if source is not None:
            builder = Builder.at(node)
            count = source.scalar_count(builder, typings.proven)
            typings.copy(splice(builder, node, [(node.outputs[0], count)]))
