"""Ifs with a branch from which the model always fails, for targets without If."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.graph.graphs import all_graphs
from passes.runtimes.select_branches import SelectBranchesPass
from rewriter.backends import BackendError, run
from rewriter.proof.compare import compare

TEXT = """<ir_version: 8, opset_import: ["" : %d]>
g (bool c, float[N] x, float[M] w, int64[N,1] p, bool d) => (float[K] z)
<int64[1] zero = {0}, int64[1] one = {1}> { %s }"""
FEEDS = {
    "x": np.array([-0.0, np.nan, np.inf, 3.0], np.float32),
    "w": np.array([7, -0.0, 8, 9, 10, 11], np.float32),
    "p": np.array([[0], [1], [2], [5]]),
    "d": np.array(True),
}


def choose(then: str, other: str, kind: str = "float[]") -> str:
    return (
        f"y = If (c) <then_branch = t () => ({kind} a) {{ {then} }}, "
        f"else_branch = e () => ({kind} b) {{ {other} }}> "
    )


ONE_MORE = choose("a = Unsqueeze (x, zero)", "b = Identity (x)")
# fmt: off
FAILING = {
    "updates of another rank": (ONE_MORE + "z = ScatterND (w, p, y)", False),
    "the other branch": (
        choose("a = Identity (x)", "b = Unsqueeze (x, zero)") + "z = ScatterND (w, p, y)",
        True,
    ),
    "joined with a vector": (ONE_MORE + "z = Concat <axis = 0> (y, w)", False),
    "a few nodes behind": (
        ONE_MORE + "q = Neg (y)  r = Cast <to = 11> (q)  v = Cast <to = 1> (r)  "
        "z = Concat <axis = 0> (w, v)",
        False,
    ),
    "integers": (
        choose("f = Cast <to = 7> (x)  a = Unsqueeze (f, zero)", "b = Squeeze (p, one)", "int64[]")
        + "v = Cast <to = 1> (y)  z = ScatterND (w, p, v)",
        False,
    ),
    "a branch that could fail itself": (
        choose("i = Squeeze (p, one)  m = Gather (w, i)  a = Unsqueeze (m, zero)", "b = Identity (x)")
        + "z = ScatterND (w, p, y)",
        False,
    ),
    "in a branch of another": (
        "z = If (d) <then_branch = t2 () => (float[K] p1) { "
        + ONE_MORE
        + "p1 = Concat <axis = 0> (w, y) }, else_branch = e2 () => (float[K] p2) "
        "{ p2 = Identity (w) }>",
        False,
    ),
}
STAY = {
    "one that fits": ONE_MORE + "r = Squeeze (y)  z = ScatterND (w, p, r)",
    "what no result needs": ONE_MORE + "r = ScatterND (w, p, y)  z = Identity (w)",
    "a rank that is not known": choose("a = Squeeze (x)", "b = Identity (x)")
    + "z = ScatterND (w, p, y)",
    "only in a branch of another": ONE_MORE
    + "z = If (d) <then_branch = t2 () => (float[K] p1) { p1 = ScatterND (w, p, y) }, "
    "else_branch = e2 () => (float[K] p2) { p2 = Identity (w) }>",
    "truths alone": choose(
        "n = IsNaN (x)  a = Unsqueeze (n, zero)", "b = IsNaN (x)", "bool[]"
    )
    + "v = Cast <to = 1> (y)  z = ScatterND (w, p, v)",
}
# fmt: on


def model_of(nodes: str, opset: int = 18) -> onnx.ModelProto:
    return onnx.parser.parse_model(TEXT % (opset, nodes))


def select(before: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    model, one = ir.from_proto(before), SelectBranchesPass()
    one(model)
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    return after, one.warnings


def branches(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "If" for one in all_graphs(ir.from_proto(model)) for node in one)


@pytest.mark.quick
@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("name", FAILING)
def test_an_error_stays_an_error(name: str, opset: int) -> None:
    nodes, good = FAILING[name]
    before = model_of(nodes, opset)
    after, warnings = select(before)
    assert branches(after) == 0
    assert "a branch from which the model always fails" in warnings[0]
    for backend in ("reference", "onnxruntime"):
        feeds = {**FEEDS, "c": np.array(good)}
        difference = compare(
            run(before, feeds, backend=backend), run(after, feeds, backend=backend)
        )
        assert difference.equal, difference.message
        for model in (before, after):
            with pytest.raises(BackendError):
                run(model, {**FEEDS, "c": np.array(not good)}, backend=backend)


def test_nothing_fails_where_the_branch_around_is_not_taken() -> None:
    nodes, good = FAILING["in a branch of another"]
    after, _ = select(model_of(nodes))
    for flag in (good, not good):
        feeds = {**FEEDS, "c": np.array(flag), "d": np.array(False)}
        (result,) = run(after, feeds, backend="onnxruntime").values()
        np.testing.assert_array_equal(result, FEEDS["w"])


@pytest.mark.quick
@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    after, warnings = select(model_of(STAY[name]))
    assert branches(after)
    assert not any("fails" in warning for warning in warnings)


def test_only_for_targets_without_if() -> None:
    before = model_of(FAILING["updates of another rank"][0])
    assert branches(rewriter.rewrite(before, target="portable").model) == 0
    assert branches(rewriter.rewrite(before).model) == 1
