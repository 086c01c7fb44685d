from __future__ import annotations

import dataclasses
import pickle
from typing import Any, get_args

import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.decisions import Code, Decision, Reason, Verdict
from passes.eliminate import EliminateSequencesPass
from passes.errors import RewriteError
from rewriter import order, pipeline
from rewriter.backends import BACKENDS, BackendError, open_session
from rewriter.model_files.model_facts import OperatorCounts
from rewriter.pipeline import explain
from rewriter.reporting.remedies import still_open
from rewriter.reporting.report import Report
from rewriter.target_table import (
    ALIASES,
    TARGETS,
    Target,
    TargetName,
    Unreached,
    find_target,
)
from rewriter.targets import TargetError, check_target, version_warnings

HEADER = '<ir_version: 8, opset_import: ["" : 18]>\n'
GRAPHS = {
    "plain": "agraph (float[N] x) => (float[N] y) { y = Relu (x) }",
    "split": """agraph (float[N,2] x) => (float[N,2] y) {
        [split] xs = SplitToSequence <axis = 0> (x)
        [concat] y = ConcatFromSequence <axis = 0> (xs)
    }""",
    "sequence io": """agraph (seq(float[N]) xs) => (seq(float[N]) ys) {
        [same] ys = Identity (xs)
    }""",
    "loop": """agraph (int64 n, bool c, float[2] x) => (float[K,2] y) {
        [each] y = Loop (n, c) <body = one (int64 i, bool ci) => (bool co, float[2] e)
            { co = Identity (ci)  e = Relu (x) }>
    }""",
    "sequence loop": """agraph (int64 n, bool c, float[2] x) => (float[K] y)
        <seq(float[2]) e, seq(float[2]) out> {
        [empty] e = SequenceEmpty ()
        [each] out = Loop (n, c, e) <body = one
            (int64 i, bool ci, seq(float[2]) s) => (bool co, seq(float[2]) t)
            { co = Identity (ci)  [grow] t = SequenceInsert (s, x) }>
        [concat] y = ConcatFromSequence <axis = 0> (out)
    }""",
    "if": """agraph (bool c, float[2] x) => (float[2] y) {
        [choose] y = If (c) <then_branch = a () => (float[2] t) { t = Relu (x) },
                             else_branch = b () => (float[2] e) { e = Identity (x) }>
    }""",
    "scan in if": """agraph (bool c, float[3,2] x) => (float[3,2] y) {
        [choose] y = If (c) <
            then_branch = a () => (float[3,2] t) {
                [each] t = Scan <num_scan_inputs = 1, body = one (float[2] p) => (float[2] q)
                    { q = Relu (p) }> (x) },
            else_branch = b () => (float[3,2] e) { e = Identity (x) }>
    }""",
    "map": """agraph (seq(float[N]) xs) => (float[M] y) {
        [map] ys = SequenceMap (xs) <body = b (float[N] p) => (float[N] q) { q = Relu (p) }>
        [concat] y = ConcatFromSequence <axis = 0> (ys)
    }""",
    "optional": """agraph (float[2] x) => (bool y) <optional(seq(float[2])) o> {
        [wrap] o = Optional <type = seq(float[2])> ()
        y = OptionalHasElement (o)
    }""",
}
FUNCTION = """<ir_version: 8, opset_import: ["" : 18, "local" : 1]>
agraph (float[N,2] x) => (float[N,2] y) { [call] y = local.halves (x) }
<domain: "local", opset_import: ["" : 18]>
halves (x) => (y) {
    [split] xs = SplitToSequence <axis = 0> (x)
    [concat] y = ConcatFromSequence <axis = 0> (xs)
}
"""


def model(name: str, header: str = HEADER) -> ir.Model:
    return ir.from_onnx_text(header + GRAPHS[name])


