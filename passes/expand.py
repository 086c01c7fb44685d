"""Makes loops of SequenceMaps."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import onnx_ir as ir

from passes.branches import fold_branches
from passes.builder import Builder
from passes.decisions import Code, Decision, Reason, Verdict
from passes.errors import RewriteError
from passes.folding import Folder
from passes.fusing.stack import static_count
from passes.graphs import node_paths, walk_nodes
from passes.loops.escape import can_split, escape
from passes.loops.loop import Form, LoopBody, OutputPlan, write_loop
from passes.loops.plain import write_plain
from passes.names import make_names_unique
from passes.prepare import prepare
from passes.result_types import dims_of_samples
from passes.sequence_map import find_sequence_maps, read_sequence_map
from passes.site import MapSite, Result, TensorSource
from passes.sources import lengths_are_equal
from passes.splice import splice
from passes.typing import Typings, type_both_ways, type_values

__all__ = [
    "ExpandSequenceMapPass",
    "LoopPlan",
    "apply_loop",
    "plan_loop",
    "plan_output",
    "write_results",
]


@dataclasses.dataclass(frozen=True)
class LoopPlan:
    """What a map becomes as a loop: decided, not yet written.

    Attributes:
        outputs: How each used output of the body is collected.
        decision: The same for the reader.
    """

    outputs: dict[int, OutputPlan]
    decision: Decision


def plan_loop(site: MapSite, typings: Typings, *, equal_lengths: bool | None = None) -> LoopPlan:
    """Choose the form of each output of a map; nothing is changed.

    Args:
        site: The map.
        typings: Both typings of the model.
        equal_lengths: Whether its sources have one length by proof; None to look it up.

    Raises:
        RewriteError: The element type of an output is not known.
    """
    reasons: list[Reason] = []
    outputs: dict[int, OutputPlan] = {}
    count = static_count(site.elements[0][1], typings)
    for output in site.used_outputs():
        value = site.body.outputs[output]
        results = [r for r in site.results if r.output == output]
        plan, reason = plan_output(
            value, results, typings, is_shared=_is_shared(site, value), count=count
        )
        if plan.dtype is None and plan.form is not Form.SCAN_OUTPUT:
            raise _untyped(site, output)
        outputs[output] = plan
        if reason is not None:
            detail = f"output {output} of the body {reason.detail}"
            reasons.append(dataclasses.replace(reason, detail=detail))
    if equal_lengths is None:
        equal_lengths = lengths_are_equal(site, typings.proven)
    if not equal_lengths:
        reasons.append(Reason(Code.SURPLUS_IGNORED))
    forms = sorted({plan.form.value for plan in outputs.values()})
    decision = Decision(
        site.path,
        site.node.op_type,
        Verdict.EXPANDED,
        form="Loop with " + " and ".join(forms) if forms else "removed, no output of it is read",
        reasons=reasons,
        assumptions=_assumptions(site, outputs, typings),
    )
    return LoopPlan(outputs, decision)


def _is_shared(site: MapSite, value: ir.Value) -> bool:
    """Whether an output of the body is one value for all samples, captured or an input."""
    node = value.producer()
    while node is not None and node.op_type == "Identity" and node.graph is site.body:
        assert node.inputs[0] is not None
        value = node.inputs[0]
        node = value.producer()
    if any(value is inner for inner, _ in site.elements):
        return False
    return node is None or node.graph is not site.body


def _untyped(site: MapSite, output: int) -> RewriteError:
    return RewriteError(
        f"{site.node.op_type} '{site.path}': the element type of output {output} of its body is "
        "not known, and a sequence of it cannot be begun: declare the type of that output."
    )


def plan_output(
    value: ir.Value,
    results: list[Result],
    typings: Typings,
    *,
    is_shared: bool = False,
    count: int | None = None,
) -> tuple[OutputPlan, Reason | None]:
    """Return the plan of an output, and what kept it from being a scan output.

    Args:
        value: The output of the body.
        results: What is wanted of it.
        typings: Both typings of the model.
        is_shared: Whether it is one value for all samples.
        count: Number of samples, if known.
    """
    dims = typings.declared.dims(value) if is_shared else typings.equal_dims(value)
    dtype = _dtype(value, results, typings)
    kinds = {r.kind for r in results}
    unsplittable = None
    if "sequence" in kinds and not can_split(dtype, count):
        unsplittable = Reason(Code.UNSPLITTABLE_TYPE, detail=f"is {dtype}")
    if dims is not None and (is_shared or None not in dims):
        if not dims and "concatenated" in kinds:
            return OutputPlan(Form.INSERTION, dtype, dims), _SCALARS
        form = Form.INSERTION if unsplittable else Form.SCAN_OUTPUT
        return OutputPlan(form, dtype, dims), unsplittable
    if kinds == {"stacked"} and dims is None:
        dims = dims_of_samples(value, results, typings)
    if kinds == {"stacked"} and all(r.axis == 0 or dims is not None for r in results):
        return OutputPlan(Form.SCAN_OUTPUT, dtype, dims), None
    axis = _ragged_axis(dims, results)
    if axis is None or unsplittable:
        return OutputPlan(Form.INSERTION, dtype, dims), unsplittable or _why_ragged(dims)
    return OutputPlan(Form.BLOCKS, dtype, dims, axis), _why_ragged(dims)


_SCALARS = Reason(Code.NEVER, detail="is a scalar, which ConcatFromSequence refuses")


def _dtype(value: ir.Value, results: list[Result], typings: Typings) -> ir.DataType | None:
    """Return the element type that is known of an output, in the body or outside."""
    known = (typings.declared.dtype(v) for v in (value, *(r.value for r in results)))
    return next((dtype for dtype in known if dtype is not None), None)


def _why_ragged(dims: tuple[int | str | None, ...] | None) -> Reason:
    if dims is None:
        return Reason(Code.UNKNOWN_RANK, detail="has no known rank")
    axes = [str(i) for i, d in enumerate(dims) if d is None]
    return Reason(
        Code.RAGGED,
        detail=f"may differ from sample to sample along {'axes' if axes[1:] else 'axis'} "
        + " and ".join(axes),
    )


def _ragged_axis(dims: tuple[int | str | None, ...] | None, results: list[Result]) -> int | None:
    """Return the axis along which an output may be packed, if there is one.

    It is the axis of the concatenation where nothing but one concatenation is wanted, and
    otherwise the only axis along which samples may differ.
    """
    axes = {r.axis for r in results if r.kind == "concatenated"}
    if len(axes) == 1 and all(r.kind == "concatenated" for r in results):
        return axes.pop()
    if dims is None or any(r.kind == "stacked" for r in results):
        return None
    ragged = [i for i, d in enumerate(dims) if d is None]
    axes = {a % len(dims) for a in axes}
    return ragged[0] if len(ragged) == 1 and axes <= set(ragged) else None


def _assumptions(site: MapSite, outputs: dict[int, OutputPlan], typings: Typings) -> list[str]:
    found = []
    for output, plan in outputs.items():
        value = site.body.outputs[output]
        if plan.form is not Form.INSERTION and typings.takes_declared(value):
            found.append(
                f"{site.path}: the declared element types hold for output {output} of the body; "
                "a sample that breaks them is an error when the model runs"
            )
    for _, source in site.elements:
        if isinstance(source, TensorSource) and source.split and not source.split_is_scalar:
            found.append(
                f"{site.path}: the sizes in '{source.split.name}' add up to the dimension that "
                "they cut"
            )
    return found


def write_results(
    builder: Builder, site: MapSite, typings: Typings, plan: LoopPlan
) -> list[ir.Value]:
    """Record the loop of a map and return the value of each of its results."""
    if not plan.outputs:
        return []
    held = write_loop(builder, LoopBody.of(site), typings, plan.outputs)
    count = static_count(site.elements[0][1], typings)
    values = []
    for result in site.results:
        output = plan.outputs[result.output]
        rank = None if output.dims is None else len(output.dims)
        values.append(escape(builder, result, held[result.output], rank, output.dtype, count))
    return values


def apply_loop(site: MapSite, typings: Typings, plan: LoopPlan) -> None:
    """Replace a map by its loop."""
    builder = Builder(site.path)
    _replace(builder, site, typings, write_results(builder, site, typings, plan))


def _apply_plain(site: MapSite, typings: Typings) -> None:
    dtypes = []
    for output, value in enumerate(site.body.outputs):
        results = [r for r in site.results if r.output == output]
        dtype = _dtype(value, results, typings)
        if dtype is None:
            raise _untyped(site, output)
        dtypes.append(dtype)
    builder = Builder(site.path)
    _replace(builder, site, typings, write_plain(builder, site, dtypes))


def _replace(
    builder: Builder, site: MapSite, typings: Typings, values: Sequence[ir.Value]
) -> None:
    pairs = [(r.value, v) for r, v in zip(site.results, values, strict=True)]
    # A map around this one reads the types of the new values.
    typings.copy(splice(builder, site.node, pairs))


def _fold_known_branches(model: ir.Model) -> bool:
    """Fold each If of a body whose condition is a constant, or depends on proven shapes only.

    onnxruntime does so too, but in the body of a Loop it loses values that a branch hands on.
    """
    maps = [node for _, node in find_sequence_maps(model)]
    if not any(node.op_type == "If" for node in walk_nodes(maps)):
        return False
    return fold_branches(maps, Folder(type_values(model, proven=True, ranks=False)))


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

    def __init__(
        self, form: Literal["linear", "plain"] = "linear", *, reason: Reason | None = None
    ) -> None:
        """Set up the pass.

        Args:
            form: See the class.
            reason: Why maps are made loops at all; it goes into every decision.
        """
        super().__init__()
        if form not in ("linear", "plain"):
            raise ValueError(f"form is 'linear' or 'plain', not {form!r}")
        self.form = form
        self.decisions: list[Decision] = []
        self._reasons = [] if reason is None else [reason]

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Expand the maps of a model, those inside of other maps first."""
        self.decisions = []
        modified = prepare(model)
        if self.form == "linear":
            modified |= _fold_known_branches(model)
        maps = find_sequence_maps(model)
        if not maps:
            return ir.passes.PassResult(model, modified)
        typings = type_both_ways(model)
        paths = node_paths(model)
        # A loop does not show any more that its results are as many as its samples.
        equal_lengths = {
            node: lengths_are_equal(self._read(node, graph, paths, typings), typings.proven)
            for graph, node in maps
        }
        for graph, node in maps:
            site = self._read(node, graph, paths, typings)
            decision = self._expand(site, typings, equal_lengths=equal_lengths[node])
            decision.reasons[:0] = self._reasons
            self.decisions.append(decision)
        make_names_unique(model)
        return ir.passes.PassResult(model, True)

    def _read(
        self, node: ir.Node, graph: ir.Graph, paths: Mapping[ir.Node, str], typings: Typings
    ) -> MapSite:
        is_linear = self.form == "linear"
        return read_sequence_map(
            node, graph, paths[node], typings.declared, with_boundaries=is_linear
        )

    def _expand(self, site: MapSite, typings: Typings, *, equal_lengths: bool) -> Decision:
        if self.form == "linear":
            plan = plan_loop(site, typings, equal_lengths=equal_lengths)
            apply_loop(site, typings, plan)
            return plan.decision
        _apply_plain(site, typings)
        reasons = [] if equal_lengths else [Reason(Code.SURPLUS_IGNORED)]
        return Decision(site.path, "SequenceMap", Verdict.EXPANDED, "plain Loop", reasons)
