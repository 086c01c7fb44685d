"""Loops that append, one behind the other, become one map."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.decisions import Decision
from passes.fuse import FuseSequenceMapPass
from passes.fusing import chains, turn
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.fusion_plan import FusionPlan
from passes.fusing.planning import plan_fusion
from passes.graph.graphs import walk_nodes
from passes.promises import FuseOptions, Promises
from passes.simplify import SimplifyBodiesPass
from passes.site import MapSite
from rewriter.proof.compare import compare
from tests.passes.invariants import stray_uses


def chain(length: int, between: str = "", outputs: str = "float[M,a,b] y", opset: int = 17) -> str:
    """Return a chain of Loops that append; each reads the list of the one before."""
    loops = []
    for i in range(length):
        before = f"s{i - 1}" if i else "xs"
        loops.append(f"""
          n{i} = SequenceLength ({before})
          e{i} = SequenceEmpty <dtype = 1> ()
          s{i} = Loop <body = step{i} (int64 i{i}, bool c{i}, seq(float[]) a{i})
              => (bool go{i}, seq(float[]) b{i}) {{
            x{i} = SequenceAt ({before}, i{i})
            r{i} = {"Tanh" if i % 2 else "Neg"} (x{i})
            b{i} = SequenceInsert (a{i}, r{i})
            go{i} = Identity (c{i})
          }}> (n{i}, t, e{i})""")
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    main (seq(float[a,b]) xs, float[k] w) => ({outputs}) {{
      t = Constant <value = bool {{1}}> ()
      {"".join(loops)}
      {between}
      y = ConcatFromSequence <axis = 0, new_axis = 1> (s{length - 1})
    }}"""


def kinds(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in walk_nodes(ir.from_proto(model).graph)}


def check(text: str, **options: object) -> onnx.ModelProto:
    before = onnx.parser.parse_model(text)
    result = rewriter.rewrite(before, **options)
    names = [output.name for output in before.graph.output]
    xs = [np.random.default_rng(i).standard_normal((2, 3)).astype(np.float32) for i in range(4)]
    feeds = {"xs": xs, "w": np.ones(2, np.float32)}
    found = [rewriter.ReferenceEvaluator(m).run(None, feeds) for m in (before, result.model)]
    difference = compare(*(dict(zip(names, values, strict=True)) for values in found))
    assert difference.equal, difference.message
    return result.model


@pytest.mark.parametrize("opset", [11, 13, 17, 21])
@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_chain_of_equal_shapes_ends_without_a_loop(length: int, opset: int) -> None:
    after = check(chain(length, opset=opset), uniform=["xs"], require=["loop-free"])
    assert "SplitToSequence" not in kinds(after)


CAPTURES = {"r0 = Neg (x0)": "q0 = Neg (x0) r0 = Add (q0, c)"} | {
    f"r{i} = {name} (x{i})": f"""q{i} = {name} (x{i})
        r{i} = If (p) <then_branch = t () => (float[] u) {{ u = Mul (q{i}, c) }},
                       else_branch = e () => (float[] v) {{ v = Add (q{i}, c) }}>"""
    for i, name in ((1, "Tanh"), (2, "Neg"))
}
DRAWN = {
    f"r{i} = {name} (x{i})": f"""r{i} = If (p)
        <then_branch = t () => (float[] u) {{ h = RandomNormalLike (x{i}) u = Mul (h, c) }},
         else_branch = e () => (float[] v) {{ v = Add (x{i}, c) }}>"""
    for i, name in ((0, "Neg"), (1, "Tanh"), (2, "Neg"))
}
"""Nodes of the steps, and others that read from outside what they compute with."""
CAPTURED = """c = ReduceSum <keepdims = 0> (w) one = Constant <value_float = 1.0> ()
      p = Greater (c, one) t = Constant"""


@pytest.mark.sampled
@pytest.mark.parametrize("options", [{}, {"uniform": ["xs"]}, {"strategy": "fuse"}], ids=str)
@pytest.mark.parametrize("steps", [CAPTURES, DRAWN], ids=["merged", "not merged"])
def test_nothing_is_left_of_plans_that_were_not_taken(
    steps: dict[str, str], options: dict[str, Any]
) -> None:
    text = chain(3).replace("t = Constant", CAPTURED, 1)
    for old, new in steps.items():
        text = text.replace(old, new)
    strays: list[str] = []
    model = onnx.parser.parse_model(text)
    rewriter.rewrite(model, on_pass=lambda _, taken: strays.extend(stray_uses(taken)), **options)
    assert strays == []