def left(name: str, target: str, require: tuple[str, ...] = ()) -> list[str]:
    return [
        entry.node or entry.reason.split(" is ")[0]
        for entry in check_target(model(name), target, require)
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_plain_operators_are_accepted_everywhere(target: str) -> None:
    assert check_target(model("plain"), target, ("sequence-free", "loop-free")) == []


@pytest.mark.parametrize("target", TARGETS)
def test_no_target_accepts_a_map(target: str) -> None:
    assert "map" in left("map", target)


@pytest.mark.parametrize(
    ("graph", "target", "expected"),
    [
        ("split", "onnxruntime", []),
        ("split", "onnxruntime-cuda", []),
        ("split", "tensorrt", ["split", "concat"]),
        ("split", "openvino", ["split", "concat"]),
        ("split", "tract", ["split", "concat"]),
        ("split", "coreml", ["split", "concat"]),
        ("split", "portable", ["split", "concat"]),
        ("sequence io", "onnxruntime", []),
        ("sequence io", "tensorrt", ["input 'xs'", "output 'ys'", "same"]),
        ("loop", "onnxruntime", []),
        ("loop", "tensorrt", []),
        ("loop", "openvino", []),
        ("loop", "tract", ["each"]),
        ("loop", "coreml", ["each"]),
        ("loop", "portable", ["each"]),
        ("sequence loop", "onnxruntime", []),
        ("sequence loop", "tensorrt", ["empty", "each", "each/body/grow", "concat"]),
        ("if", "tensorrt", []),
        ("if", "tract", []),
        ("if", "coreml", ["choose"]),
        ("if", "portable", ["choose"]),
        ("scan in if", "openvino", []),
        ("scan in if", "tract", ["choose/then_branch/each"]),
        ("scan in if", "portable", ["choose", "choose/then_branch/each"]),
        ("optional", "onnxruntime", []),
        ("optional", "tensorrt", ["wrap"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_target_leaves(graph: str, target: str, expected: list[str]) -> None:
    assert left(graph, target) == expected


@pytest.mark.parametrize(
    ("graph", "require", "expected"),
    [
        ("split", ("sequence-free",), ["split", "concat"]),
        ("split", ("loop-free",), []),
        ("sequence io", ("sequence-free",), ["input 'xs'", "output 'ys'", "same"]),
        ("loop", ("loop-free",), ["each"]),
        ("loop", ("sequence-free",), []),
        ("scan in if", ("loop-free",), ["choose/then_branch/each"]),
        ("if", ("loop-free", "sequence-free"), []),
        ("sequence loop", ("loop-free",), ["each"]),
        ("map", ("loop-free",), ["map"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_a_requirement_leaves(
    graph: str, require: tuple[str, ...], expected: list[str]
) -> None:
    assert left(graph, "onnxruntime", require) == expected


def test_functions_are_checked() -> None:
    entries = check_target(ir.from_onnx_text(FUNCTION), "tensorrt")
    assert [entry.node for entry in entries] == ["local.halves/split", "local.halves/concat"]


def test_entries_say_who_refuses_and_what_to_do() -> None:
    interface = check_target(model("sequence io"), "tensorrt")
    assert interface[0] == Unreached(
        "",
        "",
        "input 'xs' is a sequence, which target tensorrt rules out",
        "use --tensor-io to pass it as a tensor, or make it a tensor where the model is made",
    )
    assert interface[2] == Unreached(
        "same",
        "Identity",
        "its output 'ys' is a sequence, which target tensorrt rules out",
        "use --tensor-io, or stack or concatenate the elements in the model",
    )
    (loop,) = check_target(model("loop"), "onnxruntime", ["loop-free"])
    assert loop == Unreached(
        "each",
        "Loop",
        "loop-free rules out Loop",
        "write it without a loop where the model is made",
    )


RESIZED = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(TYPE[H,W]) xs) => (seq(TYPE[H,W]) ys) {
    [map] ys = SequenceMap (xs) <body = b (TYPE[H,W] p) => (TYPE[W,H] q)
        { [turn] q = Transpose (p) }> }"""


@pytest.mark.parametrize(
    "options", [{"uniform": ["xs"]}, {"input_shapes": {"xs": (3, 4)}}], ids=["uniform", "shapes"]
)
def test_the_type_that_keeps_a_loop_is_named(options: dict[str, Any]) -> None:
    """No promise helps where it is the sequence of the results that takes the loop."""
    text = onnx.parser.parse_model(RESIZED.replace("TYPE", "uint8"))
    report = explain(text, require=["loop-free"], **options)
    (decision,) = report.decisions
    assert decision.verdict is Verdict.FUSED
    assert decision.form == "a Loop is left, which builds the sequence of its results"
    (reason,) = decision.reasons
    assert reason.code is Code.UNSPLITTABLE_TYPE
    assert reason.detail.endswith("its results are uint8")
    (left,) = report.unreached
    assert left.reason.startswith("loop-free rules out Loop; 'map' keeps it: unsplittable-type: ")
    assert left.remedy == (
        "--tensor-io (tried: target reached), or concatenate the results in the model"
    )
    assert explain(text, require=["loop-free"], tensor_io=True, **options).reached


def test_the_loop_for_few_samples_is_not_told_as_one_that_builds_a_sequence() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
      g (seq(float[N]) xs) => (seq(float[N]) ys) {
        ys = SequenceMap (xs) <body = b (float[N] x) => (float[N] y) { y = Relu (x) }> }""")
    report = explain(model)
    (decision,) = report.decisions
    assert (report.after.loops, decision.form, decision.reasons) == (2, "", [])


def test_no_loop_builds_a_sequence_that_can_be_split() -> None:
    text = onnx.parser.parse_model(RESIZED.replace("TYPE", "float"))
    report = explain(text, uniform=["xs"], require=["loop-free"])
    assert report.reached
    assert (report.decisions[0].form, report.decisions[0].reasons) == ("", [])


SEQUENCES_INSIDE = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N,2] x, int64[K] keep) => (float[M,2] y) {
    [split] xs = SplitToSequence <axis = 0> (x, keep)
    [erase] ys = SequenceErase (xs)
    y = ConcatFromSequence <axis = 0> (ys)
}"""
OPTIONAL_OUTPUT = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(float[N]) xs) => (optional(seq(float[N])) ys) { ys = Optional (xs) }"""


@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param(SEQUENCES_INSIDE, {}, id="sequences-inside"),
        pytest.param(OPTIONAL_OUTPUT, {}, id="an-optional"),
        pytest.param(OPTIONAL_OUTPUT, {"uniform": ["xs"]}, id="an-optional-uniform"),
    ],
)
def test_no_remedy_is_an_option_that_was_given(text: str, options: dict[str, Any]) -> None:
    model = onnx.parser.parse_model(text)
    given = explain(model, target="portable", tensor_io=True, **options)
    assert given.unreached
    told = [line for line in given.to_text().splitlines() if "remedy" in line]
    assert not [line for line in told if "--tensor-io" in line]
    assert not [line for line in told if options and "--uniform" in line]


def test_a_reason_names_no_promise_that_was_given() -> None:
    decision = Decision("map", "SequenceMap", Verdict.EXPANDED, reasons=[Reason(Code.RAGGED)])
    report = Report([decision], OperatorCounts(), OperatorCounts())
    assert "promise equal shapes with --uniform" in report.to_text()
    told = dataclasses.replace(report, spent=("--uniform",)).to_text()
    assert "remedy: resize the samples to one shape first\n" in told


@pytest.mark.parametrize("text", [SEQUENCES_INSIDE, OPTIONAL_OUTPUT])
def test_an_option_that_changes_nothing_is_no_remedy(text: str) -> None:
    report = explain(onnx.parser.parse_model(text), target="portable")
    assert not report.reached
    assert "--tensor-io" not in report.to_text()


def test_an_option_that_takes_away_what_is_in_the_way_is_a_remedy() -> None:
    report = explain(model("sequence io"), target="portable")
    assert {left.remedy for left in report.unreached} == {
        "--tensor-io (tried: target reached), or make it a tensor where the model is made",
        "--tensor-io (tried: target reached), or stack or concatenate the elements in the model",
    }


@pytest.mark.parametrize(
    ("remedy", "given", "left"),
    [
        ("use --tensor-io, or stack", ["--tensor-io"], "stack"),
        ("use --tensor-io, or stack", ["--uniform"], "use --tensor-io, or stack"),
        ("use --tensor-io, or stack; or wait", ["--tensor-io"], "stack, or wait"),
        ("use --tensor-io", ["--tensor-io"], "use --tensor-io"),
        ("use --tensor-io", [], "use --tensor-io"),
    ],
)
def test_ways_that_are_left(remedy: str, given: list[str], left: str) -> None:
    assert still_open(remedy, given) == left


MAP_LEFT = """<ir_version: 9, opset_import: ["" : 18]>
g (seq(float[N]) xs) => (float[M] y) {
    [map] ys = SequenceMap (xs) <body = b (float[N] p) => (float[N] q)
        { [draw] r = RandomUniformLike (p)  q = Add (p, r) }>
    [concat] y = ConcatFromSequence <axis = 0> (ys)
}"""


def test_what_is_left_of_a_map_says_why_it_is() -> None:
    report = explain(onnx.parser.parse_model(MAP_LEFT), target="portable", tensor_io=True)
    (left, *_) = [one for one in report.unreached if one.node]
    assert "; 'map' keeps it: map/body/draw (RandomUniformLike) random: " in left.reason
    assert left.remedy == "draw outside of the body and map over the drawn values"


@pytest.mark.parametrize(
    ("target", "remedy"),
    [
        ("portable", "make its condition a constant where the model is made, or compute both"),
        (
            "coreml",
            "has If: onnxruntime, onnxruntime-cuda, onnxruntime-webgpu, onnxruntime-dml, tensorrt, migraphx, openvino",
        ),
    ],
)
def test_other_targets_are_named(target: str, remedy: str) -> None:
    (entry,) = check_target(model("if"), target)
    assert remedy in entry.remedy


def test_the_branch_for_no_elements_is_named() -> None:
    """Shared nodes that could fail must not run where the map would not have."""
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[B,3] x, float[K] v, float[M] w) => (float[P] y) {
        xs = SplitToSequence <keepdims = 0> (x)
        [map] ys = SequenceMap (xs) <body = b (float[3] p) => (float[P] q)
            { [g] g = Add (w, v)  s = ReduceSum <keepdims = 0> (p)  q = Mul (g, s) }>
        y = ConcatFromSequence <axis = 0> (ys) }"""
    report = explain(onnx.parser.parse_model(text), strategy="fuse", target="portable")
    (left,) = report.unreached
    assert left.op_type == "If"
    named = "it is the branch of 'map' for no elements, since map/body/g (Add) could fail there"
    assert named in left.reason


@pytest.mark.parametrize("name", ["sequence io"])
def test_a_target_that_passes_tensors_only(name: str) -> None:
    """onnxruntime's interface for the browser has sequences inside of a model only."""
    assert left(name, "onnxruntime-web") == ["input 'xs'", "output 'ys'"]
    assert left("split", "onnxruntime-web") == []
    assert left("sequence loop", "onnxruntime-web") == []


NEW = '<ir_version: 14, opset_import: ["" : 27]>\n'


def test_a_newer_version_alone_is_a_warning() -> None:
    assert check_target(model("plain", NEW), "onnxruntime") == []
    remedy = "convert the model to an older version before it is deployed"
    assert version_warnings(model("plain", NEW), "onnxruntime") == [
        f"the model declares opset 27, onnxruntime is known to accept up to 26; {remedy}",
        f"the model declares IR version 14, onnxruntime is known to accept up to 13; {remedy}",
    ]
    assert version_warnings(model("plain", NEW), "portable") == []
    assert version_warnings(model("plain"), "onnxruntime") == []


@pytest.mark.parametrize("target", ["openvino", "tract"])
def test_what_a_target_takes_no_notice_of_is_refused(target: str) -> None:
    if reason := BACKENDS[target].missing():
        pytest.skip(reason)
    text = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[12] x) => (float[6] y, float[6] z) {
        s = Constant <value_ints = [6]> ()
        [smooth] y = Resize <mode = "linear", antialias = 1> (x, , , s)
        [plain] z = Resize <mode = "linear"> (x, , , s) }"""
    resize = ir.from_onnx_text(text)
    assert check_target(resize, "onnxruntime") == []
    (left,) = check_target(resize, target)
    assert (left.node, left.op_type) == ("smooth", "Resize")
    assert left.reason == f"{target} takes no notice of 'antialias' and computes without it"
    assert left.remedy.startswith("leave 'antialias' out where the model is made; or choose")
    with pytest.raises(BackendError, match="takes no notice of 'antialias' of Resize"):
        open_session(resize, target)


def test_a_newer_version_beside_something_else_is_listed() -> None:
    entries = check_target(model("split", NEW), "tensorrt")
    assert [entry.reason for entry in entries] == [
        "target tensorrt rules out SplitToSequence",
        "target tensorrt rules out ConcatFromSequence",
        "the model declares opset 27, tensorrt is known to accept up to 25",
    ]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(RewriteError, match=r"unknown target 'trtt'; .*; did you mean 'trt'\?$"):
        rewriter.optimize("m.onnx", target="trtt")
    with pytest.raises(RewriteError, match=r"strategy 'fusee': .*; did you mean 'fuse'\?$"):
        rewriter.optimize("m.onnx", strategy="fusee")
    with pytest.raises(RewriteError, match=r"unknown target \['ort'\]; choose one of onnxrunt"):
        find_target(["ort"])  # type: ignore[arg-type]
    with pytest.raises(RewriteError, match="unknown target 'mars'; choose one of onnxruntime,"):
        find_target("mars")
    with pytest.raises(RewriteError, match="unknown requirement 'fast'; choose among sequence-f"):
        check_target(model("plain"), "onnxruntime", ["fast"])


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_a_target_runs_on_a_known_backend(target: Target) -> None:
    assert target.backend == "" or target.backend in BACKENDS
    if target.backend == "onnxruntime":
        assert target.device in BACKENDS["onnxruntime"].devices


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_names_in_the_table_agree(target: Target) -> None:
    assert find_target(target.name) is target


def test_target_error_names_the_first_and_counts_the_others() -> None:
    counts = OperatorCounts()
    entries = check_target(model("split"), "tensorrt", ["loop-free"])
    report = Report([], counts, counts, target="tensorrt", require=("loop-free",), blocked=entries)
    error = TargetError(report)
    assert error.report is report
    assert str(error) == error.on_command_line().replace("--tensor-io", "tensor_io=True")
    assert error.on_command_line() == (
        "target tensorrt and loop-free not reached: split (SplitToSequence): target tensorrt "
        "rules out SplitToSequence (and 1 more, see the report); may help: use --tensor-io, or "
        "stack or concatenate the elements in the model"
    )


def test_what_it_costs_to_have_no_sequence_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    g (float[N,3] x, int64 n, bool go) => (float[M,3] y) {
        first = SequenceConstruct (x)
        [each] s = Loop (n, go, first) <body = b (int64 i, bool c, seq(float[K,3]) a) =>
            (bool d, seq(float[L,3]) r) { d = Identity (c)
            zero = Constant <value = int64[1] {0}> ()  end = Unsqueeze (i, zero)
            part = Slice (x, zero, end, zero)  r = SequenceInsert (a, part) }>
        y = ConcatFromSequence <axis = 0> (s) }"""
    monkeypatch.setattr(order, "passes_for", lambda *_: [EliminateSequencesPass(required=True)])
    (warning,) = explain(onnx.parser.parse_model(text), target="openvino").warnings
    assert warning.startswith("each/")
    assert "in quadratic time" in warning


def test_what_is_wrong_with_several_nodes_is_told_once() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "my.own" : 1]>
    g (seq(float[H]) xs) => (seq(float[M]) ys) {
        ys = SequenceMap (xs) <body = b (float[h] x) => (float[h] y) { y = my.own.Foo (x) }> }"""
    (warning,) = explain(onnx.parser.parse_model(text), target="portable").warnings
    assert " (and 2 more): since no sequence may be left" in warning


def test_a_target_error_crosses_processes() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 18]>
        g (seq(float[N]) xs) => (seq(float[M]) ys)
        { ys = SequenceMap (xs) <body = b (float[N] p) => (float[M] q) { q = Relu (p) }> }"""
    )
    with pytest.raises(TargetError) as caught:
        pipeline.optimize(model, target="tensorrt", require="loop-free")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.report.to_dict() == caught.value.report.to_dict()


def test_type_checkers_know_every_name_of_a_target() -> None:
    assert get_args(TargetName) == (*TARGETS, *ALIASES)
