"""Expansion: what it says of each map, and maps of several sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.decisions import Code, Reason, Verdict
from passes.errors import RewriteError
from passes.expand import ExpandSequenceMapPass
from passes.graph.graphs import all_graphs
from rewriter.backends import open_session
from tests.passes.expand_cases import CASES, HEADER, SHAPES
from tests.passes.expansion import expand, fails, prove, rows

TWO = f"""{HEADER}g (seq(float[N]) xs, seq(float[N]) zs) => (seq(float) ys) {{
  ys = SequenceMap (xs, zs) <body = f (float[N] x, float[N] z) => (float y) {{
    u = ReduceSum <keepdims = 0> (x) v = ReduceSum <keepdims = 0> (z) y = Sub (u, v) }}> }}"""


@pytest.mark.parametrize("form", ["linear", "plain"])
def test_longer_further_sequence_is_cut_and_the_decision_says_so(form: Any) -> None:
    feeds = {"xs": rows((2,), (1,)), "zs": rows((2,), (3,), (1,))}
    expanded = prove(TWO, feeds, {"xs": [], "zs": rows((2,))})
    assert expanded.codes == ["surplus-ignored"]
    assert expand(TWO, form).codes == ["surplus-ignored"]


@pytest.mark.parametrize("form", ["linear", "plain"])
@pytest.mark.parametrize("backend", ["reference", "onnxruntime"])
def test_shorter_further_sequence_is_an_error(form: Any, backend: str) -> None:
    feeds = {"xs": rows((2,), (1,)), "zs": rows((2,))}
    assert fails(onnx.parser.parse_model(TWO), feeds, backend)
    assert fails(expand(TWO, form).model, feeds, backend)


def over_two(made: str, inputs: str = "float[5,3] t, float[5,2] u, float[R,C] s") -> str:
    return f"""{HEADER}g ({inputs}) => (seq(float[]) ys) {{
      {made}
      ys = SequenceMap (a, b) <body = f (x, z) => (y) {{
        v = ReduceSum <keepdims = 0> (z) y = Add (x, v) }}> }}"""


EQUAL_LENGTHS = {
    "one sequence": "a = SplitToSequence (t)  b = Identity (a)",
    "one axis of one tensor": "a = SplitToSequence (s)  b = SplitToSequence <keepdims = 0> (s)",
    "dimensions of one number": "a = SplitToSequence (t)  b = SplitToSequence (u)",
    "dimensions of one number, on two axes": """
        a = SplitToSequence <axis = 1> (t)  r = Transpose <perm = [1, 0]> (t)
        b = SplitToSequence (r)""",
    "one split": """n = Constant <value_ints = [2, 3]> ()
        a = SplitToSequence (t, n)  b = SplitToSequence (u, n)""",
    "splits of as many parts": """n = Constant <value_ints = [2, 3]> ()
        m = Constant <value_ints = [1, 4]> ()
        a = SplitToSequence (t, n)  b = SplitToSequence (u, m)""",
    "chunks of one size": """n = Constant <value = int64 {2}> ()
        a = SplitToSequence (t, n)  b = SplitToSequence (u, n)""",
    "chunks and a number": """n = Constant <value = int64 {2}> ()
        a = SplitToSequence (t, n)  b = SplitToSequence <axis = 1> (t)""",
    "constructed": "a = SequenceConstruct (t, t)  b = SequenceConstruct (s, s)",
    "the result of a map": """a = SplitToSequence (s)
        b = SequenceMap (a) <body = g (p) => (q) { q = Neg (p) }>""",
    "results of two maps": """c = SplitToSequence (s)
        a = SequenceMap (c) <body = g (p) => (q) { q = Neg (p) }>
        b = SequenceMap (c) <body = h (p) => (q) { q = ReduceSum (p) }>""",
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", EQUAL_LENGTHS)
def test_equal_lengths_by_proof_are_not_mentioned(name: str) -> None:
    feeds = {
        "t": rows((5, 3))[0],
        "u": rows((5, 2))[0],
        "s": rows((4, 2) if name != "constructed" else (5, 3))[0],
    }
    expanded = prove(over_two(EQUAL_LENGTHS[name]), feeds)
    assert "surplus-ignored" not in expanded.codes


UNPROVEN_LENGTHS = {
    "two inputs": ("a = Identity (p)  b = Identity (q)", "seq(float[N]) p, seq(float[N]) q"),
    "two tensors of one symbol": (
        "a = SplitToSequence (t)  b = SplitToSequence (s)",
        "float[R,C] t, float[R,C] s",
    ),
    "two axes of one tensor": (
        "a = SplitToSequence (s)  b = SplitToSequence <axis = 1> (s)",
        "float[R,C] s",
    ),
    "constructed of more": (
        "a = SequenceConstruct (t, t)  b = SequenceConstruct (t, t, t)",
        "float[2] t",
    ),
    "numbers of a sequence type": (
        """z = Constant <value_int = 0> ()  e = SequenceAt (p, z)  f = SequenceAt (q, z)
        a = SplitToSequence (e)  b = SplitToSequence (f)""",
        "seq(float[3,2]) p, seq(float[3,2]) q",
    ),
}


@pytest.mark.parametrize("name", UNPROVEN_LENGTHS)
def test_equal_lengths_without_proof_are_mentioned(name: str) -> None:
    assert "surplus-ignored" in expand(over_two(*UNPROVEN_LENGTHS[name])).codes


@pytest.mark.parametrize("form", ["linear", "plain"])
def test_reason_for_loops_leads_every_decision(form: Any) -> None:
    model = ir.from_proto(onnx.parser.parse_model(TWO))
    expansion = ExpandSequenceMapPass(form, reason=Reason(Code.STRATEGY))
    expansion(model)
    (decision,) = expansion.decisions
    assert [r.code for r in decision.reasons] == [Code.STRATEGY, Code.SURPLUS_IGNORED]
    assert decision.verdict is Verdict.EXPANDED
    assert (decision.path, decision.op_type) == ("SequenceMap_0", "SequenceMap")


REASONS = {
    "float[N]": [
        (Code.RAGGED, "output 0 of the body may differ from sample to sample along axis 0")
    ],
    "float[N,M]": [
        (Code.RAGGED, "output 0 of the body may differ from sample to sample along axes 0 and 1")
    ],
    "float[]": [(Code.UNKNOWN_RANK, "output 0 of the body has no known rank")],
    "uint8[2]": [(Code.UNSPLITTABLE_TYPE, "output 0 of the body is UINT8")],
    "float[2]": [],
}


@pytest.mark.parametrize("declared", REASONS)
def test_decision_says_why_an_output_is_no_scan_output(declared: str) -> None:
    text = f"""{HEADER}g (seq({declared}) xs) => (seq({declared}) ys) {{
      ys = SequenceMap (xs) <body = f ({declared} x) => ({declared} y) {{ y = Identity (x) }}> }}"""
    (decision,) = expand(text).decisions
    assert [(r.code, r.detail) for r in decision.reasons] == REASONS[declared]


@pytest.mark.parametrize(("axis", "form"), [(0, "scan output"), (1, "insertion")])
def test_samples_of_unknown_rank_are_stacked_in_front_alone(axis: int, form: str) -> None:
    """A loop stacks what it yields in front; nothing tells how to turn what has any rank."""
    text = f"""{HEADER}g (seq(float[]) xs) => (float y) {{
      ys = SequenceMap (xs) <body = f (float[] x) => (float[] y) {{ y = Neg (x) }}>
      t = ConcatFromSequence <axis = {axis}, new_axis = 1> (ys)
      y = ReduceMax <keepdims = 0> (t) }}"""
    expanded = prove(text, {"xs": rows((2, 3), (2, 3))})
    assert expanded.decisions[0].form == f"Loop with {form}"


def test_number_taken_from_a_declared_type_is_an_assumption() -> None:
    text = HEADER + CASES[0].text
    expanded = expand(text)
    assert expanded.decisions[0].assumptions == [
        "SequenceMap_0: the declared element types hold for output 0 of the body; a sample that "
        "breaks them is an error when the model runs"
    ]
    broken = {"xs": rows((2,), (3,))}
    assert fails(expanded.model, broken), "onnxruntime must refuse a sample of another shape"


def test_number_that_follows_from_operators_is_no_assumption() -> None:
    text = f"""{HEADER}g (seq(float[N]) xs) => (seq(float[1]) ys) {{
      ys = SequenceMap (xs) <body = f (x) => (y) {{ y = ReduceSum <keepdims = 1> (x) }}> }}"""
    (decision,) = expand(text).decisions
    assert (decision.form, decision.assumptions) == ("Loop with scan output", [])


def test_maps_are_decided_inside_out_and_named_by_path() -> None:
    case = next(case for case in CASES if case.name == "map in a map")
    paths = [decision.path for decision in expand(HEADER + case.text).decisions]
    assert paths == ["SequenceMap_0/body/SequenceMap_1", "SequenceMap_0"]


def test_initializer_of_a_body_moves_outside() -> None:
    text = f"""{HEADER}g (seq(float[N]) xs) => (seq(float[N]) ys) {{
      ys = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) <float[1] w = {{2}}> {{
        y = Mul (x, w) }}> }}"""
    expanded = prove(text, {"xs": rows(*SHAPES)})
    assert [tensor.name for tensor in expanded.model.graph.initializer] == ["w"]


def test_model_without_maps_is_left_alone() -> None:
    text = HEADER + "g (float[N] x) => (float[N] y) { t = Neg (x) y = Abs (t) }"
    model = ir.from_proto(onnx.parser.parse_model(text))
    before = ir.to_proto(model)
    expansion = ExpandSequenceMapPass()
    assert not expansion(model).modified
    assert expansion.decisions == []
    assert ir.to_proto(model) == before


def test_new_nodes_name_the_map_that_they_stand_for() -> None:
    expanded = expand(HEADER + CASES[0].text)
    origins = {
        prop.value
        for node in expanded.model.graph.node
        for prop in node.metadata_props
        if prop.key == "seqmap.origin"
    }
    assert origins == {"SequenceMap_0"}


UNTYPED = f"""{HEADER}g (seq(float[N]) xs) => (seq(float[N]) ys) {{
  zs = SequenceMap (xs) <body = f (float[N] x) => (z) {{ z = own.Made (x) }}>
  ys = SequenceMap (zs) <body = h (z) => (float[N] y) {{ y = own.Taken (z) }}> }}""".replace(
    '["" : 18]', '["" : 18, "own" : 1]'
)


@pytest.mark.parametrize("form", ["linear", "plain"])
def test_output_of_unknown_element_type(form: Any) -> None:
    model = ir.from_proto(onnx.parser.parse_model(UNTYPED))
    message = (
        "^SequenceMap 'SequenceMap_0': the element type of output 0 of its body is not known, and "
        "a sequence of it cannot be begun: declare the type of that output.$"
    )
    with pytest.raises(RewriteError, match=message):
        ExpandSequenceMapPass(form)(model)


@pytest.mark.parametrize("form", ["linear", "plain"])
def test_element_type_that_only_the_surroundings_tell(form: Any) -> None:
    """No schema is known for the operator; the graph's output says what comes out."""
    text = UNTYPED.replace("zs = ", "ys = ").split("ys = SequenceMap (zs)")[0] + "}"
    text = text.replace("seq(float[N]) ys", "seq(int64[N]) ys")
    model = ir.from_proto(onnx.parser.parse_model(text))
    ExpandSequenceMapPass(form)(model)
    empty = next(node for node in model.graph if node.op_type == "SequenceEmpty")
    assert empty.attributes["dtype"].as_int() == ir.DataType.INT64


