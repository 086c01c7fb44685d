"""Few samples run by copies of the body, so that what needs no guard needs no loop either."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.loops.copies import settle
from tests.passes.loops import model, same
from tests.passes.reading.test_read_loops_bags import bags, feed

MAPS = """g (float[T, 4] x, int64[B] n, float[4] w) => ({outputs}) {{
    s = SplitToSequence <axis = 0> (x, n)
    a = Constant <value_ints = [0]> ()
    {maps}
}}"""
SUM = """body = b (float[L, 4] e) => (float[4] o) {
    p = Mul (e, w) t = ReduceSum <keepdims = 0> (p, a) v = Tanh (e)
    u = ReduceSum <keepdims = 0> (v, a) o = Add (t, u) }"""
GRAPHS = {
    "bags": bags("ReduceSum"),
    "stacked": MAPS.format(
        outputs="float[B, 4] y",
        maps=f"q = SequenceMap (s) <{SUM}> y = ConcatFromSequence <axis = 0, new_axis = 1> (q)",
    ),
    "stacked along the last axis": MAPS.format(
        outputs="float[4, B] y",
        maps=f"q = SequenceMap (s) <{SUM}> y = ConcatFromSequence <axis = -1, new_axis = 1> (q)",
    ),
    "joined": MAPS.format(
        outputs="float[M] y",
        maps=f"q = SequenceMap (s) <{SUM}> y = ConcatFromSequence <axis = 0> (q)",
    ),
    "a sequence": MAPS.format(outputs="seq(float[4]) q", maps=f"q = SequenceMap (s) <{SUM}>"),
}
READS = """SequenceMap (s) <body = b (float[L, 4] e) => (float[{dims}] o) {{
    {position} c = Constant <value_ints = [{axis}]> ()
    f = Gather <axis = 1> (e, k) g = Unsqueeze (f, c) h = Exp (g) p = Neg (h) r = Tanh (p)
    m = ReduceSum <keepdims = 0> (r, {sums}) u = ReduceSum <keepdims = 0> (p, {sums})
    o = Add (m, u) }}>"""
GRAPHS |= {
    f"column {name}": MAPS.format(
        outputs=f"float[B, {dims}] y",
        maps="d = Constant <value_ints = [1]> () t = Constant <value_ints = [0, 1]> ()"
        + f"q = {READS.format(position=position, axis=axis, sums=sums, dims=dims)}"
        "y = ConcatFromSequence <axis = 0, new_axis = 1> (q)",
    )
    for name, position, axis, sums, dims in (
        ("by a vector, and another axis", "k = Constant <value_ints = [2]> ()", 1, "a", "C, D"),
        (
            "by two places, and another axis",
            "k = Constant <value_ints = [3, 1]> ()",
            1,
            "a",
            "C, D",
        ),
        (
            "by a number at run time",
            "i = Size (n) j = Constant <value_int = 4> () k = Mod (i, j)",
            1,
            "a",
            "C",
        ),
        ("by a number, and its axis", "k = Constant <value_int = 2> ()", 1, "a", "C"),
        ("by a number, and another axis", "k = Constant <value_int = 2> ()", 0, "d", "C"),
    )
}


def fed(name: str, lengths: list[int]) -> dict[str, Any]:
    if name == "bags":
        ends = np.cumsum([0, *lengths])
        return feed(int(ends[-1]), [int(end) for end in ends[:-1]])
    x = np.random.default_rng(len(lengths)).standard_normal((sum(lengths), 4))
    n = np.array(lengths, np.int64)
    return {"x": x.astype(np.float32), "n": n, "w": np.float32([1, 2, 0, -1])}


@pytest.mark.sampled
@pytest.mark.parametrize("name", GRAPHS)
def test_each_number_of_samples_is_right_and_no_loop_is_left(name: str) -> None:
    before = model(GRAPHS[name])
    result = rewriter.rewrite(before)
    assert result.report.after.loops == 0
    assert any("by copies of the body" in n for d in result.report.decisions for n in d.notes)
    lengths = [
        [],
        [3],
        [2, 0],
        [1, 2, 3],
        [0, 4, 1, 2],
        [2] * 5,
        [0] * 7,
        [3, 0, 1, 4] * 2,
        [2] * 9,
    ]
    feeds = [fed(name, one) for one in lengths if one or name == "bags"]
    assert same(before, result.model, *feeds) == len(feeds)


def test_what_is_read_and_stacked_from_the_back_comes_out_so() -> None:
    text = """g (float[T, 4] x, int64[B, 2] n, float[4] w) => (float[4, B] y) {
        a = Constant <value_ints = [0]> ()
        y = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_axes = [1],
                  scan_output_directions = [1], body = step (int64[2] k) => (float[4] o) {
            one = Constant <value_ints = [1]> ()
            two = Constant <value_ints = [2]> ()
            from = Slice (k, a, one)
            to = Slice (k, one, two)
            e = Slice (x, from, to, a)
            p = Mul (e, w)
            o = ReduceSum <keepdims = 0> (p, a)
        }> (n)
    }"""
    before = model(text)
    result = rewriter.rewrite(before)
    assert any("by copies of the body" in n for d in result.report.decisions for n in d.notes)
    x = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    bounds = np.array([[0, 3], [2, 2], [1, 9], [4, 5], [0, 9], [8, 9]])
    feeds = [{"x": x, "n": bounds[:k], "w": np.float32([1, 2, 0, -1])} for k in range(1, 7)]
    assert same(before, result.model, *feeds) == len(feeds)


ATTENDED = """body = b (float[L, 4] e) => (float[4] o) {{
    t = Transpose (e) m = MatMul (e, t) p = Softmax (m) f = MatMul (p, e)
    {more} o = ReduceSum <keepdims = 0> (z, a) }}"""


@pytest.mark.parametrize(
    ("more", "is_copied"),
    [
        ("z = Tanh (f)", True),
        ("g = Exp (f) h = Tanh (g) k = Mul (h, w) l = Neg (k) v = Abs (l) z = Sqrt (v)", False),
    ],
)
def test_a_loop_that_is_left_anyway_runs_few_samples_of_a_large_body(
    more: str, is_copied: bool
) -> None:
    """Long samples among short ones go through a loop: copies would only be more to load."""
    maps = f"q = SequenceMap (s) <{ATTENDED.format(more=more)}>"
    maps += " y = ConcatFromSequence <axis = 0, new_axis = 1> (q)"
    before = model(MAPS.format(outputs="float[B, 4] y", maps=maps))
    result = rewriter.rewrite(before)
    (decision,) = result.report.decisions
    assert decision.few > 4
    where = "by copies of the body" if is_copied else "in one loop"
    assert any(where in note for note in decision.notes)
    feeds = [fed("attended", [2, 0, 3, 1, 5] * n) for n in (1, 2, 8)]
    feeds += [fed("attended", [4]), fed("attended", [1] * 70 + [300])]
    assert same(before, result.model, *feeds) == len(feeds)


def test_a_map_over_a_sequence_runs_in_a_loop_for_few() -> None:
    """Its elements are read one by one, whatever their number."""
    text = f"g (seq(float[L, 4]) s, float[4] w) => (seq(float[4]) q) {{ a = Constant <value_ints = [0]> () q = SequenceMap (s) <{SUM}> }}"
    result = rewriter.rewrite(model(text), uniform=["s"])
    assert all("copies" not in n for d in result.report.decisions for n in d.notes)


def _nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return [*graph.node, *(node for one in inner for node in _nodes(one))]


def _branches(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """Return both branches of the only If of a graph."""
    (asked,) = (node for node in graph.node if node.op_type == "If")
    found = {a.name: a.g for a in asked.attribute}
    return [found["then_branch"], found["else_branch"]]


def _copies(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return what runs for one sample or none, and for as many as there are copies."""
    up_to_one, more = _branches(model.graph)
    _, several = _branches(more)
    return [*_nodes(up_to_one), *_nodes(several)]


