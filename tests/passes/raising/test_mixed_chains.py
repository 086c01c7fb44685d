"""SequenceMaps and Loops that append, one behind the other in any order, become one map."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.graph.graphs import walk_nodes
from passes.promises import Ceiling
from passes.sequence_operators import DOMAIN
from rewriter.proof.compare import compare
from rewriter.reporting.report import Report
from tests.passes.invariants import stray_uses

HEADER = '<ir_version: 9, opset_import: ["" : 18]>\n'
OPERATORS = ("Neg", "Tanh", "Abs", "Relu")
# Every order of the two in chains of two and three.
ORDERS = [
    "".join(order)
    for length in (2, 3)
    for order in itertools.product("LM", repeat=length)
    if len(set(order)) == 2
]
FEEDS = {
    "alike": [(2, 3)] * 4,
    "none": [],
    "one": [(2, 3)],
    "ragged": [(2, 3), (0, 3), (5, 3)],
    "many": [(1, 3), (4, 3)] * 8,
}


def as_loop(i: int, before: str, step: str) -> str:
    return f"""n{i} = SequenceLength ({before})  e{i} = SequenceEmpty <dtype = 1> ()
    s{i} = Loop (n{i}, t, e{i}) <body = l{i} (int64 i{i}, bool c{i}, seq(float[]) a{i})
        => (bool g{i}, seq(float[]) b{i}) {{
      x{i} = SequenceAt ({before}, i{i})  {step.replace("@", str(i))}
      b{i} = SequenceInsert (a{i}, r{i})  g{i} = Identity (c{i}) }}>"""


def as_map(i: int, before: str, step: str) -> str:
    return f"""s{i} = SequenceMap ({before}) <body = m{i} (float[p{i},3] x{i})
        => (float[q{i},3] r{i}) {{ {step.replace("@", str(i))} }}>"""


def chain(
    order: str, *, end: str = "", outputs: str = "", steps: dict[int, str] | None = None
) -> str:
    """Return a chain of maps: ``L`` is one that a Loop spells, ``M`` a SequenceMap."""
    maps = []
    for i, kind in enumerate(order):
        step = (steps or {}).get(i) or f"r@ = {OPERATORS[i]} (x@)"
        write = as_loop if kind == "L" else as_map
        maps.append(write(i, f"s{i - 1}" if i else "xs", step))
    last = f"s{len(order) - 1}"
    end = end or f"y = ConcatFromSequence <axis = 0> ({last})"
    return f"""{HEADER} main (seq(float[a,3]) xs, float[3] w) => ({outputs or "float[d,3] y"}) {{
      t = Constant <value = bool {{1}}> ()
      {" ".join(maps)}
      {end} }}"""


def prove(text: str, feeds: tuple[str, ...] = (*FEEDS,), **options: object) -> Report:
    """Rewrite a model, run both on the feeds, and return the report."""
    before = onnx.parser.parse_model(text)
    result = rewriter.rewrite(before, **options)
    after = result.model
    model = ir.from_proto(after)
    assert DOMAIN not in {node.domain for node in walk_nodes(model.graph)}
    assert DOMAIN not in model.opset_imports
    assert stray_uses(model) == []
    onnx.checker.check_model(after, full_check=True)
    names = [output.name for output in before.graph.output]
    rng = np.random.default_rng(0)
    for name in feeds:
        if not FEEDS[name] and "ConcatFromSequence" in text:
            continue  # there is nothing to concatenate
        xs = [rng.standard_normal(shape).astype(np.float32) for shape in FEEDS[name]]
        given = {"xs": xs, "w": np.ones(3, np.float32)}
        found = [rewriter.ReferenceEvaluator(m).run(None, given) for m in (before, after)]
        pair = [dict(zip(names, values, strict=True)) for values in found]
        difference = compare(*pair)
        assert difference.equal, f"{name}: {difference.message}"
    return result.report


@pytest.mark.parametrize("order", ORDERS)
def test_alike_they_end_without_a_loop(order: str) -> None:
    report = prove(chain(order), ("alike", "one"), uniform=["xs"], require=["loop-free"])
    assert [decision.verdict.value for decision in report.decisions] == ["fused"] * len(order)


@pytest.mark.parametrize("order", ORDERS)
def test_each_is_told_by_its_own_name(order: str) -> None:
    report = prove(chain(order), ("alike",), uniform=["xs"])
    kinds = {"L": "Loop", "M": "SequenceMap"}
    assert [decision.op_type for decision in report.decisions] == [kinds[one] for one in order]
    last = report.decisions[-1]
    assert [d.form for d in report.decisions[:-1]] == [f"part of {last.path}"] * (len(order) - 1)
    assert any("read as a map" in note for note in last.notes) is (order[-1] == "L")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
def test_of_any_shape_they_compute_the_same(order: str, strategy: str) -> None:
    prove(chain(order), strategy=strategy)


@pytest.mark.parametrize("order", ["LM", "ML", "MLM"])
def test_as_a_list_they_compute_the_same(order: str) -> None:
    last = f"s{len(order) - 1}"
    prove(chain(order, end=f"y = Identity ({last})", outputs="seq(float[d,3]) y"))


@pytest.mark.parametrize("order", ["LM", "ML"])
def test_what_lies_between_may_be_read_beside(order: str) -> None:
    end = "y = ConcatFromSequence <axis = 0> (s1)  k = SequenceLength (s0)  z = Identity (s0)"
    outputs = "float[d,3] y, int64 k, seq(float[f,3]) z"
    prove(chain(order, end=end, outputs=outputs), uniform=[])
    report = prove(chain(order, end=end, outputs=outputs), ("alike",), uniform=["xs"])
    assert {decision.verdict.value for decision in report.decisions} == {"fused"}


KEPT = {
    "graphs inside": "q@ = Size (x@) f@ = Cast <to = 9> (q@) r@ = If (f@)"
    "<then_branch = t@ () => (float[u@,3] u) { u = Neg (x@) },"
    " else_branch = e@ () => (float[v@,3] v) { v = Abs (x@) }>",
    "random": "q@ = RandomNormalLike <seed = 1.0> (x@)  z@ = Mul (q@, q@)  k@ = Sub (z@, z@)"
    "  r@ = Add (x@, k@)",
    "captures": "r@ = Add (x@, w)",
    "a rank that changes": "z@ = Constant <value = int64[1] {0}> ()  u@ = Unsqueeze (x@, z@)"
    "  r@ = Squeeze (u@, z@)",
}


@pytest.mark.parametrize("step", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("order", ["LM", "ML"])
@pytest.mark.long
def test_other_bodies_compute_the_same(order: str, step: str) -> None:
    prove(chain(order, steps={order.index("M"): step}))


@pytest.mark.parametrize("order", ["LM", "ML"])
def test_a_map_with_a_ceiling_is_not_merged(order: str) -> None:
    at = order.index("M")
    text = chain(order).replace(f"s{at} = SequenceMap", f"[slow] s{at} = SequenceMap")
    result = rewriter.rewrite(
        onnx.parser.parse_model(text), uniform=["xs"], ceilings={"slow": Ceiling.EXPANDED}
    )
    (slow,) = (one for one in result.report.decisions if one.path == "slow")
    assert slow.verdict.value == "expanded"


def test_sequences_that_may_differ_in_length_are_said_to() -> None:
    text = f"""{HEADER} main (seq(float[a,3]) xs, seq(float[b,3]) zs) => (float[d,3] y) {{
      t = Constant <value = bool {{1}}> ()
      {as_loop(0, "xs", "r@ = Neg (x@)")}
      s1 = SequenceMap (s0, zs) <body = m (float[p,3] u, float[q,3] v) => (float[o,3] r) {{
        r = Concat <axis = 0> (u, v) }}>
      y = ConcatFromSequence <axis = 0> (s1) }}"""
    report = rewriter.explain(onnx.parser.parse_model(text), uniform=["xs", "zs"])
    codes = {reason.code.value for one in report.decisions for reason in one.reasons}
    assert "surplus-ignored" in codes
