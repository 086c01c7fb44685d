"""Nodes that one branch alone reads run in that branch, unless they could fail."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_graphs
from passes.runtimes import Authored, OneBranchPass
from rewriter.backends import run

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
X = np.array([[1.0, -2.0], [3.0, 4.0]], np.float32)


def model(
    front: str, yes: str, no: str = "q = Neg (x)", outputs: str = "float[N,2] y"
) -> ir.Model:
    """Return a model with nodes in front of an If, whose branches yield ``p`` and ``q``."""
    return ir.from_onnx_text(f"""{HEADER} g (float[N,2] x, bool f, int64 k) => ({outputs}) {{
        {front}  y = If (f) <then_branch = yes () => (float[A,B] p) {{ {yes} }},
                             else_branch = no () => (float[C,D] q) {{ {no} }}> }}""")


def places(made: ir.Model, op_type: str) -> list[str | None]:
    """Return the names of the graphs in which an operator stands."""
    return [graph.name for graph in all_graphs(made) for n in graph if n.op_type == op_type]


MOVED = {
    "one node": ("a = Exp (x)", "p = Abs (a)", "Exp", "yes"),
    "for the other branch": ("a = Exp (x)", "p = Abs (x)", "Exp", "no"),
    "a chain": ("b = Tanh (x) a = Exp (b)", "p = Abs (a)", "Tanh", "yes"),
    "what is read twice": ("a = Exp (x)", "p = Add (a, a)", "Exp", "yes"),
    "into an inner If": (
        "a = Exp (x)",
        "p = If (f) <then_branch = inner () => (float[E,F] r) { r = Abs (a) }, "
        "else_branch = other () => (float[G,H] s) { s = Identity (x) }>",
        "Exp",
        "inner",
    ),
    "a running sum": (
        "z = Constant <value = int64 {0}> () a = CumSum (x, z)",
        "p = Abs (a)",
        "CumSum",
        "yes",
    ),
    "what a loop in the branch reads": (
        "a = Exp (x)",
        "n = Constant <value = int64 {2}> () t = Constant <value = bool {1}> () "
        "p = Loop (n, t, x) <body = b (int64 i, bool c, float[I,J] u) => "
        "(bool d, float[K,L] v) { d = Identity (c) v = Add (u, a) }>",
        "Exp",
        "yes",
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_it_moves_and_computes_the_same(name: str) -> None:
    front, yes, op_type, place = MOVED[name]
    no = "q = Abs (a)" if place == "no" else "q = Neg (x)"
    given, made = model(front, yes, no), model(front, yes, no)
    assert OneBranchPass()(made).modified
    assert places(made, op_type) == [place]
    assert not OneBranchPass()(made).modified
    for flag in (True, False):
        feeds = {"x": X, "f": np.array(flag), "k": np.array(0)}
        np.testing.assert_array_equal(run(made, feeds)["y"], run(given, feeds)["y"])


STAYS = {
    "read in both branches": ("a = Exp (x)", "p = Abs (a)", "q = Neg (a)"),
    "read beside the If": ("a = Exp (x) b = Abs (a)", "p = Add (a, b)", "q = Sub (x, b)"),
    "it could fail": ("a = Gather (x, k)", "p = Abs (a)", "q = Neg (x)"),
    "a sum along an axis that is computed": ("a = CumSum (x, k)", "p = Abs (a)", "q = Neg (x)"),
    "a constant": ("a = Constant <value = float {1}> ()", "p = Add (x, a)", "q = Neg (x)"),
}


@pytest.mark.parametrize("name", STAYS)
def test_it_stays(name: str) -> None:
    made = model(*STAYS[name])
    assert not OneBranchPass()(made).modified


def test_an_output_of_the_model_stays() -> None:
    made = model("a = Exp (x)", "p = Abs (a)", outputs="float[N,2] y, float[N,2] a")
    assert not OneBranchPass()(made).modified


def test_what_decides_the_branch_stays() -> None:
    made = ir.from_onnx_text(f"""{HEADER} g (float[N,2] x) => (float[N,2] y) {{
        z = Constant <value = float {{0}}> ()  s = ReduceSum <keepdims = 0> (x)
        f = Greater (s, z)  y = If (f) <then_branch = yes () => (float[A,B] p) {{ p = Mul (x, s) }},
                             else_branch = no () => (float[C,D] q) {{ q = Neg (x) }}> }}""")
    assert not OneBranchPass()(made).modified


def test_what_the_author_wrote_stays() -> None:
    made = model("a = Exp (x)", "p = Abs (a)")
    assert not OneBranchPass(Authored(made))(made).modified


def test_what_only_a_loop_reads_stays_outside_of_it() -> None:
    made = ir.from_onnx_text(f"""{HEADER} g (float[N,2] x, bool f) => (float[N,2] y) {{
        a = Exp (x) n = Constant <value = int64 {{2}}> () t = Constant <value = bool {{1}}> ()
        y = Loop (n, t, x) <body = b (int64 i, bool c, float[I,J] u) => (bool d, float[K,L] v) {{
            d = Identity (c)
            v = If (f) <then_branch = yes () => (float[A,B] p) {{ p = Mul (u, a) }},
                        else_branch = no () => (float[C,D] q) {{ q = Neg (u) }}> }}> }}""")
    assert not OneBranchPass()(made).modified
