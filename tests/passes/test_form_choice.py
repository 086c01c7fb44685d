"""What `auto` makes of maps over sequences of unproven shapes: the forms measured as fastest."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from benchmarks.bodies import BODIES
from passes.decisions import Code, Verdict
from passes.fusing.cost import Cost
from rewriter.backends import open_session
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare
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
    "attention": SHAPES,
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
