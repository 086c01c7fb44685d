"""What `auto` makes of maps over sequences of unproven shapes: the forms measured as fastest."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from benchmarks.bodies import BODIES
from passes.decisions import Code, Verdict
from passes.fusing.cost import Cost
from passes.graph.graphs import walk_nodes
from rewriter.backends import open_session
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare
from rewriter.proof.count_iterations import ITERATIONS, with_iterations
from rewriter.proof.size_tests import lengths_beyond
from rewriter.proof.validation import validate

SHAPES = "batched if all shapes are equal"
ROWS = "batched if shapes differ in the first axis only"
CHOSEN = {
    "one node": SHAPES,
    "two nodes": SHAPES,
    "four nodes": SHAPES,
    "eight nodes": SHAPES,
    "sixteen nodes": SHAPES,
    "four nodes, numbers": SHAPES,
    "four nodes of 4 KiB": SHAPES,
    # Elements are too large when the model runs: nothing is declared of them.
    "four nodes of 16 KiB": SHAPES,
    "four nodes of 64 KiB": SHAPES,
    "sixteen nodes of 64 KiB": SHAPES,
    "gate": ROWS,
    "gate, rank known": ROWS,
    "gate, columns known": ROWS,
    "gate, all known": SHAPES,
    "gate, ragged": ROWS,
    "gate, stacked": SHAPES,
    "gate, joined": ROWS,
    "linear layer": ROWS,
    "linear, softmax, linear": ROWS,
    "linear, softmax, linear, rank known": ROWS,
    "linear, softmax, linear, ragged": ROWS,
    "attention": f"{SHAPES}, else if shapes differ in the first axis only",
    "large products": ROWS,
    "normalised rows": ROWS,
    "softmax of columns": f"{SHAPES}, else if shapes differ in the first axis only",
    "mean of rows": SHAPES,
    "turned": ROWS,
    "pixels": ROWS,
    "distinct numbers": "Loop with scan output",
    "kept numbers": SHAPES,
}


def chosen(name: str) -> tuple[str, onnx.ModelProto]:
    result = rewrite(BODIES[name].case(name, 1).given)
    (decision,) = result.report.decisions
    assert isinstance(result.model, onnx.ModelProto)
    return decision.form, result.model


def test_every_body_is_named() -> None:
    assert list(CHOSEN) == list(BODIES)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if i % 5 == 0 else pytest.mark.full)
        for i, name in enumerate(CHOSEN)
    ],
)
def test_the_form_that_was_measured_as_fastest(name: str) -> None:
    form, model = chosen(name)
    assert form == CHOSEN[name]
    assert (lengths_beyond(model) != ()) is form.startswith("batched if")


@pytest.mark.parametrize("name", ["four nodes", "gate, ragged", "mean of rows"])
def test_the_result_at_every_side_of_the_question(name: str) -> None:
    _, model = chosen(name)
    (enough, *_) = lengths_beyond(model)
    session = open_session(model)
    for samples in (1, enough - 1, enough, enough + 1):
        case = BODIES[name].case(name, samples)
        given = open_session(case.given).run(case.feeds)
        difference = compare(given, session.run(case.feeds))
        assert difference.equal, difference.message


FURTHER = {"attention": (73, 182), "softmax of columns": (89, 150)}
"""Up to how many samples of equal shape a loop is faster, and up to how many others."""


@pytest.mark.parametrize("name", FURTHER)
def test_each_form_is_asked_for_from_its_own_number_of_samples_on(name: str) -> None:
    few, further = FURTHER[name]
    result = rewrite(BODIES[name].case(name, 1).given)
    (decision,) = result.report.decisions
    assert decision.few == few
    note = "where shapes differ in the first axis only, up to {} samples run in one loop"
    assert any(line.startswith(note.format(further)) for line in decision.notes)
    assert lengths_beyond(result.model)[0] == few + 1


@pytest.mark.parametrize("name", FURTHER)
@pytest.mark.parametrize("is_ragged", [False, True], ids=["equal", "ragged"])
def test_which_form_runs_at_every_side_of_both_numbers(name: str, is_ragged: bool) -> None:
    _, model = chosen(name)
    counted = open_session(ir.to_proto(with_iterations(model)))
    enough = FURTHER[name][is_ragged]
    numbers = {0, 1, *FURTHER[name], FURTHER[name][0] + 1, enough - 1, enough + 1}
    body = dataclasses.replace(BODIES[name], is_ragged=is_ragged)
    for samples in sorted(numbers):
        case = body.case(name, samples)
        given = open_session(case.given).run(case.feeds)
        found = counted.run(case.feeds)
        iterations = found.pop(ITERATIONS)
        difference = compare(given, found)
        assert difference.equal, difference.message
        # A guard reads several samples in one step.
        assert bool(iterations < samples) == (samples > enough), samples


def test_a_further_form_is_left_out_of_few_samples_whose_shapes_differ_late() -> None:
    """The first sample is as the one in the middle and the last: all have to be read."""
    _, model = chosen("attention")
    case = BODIES["attention"].case("attention", 100)
    case.feeds["xs"][1] = case.feeds["xs"][1][:3]
    found = open_session(ir.to_proto(with_iterations(model))).run(case.feeds)
    assert found.pop(ITERATIONS) > 100
    assert compare(open_session(case.given).run(case.feeds), found).equal


@pytest.mark.parametrize(
    ("samples", "form"),
    [(50, "Loop with insertion"), (150, SHAPES), (600, f"{SHAPES}, else if {ROWS[11:]}")],
)
def test_a_known_number_of_samples_leaves_out_what_it_is_too_small_for(
    samples: int, form: str
) -> None:
    elements = ", ".join("ab" * (samples // 2))
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18]>
    g (float[A, B] a, float[C, D] b) => (seq(float[M, N]) ys) {{
      xs = SequenceConstruct ({elements})
      ys = SequenceMap (xs) <body = f (float[M, N] x) => (float[M, N] y) {{
        s = Softmax <axis = 0> (x) l = Log (s) y = Neg (l) }}>
    }}""")
    (decision,) = rewrite(model).report.decisions
    assert decision.form == form


