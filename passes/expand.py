"""Makes loops of SequenceMaps."""

from __future__ import annotations

import dataclasses
from typing import Literal

import onnx_ir as ir

from passes.builder import Builder
from passes.decisions import Code, Decision, Reason, Verdict
from passes.escape import SPLITTABLE, escape
from passes.graphs import node_paths
from passes.loops import Form, LoopBody, OutputPlan, write_loop
from passes.names import make_names_unique
from passes.prepare import prepare
from passes.sequence_map import find_sequence_maps, read_sequence_map
from passes.site import MapSite, Result, TensorSource
from passes.sources import lengths_are_equal
from passes.splice import splice
from passes.typing import Typings, type_both_ways

__all__ = ["ExpandSequenceMapPass", "LoopPlan", "apply_loop", "plan_loop", "plan_output", "write_results"]


@dataclasses.dataclass(frozen=True)
class LoopPlan:
    """What a map becomes as a loop: decided, not yet written.

    Attributes:
        outputs: How each used output of the body is collected.
        decision: The same for the reader.
    """

    outputs: dict[int, OutputPlan]
    decision: Decision


def plan_loop(site: MapSite, typings: Typings) -> LoopPlan:
    """Choose the form of each output of a map; nothing is changed."""
    reasons: list[Reason] = []
    outputs: dict[int, OutputPlan] = {}
    for output in site.used_outputs():
        results = [r for r in site.results if r.output == output]
        outputs[output], unsplittable = plan_output(site.body.outputs[output], results, typings)
        if unsplittable:
            detail = f"output {output} of the body is {outputs[output].dtype}"
            reasons.append(Reason(Code.UNSPLITTABLE_TYPE, detail=detail))
    if not lengths_are_equal(site, typings.proven):
        reasons.append(Reason(Code.SURPLUS_IGNORED))
    forms = sorted({plan.form.value for plan in outputs.values()})
    decision = Decision(
        site.path,
        site.node.op_type,
        Verdict.EXPANDED,
        form="Loop with " + " and ".join(forms) if forms else "Loop",
        reasons=reasons,
        assumptions=_assumptions(site, outputs, typings),
    )
    return LoopPlan(outputs, decision)


def plan_output(
    value: ir.Value, results: list[Result], typings: Typings
) -> tuple[OutputPlan, bool]:
    """Return the plan of an output, and whether its type kept it from a linear form."""
    dims = typings.equal_dims(value)
    dtype = typings.declared.dtype(value)
    unsplittable = dtype not in SPLITTABLE and any(r.kind == "sequence" for r in results)
    if dims is not None and None not in dims:
        concatenates_scalars = not dims and any(r.kind == "concatenated" for r in results)
        if not unsplittable and not concatenates_scalars:
            return OutputPlan(Form.SCAN_OUTPUT, dtype, dims), False
        return OutputPlan(Form.INSERTION, dtype, dims), unsplittable
    if all(r.kind == "stacked" and (r.axis == 0 or dims is not None) for r in results):
        return OutputPlan(Form.SCAN_OUTPUT, dtype, dims), False
    axis = _ragged_axis(dims, results)
    if axis is not None and dtype is not None:
        if not unsplittable:
            return OutputPlan(Form.BLOCKS, dtype, dims, axis), False
        return OutputPlan(Form.INSERTION, dtype, dims), True
    return OutputPlan(Form.INSERTION, dtype, dims), False


def _ragged_axis(
    dims: tuple[int | str | None, ...] | None, results: list[Result]
) -> int | None:
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
    if len(ragged) != 1 or not all(isinstance(d, int) for d in dims if d is not None):
        return None
    axes = {a % len(dims) for a in axes}
    return ragged[0] if axes <= set(ragged) else None


def _assumptions(
    site: MapSite, outputs: dict[int, OutputPlan], typings: Typings
) -> list[str]:
    found = []
    for output, plan in outputs.items():
        value = site.body.outputs[output]
        proven = typings.proven.dims(value)
        if plan.form is Form.INSERTION or plan.dims is None:
            continue
        if proven is None or any(
            isinstance(d, int) and p != d for p, d in zip(proven, plan.dims, strict=True)
        ):
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
    held = write_loop(builder, LoopBody.of(site), typings, plan.outputs)
    values = []
    for result in site.results:
        dims = plan.outputs[result.output].dims
        rank = None if dims is None else len(dims)
        values.append(escape(builder, result, held[result.output], rank))
    return values


def apply_loop(site: MapSite, typings: Typings, plan: LoopPlan) -> None:
    """Replace a map by its loop."""
    builder = Builder(site.path)
    values = write_results(builder, site, typings, plan)
    splice(builder, site.node, [(r.value, v) for r, v in zip(site.results, values, strict=True)])


def _apply_plain(site: MapSite, typings: Typings) -> None:
    builder = Builder(site.path)
    plans = {
        i: OutputPlan(Form.INSERTION, typings.declared.dtype(value), None)
        for i, value in enumerate(site.body.outputs)
    }
    held = write_loop(builder, LoopBody.of(site), typings, plans)
    splice(builder, site.node, [(v, held[i].value) for i, v in enumerate(site.node.outputs)])


class ExpandSequenceMapPass(ir.passes.InPlacePass):
    """Replace every SequenceMap, wherever it stands, by a Loop.

    1. ``form="linear"``: each output in the fastest form that is right for it: a scan output, or
       blocks, or insertion into a sequence (see `passes.loops`). A split before the map and a
       concatenation after it become part of the loop.
    2. ``form="plain"``: the expansion of ONNX's specification, a Loop with SequenceAt and
       SequenceInsert.

    Attributes:
        decisions: What was done with each map, in the order of the work.
    """

    def __init__(self, form: Literal["linear", "plain"] = "linear") -> None:
        """Set up the pass; see the class for ``form``."""
        super().__init__()
        if form not in ("linear", "plain"):
            raise ValueError(f"form is 'linear' or 'plain', not {form!r}")
        self.form = form
        self.decisions: list[Decision] = []

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Expand the maps of a model, those inside of other maps first."""
        self.decisions = []
        modified = prepare(model)
        maps = find_sequence_maps(model)
        if not maps:
            return ir.passes.PassResult(model, modified)
        typings = type_both_ways(model)
        paths = node_paths(model)
        for graph, node in maps:
            plain = self.form == "plain"
            site = read_sequence_map(
                node, graph, paths[node], typings.declared, with_boundaries=not plain
            )
            if plain:
                _apply_plain(site, typings)
                verdict = Decision(site.path, "SequenceMap", Verdict.EXPANDED, "plain Loop")
                self.decisions.append(verdict)
            else:
                plan = plan_loop(site, typings)
                apply_loop(site, typings, plan)
                self.decisions.append(plan.decision)
        make_names_unique(model)
        return ir.passes.PassResult(model, True)