def test_each_number_of_samples_has_a_branch() -> None:
    after = rewriter.rewrite(model(GRAPHS["bags"])).model
    asked = [node for node in _nodes(after.graph) if node.op_type == "If"]
    assert (
        len(asked) == 8
    )  # more than have copies, equally long ones, fewer than 2, 1 to 5 samples


def test_a_sample_has_one_copy_whatever_their_number() -> None:
    after = rewriter.rewrite(model(GRAPHS["bags"])).model
    few = _copies(after)
    sums = [node for node in few if node.op_type == "ReduceSum"]
    assert len(sums) == 1 + 6  # a single sample, and up to six of them


@pytest.mark.parametrize(("columns", "is_known"), [("4", True), ("C", False)])
def test_no_samples_go_with_the_many_where_their_shape_is_not_known(
    columns: str, is_known: bool
) -> None:
    before = model(f"""g (float[T, {columns}] x, int64[B, 2] n) => (float[B, C] y) {{
        a = Constant <value_ints = [0]> ()
        y = Scan <num_scan_inputs = 1, body = step (int64[2] k) => (float[{columns}] o) {{
            one = Constant <value_ints = [1]> ()
            two = Constant <value_ints = [2]> ()
            from = Slice (k, a, one)
            to = Slice (k, one, two)
            e = Slice (x, from, to, a)
            o = ReduceSum <keepdims = 0> (e, a)
        }}> (n)
    }}""")
    after = rewriter.rewrite(before).model
    (asked,) = (node for node in after.graph.node if node.op_type == "If")
    (condition,) = (n for n in after.graph.node if asked.input[0] in n.output)
    assert condition.op_type == ("Less" if is_known else "Or")
    x, none = np.ones((2, 4), np.float32), np.zeros((0, 2), np.int64)
    found = rewriter.run(after, {"x": x, "n": none})["y"]
    assert found.shape == (0, 4)