def test_few_samples_read_the_sequence_itself() -> None:
    """The loop for few samples keeps the fusions of the model as given."""
    _, model = chosen("gate")
    (branch,) = [n for n in ir.from_proto(model).graph if n.op_type == "If"]
    few = branch.attributes["else_branch"].as_graph()
    (loop,) = [n for n in few if n.op_type == "Loop"]
    body = loop.attributes["body"].as_graph()
    read = [n.inputs[0] for n in body if n.op_type == "SequenceAt"]
    assert [value.name for value in read if value is not None] == ["xs"]
    # onnxruntime ends the process where it inlines a branch in which the condition is handed on.
    assert body.outputs[0] is not body.inputs[1]


def test_few_samples_read_the_sequence_itself_behind_a_refuted_guard() -> None:
    """More are read through a type that is hidden: a tensor of ours must not have a false one."""
    _, model = chosen("softmax of columns")
    (branch,) = [n for n in ir.from_proto(model).graph if n.op_type == "If"]
    enough = branch.attributes["then_branch"].as_graph()
    reads = [
        node.inputs[0].name == "xs"
        for loop in walk_nodes(enough)
        if loop.op_type == "Loop"
        for node in loop.attributes["body"].as_graph()
        if node.op_type == "SequenceAt" and node.inputs[0] is not None
    ]
    assert sorted(reads) == [False, True]


