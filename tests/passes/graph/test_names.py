"""Names: every value of a model has one of its own, and what users read keeps its own."""

from __future__ import annotations

import collections

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_graphs
from passes.graph.names import make_names_unique
from passes.graph.node_copies import copy_graph
from rewriter.backends import BackendError, open_session
from tests.passes.expansion import rows, run

HEADER = '<ir_version: 10, opset_import: ["" : 18, "local" : 1]>\n'


def load(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(HEADER + text))


def names(model: ir.Model) -> collections.Counter[str]:
    """Count the names of values; inputs and initializers of one name are one value."""
    found: dict[ir.Value, str] = {}
    for graph in all_graphs(model):
        for value in (*graph.inputs, *graph.initializers.values()):
            found[value] = value.name or ""
        for node in graph:
            found |= {value: value.name or "" for value in node.outputs if value.name != ""}
    return collections.Counter(found.values())


# A Loop's body is first, then a value outside of the same name: the checker accepts it, and
# onnxruntime, which checks in an order of its own, refuses it.
REFUSED = """g (float[2] x, int64 n, bool c) => (float[2] z) {
  first = Abs (x)
  y = Loop (n, c, first) <body = b (int64 i, bool go, float[2] s) => (bool more, float[2] next) {
    more = Identity (go)
    t = Neg (s)
    next = Abs (t) }>
  second = Neg (x)
  t = Abs (second)
  z = Add (t, y)
}"""


def test_model_that_onnxruntime_refuses_for_its_names_loads() -> None:
    proto = onnx.parser.parse_model(HEADER + REFUSED)
    onnx.checker.check_model(proto, full_check=True)
    with pytest.raises(BackendError):
        open_session(proto)
    feeds = {"x": rows((2,))[0], "n": np.array(3), "c": np.array(True)}
    model = ir.from_proto(proto)
    assert make_names_unique(model)
    after = ir.to_proto(model)
    np.testing.assert_array_equal(run(after, feeds)["z"], run(proto, feeds, "reference")["z"])


COLLISIONS = {
    "siblings": """g (float[2] x, bool c) => (float[2] z) {
      z = If (c) <then_branch = p () => (float[2] u) { t = Neg (x)  u = Abs (t) },
                  else_branch = q () => (float[2] u) { t = Abs (x)  u = Neg (t) }> }""",
    "body and graph": REFUSED,
    "body and the graph's output": """g (float[2] x, bool c) => (float[2] z) {
      y = If (c) <then_branch = p () => (float[2] u) { z = Neg (x)  u = Abs (z) },
                  else_branch = q () => (float[2] v) { v = Abs (x) }>
      z = Neg (y) }""",
    "function and graph": """g (float[2] x) => (float[2] z) { t = local.f (x)  z = Neg (t) }
      <domain: "local", opset_import: ["" : 18]>
      f (x) => (z) { t = Neg (x)  z = Abs (t) }""",
    "two functions": """g (float[2] x) => (float[2] z) { t = local.f (x)  z = local.h (t) }
      <domain: "local", opset_import: ["" : 18]>
      f (a) => (b) { b = Neg (a) }
      <domain: "local", opset_import: ["" : 18]>
      h (a) => (b) { b = Abs (a) }""",
    "initializer of a body and a graph's": """g (seq(float[2]) xs) => (seq(float[2]) ys)
      <float w = {1}> {
      ys = SequenceMap (xs) <body = b (float[2] x) => (float[2] y) <float v = {2}> {
        a = Mul (x, v)  y = Add (a, w) }>
      zs = SequenceMap (xs) <body = b (float[2] x) => (float[2] y) <float v = {3}> {
        y = Mul (x, v) }> }""",
    "a name that a fresh one could be": """g (float[2] x, bool c) => (float[2] z) {
      t_1 = Neg (x)
      z = If (c) <then_branch = p () => (float[2] u) { t = Neg (x)  u = Abs (t) },
                  else_branch = q () => (float[2] v) { t = Abs (t_1)  v = Neg (t) }> }""",
}


@pytest.mark.parametrize("name", COLLISIONS)
def test_every_value_gets_a_name_of_its_own(name: str) -> None:
    model = load(COLLISIONS[name])
    before = ir.to_proto(model)
    assert max(names(model).values()) > 1
    assert make_names_unique(model)
    assert max(names(model).values()) == 1
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    assert list(after.graph.input) == list(before.graph.input)
    assert list(after.graph.output) == list(before.graph.output)
    assert list(after.graph.initializer) == list(before.graph.initializer)


