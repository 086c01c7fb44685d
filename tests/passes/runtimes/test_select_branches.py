"""If for targets that have none: both branches run, and the results are picked from."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.graph.graphs import all_graphs
from passes.runtimes.select_branches import SelectBranchesPass
from rewriter.backends import BackendError, run
from rewriter.proof.compare import compare


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) - 2, dtype)


@dataclasses.dataclass(frozen=True)
class Case:
    """A graph with an If on ``c``."""

    name: str
    text: str
    feeds: dict[str, Any]
    opset: int = 18
    flags: tuple[Any, ...] = (np.array(True), np.array(False))

    def __str__(self) -> str:
        return self.name

    @property
    def model(self) -> onnx.ModelProto:
        header = f'<ir_version: 8, opset_import: ["" : {self.opset}, "local" : 1]>\n'
        return onnx.parser.parse_model(header + self.text)


def choose(then: str, other: str, kind: str = "float[N]") -> str:
    return (
        f"[choose] y = If (c) <then_branch = t () => ({kind} a) {{ {then} }}, "
        f"else_branch = e () => ({kind} b) {{ {other} }}>"
    )


def graph(
    nodes: str, inputs: str = "float[N] x", output: str = "float[K] y", condition: str = "bool"
) -> str:
    return (
        f"g ({condition} c, {inputs}) => ({output}) <int64[1] zero = {{0}}, int64[1] two = {{2}}> "
        f"{{ {nodes} }}"
    )


X = {"x": numbers(4)}
SAME = choose("a = Neg (x)", "b = Identity (x)")
SLICED = choose("a = Slice (x, zero, two)", "b = Identity (x)")
OTHER_KIND = choose("a = Slice (x, two, two)", "b = Concat<axis = 0> (x, x)", "KIND[N]")
ROWS = choose("a = Slice (x, zero, two)", "b = Transpose (x)", "float[A,B]")
KINDS = ("bool", "int16", "uint16", "uint64", "int8", "double", "int64", "string")


def of_kind(kind: str) -> Any:
    return numbers(4).astype(str).astype(object) if kind == "string" else numbers(4).astype(kind)


NMS = """near = Gather (x, at)  w = ReduceSum <keepdims = 0> (near, one)
    [choose] y = If (c) <then_branch = t () => (int64[K] a)
        { a = Constant <value_ints = [1]> () },
    else_branch = e () => (int64[K] b) {
        top = ReduceMax <keepdims = 0> (near)  k = ReduceMin <keepdims = 0> (near)
        l = Sub (top, k)  v = Mul (w, l)  p = Unsqueeze (near, zero)
        q = Unsqueeze (v, zero)  r = Unsqueeze (q, zero)
        most = Constant <value_ints = [9]> ()  h = Constant <value_floats = [0.5]> ()
        s = NonMaxSuppression (p, r, most, h)  z = Constant <value_ints = [2]> ()
        u = Gather <axis = 1> (s, z)  b = Squeeze (u, one) }>"""
BOXES = graph(NMS, "float[M,4] x, int64[I] at", "int64[K] y").replace(
    "<int64[1] zero", "<int64[1] one = {1}, int64[1] zero"
)
PLACES = {
    "Gather": "a = Gather (x, i)",
    "Gather by 32 bits": "j = Cast <to = 6> (i)  a = Gather (x, j)",
    "Gather of places": "p = Cast <to = 7> (x)  j = Gather (p, i)  a = Gather (x, j)",
    "GatherElements": "a = GatherElements <axis = 0> (x, i)",
    "GatherND": "j = Unsqueeze (i, one)  a = GatherND (x, j)",
    "ScatterElements": "u = Cast <to = 1> (i)  a = ScatterElements <axis = 0> (x, i, u)",
    "ScatterND": "j = Unsqueeze (i, one)  u = Cast <to = 1> (i)  a = ScatterND (x, j, u)",
    "TopK": "k = Shape (i)  a, j = TopK <axis = 0> (x, k)",
}
"""Nodes that read or write places ``i`` of ``x``."""
LACKING = ([5, 0, 0, 1], 3)
"""Places, and how many numbers there are: too few."""


def reading(nodes: str) -> str:
    text = graph(choose(nodes, "b = Identity (x)"), "int64[J] i, float[N] x")
    return text.replace("<int64[1] zero", "<int64[1] one = {1}, int64[1] zero")


# fmt: off
SELECTED = [
    *[
        Case(f"boxes that are left of {n}", BOXES, {"x": numbers(3, 4), "at": np.arange(n)})
        for n in (0, 1, 3)
    ],
    Case("one shape", graph(SAME), X),
    Case("one shape, unsqueezed", graph(choose(
        "a = Unsqueeze (x, zero)", "p = Exp (x) b = Unsqueeze (p, zero)", "float[A,B]"),
        output="float[A,B] y"), X),
    Case("other lengths", graph(SLICED), X),
    Case("other lengths at opset 13", graph(SLICED), X, 13),
    Case("no rows", graph(SLICED), {"x": numbers(0)}),
    Case("no rows at opset 13", graph(SLICED), {"x": numbers(0)}, 13),
    Case("dimensions of 0 at opset 13", graph(ROWS, "float[N,M] x", "float[A,B] y"),
         {"x": numbers(0, 2)}, 13),
    Case("other dimensions", graph(ROWS, "float[N,M] x", "float[A,B] y"), {"x": numbers(3, 2)}),
    Case("dimensions of 0", graph(ROWS, "float[N,M] x", "float[A,B] y"), {"x": numbers(0, 2)}),
    Case("a number", graph(
        choose("a = ReduceSum<keepdims = 0> (x)", "b = Identity (w)", "float"),
        "float[N] x, float w", "float y"), {**X, "w": np.float32(7)}),
    *[
        Case(f"{kind}, {name}", graph(nodes.replace("KIND", kind), f"{kind}[N] x", f"{kind}[K] y"),
             {"x": of_kind(kind)})
        for kind in KINDS
        for name, nodes in (
            ("one shape", choose("a = Identity (x)", "b = Identity (x)", "KIND[N]")),
            ("other shapes", OTHER_KIND),
        )
    ],
    Case("a condition of shape [1]", graph(SAME, condition="bool[1]"), X,
         flags=(np.array([True]), np.array([False]))),
    Case("a condition of shape [1], a number", graph(
        choose("a = Neg (w)", "b = Identity (w)", "float"), "float w", "float y", "bool[1]"),
        {"w": np.float32(7)}, flags=(np.array([True]), np.array([False]))),
    Case("one in a branch of another", graph(choose(
        "a = If (d) <then_branch = t2 () => (float[N] p) { p = Neg (x) }, "
        "else_branch = e2 () => (float[N] q) { q = Exp (x) }>", "b = Identity (x)"),
        "bool d, float[N] x"), {**X, "d": np.array(True)}),
    Case("two results", graph(
        "y, z = If (c) <then_branch = t () => (float[N] a, int64[R] p) { a = Neg (x) "
        "p = Shape (x) }, else_branch = e () => (float[N] b, int64[R] q) { b = Exp (x) "
        "q = Identity (zero) }>", output="float[K] y, int64[R] z"), X),
    Case("an initializer", graph(choose("a = Mul (x, w)", "b = Identity (x)").replace(
        "t () => (float[N] a)", "t () => (float[N] a) <float[1] w = {0.5}>")), X),
    Case("rows by flags", graph(choose(
        "f = Greater (x, w)  a = Compress <axis = 0> (x, f)", "b = Identity (x)"), "float w, float[N] x"),
        {**X, "w": np.float32(0)}),
    Case("one opset 13", graph(SAME), X, 13),
    Case("one opset 11", graph(SAME), X, 11),
    *(
        Case(f"{op} of {rows} rows at opset {opset}", graph(
            choose(f"a = {op} <axes = [0], keepdims = 0> (x)" if opset < 18 else
                   f"a = {op} <keepdims = 0> (x, zero)", "b = Identity (w)"),
            "float[N,3] x, float[3] w"), {"x": numbers(rows, 3), "w": numbers(3)}, opset,
            flags=(np.array(True), np.array(False)) if rows else (np.array(False),))
        for op in ("ReduceMean", "ReduceMax", "ReduceLogSumExp")
        for rows, opset in ((0, 18), (2, 18), (0, 13), (2, 13))
    ),
    Case("the best row of none", graph(
        choose("a = ArgMax <axis = -1> (x)", "b = Identity (two)", "int64[K]"), output="int64[K] y"),
        {"x": numbers(0)}, flags=(np.array(False),)),
    Case("the largest number along an axis", graph(choose(
        "m = ReduceMax<keepdims = 0> (x, zero) a = Add (x, m)", "b = Identity (x)")), X),
    Case("the largest number along an axis, at opset 13", graph(choose(
        "m = ReduceMax<keepdims = 0, axes = [0]> (x) a = Add (x, m)", "b = Identity (x)")), X, 13),
    Case("the largest number, of the rank of all", graph(choose(
        "m = ReduceMax (x) a = Add (x, m)", "b = Identity (x)")), X),
    Case("the largest of bytes", graph(choose(
        "m = ReduceMax<keepdims = 0> (x) a = Mul (x, m)", "b = Identity (x)", "uint8[N]"),
        "uint8[N] x", "uint8[K] y"), {"x": of_kind("int8").astype(np.uint8)}),
    *(
        Case(f"a place, {place} of {rows}", graph(
            choose("a = Gather (x, i)", "b = Identity (w)"),
            "int64 i, float[N,3] x, float[3] w"),
            {"i": np.array(place), "x": numbers(rows, 3), "w": numbers(3)},
            flags=(np.array(True), np.array(False)) if -rows <= place < rows else (np.array(False),))
        for place, rows in ((0, 2), (-1, 2), (1, 2), (0, 0), (-1, 0), (5, 2), (-7, 2))
    ),
    *(
        Case(f"{name}, {places} of {count}", reading(nodes), {"i": np.array(places), "x": numbers(count)},
             flags=flags)
        for name, nodes in PLACES.items()
        for places, count, flags in (
            ([2, 0, -3], 3, (np.array(True), np.array(False))), (*LACKING, (np.array(False),)),
            ([0], 0, (np.array(False),)))
    ),
    Case("a row kept as one", graph(
        choose("a = Gather (x, zero)", "b = Neg (w)", "float[1,3]"),
        "float[N,3] x, float[1,3] w", "float[K,3] y"),
        {"x": numbers(0, 3), "w": numbers(1, 3)}, flags=(np.array(False),)),
    Case("a column, on the other branch", graph(
        choose("a = Identity (w)", "b = Gather<axis = 1> (x, i)"), "int64 i, float[3,N] x, float[3] w"),
        {"i": np.array(0), "x": numbers(3, 0), "w": numbers(3)}, flags=(np.array(True),)),
    *(
        Case(f"the {name} number of {count}", graph(
            choose(f"a = Reduce{name}<keepdims = 0> (x)", "b = Identity (w)", f"{kind}").replace(
                "float[N]", kind), f"{kind}[N] x, {kind} w", f"{kind} y"),
            {"x": numbers(count, dtype=dtype), "w": np.asarray(7, dtype)},
            flags=(np.array(True), np.array(False)) if count else (np.array(False),))
        for name in ("Max", "Min")
        for kind, dtype in (("float", np.float32), ("int64", np.int64))
        for count in (0, 1, 4)
    ),
    *(
        Case(f"a condition computed of a number, {name}", graph(
            f"{nodes} e = Greater (m, w) " + SAME.replace("(c)", "(e)"), "float[N] x, float w"),
            {**X, "w": np.float32(w)})
        for name, nodes in (
            ("a mean", "m = ReduceMean<keepdims = 0> (x)"),
            ("a sum and a number", "s = ReduceSum<keepdims = 0> (x) m = Mul (s, w)"),
            ("twice", "s = ReduceSum<keepdims = 0> (x) n = Neg (s) m = Abs (n)"),
        )
        for w in (0.25, 9.0)
    ),
    Case("in a Loop", graph(
        "n = Constant<value_int = 3> () [l] y = Loop (n, , x) <body = b (int64 i, bool d, "
        f"float[N] s) => (bool d2, float[N] y2) {{ d2 = Identity (d) {SAME} "
        "y2 = Add (y, s) }>".replace("float[N] x", "float[N] s"), ), X),
    *(
        Case(f"a function of opset {version}, called in a branch",
             graph(choose("a = local.twice (x)", "b = Identity (x)"))
             + f'\n<domain: "local", opset_import: ["" : {version}]> '
             "twice (v) => (w) { w = Add (v, v) }", X)
        for version in (18, 15)
    ),
    Case("in a function",
         "g (bool c, float[N] x) => (float[N] y) { y = local.either (c, x) }\n"
         f'<domain: "local", opset_import: ["" : 18]> either (c, x) => (y) {{ {SAME} }}', X),
]
STAY = [
    Case("rows that are written, where nothing tells that they fit", graph(
        choose("a = ScatterND (x, i, u)", "b = Identity (x)"),
        "int64[J,1] i, float[M] u, float[N] x"), {}),
    Case("as many of the best as anything tells", graph(
        choose("a, i = TopK (x, k)", "b = Identity (x)"), "int64[1] k, float[N] x"), {}),
    Case("flags for other rows", graph(
        choose("a = Compress <axis = 0> (x, f)", "b = Identity (x)"), "bool[M] f, float[N] x"), {}),
    Case("places in rows that may be too few", graph(
        choose("a = GatherElements <axis = 0> (x, i)", "b = Identity (x)", "float[A,B]"),
        "int64[I,J] i, float[N,M] x", "float[K,L] y"), {}),
    Case("places of texts", graph(choose("a = Gather (x, i)", "b = Identity (x)", "string[N]"),
         "int64[J] i, string[N] x", "string[K] y"), {}),
    Case("shapes that may not broadcast", graph(choose("a = Add (x, w)", "b = Identity (x)"),
         "float[N] x, float[M] w"), {}),
    Case("one symbol for two inputs", graph(choose("a = Add (x, w)", "b = Identity (x)"),
         "float[N] x, float[N] w"), {}),
    Case("rows that may not line up", graph(
        choose("a = Concat<axis = 0> (x, w)", "b = Identity (x)", "float[A,B]"),
        "float[N,M] x, float[N,M] w", "float[A,B] y"), {}),
    Case("integers divided", graph(choose("a = Div (x, x)", "b = Identity (x)", "int64[N]"),
         "int64[N] x", "int64[K] y"), {}),
    Case("the largest number along axes given as the model runs", graph(choose(
        "m = ReduceMax<keepdims = 0> (x, k) a = Add (x, m)", "b = Identity (x)"),
        "float[N] x, int64[1] k"), {}),
    Case("the largest of small integers", graph(choose(
        "m = ReduceMax<keepdims = 0> (x) a = Mul (x, m)", "b = Identity (x)", "int8[N]"),
        "int8[N] x", "int8[K] y"), {}),
    Case("the average of all numbers, below a condition by another shape", graph(
        "m = ReduceMean (x) z = Constant<value_float = 0.0> () e = Greater (m, z) "
        + SAME.replace("(c)", "(e)").replace("float[N]", "float[N,M]"), "float[N,M] x", "float[K,L] y"), {}),
    Case("random numbers", graph(choose("a = RandomNormalLike<seed = 1.0> (x)",
         "b = Identity (x)")), {}),
    Case("a shape that is computed", graph(choose("a = Reshape (x, s)", "b = Identity (x)"),
         "int64[1] s, float[N] x"), {}),
    Case("a sequence", graph(choose("a = SequenceConstruct (x)", "b = SequenceConstruct (x, x)",
         "seq(float[N])"), output="seq(float[K]) y"), {}),
    Case("another rank", graph(choose("a = Unsqueeze (x, zero)", "b = Identity (x)", "float[]")
         + "r = Constant<value_ints = [-1]> () z = Reshape (y, r)", output="float[K] z"), {}),
    Case("a condition of unknown shape", graph(SAME, condition="bool[F]"), {}),
    *(
        Case(f"a condition that may be several, {name}", graph(
            f"{nodes} e = Greater (m, w) " + SAME.replace("(c)", "(e)"), "float[N] x, float w"), {})
        for name, nodes in (
            ("one of no axis", "m = ReduceSum<keepdims = 0, noop_with_empty_axes = 1> (x)"),
            ("a number and a vector", "s = ReduceSum<keepdims = 0> (x) m = Mul (s, x)"),
            ("another operator", "m = Softmax (x)"),
        )
    ),
    Case("an extreme along no axis", graph(choose(
        "a = ReduceMax<keepdims = 0, noop_with_empty_axes = 1> (x)", "b = Neg (x)")), {}),
    Case("one kind of numbers and another", graph(
        "y = If (c) <then_branch = t () => (float[A] a) { a = Neg (x) }, "
        "else_branch = e () => (float[A,B] b) { b = Identity (w) }> "
        "r = Constant<value_ints = [-1]> () z = Reshape (y, r)",
        "float[N] x, float[N,M] w", "float[K] z"), {}),
    Case("the smallest number of float16", graph(choose(
        "m = ReduceMin<keepdims = 0> (x) a = Mul (x, m)", "b = Identity (x)", "float16[N]"),
        "float16[N] x", "float16[K] y"), {}),
    Case("a condition whose rank is only declared", graph(
        "o = Constant<value_int = 0> () e = SequenceAt (s, o) " + SAME.replace("(c)", "(e)"),
        "seq(bool) s, float[N] x"), {}),
]
# fmt: on


def select(before: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Run the pass, and check what holds of every model that it gives."""
    made = []
    for _ in range(2):
        model = ir.from_proto(before)
        one = SelectBranchesPass()
        modified = one(model).modified
        made.append(ir.to_proto(model))
    assert made[0] == made[1], "a second run on the same model gives another one"
    assert modified or not one.warnings
    assert not SelectBranchesPass()(model).modified
    assert ir.to_proto(model) == made[0], "a second pass changes the model"
    onnx.checker.check_model(made[0], full_check=True)
    return made[0], one.warnings


