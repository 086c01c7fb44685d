"""Expansion: wherever a map stands and whatever it reads, its loop computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.expand import ExpandSequenceMapPass
from passes.graph.names import make_names_unique
from tests.passes.expand_cases import CASES, HEADER, RAGGED, SHAPES, Case
from tests.passes.expansion import expand, inlined, operators, prove, rows, write_short_blocks


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loop_computes_what_the_map_does(case: Case) -> None:
    expanded = prove(HEADER + case.text, *case.feeds, second_opinion=case.second_opinion)
    assert expanded.decisions[-1].form == case.form
    assert tuple(expanded.codes) == case.codes


@pytest.mark.parametrize(
    "case", [case for case in CASES if "blocks" in case.form], ids=lambda case: case.name
)
def test_blocks_compute_what_the_map_does(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default they are written for hundreds of samples, which no case has."""
    write_short_blocks(monkeypatch)
    prove(HEADER + case.text, *case.feeds, second_opinion=case.second_opinion, forms=("linear",))


def passing(returns: str, body: str = "") -> str:
    return f"""{HEADER}g (seq(float[N]) xs, float[M] t, float[K] c)
        => (seq(float[]) a, seq(float[]) b) {{
          a, b = SequenceMap (xs, t) <body = f (float[N] x, float[M] s) => ({returns}) {{ {body} }}>
        }}"""


PASSED_ON = {
    "an element twice": ("float[N] x, float[N] x", "", RAGGED * 2),
    "a computed value twice": ("float[N] y, float[N] y", "y = Neg (x)", RAGGED * 2),
    "a shared input": ("float[M] s, float[N] y", "y = Neg (x)", RAGGED),
    "a captured value": ("float[K] c, float[N] x", "", RAGGED),
    "what is captured, twice": ("float[K] c, float[K] c", "", ()),
    "a shared input beside its copy": ("float[M] s, float[M] y", "y = Identity (s)", ()),
}


@pytest.mark.parametrize("name", PASSED_ON)
def test_output_that_the_body_does_not_compute(name: str) -> None:
    returns, body, codes = PASSED_ON[name]
    feeds = {"t": rows((2,))[0], "c": rows((4,))[0]}
    expanded = prove(
        passing(returns, body),
        {"xs": rows(*SHAPES), **feeds},
        {"xs": [], **feeds},
        second_opinion="captured" not in name and "twice" not in name,
    )
    assert tuple(expanded.codes) == codes


def test_map_whose_output_is_read_by_a_branch_and_by_name() -> None:
    text = f"""{HEADER}g (seq(float[N]) xs, bool c) => (seq(float[N]) ys, seq(float[N]) zs) {{
      ys = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) {{ y = Neg (x) }}>
      zs = If (c) <then_branch = p () => (seq(float[N]) u) {{ u = Identity (ys) }},
                   else_branch = q () => (seq(float[N]) v) {{ v = Identity (xs) }}>
    }}"""
    prove(text, *({"xs": rows(*SHAPES), "c": np.array(c)} for c in (True, False)))


COLLISIONS = {
    "a value of the body, and a later one outside": """
      g (seq(float[N]) xs) => (seq(float[N]) ys, float[N] t) {
        ys = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) { t = Neg (x) y = Abs (t) }>
        all = ConcatFromSequence <axis = 0> (ys)
        t = Neg (all) }""",
    "siblings": """
      g (seq(float[N]) xs) => (seq(float[N]) ys, seq(float[N]) zs) {
        ys = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) { t = Neg (x) y = Abs (t) }>
        zs = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) { t = Abs (x) y = Neg (t) }> }""",
    "names that the loop would give": """
      g (seq(float[N]) xs, float i) => (seq(float[N]) ys) {
        cond = Neg (i)
        collected = Mul (cond, i)
        block = Identity (collected)
        ys = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) {
          loop = Mul (x, block) samples = Add (loop, cond) y = Add (samples, i) }> }""",
}


