"""The rule set of onnxscript's rewriter."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule, rewrite

import rewriter
from rewriter.integrations.rule_set import SequenceRules

HEADER = '<ir_version: 9, opset_import: ["" : 18]>\n'
READS = {
    "constructed": """g (float[2] x, float[2] y) => (float[2] z) {
        xs = SequenceConstruct (x, y)  i = Constant <value_int = 1> ()
        z = SequenceAt (xs, i) }""",
    "split and joined": """g (float[N,2] x) => (float[N,2] z) {
        xs = SplitToSequence <keepdims = 0> (x)
        z = ConcatFromSequence <axis = 0, new_axis = 1> (xs) }""",
    "in a branch": """g (bool c, float[2] x, float[2] y) => (float[2] z) {
        i = Constant <value_int = 0> ()
        z = If (c) <then_branch = a () => (float[2] u) {
                xs = SequenceConstruct (x, y)  u = SequenceAt (xs, i) },
            else_branch = b () => (float[2] v) { v = Neg (y) }> }""",
}


@pytest.mark.parametrize("name", READS)
def test_sequences_vanish_and_results_stay(name: str) -> None:
    before = onnx.parser.parse_model(HEADER + READS[name])
    after = rewrite(before, pattern_rewrite_rules=SequenceRules())
    assert isinstance(after, onnx.ModelProto)
    onnx.checker.check_model(after, full_check=True)
    assert rewriter.explain(after).before.sequences == 0
    assert rewriter.validate(before, after).ok


def test_the_count_says_whether_something_changed() -> None:
    model = ir.from_onnx_text(HEADER + READS["constructed"])
    assert SequenceRules().apply_to_model(model) == 2
    assert SequenceRules().apply_to_model(model) == 0


def test_a_tracer_changes_nothing() -> None:
    model = ir.from_onnx_text(HEADER + READS["constructed"])
    assert SequenceRules().apply_to_model(model, tracer=object()) == 0
    assert "SequenceConstruct" in {node.op_type for node in model.graph}


def test_a_map_stays_as_it_is() -> None:
    text = """g (seq(float[N]) xs) => (seq(float[N]) ys) {
        ys = SequenceMap (xs) <body = b (float[N] x) => (float[N] y) { y = Relu (x) }> }"""
    model = onnx.parser.parse_model(HEADER + text)
    after = rewrite(model, pattern_rewrite_rules=SequenceRules())
    assert [node.op_type for node in after.graph.node] == ["SequenceMap"]


def test_further_rules_are_applied_afterwards() -> None:
    rule = RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x))
    text = """g (float[2] x) => (float[2] z) {
        a = Neg (x)  xs = SequenceConstruct (a, x)  i = Constant <value_int = 0> ()
        b = SequenceAt (xs, i)  z = Neg (b) }"""
    model = onnx.parser.parse_model(HEADER + text)
    after = rewrite(model, pattern_rewrite_rules=SequenceRules([rule]))
    assert "Neg" not in {node.op_type for node in after.graph.node}
    assert rewriter.validate(model, after).ok