def branches(model: onnx.ModelProto) -> int:
    nodes = (node for one in all_graphs(ir.from_proto(model)) for node in one)
    return sum(node.op_type == "If" for node in nodes)


@pytest.mark.parametrize("case", SELECTED, ids=str)
def test_both_branches_run(case: Case) -> None:
    after, warnings = select(case.model)
    assert branches(after) == 0
    assert len(warnings) == branches(case.model)
    for flag in case.flags:
        feeds = {**case.feeds, "c": flag}
        expected = run(case.model, feeds, backend="reference")
        for backend in ("reference", "onnxruntime"):
            difference = compare(expected, run(after, feeds, backend=backend))
            assert difference.equal, f"{backend}, {flag}: {difference.message}"


@pytest.mark.quick
@pytest.mark.parametrize("case", STAY, ids=str)
def test_what_stays(case: Case) -> None:
    after, warnings = select(case.model)
    assert branches(after) == 1
    assert warnings == []


def test_a_function_whose_operators_are_others_at_its_opset_stays() -> None:
    text = graph(choose("a = local.least (x)", "b = Identity (x)"))
    least = '<domain: "local", opset_import: ["" : 13]> least (v) => (w) { w = ReduceMin <axes = [0]> (v) }'
    model = ir.from_proto(Case("", f"{text}\n{least}", {}).model)
    assert not SelectBranchesPass()(model).modified