@pytest.mark.parametrize("name", COLLISIONS)
def test_it_is_done_once_and_in_one_way(name: str) -> None:
    model, other = load(COLLISIONS[name]), load(COLLISIONS[name])
    make_names_unique(model)
    make_names_unique(other)
    once = ir.to_proto(model)
    assert ir.to_proto(other) == once
    assert not make_names_unique(model)
    assert ir.to_proto(model) == once


def test_first_value_of_a_name_keeps_it() -> None:
    model = load(COLLISIONS["siblings"])
    make_names_unique(model)
    graphs = {
        graph.name: [v.name for node in graph for v in node.outputs] for graph in all_graphs(model)
    }
    assert graphs == {"g": ["z"], "p": ["t", "u"], "q": ["t_1", "u_1"]}


def test_value_without_a_name_gets_one() -> None:
    model = load("g (float[2] x) => (float[2] z) { t = Neg (x)  z = Abs (t) }")
    model.graph[0].outputs[0].name = None
    assert make_names_unique(model)
    assert model.graph[0].outputs[0].name == "value"


def test_output_that_is_left_out_stays_so() -> None:
    model = load("""g (float[2,3] x) => (int64[2,1] z) {
      k = Constant <value_ints = [1]> ()
      "", z = TopK (x, k) }""")
    assert not make_names_unique(model)
    assert model.graph[1].outputs[0].name == ""


def test_nodes_of_one_name() -> None:
    model = load("""g (float[2] x, bool c) => (float[2] z) {
      [n] a = Neg (x)
      [n_1] b = Neg (a)
      z = If (c) <then_branch = p () => (float[2] u) { [n] u = Neg (b) },
                  else_branch = q () => (float[2] v) { [n] v = Abs (b) }> }""")
    assert make_names_unique(model)
    assert [n.name for g in all_graphs(model) for n in g if n.name] == ["n", "n_1", "n_2", "n_3"]
    assert not make_names_unique(model)


def test_renamed_initializer_of_a_copy_leaves_the_original_alone() -> None:
    """Copies share their tensors, and in onnx_ir a tensor has a name too."""
    model = load(COLLISIONS["initializer of a body and a graph's"])
    body = model.graph[0].attributes["body"].as_graph()
    model.graph[1].attributes["body"] = ir.AttrGraph("body", copy_graph(body, {}))
    make_names_unique(model)
    after = ir.to_proto(model)
    onnx.checker.check_model(after, full_check=True)
    initializers = [node.attribute[0].g.initializer[0].name for node in after.graph.node]
    assert initializers == ["v", "v_1"]
    feeds = {"xs": rows((2,))}
    expected = [feeds["xs"][0] * 2 + 1]
    np.testing.assert_array_equal(run(after, feeds, "reference")["ys"], expected)


CAPTURED = {
    "a graph's input": "float[2] c",
    "a value of a body around": "float[2] m",
    "an initializer": "float[2] w",
}


@pytest.mark.parametrize("name", CAPTURED)
def test_output_of_a_body_that_is_a_value_outside_is_connected(name: str) -> None:
    """In onnx_ir only its name says which value it is, and names change."""
    returned = CAPTURED[name]
    model = load(f"""g (seq(float[2]) xs, float[2] c) => (seq(float[2]) ys) <float[2] w = {{1, 2}}> {{
      ys = SequenceMap (xs) <body = outer (float[2] x) => (float[2] y) {{
        m = Add (x, c)
        s = SequenceConstruct (x, x)
        zs = SequenceMap (s) <body = inner (float[2] p) => ({returned}) {{ q = Neg (p) }}>
        one = Constant <value_int = 1> ()
        y = SequenceAt (zs, one) }}> }}""")
    before = ir.to_proto(model)
    assert make_names_unique(model)
    assert not make_names_unique(model)
    inner = next(graph for graph in all_graphs(model) if graph.name == "inner")
    copied = inner.outputs[0].producer()
    assert copied is not None
    assert copied.op_type == "Identity"
    source = copied.inputs[0]
    assert source is not None
    assert source.name == returned.split()[-1]
    source.name = "renamed"
    after = ir.to_proto(model)
    feeds = {"xs": rows((2,), (2,)), "c": rows((2,))[0]}
    if name == "a graph's input":
        feeds["renamed"] = feeds.pop("c")
    got = run(after, feeds, "reference")["ys"]
    feeds["c"] = rows((2,))[0]
    np.testing.assert_array_equal(got, run(before, feeds, "reference")["ys"])


def test_output_of_a_body_that_nothing_computes_is_left_to_the_checker() -> None:
    model = load("""g (seq(float[2]) xs) => (seq(float[2]) ys) {
      ys = SequenceMap (xs) <body = b (float[2] x) => (float[2] absent) { y = Neg (x) }> }""")
    assert not make_names_unique(model)