@pytest.mark.parametrize("name", COLLISIONS)
def test_names_that_collide(name: str) -> None:
    text = HEADER + COLLISIONS[name]
    feeds = {"xs": rows(*SHAPES), "i": rows(())[0]}
    model = onnx.parser.parse_model(text)
    given = {value.name for value in model.graph.input}
    opinion = "later" not in name
    expanded = prove(model, {k: v for k, v in feeds.items() if k in given}, second_opinion=opinion)
    taken = ir.from_proto(expanded.model)
    assert not make_names_unique(taken), "two values share a name"


FUNCTION_HEADER = '<ir_version: 10, opset_import: ["" : 18, "local" : 1]>\n'
FUNCTIONS = {
    "attribute of the call": """
      g (seq(float[N]) xs) => (seq(float[N]) ys, seq(float[N]) zs) {
        ys = local.all <slope = 0.5> (xs)
        zs = local.all (xs) }
      <domain: "local", opset_import: ["" : 18]>
      all <slope: float = 0.25> (s) => (r) {
        r = SequenceMap (s) <body = f (x) => (y) { n = Neg (x)
          y = LeakyRelu <alpha: float = @slope> (n) }> }""",
    "attribute two bodies deep": """
      g (seq(float[N,2]) xs) => (seq(float[N,2]) ys) {
        ys = local.all <slope = 0.5> (xs) }
      <domain: "local", opset_import: ["" : 18]>
      all <slope: float> (s) => (r) {
        r = SequenceMap (s) <body = f (x) => (y) {
          parts = SplitToSequence <axis = 1> (x)
          mapped = SequenceMap (parts) <body = h (u) => (v) { n = Neg (u)
            v = LeakyRelu <alpha: float = @slope> (n) }>
          y = ConcatFromSequence <axis = 1> (mapped) }> }""",
    "function in a function": """
      g (seq(float[N]) xs) => (seq(float[N]) ys) {
        ys = local.outer <k = 2.0> (xs) }
      <domain: "local", opset_import: ["" : 18, "local" : 1]>
      outer <k: float> (s) => (r) { r = local.inner <alpha: float = @k> (s) }
      <domain: "local", opset_import: ["" : 18]>
      inner <alpha: float> (s) => (r) {
        r = SequenceMap (s) <body = f (x) => (y) { n = Neg (x)
          y = LeakyRelu <alpha: float = @alpha> (n) }> }""",
    "function in a body": """
      g (seq(float[N]) xs) => (seq(float[N]) ys) {
        ys = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) { y = local.twice (x) }> }
      <domain: "local", opset_import: ["" : 18]>
      twice (a) => (b) { b = Add (a, a) }""",
    "function with a map, called in a body": """
      g (seq(float[N,2]) xs) => (seq(float[N,2]) ys) {
        ys = SequenceMap (xs) <body = f (float[N,2] x) => (float[N,2] y) { y = local.rows (x) }> }
      <domain: "local", opset_import: ["" : 18]>
      rows (a) => (b) {
        parts = SplitToSequence <axis = 0, keepdims = 1> (a)
        mapped = SequenceMap (parts) <body = h (u) => (v) { v = Neg (u) }>
        b = ConcatFromSequence <axis = 0> (mapped) }""",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_map_in_a_function(name: str) -> None:
    elements = rows((2, 2), (1, 2)) if "N,2" in FUNCTIONS[name] else rows(*SHAPES)
    feeds = [{"xs": elements}, {"xs": []}]
    expanded = prove(FUNCTION_HEADER + FUNCTIONS[name], *feeds, second_opinion=False)
    kept = [function.name for function in expanded.model.functions]
    assert kept == (["twice"] if name == "function in a body" else [])


WITH_SECOND_OPINION = [case for case in CASES if case.second_opinion]


@pytest.mark.quick
@pytest.mark.parametrize("case", WITH_SECOND_OPINION, ids=lambda case: case.name)
def test_plain_form_is_the_one_of_the_specification(case: Case) -> None:
    proto = onnx.parser.parse_model(HEADER + case.text)
    expanded = expand(proto, "plain")
    assert expanded.operators == operators(inlined(proto))
    assert {decision.form for decision in expanded.decisions} == {"plain Loop"}


def test_unknown_form_is_refused() -> None:
    form: Any = "fast"
    with pytest.raises(ValueError, match="form is 'linear' or 'plain', not 'fast'"):
        ExpandSequenceMapPass(form)