def test_only_for_targets_without_if() -> None:
    before = SELECTED[0].model
    kept = rewriter.rewrite(before, target="tract")
    assert branches(kept.model) == 1
    assert kept.report.warnings == ()
    result = rewriter.rewrite(before, target="portable")
    assert branches(result.model) == 0
    assert "both branches are computed" in result.report.warnings[0]


@pytest.mark.quick
@pytest.mark.parametrize("name", PLACES)
def test_places_that_a_branch_lacks_are_an_error_where_it_is_taken(name: str) -> None:
    before = Case("", reading(PLACES[name]), {}).model
    places, count = LACKING
    feeds = {"i": np.array(places), "x": numbers(count), "c": np.array(True)}
    for one in (before, select(before)[0]):
        with pytest.raises(BackendError):
            run(one, feeds, backend="onnxruntime")


def test_a_place_that_a_branch_lacks_is_an_error_where_it_is_taken() -> None:
    text = graph(
        choose("a = Gather (x, i)", "b = Identity (w)"), "int64 i, float[N,3] x, float[3] w"
    )
    before = Case("", text, {}).model
    feeds = {"i": np.array(0), "x": numbers(0, 3), "w": numbers(3), "c": np.array(True)}
    for one in (before, select(before)[0]):
        with pytest.raises(BackendError):
            run(one, feeds, backend="onnxruntime")
