"""Models that few bytes make huge: an error or less knowledge, never a hang."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import rewriter
from passes.graph.limits import DEEPEST_NESTING, MOST_FUNCTIONS, MOST_NODES
from rewriter.errors import ModelError
from rewriter.model_files.models import take
from rewriter.reporting.report import Report

HEADER = '<ir_version: 9, opset_import: ["" : 18, "f" : 1]>\n'
BILLION = 10**9
FLOATS = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER + text)


def mapped(body: str) -> onnx.ModelProto:
    """Return a map over a sequence of vectors."""
    return parsed(f"""g (seq(float[N]) xs) => (seq(float[M]) ys)
        {{ ys = SequenceMap (xs) <body = b (float[N] x) => (float[M] y) {{ {body} }}> }}""")


def calling(*bodies: list[str]) -> onnx.ModelProto:
    """Return a model with functions, each calling the named ones one after another."""
    model = parsed("g (float[N] x) => (float[M] y) { y = f.f0 (x) }")
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    for number, callees in enumerate(bodies):
        names = ["x", *(f"t{i}" for i in range(1, len(callees))), "y"]
        nodes = [
            helper.make_node(op, [names[i]], [names[i + 1]], domain="f" if op[0] == "f" else "")
            for i, op in enumerate(callees)
        ]
        model.functions.append(
            helper.make_function("f", f"f{number}", ["x"], ["y"], nodes, opsets)
        )
    return model


def nested(depth: int) -> onnx.ModelProto:
    """Return Ifs inside of each other."""
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [], [FLOATS])
    for _ in range(depth):
        node = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([node], "g", [], [FLOATS])
        graph.node[0].attribute[1].g.node[0].CopyFrom(helper.make_node("Identity", ["x"], ["y"]))
    graph.input.add(name="x").type.CopyFrom(FLOATS.type)
    graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


REFUSED = {
    "doubling calls": (
        calling(*[[f"f{k + 1}"] * 2 for k in range(40)], ["Relu"]),
        f"{MOST_NODES} nodes",
    ),
    "many functions": (calling(*[["Relu"]] * (MOST_FUNCTIONS + 1)), "has 1001 functions"),
    "a function calls itself": (calling(["f0"]), "'f.f0', which calls itself in a circle"),
    "two call each other": (calling(["f1"], ["f0"]), "which calls itself in a circle"),
    "a Split into many parts": (
        onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["" : 18]> '
            "g (float[N] x) => (float[M] y) { y, z = Split <num_outputs = 1000000000> (x) }"
        ),
        "into 1000000000 parts, which has 2 outputs",
    ),
    **{
        f"an Einsum of {equation}": (
            onnx.parser.parse_model(
                '<ir_version: 9, opset_import: ["" : 18]> g (float[2,2] x) => (float[M] y) '
                f'{{ y = Einsum <equation = "{equation}"> (x) }}'
            ),
            "more than one ellipsis",
        )
        for equation in ("......->i", "...i...", "i.j", "ij,....->i")
    },
    "batches in front of all axes": (
        onnx.parser.parse_model(
            '<ir_version: 9, opset_import: ["" : 18]> g (float[2,2] x, int64[2,1] i) => '
            f"(float[M] y) {{ y = GatherND <batch_dims = {-(2**31)}> (x, i) }}"
        ),
        "with batch_dims -2147483648",
    ),
    "deep Ifs": (nested(DEEPEST_NESTING + 1), "graphs more than 12 deep inside of each other"),
}


@pytest.mark.parametrize(("model", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_too_large_is_refused(model, message):
    with pytest.raises(ModelError, match=message):
        take(model)


def test_what_is_just_small_enough_is_taken():
    take(nested(DEEPEST_NESTING))
    take(calling(*[["f1"] * 50], ["f2"] * 50, ["Relu"] * 20))
    take(calling(["f1", "f2"], ["f2"], ["Relu"]))  # called by two, and by no circle


HUGE = {
    "a loop": f"""g (float[2] x) => (float[M] y) {{ n = Constant <value = int64 {{{BILLION}}}> ()
        c = Constant <value = bool {{1}}> ()
        y = Loop (n, c) <body = b (int64 i, bool k) => (bool l, float[2] t)
            {{ l = Identity (k)  j = Cast <to = 1> (i)  t = Add (j, x) }}> }}""",
    "a split": f"""g (float[{BILLION}] x) => (seq(float[M]) ys) {{ xs = SplitToSequence (x)
        ys = SequenceMap (xs) <body = b (float[N] e) => (float[N] o) {{ o = Relu (e) }}> }}""",
    "sizes": f"""g (float[N] x) => (seq(float[M]) ys) {{
        p = Constant <value = int64[2] {{{BILLION}, {BILLION}}}> ()  xs = SplitToSequence (x, p)
        ys = SequenceMap (xs) <body = b (float[N] e) => (float[N] o) {{ o = Relu (e) }}> }}""",
    "a vector that is read": f"""g (float[{2**40}] v, seq(float[N]) xs) => (seq(float[M]) ys) {{
        w = Add (v, v)
        ys = SequenceMap (xs) <body = b (float[N] x) => (float[M] y) {{ y = Add (x, w) }}> }}""",
}
IN_A_BODY = {
    "ConstantOfShape": f"""s = Constant <value = int64[1] {{{BILLION}}}> ()
        i = ConstantOfShape <value = int64[1] {{0}}> (s)  y = Gather (x, i)""",
    "Range": f"""a = Constant <value = int64 {{0}}> ()  b = Constant <value = int64 {{{BILLION}}}> ()
        c = Constant <value = int64 {{1}}> ()  i = Range (a, b, c)  y = Gather (x, i)""",
    "Expand": f"""s = Constant <value = int64[2] {{{BILLION}, 1}}> ()
        e = Expand (x, s)  y = ReduceSum <keepdims = 0> (e)""",
    "Tile": f"s = Constant <value = int64[1] {{{BILLION}}}> ()  y = Tile (x, s)",
    "Reshape": f"""s = Constant <value = int64[1] {{{2**40}}}> ()  r = Reshape (x, s)
        y = Concat <axis = 0> (r, x)""",
}


@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
@pytest.mark.parametrize(
    "model",
    [*map(parsed, HUGE.values()), *map(mapped, IN_A_BODY.values())],
    ids=[*HUGE, *IN_A_BODY],
)
def test_no_number_decides_how_long_it_takes(model, strategy):
    """The test is that it ends, and that it ends in some megabytes."""
    assert isinstance(rewriter.explain(model, strategy=strategy), Report)


@pytest.mark.parametrize("nest", ["seq({})", "{{ y = If (c) <then_branch = a () => () {} > }}"])
def test_text_that_would_end_the_process_is_refused(tmp_path, nest):
    text, (opening, closing) = "float", nest.split("{}")
    path = tmp_path / "deep.onnxtxt"
    path.write_text(HEADER + opening * 20_000 + text + closing * 20_000)
    with pytest.raises(ModelError, match="brackets more than 500 deep inside of each other"):
        rewriter.load(path)


def test_brackets_in_strings_and_comments_do_not_count(tmp_path):
    path = tmp_path / "flat.onnxtxt"
    braces = "(" * 1000
    path.write_text(f"# {braces}\n{HEADER}g () => (string y) {{ y = Constant <value_string = "
                    f'"{braces}"> () }}')  # fmt: skip
    rewriter.load(path)
