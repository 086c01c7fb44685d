"""Loops and Scans of a small known number of iterations become copies, and compute the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.decisions import Verdict
from passes.graph.graphs import all_graphs
from passes.loops.unrolled import MOST_NODES
from passes.promises import Promises
from passes.unroll import UnrollSequenceMapPass
from rewriter.backends import run
from rewriter.proof.compare import compare

CONSTANTS = "three = Constant<value_int = 3> () go = Constant<value = bool {1}> () "
STATE = "(int64 i, bool c, float[N] s) => (bool d, float[N] t)"


def numbers(*shape: int) -> Any:
    return np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) - 2, np.float32)


@dataclasses.dataclass(frozen=True)
class Case:
    """A graph, what it is fed, and how its Loops are unrolled (nothing: they stay)."""

    name: str
    text: str
    feeds: dict[str, Any]
    forms: tuple[str, ...] = ()
    opset: int = 18

    def __str__(self) -> str:
        return self.name

    @property
    def model(self) -> onnx.ModelProto:
        header = f'<ir_version: 8, opset_import: ["" : {self.opset}, "local" : 1]>\n'
        return onnx.parser.parse_model(header + self.text)


def loop(name: str, body: str, more: str = "", inputs: str = "three, go, x") -> str:
    return f"[{name}] y = Loop ({inputs}) <body = b {STATE} {{ d = Identity (c) {body} }}> {more}"


def graph(nodes: str, inputs: str = "float[N] x", output: str = "float[N] y") -> str:
    return f"g ({inputs}) => ({output}) {{ {CONSTANTS} {nodes} }}"


X = {"x": numbers(4)}
ROWS = {"x": numbers(3, 2)}
COLLECTS = """[l] y, z = Loop (three, go, x) <body = b (int64 i, bool c, float[N] s)
    => (bool d, float[N] t, float[N] u) { d = Identity (c) t = Neg (s) u = Add (s, t) }>"""


def scan(more: str = "") -> str:
    return f"""[l] t, y = Scan <num_scan_inputs = 1{more},
        body = b (float[N] s, float[N] e) => (float[N] u, float[N] v) {{
            u = Add (s, e) v = Mul (u, e) }}> (w, x)"""


SCANNED = {"inputs": "float[3,3] x, float[3] w", "output": "float[3] t, float[A,B] y"}
SCAN_FEEDS = {"x": numbers(3, 3), "w": numbers(3)}
UNROLLED = [
    Case(
        "a state",
        graph(loop("l", "f = CastLike (i, s) p = Mul (s, f) t = Add (p, x)")),
        X,
        ("l: 3 copies, 9 nodes",),
    ),
    Case(
        "one iteration",
        graph(loop("l", "t = Neg (s)", inputs="one, go, x")).replace(
            "three = Constant<value_int = 3>", "one = Constant<value_int = 1>"
        ),
        X,
        ("l: 1 copy, 1 node",),
    ),
    Case(
        "no condition is given",
        graph(loop("l", "t = Neg (s)", inputs="three, , x")),
        X,
        ("l: 3 copies, 3 nodes",),
    ),
    Case(
        "a condition that never holds",
        graph(loop("l", "t = Neg (s)", inputs="three, go, x")).replace("bool {1}", "bool {0}"),
        X,
        ("l: 0 copies, 0 nodes",),
    ),
    Case(
        "no iterations",
        graph(loop("l", "t = Neg (s)")).replace("value_int = 3", "value_int = -3"),
        X,
        ("l: 0 copies, 0 nodes",),
    ),
    Case(
        "as many iterations as a static dimension says",
        graph(
            "h = Shape<start = 0, end = 1> (x) k = Squeeze (h) "
            + loop("l", "e = Gather (x, i) t = Add (s, e)", inputs="k, go, w"),
            "float[3,N] x, float[N] w",
        ),
        {**ROWS, "w": numbers(2)},
        ("l: 3 copies, 6 nodes",),
    ),
    Case(
        "as long as a counter is less than a number",
        graph(
            "zero = Constant<value_int = 0> () two = Constant<value_int = 2> () "
            "[l] n, y = Loop (, go, zero, x) <body = b (int64 i, bool c, int64 k, float[N] s) "
            "=> (bool d, int64 m, float[N] t) { m = Add (k, two) limit = Constant<value_int = 5> () "
            "d = Less (m, limit) t = Neg (s) }>",
            output="int64 n, float[N] y",
        ),
        X,
        ("l: 3 copies, 9 nodes",),
    ),
    Case(
        "results of each iteration",
        graph(COLLECTS, output="float[N] y, float[K,N] z"),
        X,
        ("l: 3 copies, 6 nodes",),
    ),
    Case(
        "a state that nothing reads",
        graph(COLLECTS.replace("y, z", "q, z"), output="float[K,N] z"),
        X,
        ("l: 3 copies, 6 nodes",),
    ),
    Case(
        "states that change places",
        graph(
            "[l] y, z = Loop (three, go, x, w) <body = b (int64 i, bool c, float[N] p, float[N] q) "
            "=> (bool d, float[N] r, float[N] s) { d = Identity (c) r = Identity (q) "
            "s = Identity (p) }>",
            "float[N] x, float[N] w",
            "float[N] y, float[N] z",
        ),
        {"x": numbers(2), "w": -numbers(2)},
        ("l: 3 copies, 0 nodes",),
    ),
    Case(
        "a state that becomes a captured value",
        graph(loop("l", "t = Identity (w)"), "float[N] x, float[N] w"),
        {"x": numbers(2), "w": -numbers(2)},
        ("l: 3 copies, 0 nodes",),
    ),
    Case(
        "a state that changes its shape",
        graph(loop("l", "t = Concat<axis = 0> (s, x)"), output="float[M] y"),
        X,
        ("l: 3 copies, 3 nodes",),
    ),
    Case(
        "a number of the iteration of shape [1]",
        graph(loop("l", "f = CastLike (i, s) t = Add (s, f)")).replace("(int64 i", "(int64[1] i"),
        X,
        ("l: 3 copies, 6 nodes",),
    ),
    Case(
        "a branch that the number of the iteration decides",
        graph(
            loop(
                "l",
                "one = Constant<value_int = 1> () q = Less (i, one) "
                "t = If (q) <then_branch = p () => (float[N] a) { a = Neg (s) }, "
                "else_branch = r () => (float[N] b) { b = Add (s, s) }>",
            )
        ),
        X,
        ("l: 3 copies, 12 nodes",),
    ),
    Case(
        "an initializer of the body",
        graph(loop("l", "t = Add (s, w)")).replace(
            "{ d = Identity (c)", "<float[1] w = {0.5}> { d = Identity (c)"
        ),
        X,
        ("l: 3 copies, 3 nodes",),
    ),
    Case(
        "one inside of another",
        graph(
            loop(
                "outer",
                "[inner] t = Loop (three, go, s) <body = b2 (int64 j, bool c3, float[N] s2) "
                "=> (bool d2, float[N] t2) { d2 = Identity (c3) f = CastLike (j, s2) "
                "g = CastLike (i, s2) h = Add (f, g) t2 = Add (s2, h) }>",
            )
        ),
        X,
        ("outer/body/inner: 3 copies, 12 nodes", "outer: 3 copies, 36 nodes"),
    ),
    Case(
        "a sequence that grows",
        graph(
            "e = SequenceEmpty () [l] q = Loop (three, go, e) <body = b (int64 i, bool c, "
            "seq(float[N]) s) => (bool d, seq(float[N]) t) { d = Identity (c) "
            "f = CastLike (i, x) p = Add (x, f) t = SequenceInsert (s, p) }> "
            "y = ConcatFromSequence<axis = 0> (q)",
            output="float[M] y",
        ),
        X,
        ("l: 3 copies, 9 nodes",),
    ),
    Case("a scan", graph(scan(), **SCANNED), SCAN_FEEDS, ("l: 3 copies, 6 nodes",)),
    Case(
        "a scan from the back",
        graph(scan(", scan_input_directions = [1], scan_output_directions = [1]"), **SCANNED),
        SCAN_FEEDS,
        ("l: 3 copies, 6 nodes",),
    ),
    Case(
        "a scan along other axes",
        graph(scan(", scan_input_axes = [-1], scan_output_axes = [-1]"), **SCANNED),
        SCAN_FEEDS,
        ("l: 3 copies, 6 nodes",),
    ),
    *[
        Case(
            f"opset {opset}",
            graph(
                COLLECTS.replace(
                    "t = Neg", "n = Constant<value = float {2.0}> () t = Mul"
                ).replace("Mul (s)", "Mul (s, n)"),
                output="float[N] y, float[K,N] z",
            ).replace("<value_int = 3>", "<value = int64 {3}>"),
            X,
            ("l: 3 copies, 6 nodes",),
            opset,
        )
        for opset in (11, 13, 21)
    ],
    Case(
        "a function",
        "g (float[N] x) => (float[N] y) { y = local.turns (x) }\n"
        '<domain: "local", opset_import: ["" : 18]> turns (x) => (y) { '
        + CONSTANTS
        + loop("l", "t = Neg (s)")
        + " }",
        X,
        ("l: 3 copies, 3 nodes",),
    ),
]
STAY = [
    Case(
        "too many iterations of nothing",
        graph(loop("l", "t = Identity (s)")).replace("value_int = 3", "value_int = 999999999"),
        {},
    ),
    Case(
        "an unknown number",
        graph(loop("l", "t = Neg (s)", inputs="n, go, x"), "int64 n, float[N] x"),
        {},
    ),
    Case(
        "an unknown condition",
        graph(loop("l", "t = Neg (s)", inputs="three, q, x"), "bool q, float[N] x"),
        {},
    ),
    Case(
        "an end that depends on values",
        graph(loop("l", "t = Neg (s)")).replace(
            "d = Identity (c)", "q = ReduceSum<keepdims = 0> (s) d = Cast<to = 9> (q)"
        ),
        {},
    ),
    Case(
        "a dimension that is not known",
        graph(
            "h = Shape<start = 0, end = 1> (x) k = Squeeze (h) "
            + loop("l", "t = Neg (s)", inputs="k, go, x")
        ),
        {},
    ),
    Case(
        "too many nodes",
        graph(loop("l", "t = Neg (s)")).replace("value_int = 3", f"value_int = {MOST_NODES + 1}"),
        {},
    ),
    Case(
        "random numbers",
        graph(loop("l", "r = RandomNormalLike<seed = 1.0> (s) t = Add (s, r)")),
        {},
    ),
    Case(
        "results of no iterations",
        graph(COLLECTS, output="float[N] y, float[K,N] z").replace(
            "value_int = 3", "value_int = 0"
        ),
        {},
    ),
]


def unroll(
    before: onnx.ModelProto, promises: Promises | None = None
) -> tuple[onnx.ModelProto, list[str]]:
    """Run the pass, check what holds of every model that it gives, and return its decisions."""
    made = []
    for _ in range(2):
        model = ir.from_proto(before)
        one = UnrollSequenceMapPass(loops=("Loop", "Scan"), promises=promises)
        modified = one(model).modified
        made.append(ir.to_proto(model))
    assert made[0] == made[1], "a second run on the same model gives another one"
    assert modified or not one.decisions
    assert all(d.verdict is Verdict.UNROLLED for d in one.decisions)
    again = UnrollSequenceMapPass(loops=("Loop", "Scan"), promises=promises)
    assert not again(model).modified
    assert ir.to_proto(model) == made[0], "a second pass changes the model"
    onnx.checker.check_model(made[0], full_check=True)
    return made[0], [f"{d.path}: {d.form}" for d in one.decisions]


def loops(model: onnx.ModelProto) -> int:
    nodes = (node for one in all_graphs(ir.from_proto(model)) for node in one)
    return sum(node.op_type in ("Loop", "Scan") for node in nodes)


@pytest.mark.quick
@pytest.mark.parametrize("case", UNROLLED, ids=str)
def test_what_is_unrolled(case: Case) -> None:
    after, decisions = unroll(case.model)
    assert decisions == list(case.forms)
    assert loops(after) == 0
    expected = run(case.model, case.feeds, backend="reference")
    for backend in ("reference", "onnxruntime"):
        difference = compare(expected, run(after, case.feeds, backend=backend))
        assert difference.equal, f"{backend}: {difference.message}"


@pytest.mark.parametrize("case", STAY, ids=str)
def test_what_stays(case: Case) -> None:
    after, decisions = unroll(case.model)
    assert decisions == []
    assert loops(after) == 1


def test_a_scan_over_what_no_type_is_declared_of_is_not_of_few_nodes() -> None:
    """How often it runs is asked without any types; the shape of a product is not declared."""
    text = graph("p = MatMul (x, x) " + scan(), **SCANNED).replace("(w, x)", "(w, p)")
    given = Case("", text, SCAN_FEEDS).model
    few = UnrollSequenceMapPass(loops=("Loop", "Scan"), few=True)
    assert not few(ir.from_proto(given)).modified
    assert loops(unroll(given)[0]) == 0


def test_only_what_the_target_lacks() -> None:
    model = ir.from_proto(UNROLLED[0].model)
    assert not UnrollSequenceMapPass(loops=("Scan",))(model).modified


def test_a_promise_tells_how_often() -> None:
    case = next(case for case in STAY if case.name == "a dimension that is not known")
    after, decisions = unroll(case.model, Promises(input_shapes={"x": (4,)}))
    assert decisions == ["l: 4 copies, 4 nodes"]
    assert compare(run(case.model, X, backend="reference"), run(after, X)).equal


def test_a_recurrence_becomes_portable_and_is_in_the_report() -> None:
    result = rewriter.rewrite(UNROLLED[0].model, target="portable")
    assert [(d.verdict, d.path) for d in result.report.decisions] == [(Verdict.UNROLLED, "l")]
    assert isinstance(result.model, onnx.ModelProto)
    assert loops(result.model) == 0


@pytest.mark.parametrize(("strategy", "left"), [("auto", 0), ("fuse", 0), ("expand", 1)])
def test_a_recurrence_of_few_nodes_ends_without_a_loop(strategy: str, left: int) -> None:
    after = rewriter.rewrite(UNROLLED[0].model, strategy=strategy).model
    assert loops(after) == left


LONG = "many = Constant<value_int = 40> () "


def test_a_recurrence_of_many_nodes_stays_a_loop_where_the_target_has_it() -> None:
    text = graph(LONG + loop("l", "p = Mul (s, s) q = Tanh (p) t = Add (q, x)"))
    given = Case("", text.replace("(three, go", "(many, go"), X).model
    assert loops(rewriter.rewrite(given).model) == 1
    assert loops(rewriter.rewrite(given, target="portable").model) == 0


NEST = """g (float[N,4] x, float[4,4] w) => (float[N,4] y) <int64 k = {3}, int64 zero = {0}> {
    s = Shape (x) n = Gather (s, zero) go = Constant<value = bool {1}> ()
    y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[4] o) {
        d = Identity (c) e = Gather (x, i)
        o = Loop (k, go, e) <body = l (int64 j, bool f, float[4] h) => (bool g, float[4] r) {
            g = Identity (f) m = MatMul (h, w) r = Tanh (m) }> }> }"""


@pytest.mark.parametrize("asked", [{}, {"target": "portable"}], ids=str)
def test_a_recurrence_in_a_map_is_unrolled_for_all_samples_at_once(asked: dict[str, Any]) -> None:
    given = Case("nest", NEST, {}).model
    result = rewriter.rewrite(given, **asked)
    assert loops(result.model) == 0
    assert sum(node.op_type == "MatMul" for node in result.model.graph.node) == 3
    for count in (0, 1, 5):
        feeds = {"x": numbers(count, 4), "w": numbers(4, 4) / 8}
        assert compare(run(given, feeds), run(result.model, feeds)).equal


def test_copies_share_the_constants_of_the_body() -> None:
    text = graph(loop("l", "k = Constant <value = float[1] {2}> () p = Mul (s, k) t = Tanh (p)"))
    after, _ = unroll(Case("", text, X).model)
    made = [node for node in after.graph.node if node.op_type == "Constant"]
    assert sum(len(node.attribute[0].t.float_data) == 1 for node in made) == 1


LISTED = """g (float[N,4] a, float[N,3] b) => (float[N,7] y, seq(float[N,M]) all) {
    s = SequenceConstruct (a, b) n = SequenceLength (s) go = Constant <value = bool {1}> ()
    e = SequenceEmpty <dtype = 1> ()
    all = Loop (n, go, e) <body = f (int64 k, bool c, seq(float[N,M]) q)
        => (bool d, seq(float[N,M]) p) {
        d = Identity (c) x = SequenceAt (s, k) z = Relu (x) p = SequenceInsert (q, z) }>
    zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
    u = SequenceAt (all, zero) v = SequenceAt (all, one) y = Concat <axis = 1> (u, v) }"""


@pytest.mark.parametrize("keeps_all", [True, False], ids=["the list as well", "elements alone"])
def test_a_loop_over_a_list_of_known_length_is_no_more_than_the_map(keeps_all: bool) -> None:
    """As onnxruntime writes a SequenceMap when it saves a model, and ONNX's expansion does."""
    text = LISTED if keeps_all else LISTED.replace(", seq(float[N,M]) all) {", ") {", 1)
    given = Case("listed", text, {"a": numbers(2, 4), "b": numbers(2, 3)})
    report = rewriter.rewrite(given.model)
    assert "Loop" not in report.report.after.by_type, report.report
    for rows in (0, 1, 2):
        feeds = {"a": numbers(rows, 4), "b": numbers(rows, 3)}
        assert compare(run(given.model, feeds), run(report.model, feeds)).equal
