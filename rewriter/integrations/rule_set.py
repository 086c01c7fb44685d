"""The clean-up of sequences as a rule set of onnxscript's rewriter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import RewriteRule, RewriteRuleSet

from passes.eliminate import EliminateSequencesPass
from rewriter.model_files.model_facts import count_operators

__all__ = ["SequenceRules"]


class SequenceRules(RewriteRuleSet):
    """Rules that replace sequences by tensors, for ``onnxscript.rewriter.rewrite``.

    What is known of a sequence is often far from where it is read, behind an If or inside a Loop,
    where no pattern of nodes reaches: the rule set runs `passes.EliminateSequencesPass`, and then
    the rules that it was given. Maps stay; `rewriter.optimize` takes them away.

    Example:
        >>> from onnxscript.rewriter import rewrite
        >>> import onnx_ir as ir
        >>> model = ir.from_onnx_text('''<ir_version: 9, opset_import: ["" : 18]>
        ... g (float[2] x, float[2] y) => (float[2] z) {
        ...   xs = SequenceConstruct (x, y)  i = Constant <value_int = 1> ()
        ...   z = SequenceAt (xs, i) }''')
        >>> model = rewrite(model, pattern_rewrite_rules=SequenceRules())
        >>> [node.op_type for node in model.graph]
        ['Identity']
    """

    def __init__(self, rules: Sequence[RewriteRule] = (), *, commute: bool = False) -> None:
        """Set up the rule set.

        Args:
            rules: Further rules, which are applied afterwards.
            commute: Whether these match with their operands in any order.
        """
        if rules:
            super().__init__(rules, commute=commute)
        else:
            self.rules = []
            self.remove_unused_nodes = False

    def apply_to_model(
        self, model: ir.Model, *, verbose: int | None = None, tracer: Any = None
    ) -> int:
        """Apply the rules, and return how often one was applied.

        Args:
            model: The model; it is changed, unless there is a tracer.
            verbose: How much the further rules print.
            tracer: What records near matches of the further rules; nothing is changed then.
        """
        count = 0 if tracer is not None else _eliminate(model)
        if self.rules:
            count += super().apply_to_model(model, verbose=verbose, tracer=tracer)
        return count


def _eliminate(model: ir.Model) -> int:
    """Return how many operators on sequences went away, 1 where something else changed."""
    before = count_operators(model).sequences
    if not EliminateSequencesPass()(model).modified:
        return 0
    return max(1, before - count_operators(model).sequences)