def test_a_copy_reads_a_row_and_keeps_its_axis_in_one_node() -> None:
    after = rewriter.rewrite(model(GRAPHS["bags"])).model
    few = _copies(after)
    made = {name: node.op_type for node in few for name in node.output}
    cuts = {name for node in few if node.op_type == "Concat" for name in node.output}
    read = [n for n in few if n.op_type == "Slice" and n.input[0] not in cuts]
    assert {made[n.input[1]] for n in read} == {"Gather"}


def test_a_copy_reduces_and_keeps_its_axis_in_one_node() -> None:
    after = rewriter.rewrite(model(GRAPHS["bags"])).model
    few = _copies(after)
    nodes = [node for node in few if node.op_type in ("ReduceSum", "Unsqueeze")]
    kept = [a.i for node in nodes for a in node.attribute if a.name == "keepdims"]
    assert {node.op_type for node in nodes} == {"ReduceSum"}
    assert kept == [1] * len(nodes)


@pytest.mark.parametrize(("text", "most"), [("bags", range(4, 9)), ("stacked", range(1, 4))])
def test_what_is_asked_first_counts_too(text: str, most: range) -> None:
    """Bags of one length are asked for in vain where they are not."""
    decisions = rewriter.rewrite(model(GRAPHS[text])).report.decisions
    found = [int(n.split()[2]) for d in decisions for n in d.notes if "by copies" in n]
    assert [n in most for n in found] == [True]


GONE = """<ir_version: 10, opset_import: ["" : 18]>
g (float[2] x) => (float[2] y) {
  f = Constant <value = bool {1}> ()
  v = If (f) <then_branch = t () => (float[2] p) { p = Neg (x) },
    else_branch = e () => (float[2] q) { h = Identity (x) q = Neg (h) }>
  y = Abs (v)
}"""


def test_what_stood_in_a_node_that_is_gone_is_passed_over() -> None:
    given = ir.from_proto(onnx.parser.parse_model(GONE))
    chosen = given.graph.node(1)
    settle(given, [chosen, *chosen.attributes["else_branch"].as_graph()])
    assert [node.op_type for node in given.graph] == ["Neg", "Abs"]