@pytest.mark.parametrize("width", [64, 256])
def test_large_samples_are_collected_one_by_one(width: int) -> None:
    """To copy one twice takes longer than to lengthen a list by it."""
    text = f"""{HEADER}g (float[N,64,{width}] t) => (seq(float[64,{width}]) ys) {{
      xs = SplitToSequence <keepdims = 0> (t)
      ys = SequenceMap (xs) <body = f (x) => (y) {{ y = Neg (x) }}> }}"""
    model = expand(text, "linear").model
    inserts = sum(
        n.op_type == "SequenceInsert" for g in all_graphs(ir.from_proto(model)) for n in g
    )
    assert inserts == (width == 256)


def test_one_value_for_all_samples_has_one_shape() -> None:
    """Nothing asks whether its samples differ, whatever is declared of it."""
    text = f"""{HEADER}g (seq(float[2,3,4]) xs, seq(float[N]) zs) => (seq(float[]) ys) {{
      first = Constant <value_int = 0> () c = SequenceAt (xs, first)
      ys = SequenceMap (zs) <body = f (z) => (y) {{ y = Identity (c) }}> }}"""
    model = expand(text, "linear").model
    operators = [node.op_type for graph in all_graphs(ir.from_proto(model)) for node in graph]
    assert "Equal" not in operators
    feeds = {"xs": [np.ones((3, 2, 4), np.float32)], "zs": rows((2,), (3,))}
    for found in open_session(model).run(feeds)["ys"]:
        assert found.shape == (3, 2, 4)
