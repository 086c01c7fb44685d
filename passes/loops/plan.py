"""Decides how the results of a map are collected by a loop."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection

import onnx_ir as ir

from passes.decisions import Code, Decision, Reason, Verdict
from passes.errors import RewriteError
from passes.graph.builder import ORIGIN_KEY, Builder
from passes.graph.graphs import is_operator, makers, walk_nodes
from passes.loops.batched_results import write_result
from passes.loops.forms import Form, LoopBody, OutputPlan, can_split, dims_of_samples
from passes.loops.loop import write_loop
from passes.site import MapResult, MapSite
from passes.typing import Typings
from passes.typing.value_types import is_number

__all__ = ["LoopPlan", "element_type", "plan_loop", "plan_output", "untyped", "write_results"]


@dataclasses.dataclass(frozen=True)
class LoopPlan:
    """A map as a loop: decided, not yet written.

    Attributes:
        outputs: How each used output of the body is collected.
        decision: The same for the reader.
        by_count: Whether another loop may be written for few samples.
    """

    outputs: dict[int, OutputPlan]
    decision: Decision
    by_count: bool = True


def plan_loop(
    site: MapSite,
    typings: Typings,
    *,
    equal_lengths: bool | None = None,
    lacks: Collection[str] = (),
) -> LoopPlan:
    """Choose the form of each output of a map; nothing is changed.

    Args:
        site: The map.
        typings: Both typings of the model.
        equal_lengths: Whether its sources have one length by proof; None to look it up.
        lacks: Operators that the target does not have.

    Raises:
        RewriteError: The element type of an output is not known.
    """
    reasons: list[Reason] = []
    outputs: dict[int, OutputPlan] = {}
    count = site.elements[0][1].number(typings.proven)
    for output in site.used_outputs():
        value = site.body.outputs[output]
        results = [r for r in site.results if r.output == output]
        plan, reason = plan_output(
            value, results, typings, is_shared=_is_shared(site, value), count=count
        )
        if plan.dtype is None and plan.form is not Form.SCAN_OUTPUT:
            raise untyped(site, output)
        outputs[output] = plan
        if reason is not None:
            detail = f"output {output} of the body {reason.detail}"
            reasons.append(dataclasses.replace(reason, detail=detail))
    if equal_lengths is None:
        equal_lengths = site.lengths_are_equal(typings.proven)
    if not equal_lengths:
        reasons.append(Reason(Code.SURPLUS_IGNORED))
    forms = sorted({plan.form.value for plan in outputs.values()})
    decision = Decision(
        site.path,
        site.op_type,
        Verdict.EXPANDED,
        form="Loop with " + " and ".join(forms) if forms else "removed, no output of it is read",
        reasons=reasons,
        assumptions=_assumptions(site, outputs, typings),
    )
    return LoopPlan(outputs, decision, by_count=not lacks)


def _is_shared(site: MapSite, value: ir.Value) -> bool:
    """Whether an output of the body is one value for all samples, captured or an input."""
    node = value.producer()
    while is_operator(node, "Identity") and node.graph is site.body:
        assert node.inputs[0] is not None
        value = node.inputs[0]
        node = value.producer()
    if any(value is inner for inner, _ in site.elements):
        return False
    return node is None or node.graph is not site.body


def untyped(site: MapSite, output: int) -> RewriteError:
    """Return the error for an output of the body with an unknown element type."""
    return RewriteError(
        f"{site.op_type} '{site.path}': the element type of output {output} of its body is "
        "not known, and a sequence of it cannot be begun: declare the type of that output."
    )


def plan_output(
    value: ir.Value,
    results: list[MapResult],
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
    dims, proven = typings.equal_dims(value), typings.proven_dims(value)
    if is_shared:
        dims = typings.declared.dims(value)
        proven = None if proven is None or len(proven) != len(dims or ()) else proven
    dtype = element_type(value, results, typings)
    kinds = {r.kind for r in results}
    if "stacked" not in kinds and dims != proven and _is_of_a_loop(value):
        return OutputPlan(Form.INSERTION, dtype, None), _OF_A_LOOP
    unsplittable = None
    if "sequence" in kinds and not can_split(dtype, count):
        unsplittable = Reason(Code.UNSPLITTABLE_TYPE, detail=f"is {dtype}")
    if dims is not None and (is_shared or None not in dims):
        if not dims and "concatenated" in kinds:
            return OutputPlan(Form.INSERTION, dtype, dims), _SCALARS
        is_inserted = unsplittable or (kinds == {"sequence"} and _is_large(dtype, dims))
        form = Form.INSERTION if is_inserted else Form.SCAN_OUTPUT
        is_tensor = kinds != {"sequence"}
        plan = OutputPlan(
            form, dtype, dims, proven=proven, is_shared=is_shared, is_tensor=is_tensor
        )
        return plan, unsplittable
    if kinds == {"stacked"} and dims is None:
        dims = dims_of_samples(value, results, typings)
    if kinds == {"stacked"} and all(r.axis == 0 or dims is not None for r in results):
        return OutputPlan(Form.SCAN_OUTPUT, dtype, dims, proven=proven, is_tensor=True), None
    axis = _ragged_axis(dims, results)
    if axis is None or unsplittable:
        return OutputPlan(Form.INSERTION, dtype, dims), unsplittable or _why_ragged(dims)
    return OutputPlan(Form.BLOCKS, dtype, dims, axis, proven), _why_ragged(dims)


def _is_large(dtype: ir.DataType | None, dims: tuple[int | str | None, ...]) -> bool:
    """Whether to copy a sample twice takes longer than to lengthen a list by it."""
    numbers = [dim for dim in dims if isinstance(dim, int)]
    if not is_number(dtype) or len(numbers) < len(dims):
        return False
    return math.prod(numbers) * dtype.itemsize >= _LARGE


def _is_of_a_loop(value: ir.Value) -> bool:
    """Whether a Loop of the same graph may yield an output, or what it is computed of.

    Such a Loop may make no trips in some samples, whose dimensions are 0 then where no proven
    type tells them. One that a rewrite wrote tells those that are declared.
    """
    node = value.producer()
    own = [] if node is None else [maker for maker in makers(value) if maker.graph is node.graph]
    loops = (inner for inner in walk_nodes(own) if is_operator(inner, "Loop"))
    return any(ORIGIN_KEY not in loop.metadata_props for loop in loops)


_LARGE = 2**16
"""Bytes of a sample. A list of 1,600 of them is as fast to lengthen as a tensor to be split."""

_OF_A_LOOP = Reason(
    Code.RAGGED, detail="comes from a Loop, which may make no trips and tell no shape then"
)
_SCALARS = Reason(Code.NEVER, detail="is a scalar, which ConcatFromSequence refuses")


def element_type(
    value: ir.Value, results: list[MapResult], typings: Typings
) -> ir.DataType | None:
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


def _ragged_axis(
    dims: tuple[int | str | None, ...] | None, results: list[MapResult]
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
    return found


def write_results(
    builder: Builder,
    site: MapSite,
    typings: Typings,
    plan: LoopPlan,
    samples: ir.Value | None = None,
    *,
    is_some: bool = False,
) -> list[ir.Value]:
    """Record the loop of a map and return the value of each of its results.

    Args:
        builder: Writes the graph that the map stands in.
        site: The map.
        typings: Both typings of the model.
        plan: What the map becomes.
        samples: The number of samples, an int64 scalar, if it is there already.
        is_some: Whether there is at least one.
    """
    if not plan.outputs:
        return []
    body = LoopBody.of(site)
    held = write_loop(builder, body, typings, plan.outputs, samples, is_some=is_some)
    count = site.elements[0][1].number(typings.proven)
    return [write_result(builder, r, held[r.output], count) for r in site.results]