def test_a_loop_of_the_model_runs_as_it_is_behind_a_refuted_guard() -> None:
    """Its types let onnxruntime share memory, and its condition is no node."""
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (seq(uint8[3, h, w]) xs) => (seq(float[p, q, r]) ys)
    <float c = {255.0}, float[3, 1, 1] m = {1, 2, 3}, bool t = {1}> {
      n = SequenceLength (xs) e = SequenceEmpty ()
      ys = Loop (n, t, e) <body = one (int64 i, bool g, seq(float[p, q, r]) acc)
                                   => (bool o, seq(float[p, q, r]) new) {
        o = Identity (t) x = SequenceAt (xs, i) f = Cast <to = 1> (x) d = Div (f, c)
        s = Sub (d, m) z = Div (s, m) new = SequenceInsert (acc, z) }>
    }"""
    given = onnx.parser.parse_model(text)
    rewritten = rewrite(given).model
    assert isinstance(rewritten, onnx.ModelProto)
    loops = [n for n in walk_nodes(ir.from_proto(rewritten).graph) if n.op_type == "Loop"]
    bodies = [[n.op_type for n in loop.attributes["body"].as_graph()] for loop in loops]
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]
    case = [np.full((3, 2 + k % 3, 4), k, np.uint8) for k in range(200)]
    expected = open_session(given).run({"xs": case})
    assert compare(expected, open_session(rewritten).run({"xs": case})).equal


def test_a_known_number_of_samples_is_no_question() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[A, 4] a, float[B, 4] b) => (seq(float[N, 4]) ys) {{
      xs = SequenceConstruct ({})
      ys = SequenceMap (xs) <body = f (float[N, 4] x) => (float[N, 4] y) {{
        {} y = Softmax <axis = 0> (h) }}>
    }}"""
    steps = "e = Exp (x) u, p, i, n = Unique (e) s = ReduceSum (u) h = Add (x, s)"
    model = onnx.parser.parse_model(text.format(", ".join("ab" * 40), steps))
    after = rewrite(model).model
    assert isinstance(after, onnx.ModelProto)
    assert lengths_beyond(after) == ()


@pytest.mark.parametrize(
    ("faster", "slower", "expected"),
    [
        (Cost(10.0, 1.0), Cost(0.0, 2.0), 13),
        (Cost(0.0, 1.0), Cost(5.0, 2.0), 0),
        (Cost(0.0, 2.0), Cost(0.0, 1.0), None),
        (Cost(1.0, 2.0), Cost(0.0, 2.0), None),
        (Cost(8.0, 1.0), Cost(0.0, 1.0, inserted=1), 19),
    ],
    ids=["a start that pays", "always", "dearer", "never", "insertion"],
)
def test_from_how_many_samples_on_a_form_pays(
    faster: Cost, slower: Cost, expected: int | None
) -> None:
    assert faster.pays_from(slower) == expected


def of_size(size: int) -> onnx.ModelProto:
    """A map of products whose samples may differ and whose results ``[size, size]`` do not."""
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (seq(float[R,{size}]) xs) => (seq(float[{size},{size}]) ys) {{
          ys = SequenceMap (xs) <body = b (float[R,{size}] x) => (float[{size},{size}] y) {{
            q = Relu (x)  t = Transpose (q)  s = MatMul (t, q)  y = Softmax (s) }}> }}""")


@pytest.mark.parametrize(("size", "form"), [(127, "scan output"), (128, "insertion")])
def test_large_samples_are_collected_in_a_list(size: int, form: str) -> None:
    """128 x 128 floats are 64 KiB."""
    given = of_size(size)
    result = rewrite(given, strategy="expand")
    assert [d.form for d in result.report.decisions] == [f"Loop with {form}"]
    assert validate(given, result.model, cases=2).ok


@pytest.mark.parametrize(("size", "is_batched"), [(16, True), (256, False)])
def test_what_it_costs_to_split_large_results_counts(size: int, is_batched: bool) -> None:
    (decision,) = rewrite(of_size(size)).report.decisions
    assert (decision.verdict is not Verdict.EXPANDED) == is_batched
    assert is_batched or Code.COST in [reason.code for reason in decision.reasons]


PADDED_SQUARE = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(float[3,{0}]) xs) => (seq(float[3,{1}]) ys) {{
  ys = SequenceMap (xs) <body = b (float[3,{0}] x) => (float[3,{1}] y) {{
    two = Constant <value_ints = [2]> () none = Constant <value_ints = [0]> ()
    h = Shape <start = 1, end = 2> (x) w = Shape <start = 2, end = 3> (x) m = Max (h, w)
    down = Sub (m, h) top = Div (down, two) bottom = Sub (down, top)
    across = Sub (m, w) left = Div (across, two) right = Sub (across, left)
    pads = Concat <axis = 0> (none, top, left, none, bottom, right) y = Pad (x, pads)
  }}>
}}"""


def test_images_of_any_size_are_read_by_one_loop() -> None:
    """Each loop that reads an element copies it: sizes are not worth a loop of their own."""
    of_images = rewrite(onnx.parser.parse_model(PADDED_SQUARE.format("H,W", "M,M"))).report
    assert [one.verdict for one in of_images.decisions] == [Verdict.EXPANDED]
