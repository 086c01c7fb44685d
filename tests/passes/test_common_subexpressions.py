"""What a rewrite computed twice is computed once; the author's nodes stay where they stood."""

from __future__ import annotations

import collections

import onnx
import onnx_ir as ir
import pytest

from passes.common_subexpressions import EliminateCommonSubexpressionsPass
from passes.graph.graphs import node_paths, record_paths
from passes.runtimes.sidestep import Authored

HEADER = '<ir_version: 9, opset_import: ["" : 18, "other" : 1]>'


def merged(text: str, *, authored: bool = False) -> collections.Counter[str]:
    """Run the pass; return how often each operator is left, those of subgraphs included."""
    model = ir.from_proto(onnx.parser.parse_model(f"{HEADER} g {text}"))
    EliminateCommonSubexpressionsPass(Authored(model) if authored else None)(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return collections.Counter(node.op_type for node in model.graph.all_nodes())


LARGE = ", ".join(["1"] * 65)
CASES = {
    "equal nodes": (
        "(float[N] x) => (float[N] y) { a = Neg (x) b = Neg (x) y = Add (a, b) }",
        {"Neg": 1, "Add": 1},
    ),
    "what reads equal nodes": (
        """(float[N] x) => (float[N] y)
        { a = Neg (x) b = Neg (x) c = Abs (a) d = Abs (b) y = Add (c, d) }""",
        {"Neg": 1, "Abs": 1, "Add": 1},
    ),
    "equal constants": (
        """(int64[N] x) => (int64[N] y)
        { a = Constant <value_ints = [1]> () b = Constant <value_ints = [1]> ()
          c = Add (x, a) d = Add (x, b) y = Mul (c, d) }""",
        {"Constant": 1, "Add": 1, "Mul": 1},
    ),
    "constants of one number": (
        """(int64[N] x) => (int64[N] y)
        { a = Constant <value_int = 1> () c = Add (x, a) b = Constant <value_int = 1> ()
          y = Mul (c, b) }""",
        {"Constant": 1, "Add": 1, "Mul": 1},
    ),
    "constants of two types": (
        """(int64[N] x) => (int64[N] y)
        { a = Constant <value = int32[1] {1}> () b = Constant <value = int64[1] {1}> ()
          c = Cast <to = 7> (a) y = Add (b, c) }""",
        {"Constant": 2, "Cast": 1, "Add": 1},
    ),
    "constants that are large": (
        f"""(float[65] x) => (float[65] y)
        {{ a = Constant <value = float[65] {{{LARGE}}}> () b = Constant <value = float[65] {{{LARGE}}}> ()
          c = Add (x, a) y = Mul (c, b) }}""",
        {"Constant": 2, "Add": 1, "Mul": 1},
    ),
    "tensors of texts": (
        """(string[N] x, bool[N] f) => (string[N] y)
        { a = Constant <value = string[1] {"one"}> () b = Constant <value = string[1] {"one"}> ()
          c = Where (f, x, a) y = Where (f, c, b) }""",
        {"Constant": 2, "Where": 2},
    ),
    "zeros of two signs": (
        """(float[N] x) => (float[N] y)
        { a = Constant <value_float = 0.0> () b = Constant <value_float = -0.0> ()
          c = Div (x, a) d = Div (x, b) y = Add (c, d) }""",
        {"Constant": 2, "Div": 2, "Add": 1},
    ),
    "other attributes": (
        """(float[A,B,C] x) => (float[P,Q,R] y)
        { a = Transpose <perm = [1, 0, 2]> (x) b = Transpose <perm = [0, 2, 1]> (x)
          c = Shape (a) d = Shape (b) e = Concat <axis = 0> (c, d) y = Expand (x, c) }""",
        {"Transpose": 2, "Shape": 2, "Concat": 1, "Expand": 1},
    ),
    "one dimension in two spellings": (
        """(float[A,B] x) => (int64[1] y)
        { s = Shape (x) k = Constant <value_ints = [1]> () a = Gather (s, k)
          b = Shape <start = 1, end = 2> (x) y = Add (a, b) }""",
        {"Shape": 1, "Constant": 1, "Gather": 1, "Add": 1},
    ),
    "two dimensions": (
        """(float[A,B] x) => (int64[1] y)
        { s = Shape (x) k = Constant <value_ints = [1]> () a = Gather (s, k)
          b = Shape <start = 0, end = 1> (x) y = Add (a, b) }""",
        {"Shape": 2, "Constant": 1, "Gather": 1, "Add": 1},
    ),
    "a dimension and a number": (
        """(float[A,B] x) => (int64[1] y)
        { s = Shape (x) k = Constant <value_int = 1> () a = Gather (s, k)
          b = Shape <start = 1, end = 2> (x) y = Add (a, b) }""",
        {"Shape": 2, "Constant": 1, "Gather": 1, "Add": 1},
    ),
    "one dimension as a number in two spellings": (
        """(float[A,B] x) => (int64 y)
        { s = Shape (x) k = Constant <value_int = 1> () a = Gather (s, k)
          z = Constant <value_ints = [0]> ()
          b = Shape <start = 1, end = 2> (x) c = Squeeze (b, z) y = Add (a, c) }""",
        {"Shape": 1, "Constant": 1, "Gather": 1, "Add": 1},
    ),
    "one dimension as a number, squeezed whole": (
        """(float[A,B] x) => (int64 y)
        { s = Shape (x) k = Constant <value_int = 1> () a = Gather (s, k)
          b = Shape <start = 1, end = 2> (x) c = Squeeze (b) y = Add (a, c) }""",
        {"Shape": 1, "Constant": 1, "Gather": 1, "Add": 1},
    ),
    "one dimension as a vector that was a number": (
        """(float[A,B] x) => (int64[1] y)
        { s = Shape (x) k = Constant <value_int = 1> () a = Gather (s, k)
          z = Constant <value_ints = [0]> () b = Unsqueeze (a, z)
          c = Shape <start = 1, end = 2> (x) y = Add (b, c) }""",
        {"Shape": 1, "Constant": 2, "Gather": 1, "Unsqueeze": 1, "Add": 1},
    ),
    "a dimension from the back": (
        """(float[A,B] x) => (int64 y)
        { s = Shape (x) k = Constant <value_int = -1> () a = Gather (s, k)
          b = Shape <start = 1, end = 2> (x) c = Squeeze (b) y = Add (a, c) }""",
        {"Shape": 2, "Constant": 1, "Gather": 1, "Squeeze": 1, "Add": 1},
    ),
    "a dimension along another axis": (
        """(float[A,B] x) => (int64[1,1] y)
        { b = Shape <start = 1, end = 2> (x) z = Constant <value_ints = [0]> ()
          c = Squeeze (b) d = Unsqueeze (c, z) e = Constant <value_ints = [1]> ()
          f = Unsqueeze (d, e) y = Identity (f) }""",
        {"Shape": 1, "Constant": 1, "Unsqueeze": 1, "Identity": 1},
    ),
    "the other order": (
        "(float[N] x, float[N] z) => (float[N] y) { a = Sub (x, z) b = Sub (z, x) y = Add (a, b) }",
        {"Sub": 2, "Add": 1},
    ),
    "operands that may change places": (
        """(float[N] x, float[N] z) => (float[N] y)
        { a = Add (x, z) b = Add (z, x) c = Mul (a, x) d = Mul (x, b) y = Sub (c, d) }""",
        {"Add": 1, "Mul": 1, "Sub": 1},
    ),
    "a greatest number keeps its order": (
        "(float[N] x, float[N] z) => (float[N] y) { a = Max (x, z) b = Max (z, x) y = Sub (a, b) }",
        {"Max": 2, "Sub": 1},
    ),
    "results keep their nodes": (
        "(float[N] x) => (float[N] y, float[N] z) { y = Neg (x) z = Neg (x) }",
        {"Neg": 2},
    ),
    "an output that is left out": (
        """(float[N] x) => (float[N] y, int64[N] j)
        { a, "", r = Unique (x) b, i, s = Unique (x) y = Gather (a, s) j = Add (r, i) }""",
        {"Unique": 2, "Gather": 1, "Add": 1},
    ),
    "what draws": (
        """(float[N] x) => (float[N] y)
        { a = RandomNormalLike (x) b = RandomNormalLike (x) y = Add (a, b) }""",
        {"RandomNormalLike": 2, "Add": 1},
    ),
    "a branch reads what stands in front": (
        """(float[N] x, bool c) => (float[N] y)
        { a = Neg (x) i = If (c) <
            then_branch = t () => (float[N] p) { q = Neg (x) p = Abs (q) },
            else_branch = e () => (float[N] r) { s = Neg (x) r = Relu (s) }>
          y = Add (a, i) }""",
        {"Neg": 1, "If": 1, "Abs": 1, "Relu": 1, "Add": 1},
    ),
    "two branches read nothing of each other": (
        """(float[N] x, bool c) => (float[N] y)
        { y = If (c) <
            then_branch = t () => (float[N] p) { q = Neg (x) p = Abs (q) },
            else_branch = e () => (float[N] r) { s = Neg (x) r = Relu (s) }> }""",
        {"Neg": 2, "If": 1, "Abs": 1, "Relu": 1},
    ),
    "what stands behind is not read in front": (
        """(float[N] x, bool c) => (float[N] y)
        { i = If (c) <
            then_branch = t () => (float[N] p) { q = Neg (x) p = Abs (q) },
            else_branch = e () => (float[N] r) { r = Relu (x) }>
          a = Neg (x) y = Add (a, i) }""",
        {"Neg": 2, "If": 1, "Abs": 1, "Relu": 1, "Add": 1},
    ),
    "a body of a Loop": (
        """(float[N] x, int64 n) => (float[N] y)
        { a = Neg (x) t = Constant <value = bool {1}> ()
          l = Loop (n, t, a) <body = b (int64 i, bool k, float[N] s) => (bool g, float[N] o) {
            g = Identity (k) u = Neg (x) v = Neg (x) w = Add (u, v) o = Add (s, w) }>
          y = Add (l, a) }""",
        {"Neg": 2, "Constant": 1, "Loop": 1, "Identity": 1, "Add": 3},
    ),
    "copies of copies": (
        "(float[N] x) => (float[N] y) { a = Identity (x) b = Identity (a) y = Neg (b) }",
        {"Neg": 1},
    ),
    "a copy that is a result": (
        "(float[N] x) => (float[N] y) { a = Identity (x) y = Identity (a) }",
        {"Identity": 1},
    ),
    "a Cast to the type that is there": (
        """(int64[N] x, float[N] z) => (int64[N] y)
        { a = Gather <axis = 0> (x, x) b = Cast <to = 7> (a) c = Cast <to = 7> (z)
          y = Add (b, c) }""",
        {"Gather": 1, "Cast": 1, "Add": 1},
    ),
    "a Cast to a like type": (
        "(int64[N] x, int64[N] z) => (int64[N] y) { w = Neg (z) a = CastLike (x, w) y = Abs (a) }",
        {"Abs": 1},
    ),
    "axes that stay where they are": (
        """(float[M,N] x) => (float[M,N] y)
        { a = Transpose <perm = [0, 1]> (x) b = Transpose <perm = [1, 0]> (a)
          c = Transpose (b) y = Neg (c) }""",
        {"Transpose": 2, "Neg": 1},
    ),
    "a copy in a branch of what stands around it": (
        """(float[N] x, bool c) => (float[N] y)
        { y = If (c) <
            then_branch = t () => (float[N] p) { p = Identity (x) },
            else_branch = e () => (float[N] r) { s = Identity (x) r = Relu (s) }> }""",
        {"If": 1, "Identity": 1, "Relu": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_left(name: str) -> None:
    text, left = CASES[name]
    assert merged(text) == left


@pytest.mark.quick
@pytest.mark.parametrize("name", CASES)
def test_the_author_keeps_every_node(name: str) -> None:
    text, _ = CASES[name]
    model = ir.from_proto(onnx.parser.parse_model(f"{HEADER} g {text}"))
    before = collections.Counter(node.op_type for node in model.graph.all_nodes())
    assert merged(text, authored=True) == before


@pytest.mark.parametrize(
    "name", ["a branch reads what stands in front", "constants of one number", "copies of copies"]
)
def test_for_a_device_values_stay_where_they_are_read(name: str) -> None:
    text, _ = CASES[name]
    model = ir.from_proto(onnx.parser.parse_model(f"{HEADER} g {text}"))
    assert not EliminateCommonSubexpressionsPass(for_device=True)(model).modified


@pytest.mark.parametrize("written", ["a", "b"])
def test_a_dimension_that_the_author_wrote_otherwise_is_read(written: str) -> None:
    text = """(float[2,N] x) => (int64[1] y)
    { s = Shape (x) k = Constant <value_ints = [1]> () a = Gather (s, k)
      b = Shape <start = 1, end = 2> (x) y = Add (a, b) }"""
    model = ir.from_proto(onnx.parser.parse_model(f"{HEADER} g {text}"))
    node = next(n for n in model.graph if n.outputs[0].name == written)
    beside = node.predecessors()[0] if written == "a" else node.successors()[0]
    model.graph.remove(node)
    authored = Authored(model)
    (model.graph.insert_after if written == "a" else model.graph.insert_before)(beside, node)
    model.graph.sort()
    assert EliminateCommonSubexpressionsPass(authored)(model).modified == (written == "b")
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_equal_names_in_a_branch_are_told_apart() -> None:
    """A branch has a value of its own by the name of the one that it comes to read."""
    text = """(float[N] x, bool c) => (float[N] y)
    { a = Neg (x) i = If (c) <
        then_branch = t () => (float[N] p) { b = Neg (x) p = Abs (b) },
        else_branch = e () => (float[N] r) { b = Relu (x) r = Abs (b) }>
      b = Exp (a) y = Add (b, i) }"""
    assert merged(text)["Neg"] == 1


def test_what_was_moved_of_the_author_is_merged() -> None:
    """Exporters write a node once for each reader; copies of a body would keep all of them."""
    text = """(float[N] x, bool c) => (float[N] y)
    { y = If (c) <
        then_branch = t () => (float[N] p) { a = Neg (x) b = Neg (x) p = Add (a, b) },
        else_branch = e () => (float[N] r) { r = Relu (x) }> }"""
    model = ir.from_proto(onnx.parser.parse_model(f"{HEADER} g {text}"))
    record_paths(node_paths(model))
    authored, (branch,) = Authored(model), model.graph
    inner = branch.attributes["then_branch"].as_graph()
    moved = [node for node in inner if node.op_type == "Neg"]
    inner.remove(moved)
    model.graph.insert_before(branch, moved)
    assert EliminateCommonSubexpressionsPass(authored)(model).modified
    assert [node.op_type for node in model.graph] == ["Neg", "If"]
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