def test_loops_that_carry_a_value_unchanged_are_merged() -> None:
    text = chain(3).replace("t = Constant", CAPTURED, 1)
    for i in range(3):
        text = text.replace(f"(n{i}, t, e{i})", f"(n{i}, t, e{i}, c)")
        text = text.replace(f"s{i} = Loop", f"s{i}, z{i} = Loop")
        text = text.replace(f"a{i})\n              =>", f"a{i}, float k{i}) =>")
        text = text.replace(f"seq(float[]) b{i})", f"seq(float[]) b{i}, float l{i})")
        text = text.replace(f"go{i} = Identity", f"l{i} = Identity (k{i}) go{i} = Identity")
        text = text.replace(f" (x{i})\n            b", f" (x{i}) m{i} = Mul (r{i}, k{i})\n b")
        text = text.replace(f"(a{i}, r{i})", f"(a{i}, m{i})")
    assert text.count("Mul") == 3
    check(text, uniform=["xs"], require=["loop-free"])


def test_what_a_loop_that_comes_back_reads_is_still_there() -> None:
    """Its Map does not read it: it is dead in the body."""
    between = """n9 = SequenceLength (xs)
      e9 = SequenceEmpty <dtype = 1> ()
      s9 = Loop <body = step9 (int64 i9, bool c9, seq(float[]) a9)
          => (bool go9, seq(float[]) b9) {
        dead = SequenceAt (s0, i9)
        r9 = RandomNormal <shape = [2]> ()
        b9 = SequenceInsert (a9, r9)
        go9 = Identity (c9)
      }> (n9, t, e9)
      f = SequenceLength (s9)"""
    check(chain(2, between, "float[M,a,b] y, int64 f"), uniform=["xs"])


def test_the_report_says_what_became_of_each() -> None:
    report = rewriter.explain(onnx.parser.parse_model(chain(2)), uniform=["xs"])
    first, second = report.decisions
    assert (str(first.verdict), first.form) == ("fused", f"part of {second.path}")
    assert str(second.verdict) == "fused"


def test_a_list_that_is_read_elsewhere_stays() -> None:
    text = chain(2, "f = SequenceAt (s0, zero)", "float[M,a,b] y, float[a,b] f").replace(
        "t = Const", "zero = Constant <value = int64 {0}> ()\n      t = Const"
    )
    assert "Loop" not in kinds(check(text, uniform=["xs"]))


def test_what_cannot_be_batched_keeps_both_as_they_were() -> None:
    text = chain(2).replace("Neg (", "RandomNormalLike (").replace("Tanh (", "RandomNormalLike (")
    model = ir.from_proto(onnx.parser.parse_model(text))
    before = ir.to_proto(model)
    reading = FuseSequenceMapPass(FuseOptions(auto=True), loops=True)
    assert not reading(model).modified
    assert [str(d.verdict) for d in reading.decisions] == ["kept", "kept"]
    assert ir.to_proto(model) == before


def test_a_second_loop_of_another_number_of_steps_is_not_merged() -> None:
    text = chain(2).replace("n1 = SequenceLength (s0)", "n1 = Size (w)")
    check(text, uniform=["xs"])


@pytest.mark.parametrize("operator", ["Tanh", "RandomNormalLike"])
def test_the_work_grows_with_the_number_of_loops(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = []

    def plan(site: MapSite, facts: FusionFacts) -> FusionPlan | Decision:
        planned.append(site.path)
        return plan_fusion(site, facts)

    for module in (turn, chains):
        monkeypatch.setattr(module, "plan_fusion", plan)
    text = chain(12).replace("Tanh", operator).replace("Neg", operator)
    FuseSequenceMapPass(FuseOptions(Promises(frozenset(["xs"]))), loops=True)(
        ir.from_onnx_text(text)
    )
    assert len(planned) <= 2 * 12


def test_a_loop_over_the_same_list_that_reads_what_another_appends_is_merged() -> None:
    text = chain(2).replace("SequenceLength (s0)", "SequenceLength (xs)")
    text = text.replace("r1 = Tanh (x1)", "z1 = SequenceAt (xs, i1) r1 = Mul (x1, z1)")
    first, second = rewriter.explain(onnx.parser.parse_model(text), uniform=["xs"]).decisions
    assert first.form == f"part of {second.path}"
    check(text, uniform=["xs"], require=["loop-free"])


def test_the_first_map_that_reads_another_need_not_be_the_one_that_is_merged() -> None:
    """The lists of the other one may differ in length from what it reads beside them."""
    step = "SequenceMap <body = {0} (float[a,b] u{0}{1}) => (float[a,b] v{0}) {{ v{0} = {2} }}>"
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    main (seq(float[a,b]) xs, seq(float[a,b]) ws) => (seq(float[a,b]) y, seq(float[a,b]) z) {{
      s = {step.format("f", "", "Neg (uf)")} (xs)
      z = {step.format("g", ", float[a,b] k", "Add (ug, k)")} (ws, s)
      y = {step.format("h", "", "Tanh (uh)")} (s)
    }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    simplify = SimplifyBodiesPass()
    simplify(model)
    assert [decision.form for decision in simplify.decisions] == ["part of SequenceMap_2"]
    assert [node.op_type for node in model.graph] == ["SequenceMap", "SequenceMap"]
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
