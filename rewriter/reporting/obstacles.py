"""Why a node keeps a model from its target, and what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.decisions import Code, Decision, Reason, Verdict, is_no_remedy
from passes.graph.builder import ORIGIN_KEY, STEPS_KEY
from passes.graph.graphs import default_opset, node_paths, subgraphs
from passes.runtimes.branch_choice import hindrance
from passes.site import GuardCheck
from passes.typing import type_values
from rewriter.target_table import TARGETS, Target

__all__ = ["ITERATIONS", "LOOPS", "Obstacles"]

ITERATIONS = ("Loop", "Scan")
LOOPS = (*ITERATIONS, "SequenceMap")
_UNIFORM = (
    "promise equal shapes with --uniform, or promise shapes with --input-shape, or give the "
    "samples one shape in the model"
)
_AS_LONG = "promise the dimensions of the inputs with --input-shape"
_TENSORS = "use --tensor-io, or stack or concatenate the elements in the model"
_UNROLL = (
    "make the number of iterations a small constant where the model is made, or promise the "
    "dimension that it comes from with --input-shape"
)
_WITHOUT = "write it without a loop where the model is made"
_CONDITION = (
    "make its condition a constant where the model is made, or compute both branches there and "
    "pick with Where"
)
_HAS_STEPS = (Code.RECURRENCE, Code.READS_EARLIER, Code.NOT_A_MAP)


class Obstacles:
    """Explains what is left in a model that a target or a requirement rules out."""

    def __init__(self, model: ir.Model, row: Target, decisions: Sequence[Decision]) -> None:
        """Set up.

        Args:
            model: The rewritten model.
            row: Its target.
            decisions: What was done with its maps.
        """
        self._model = model
        self._row = row
        self._decisions = decisions

    def explain(self, node: ir.Node, path: str, op_type: str) -> tuple[str, str]:
        """Return why a node is left, empty where nothing tells, and what can be done.

        Args:
            node: The node.
            path: Its path.
            op_type: Its operator, empty where it is of another domain.
        """
        if STEPS_KEY in node.metadata_props:  # it goes over the elements of a list
            return "", _TENSORS
        why, remedy = self._of_map(node, path)
        if op_type == "If" and not why and ORIGIN_KEY not in node.metadata_props:
            why = self._of_branches(node)
        if remedy:
            return why, remedy
        return why, self._of_control_flow(node, op_type) if op_type in (*LOOPS, "If") else _TENSORS

    def of_output(self, name: str) -> str:
        """Return which node keeps what an output yields in a loop; empty where nothing tells."""
        found = next((value for value in self._model.graph.outputs if value.name == name), None)
        node = None if found is None else found.producer()
        if node is None:
            return ""
        named = (node.metadata_props.get(ORIGIN_KEY), node_paths(self._model)[node])
        told = (
            self._of_reason(node, decision, reason)[0]
            for decision in self._decisions
            if decision.path in named
            for reason in decision.reasons
            if reason.node
        )
        return next(told, "")

    def _of_map(self, node: ir.Node, path: str) -> tuple[str, str]:
        # A pass that writes a Loop of the model anew knows no path of it.
        named = dict.fromkeys((node.metadata_props.get(ORIGIN_KEY, path), path))
        pairs = ((name, decision) for name in named for decision in self._decisions)
        for origin, decision in pairs:
            if origin != decision.path and not origin.startswith(f"{decision.path}/"):
                continue
            if decision.verdict is Verdict.GUARDED:
                remedy = _AS_LONG if GuardCheck.SIZES.value in decision.form else _UNIFORM
                return f"it is the guard of '{decision.path}' or its other branch", remedy
            reasons = [r for r in decision.reasons if r.code is not Code.SURPLUS_IGNORED]
            if node.op_type == "If" and not reasons and not self._row.branch:
                return _for_nothing(decision), _choose("If")
            for reason in reasons:
                return self._of_reason(node, decision, reason)
            if node.op_type in ITERATIONS and origin != decision.path:
                why = f"it is '{origin}' for all samples at once, one step after another"
                return why, self._or_another(_UNROLL, node.op_type)
        return "", ""

    def _of_reason(self, node: ir.Node, decision: Decision, reason: Reason) -> tuple[str, str]:
        where = f"{reason.node} ({reason.op_type}) " if reason.node else ""
        why = f"'{decision.path}' keeps it: {where}{reason.code}: {_detail(reason)}"
        remedy = reason.remedy
        if is_no_remedy(remedy) and not self._row.accepts(node.op_type):
            other = _UNROLL if reason.code in _HAS_STEPS else _WITHOUT
            remedy = self._or_another(other, node.op_type)
        return why, remedy

    def _of_branches(self, node: ir.Node) -> str:
        """Return why not both branches of an If run, where the target has none."""
        if self._row.branch or any(g.inputs for _, g in subgraphs(node)):
            return ""
        typing = type_values(self._model, proven=True, ranks=False)
        return hindrance(node, typing, default_opset(self._model))

    def _of_control_flow(self, node: ir.Node, op_type: str) -> str:
        if op_type == "SequenceMap" or ORIGIN_KEY in node.metadata_props:
            remedy = _UNIFORM
        elif op_type == "If":
            remedy = _CONDITION
        else:
            remedy = _WITHOUT if self._row.accepts(op_type) else _UNROLL
        return self._or_another(remedy, op_type)

    def _or_another(self, remedy: str, op_type: str) -> str:
        """Name the targets that have an operator, beside what else can be done."""
        has_choice = not self._row.accepts(op_type) and op_type != "SequenceMap"
        return f"{remedy}; or {_choose(op_type)}" if has_choice else remedy


def _for_nothing(decision: Decision) -> str:
    why = f", since {decision.failing} could fail there" if decision.failing else ""
    return f"it is the branch of '{decision.path}' for no elements{why}"


def _detail(reason: Reason) -> str:
    return reason.detail or reason.code.meaning


def _choose(op_type: str) -> str:
    others = [
        t.name for t in TARGETS.values() if t.accepts(op_type) and t.backend and not t.release_of
    ]
    return f"choose a target that has {op_type}: {', '.join(others)}"
