"""How often a Loop runs, by its number, by what it is given and by what it decides itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from passes.decisions import Code
from rewriter.proof.compare import compare

LOOP = """<ir_version: 8, opset_import: ["" : 18]>
g (float[N] x, int64 n, bool go) => (float[M] y) {{
    one = Constant <value_int = 1> () most = Constant <value_int = 3> () {first}
    y = Loop ({most}, {go}) <body = b (int64 i, bool c) => (bool d, float s) {{
        j = Add (i, one) {next} e = Gather (x, i) s = Neg (e) }}> }}"""
FED = {"first": "", "go": "go"}
GATED = {"first": "z = Sub (one, one) begins = Less (z, n)", "go": "begins"}
LESS = {"next": "d = Less (j, n)"}
BOTH = {"next": "p = Less (j, n) q = Less (j, most) d = And (p, q)"}
CASES: dict[str, dict[str, str]] = {
    "a condition that is fed": FED | LESS | {"most": '""'},
    "a condition that is fed, and a number": FED | LESS | {"most": "most"},
    "a condition that is fed, and two that are decided": FED | BOTH | {"most": '""'},
    "the same condition outside": GATED | LESS | {"most": '""'},
    "the same condition outside, and another one inside": GATED | BOTH | {"most": '""'},
}


@pytest.mark.parametrize("name", CASES)
def test_it_runs_as_often(name: str) -> None:
    model = onnx.parser.parse_model(LOOP.format(**CASES[name]))
    after = rewriter.optimize(model, strategy="fuse", require=["loop-free"])
    before = rewriter.ReferenceEvaluator(model)
    for number, go in ((0, True), (1, True), (2, False), (4, True)):
        feeds: dict[str, Any] = {
            "x": np.arange(5, dtype=np.float32),
            "n": np.array(number),
            "go": np.array(go),
        }
        found = [one.run(None, feeds)[0] for one in (before, rewriter.ReferenceEvaluator(after))]
        difference = compare({"y": found[0]}, {"y": found[1]})
        assert difference.equal, difference.message


WITHOUT: dict[str, tuple[str, int]] = {
    "ends": ("d = Less (j, most)", 1),
    "ends, or goes on as before": ("p = Less (j, most) d = And (p, c)", 1),
    "is false": ("d = Constant <value = bool {0}> ()", 1),
    "goes on as before": ("d = Identity (c)", 0),
    "is true": ("d = Constant <value = bool {1}> ()", 0),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_runtimes_differ_on_a_body_that_ends_a_loop_without_a_condition(name: str) -> None:
    """ONNX ignores what the body says then; onnxruntime ends by it, as onnxscript's `break` asks.

    Such a Loop stays as it is, so that each runtime does what it did.
    """
    text, kept = WITHOUT[name]
    case = {"first": "", "go": '""', "most": "n", "next": text}
    model = onnx.parser.parse_model(LOOP.format(**case))
    after = rewriter.rewrite(model, strategy="fuse")
    assert [node.op_type for node in after.model.graph.node].count("Loop") == kept
    reasons = [r.code for d in after.report.decisions for r in d.reasons]
    assert (Code.EARLY_EXIT in reasons) is bool(kept)
