"""A rule for an operator of another domain, registered from outside of the package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference.op_run import OpRun

from passes import FuseSequenceMapPass, RewriteError
from passes.batching import table
from passes.batching.families.elementwise import elementwise
from rewriter import ReferenceEvaluator, explain, rewrite
from rewriter.model_files.model_facts import count_operators

MODEL = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["" : 18, "my.domain" : 1]>
agraph (float[N,4] x, float[4] bias) => (float[N,4] y)
{
  xs = SplitToSequence <axis = 0, keepdims = 0> (x)
  [rows] ys = SequenceMap (xs, bias) <body = row (float[4] r, float[4] b) => (float[4] q)
    <float[4] d>
    { s = Add (r, b)  [twice] d = my.domain.Double (s)  q = Relu (d) }>
  y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
}
""")


class Double(OpRun):
    op_domain = "my.domain"

    def _run(self, x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any]]:
        return (x + x,)


def run(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    return list(ReferenceEvaluator(model, new_ops=[Double]).run(None, feeds))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the rule as CONTRIBUTING.md does, and forget it afterwards."""
    monkeypatch.setattr(table, "_rows", {k: list(v) for k, v in table._rows.items()})
    table.register("Double", elementwise, domain="my.domain")
    yield


def test_without_a_rule_the_node_stays_in_a_loop() -> None:
    (decision,) = explain(MODEL).decisions
    assert decision.verdict == "fissioned"
    first = decision.reasons[0]
    assert (first.code.value, first.node, first.op_type) == (
        "no-rule",
        "rows/body/twice",
        "Double",
    )
    assert "register a rule" in first.remedy


@pytest.mark.usefixtures("registered")
def test_the_rule_is_used() -> None:
    result = rewrite(MODEL)
    counts = count_operators(ir.from_proto(result.model))
    assert (counts.loops, counts.sequences) == (0, 0)
    assert counts.by_type["my.domain::Double"] == 1
    (node,) = [n for n in result.model.graph.node if n.op_type == "Double"]
    assert node.domain == "my.domain"


@pytest.mark.usefixtures("registered")
def test_a_pass_alone_uses_the_rule() -> None:
    model = ir.from_proto(MODEL)
    fuse = FuseSequenceMapPass()
    fuse(model)
    assert [d.reasons for d in fuse.decisions] == [[]]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("samples", [0, 1, 3])
def test_it_computes_what_the_body_computes(samples: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, 4)).astype(np.float32)
    bias = rng.standard_normal(4).astype(np.float32)
    expected = np.maximum((x + bias) * 2, 0)
    (actual,) = run(rewrite(MODEL).model, {"x": x, "bias": bias})
    np.testing.assert_array_equal(actual, expected)
    if samples:  # ConcatFromSequence of nothing is an error
        np.testing.assert_array_equal(run(MODEL, {"x": x, "bias": bias})[0], expected)


@pytest.mark.usefixtures("registered")
def test_two_rules_for_one_operator_are_an_error() -> None:
    with pytest.raises(ValueError, match="Double has two rules at opset 1"):
        table.register("Double", elementwise, domain="my.domain")


def test_the_rule_is_forgotten() -> None:
    assert not any(row.op_type == "Double" for row in table.rows())
    with pytest.raises(RewriteError, match="loop-free"):
        rewrite(MODEL, require=["loop-free"])
