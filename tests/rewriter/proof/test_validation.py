from __future__ import annotations

import shutil
import sys
import time

import numpy as np
import onnx
import onnx_graphsurgeon
import onnx_ir as ir
import pytest

from passes.errors import RewriteError
from passes.promises import Promises
from rewriter.backends import onnxruntime as runtime
from rewriter.evaluator.run_watch import OverBudgetError, current_watch
from rewriter.pipeline import rewrite
from rewriter.proof import judging, unjudged
from rewriter.proof.budget import Budget
from rewriter.proof.judging import Judge
from rewriter.proof.validation import find_broken_pass, validate, write_mismatch

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'


def model(signature: str, body: str, header: str = HEADER) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{header} g {signature} {{ {body} }}")


def mapped(op: str, header: str = HEADER) -> onnx.ModelProto:
    return model(
        "(seq(float[N]) xs) => (seq(float[N]) ys)",
        f"ys = SequenceMap <body = b (float[N] x) => (float[N] y) {{ y = {op}(x) }}> (xs)",
        header,
    )


def verdicts(check):
    return [case.verdict for case in check.cases]


RELU, ABS = mapped("Relu"), mapped("Abs")
JOINED = "(seq(float[N]) xs) => (float[M] y)"
# The one fails on an empty sequence, the other gives no rows.
JOIN = model(JOINED, "y = ConcatFromSequence <axis = 0> (xs)")
JOIN_ALL = model(
    JOINED,
    "z = Constant <value = float[0] {}> () s = SequenceInsert(xs, z)"
    "y = ConcatFromSequence <axis = 0> (s)",
)


def take_a_while(monkeypatch, cost):
    """Let sessions take as many seconds as ``cost(backend, feeds)`` says, by a clock of ours."""
    now, open_lists = [1000.0], judging.open_lists
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    class Slow:
        def __init__(self, model, backend):
            self.session, self.backend = open_lists(model, backend), backend

        def run(self, feeds):
            outputs = self.session.run(feeds)
            now[0] += cost(self.backend, feeds)
            if (deadline := current_watch().deadline) < now[0]:
                now[0] = deadline
                raise OverBudgetError("its share of the time is over")
            return outputs

    monkeypatch.setattr(judging, "open_lists", Slow)


class TestVerdicts:
    def test_equal(self):
        check = validate(RELU, rewrite(RELU, strategy="expand").model)
        assert check.ok
        assert check.verified == 8
        assert check.max_abs_error == 0
        assert verdicts(check) == ["equal"] * 8
        assert {case.engine for case in check.cases} == {"reference and onnxruntime"}
        assert check.summary == (
            "verified on 8 of 8 inputs by the evaluator and onnxruntime, largest difference from "
            "the model before 0.0e+00"
        )

    def test_differs(self):
        check = validate(RELU, ABS)
        assert not check.ok
        assert check.mismatch.description == "length 5 ragged"
        assert check.max_abs_error > 0
        assert check.summary.startswith(
            "differs on length 5 ragged: on the evaluator, output 'ys'["
        )

    def test_defined_only_after_is_reported_apart(self):
        check = validate(JOIN, JOIN_ALL)
        assert check.ok
        assert [c.description for c in check.cases if c.verdict != "equal"] == ["length 0"]
        assert verdicts(check)[3] == "defined only after"
        assert "the sequence is empty" in check.cases[3].message
        assert check.verified == 7
        assert check.summary.endswith("; on 1 the model as given fails, and the new one runs")

    def test_defined_only_after_proves_nothing(self):
        check = validate(JOIN, JOIN_ALL, inputs={"xs": []})
        assert verdicts(check) == ["defined only after"]
        assert (check.ok, check.verified) == (False, 0)

    def test_defined_only_before_is_wrong(self):
        check = validate(JOIN_ALL, JOIN)
        assert not check.ok
        assert verdicts(check)[3] == "differs"
        assert "the model after fails" in check.mismatch.message

    def test_nothing_valid_is_not_verified(self):
        # No feed has the shapes that this needs.
        never = model("(float[2] x, float[3] y) => (float[?] z)", "z = Add(x, y)")
        check = validate(never, never, cases=2)
        assert (check.ok, check.verified) == (False, 0)
        assert verdicts(check) == ["before fails"] * 2
        assert check.summary.startswith("not verified: none of 2 inputs proves anything (")
        assert check.summary.endswith("--inputs, or skip this with --no-verify")

    def test_onnxruntime_finds_models_equal_where_the_evaluator_fails(self):
        # onnx's own evaluator finds no largest number among none.
        quantized = "{q}, s, z = DynamicQuantizeLinear(x) {more}"
        before, same, other = (
            model("(float[N] x) => (uint8[M] y)", quantized.format(q=q, more=more))
            for q, more in (
                ("y", ""),
                ("q", "y = Identity(q)"),
                ("q", "o = Constant <value = uint8[1] {1}> () y = Concat <axis = 0> (q, o)"),
            )
        )
        feed = {"x": np.zeros(0, np.float32)}
        check = validate(before, same, inputs=feed)
        assert (check.ok, check.verified, verdicts(check)) == (True, 1, ["equal"])
        assert check.cases[0].engine == "onnxruntime"
        assert check.cases[0].message.startswith("onnxruntime alone judged: the reference eval")
        assert verdicts(validate(before, other, inputs=feed)) == ["defined only after"]

    def test_no_inputs_are_not_verified(self):
        check = validate(RELU, RELU, [])
        assert (check.ok, check.verified) == (False, 0)
        assert "no input was tried" in check.summary

    @pytest.mark.parametrize("cases", [0, 10**8, "2"])
    def test_a_number_of_cases_that_cannot_be_judged_is_refused(self, cases):
        with pytest.raises(RewriteError, match=f"cases is {cases!r}: give a number from 1 to 10,"):
            validate(RELU, RELU, cases=cases)

    def test_random_is_not_verified(self):
        random = model("(float[N] x) => (float[N] y)", "y = RandomNormalLike(x)")
        check = validate(random, random)
        assert (check.ok, check.verified) == (False, 0)
        assert "two runs of the model before differ: it draws random numbers" in check.summary

    @pytest.mark.parametrize("options", [{"atol": 0.2}, {"rtol": 0.2}], ids=["atol", "rtol"])
    def test_tolerances(self, options):
        near = model(
            "(float[3] x) => (float[3] y)", "c = Constant <value_float = 1.1> () y = Mul(x, c)"
        )
        same = model("(float[3] x) => (float[3] y)", "y = Identity(x)")
        inputs = {"x": np.float32([1, 1.5, -1])}
        assert not validate(same, near, inputs).ok
        check = validate(same, near, inputs, **options)
        assert check.ok
        assert check.max_abs_error == pytest.approx(0.15)
        assert check.max_rel_error == pytest.approx(0.1)

    def test_names_of_outputs_count(self):
        other = model("(seq(float[N]) xs) => (seq(float[N]) zs)", "zs = Identity(xs)")
        assert "the outputs are ['zs'] and should be ['ys']" in validate(RELU, other).summary


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        pytest.param(
            "float[N] x",
            "float[N] z",
            "the first takes float 'x', the second has no input 'x'",
            id="another-name",
        ),
        pytest.param(
            "float[N] x",
            "float[N] x, bool k",
            "the first has no input 'k', the second takes bool 'k'",
            id="one-more",
        ),
        pytest.param(
            "float[N] x, optional(float[N]) k",
            "float[N] x",
            "the first takes optional(float) 'k', the second has no input 'k'",
            id="one-less",
        ),
        pytest.param(
            "float[N] x",
            "double[N] x",
            "the first takes float 'x', the second takes double 'x'",
            id="another-type",
        ),
        pytest.param(
            "seq(float[N]) x",
            "float[N] x",
            "the first takes seq(float) 'x', the second takes float 'x'",
            id="no-sequence",
        ),
    ],
)
def test_models_with_different_inputs_are_refused(one, other, message):
    body = "n = Constant <value_int = 1> ()"
    first, second = (model(f"({inputs}) => (int64 n)", body) for inputs in (one, other))
    with pytest.raises(RewriteError) as caught:
        validate(first, second)
    assert str(caught.value) == (
        f"the models take different inputs: {message}; compare models with the same inputs"
    )


def test_elements_of_a_loop_that_never_runs_may_be_known_better():
    """The shape of a state that every iteration keeps is known, that of no rows of it is not."""
    before = model(
        "(seq(float[N]) xs) => (seq(float[P, Q]) ys)",
        """ys = SequenceMap (xs) <body = b (float[N] x) => (float[P, Q] y) {
            size = Constant <value = int64[1] {1}> () v = CenterCropPad (x, size)
            none = Constant <value = int64 {0}> ()
            last, y = Loop (none, "", v) <body = step (int64 i, bool c, float[A] s)
                => (bool go, float[A] t, float[B] u) {
                go = Identity (c) t = Mul (s, v) u = Identity (t) }> }>""",
    )
    feed = {"xs": [np.ones(3, np.float32)]}
    assert validate(before, rewrite(before).model, inputs=feed).ok


def test_an_input_with_a_default_may_be_gone():
    w = onnx.numpy_helper.from_array(np.float32([2]), "w")
    before = model("(float[1] x, float[1] w) => (float[1] y)", "y = Mul(x, w)")
    after = model("(float[1] x) => (float[1] y)", "y = Mul(x, w)")
    for one in (before, after):
        one.graph.initializer.append(w)
    assert validate(before, after).ok


class TestFeeds:
    @pytest.mark.sampled
    @pytest.mark.parametrize(
        "graph",
        [
            pytest.param(
                model("(float[A,B] x, float[C,D] y) => (float[A,D] z)", "z = MatMul(x, y)"),
                id="sizes-that-have-to-agree",
            ),
            pytest.param(
                model("(float[] x, float[] y) => (float[] z)", "z = Gemm(x, y)"), id="ranks"
            ),
            pytest.param(
                model("(float[N,K] x, int64[2] s) => (float[] z)", "z = Tile(x, s)"),
                id="counts-that-must-not-be-negative",
            ),
            pytest.param(
                model(
                    "(seq(float[N]) xs, seq(float[N]) ys) => (seq(float[N]) zs)",
                    "zs = SequenceMap <body = b (float[N] x, float[N] y) => (float[N] z)"
                    "{ z = Add(x, y) }> (xs, ys)",
                ),
                id="samples-that-have-to-fit",
            ),
            pytest.param(
                model(
                    "(seq(float[N,D]) xs, float[D,K] w) => (seq(float[N,K]) ys)",
                    "ys = SequenceMap <body = b (float[N,D] x) => (float[N,K] y)"
                    "{ y = MatMul(x, w) }> (xs)",
                ),
                id="a-symbol-shared-with-a-tensor",
            ),
            pytest.param(
                model(
                    "(seq(float[]) xs) => (seq(float[]) ys)",
                    "ys = SequenceMap <body = b (float[] x) => (float[] y)"
                    "{ k = Constant <value_int = 200> () y = Gather <axis = 1> (x, k) }> (xs)",
                ),
                id="sound-that-has-to-be-long",
            ),
            pytest.param(
                model("(string[N] x) => (int64[N] y)", "y = Cast <to = 7> (x)"),
                id="strings-that-have-to-be-numbers",
            ),
        ],
    )
    def test_redrawn_until_the_model_accepts_them(self, graph):
        check = validate(graph, rewrite(graph, strategy="expand").model)
        assert check.ok, check.summary
        assert check.verified >= 4

    def test_a_feed_without_elements_is_tried_once(self, monkeypatch):
        seen = []
        run_before = Judge._run_before

        def noted(judge, feed):
            seen.append(feed.values["x"].shape)
            return run_before(judge, feed)

        monkeypatch.setattr(Judge, "_run_before", noted)
        refuses_nothing = model(
            "(float[N,2] x) => (float[M,2] y)",
            "none = Constant <value = int64[1] {0}> ()"
            "first = Gather <axis = 0> (x, none)"
            "y = Add (x, first)",
        )
        check = validate(refuses_nothing, refuses_nothing)
        assert check.ok, check.summary
        assert seen.count((0, 2)) == 1

    def test_a_feed_on_which_no_body_runs_is_tried_once(self, monkeypatch):
        seen = []
        run_apart = runtime._run_apart
        monkeypatch.setattr(
            runtime, "_run_apart", lambda *given: seen.append(given) or run_apart(*given)
        )
        recurrence = model(
            "(float[N,2] x, float[2] first) => (float[2] last)",
            "last = Scan <num_scan_inputs = 1, body = b (float[2] h, float[2] e) => (float[2] n) "
            "{ s = Add(h, e) n = Tanh(s) }> (first, x)",
        )
        check = validate(recurrence, recurrence)
        assert check.ok, check.summary
        assert len(seen) == 2  # before and after

    def test_inputs_that_onnxruntime_accepts_are_better(self):
        # The evaluator repeats an initial state of one sample, which onnxruntime refuses.
        lstm = model(
            "(float[S,B,1] x) => (float[S,D,B,2] y)",
            "w = Constant <value = float[1,8,1] {1, 1, 1, 1, 1, 1, 1, 1}> ()"
            "r = Constant <value = float[1,8,2] {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}> ()"
            "h = Constant <value = float[1,1,2] {1, 1}> ()"
            "y = LSTM <hidden_size = 2> (x, w, r, , , h, h)",
        )
        check = validate(lstm, lstm, cases=2)
        assert {case.engine for case in check.cases} == {"reference and onnxruntime"}
        assert not any(case.message for case in check.cases)

    @pytest.mark.parametrize(
        "element_type",
        [
            *("bool", "string", "float16", "float", "double"),
            *("complex64", "complex128", "int8", "int16", "int32", "int64"),
            *("uint8", "uint16", "uint32", "uint64"),
        ],
    )
    @pytest.mark.long
    def test_every_element_type(self, element_type):
        graph = model(
            f"(seq({element_type}[N]) xs) => (seq({element_type}[M]) ys)",
            f"ys = SequenceMap <body = b ({element_type}[N] x) => ({element_type}[M] y)"
            "{ y = Concat <axis = 0> (x, x) }> (xs)",
        )
        check = validate(graph, rewrite(graph, strategy="expand").model)
        assert check.verified == 8, check.summary

    def test_a_seed_says_everything(self):
        one, same, other = (validate(RELU, ABS, seed=seed).max_abs_error for seed in (1, 1, 2))
        assert one == same != other

    def test_given(self, tmp_path):
        values = {"xs": [np.float32([1, 2])]}
        wrong = {"xs": [np.float32([-1])]}
        np.savez(tmp_path / "feeds.npz", in__xs__0=values["xs"][0])
        assert [c.description for c in validate(RELU, ABS, values).cases] == ["given"]
        assert verdicts(validate(RELU, ABS, tmp_path / "feeds.npz")) == ["equal"]
        check = validate(RELU, ABS, [values, wrong])
        assert [(c.description, c.verdict) for c in check.cases] == [
            ("given 0", "equal"),
            ("given 1", "differs"),
        ]

    def test_given_ones_have_to_fit(self):
        with pytest.raises(RewriteError, match="the model has no input 'x'"):
            validate(RELU, ABS, {"x": []})

    def test_promises_of_either_model_are_kept(self):
        carrier = ir.from_proto(RELU)
        Promises(frozenset({"xs"})).write(carrier)
        ragged = {"xs": [np.float32([1]), np.float32([1, 2])]}
        for pair in ((RELU, carrier), (carrier, RELU)):
            with pytest.raises(RewriteError, match="breaks the promise uniform"):
                validate(*pair, ragged)
            assert not any("ragged" in case.description for case in validate(*pair).cases)

    def test_kinds_of_models(self, tmp_path):
        relu = model("(float[N] x) => (float[N] y)", "y = Relu(x)")
        onnx.save(relu, tmp_path / "relu.onnx")
        given = [tmp_path / "relu.onnx", ir.from_proto(relu), onnx_graphsurgeon.import_onnx(relu)]
        for other in given:
            assert validate(relu, other).ok
            assert validate(other, relu).ok


class TestEngines:
    def test_onnxruntime_judges_what_the_reference_does_not_know(self):
        gelu = model(
            "(seq(float[N]) xs) => (seq(float[N]) ys)",
            "ys = SequenceMap <body = b (float[N] x) => (float[N] y)"
            "{ y = com.microsoft.Gelu(x) }> (xs)",
            '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>',
        )
        check = validate(gelu, rewrite(gelu, strategy="expand").model)
        assert check.verified == 8
        assert {c.engine for c in check.cases} == {"onnxruntime on the plain expansion"}
        wrong = validate(gelu, RELU)
        assert wrong.mismatch.engine == "onnxruntime on the plain expansion"

    def test_the_remedy_for_an_operator_that_no_engine_knows(self):
        foreign = mapped("my.own.Foo", HEADER.replace("]>", ', "my.own" : 1]>'))
        check = validate(foreign, rewrite(foreign).model)
        assert not check.ok
        remedy = "define my.own.Foo for the evaluator in a file given with --rules, or skip this"
        assert remedy in check.summary
        assert "--inputs" not in check.summary
        assert "and import what defines it, or leave out verify=True" in str(check)

    def test_the_reference_judges_what_onnxruntime_does_not_know(self):
        relu = onnx.parser.parse_model(
            """<ir_version: 8, opset_import: ["" : 17]>
            g (seq(int16[N]) xs) => (seq(int16[N]) ys) {
                ys = SequenceMap (xs) <body = b (int16[N] x) => (int16[N] y) { y = Relu (x) }> }"""
        )
        check = validate(relu, rewrite(relu, strategy="expand").model)
        assert check.verified == 8
        assert {c.engine for c in check.cases} == {"reference"}
        assert check.cases[0].message.startswith("it alone judged: onnxruntime refuses the model")

    def test_what_onnxruntime_refuses_only_after_is_wrong(self):
        # It refuses a SequenceMap with a function operator in its body, and runs the loop.
        swish = mapped("HardSwish")
        check = validate(swish, swish)
        assert not check.ok
        assert "on onnxruntime, the model after fails: onnxruntime refuses" in check.summary
        assert validate(swish, rewrite(swish, strategy="expand").model).ok

    def test_what_ends_the_process_after_is_wrong(self):
        signature = "(float[S,B,1] x) => (float[B] n)"
        axes = "a = Constant <value_ints = [0, 2]> ()"
        before = model(signature, f"{axes} n = ReduceSum <keepdims = 0> (x, a)")
        # The sum does not depend on the LSTM, but reads it, or it would be left out.
        after = model(
            signature,
            f"{axes} r = ReduceSum <keepdims = 0> (x, a)"
            "w = Constant <value = float[1,4,1] {0, 0, 0, 0}> ()"
            "y = LSTM <hidden_size = 1> (x, w, w)"
            "s = Size(y) f = CastLike(s, r) z = Sub(f, f) n = Add(r, z)",
        )
        check = validate(before, after, {"x": np.zeros((1, 0, 1), np.float32)})
        assert "it ended its process by signal 6" in check.summary
        assert validate(before, after, {"x": np.ones((2, 3, 1), np.float32)}).ok

    @pytest.mark.parametrize(
        ("scale", "verdict"), [(1, "equal"), (2, "differs")], ids=["right", "wrong"]
    )
    def test_engines_that_differ_are_compared_with_themselves(self, scale, verdict, monkeypatch):
        # With antialias the engines differ by a grey level; as if that were not known.
        monkeypatch.setattr(unjudged, "UNJUDGED", ())

        def resize(factor):
            return model(
                "(uint8[1,1,37,41] x) => (uint8[] y)",
                f"s = Constant <value = int64[4] {{1, 1, 13, 11}}> () k = Constant <value = uint8"
                f" {{{factor}}}> () z = Resize <antialias = 1, mode = 'linear'> (x, , , s) "
                "y = Mul(z, k)".replace("'", '"'),
            )

        check = validate(resize(1), resize(scale), cases=1)
        assert verdicts(check) == [verdict]
        if verdict == "equal":
            assert check.cases[0].message.startswith("the engines differ, before and after alike")

    @pytest.mark.parametrize(
        ("op", "verdict"), [("Identity", "equal"), ("Neg", "differs")], ids=["right", "wrong"]
    )
    def test_onnxruntime_judges_where_the_evaluator_is_known_to_differ(self, op, verdict):
        def resized(op):
            return model(
                "(uint8[1,1,37,41] x) => (int32[] y)",
                'f = Constant <value = float[4] {1, 1, 0.4, 0.3}> () z = Resize <mode = "linear">'
                f"(x, , f) i = Cast <to = 6> (z) y = {op}(i)",
            )

        check = validate(resized("Identity"), resized(op), cases=2)
        assert verdicts(check) == [verdict] * 2
        assert {c.engine for c in check.cases} == {"onnxruntime on the plain expansion"}
        if verdict == "equal":
            assert "the evaluator rounds interpolated integers otherwise" in check.summary
            assert "differ" not in check.summary.replace("largest difference", "")

    def test_without_onnxruntime_the_reference_does_it_all(self, monkeypatch):
        monkeypatch.setattr(runtime.importlib.util, "find_spec", lambda name: None)
        check = validate(RELU, rewrite(RELU, strategy="expand").model)
        assert check.verified == 8
        assert {c.engine for c in check.cases} == {"reference"}
        assert not validate(RELU, ABS).ok


# The body takes one shape only, and of the elements nothing is declared: of all feeds that are
# drawn, the empty sequence alone is accepted. So it is with models of exporters.
ONE_SHAPE = model(
    "(seq(float[]) xs) => (seq(float[7,11]) ys)",
    "w = Constant <value_float = 2.0> () t = Constant <value = int64[2] {7, 11}> ()"
    "ys = SequenceMap <body = b (float[] x) => (float[7,11] y)"
    "{ z = Mul(x, w) y = Reshape(z, t) }> (xs)",
)
FED = {"xs": [np.ones((7, 11), np.float32)]}


class TestBodiesThatNeverRan:
    @pytest.mark.parametrize(("begins", "verified"), [(0, 4), (1, 0)])
    def test_a_loop_that_never_begins_has_nothing_to_prove(self, begins, verified):
        given = model(
            "(float[3] x) => (float[3] r)",
            f"go = Constant <value = bool {{{begins}}}> ()  m = Constant <value = int64 {{0}}> ()"
            "r = Loop <body = b (int64 i, bool c, float[3] s) => (bool c, float[3] s2)"
            "{ s2 = Sin (s) }> (m, go, x)",
        )
        check = validate(given, given, cases=4)
        assert check.verified == verified

    @pytest.mark.parametrize("custom", [False, True], ids=["evaluator", "onnxruntime"])
    def test_the_empty_sequence_alone_proves_nothing(self, custom):
        given = ONE_SHAPE
        if custom:  # unknown to the evaluator
            given = model(
                "(seq(float[]) xs) => (seq(float[7,11]) ys)",
                "t = Constant <value = int64[2] {7, 11}> ()"
                "ys = SequenceMap <body = b (float[] x) => (float[7,11] y)"
                "{ z = com.microsoft.Gelu(x) y = Reshape(z, t) }> (xs)",
                '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>',
            )
        after = rewrite(given, strategy="expand").model
        check = validate(given, after, cases=4)
        assert [c.verdict for c in check.cases if not c.feed["xs"]] == ["equal"]
        assert (check.ok, check.verified) == (False, 0)
        assert "no body of a map or loop ran there (length 0)" in check.summary
        assert "not even the rank is declared, with --input-shape xs=d,d" in check.summary
        assert "--inputs" in check.summary
        assert validate(given, after, FED).ok
        assert not validate(given, after, {"xs": []}).ok

    def test_a_promise_of_the_shape_is_enough(self):
        result = rewrite(ONE_SHAPE, strategy="expand", input_shapes={"xs": [7, 11]})
        check = validate(ONE_SHAPE, result.model)
        assert check.verified == 8

    def test_a_loop_without_iterations_proves_nothing(self):
        loop = model(
            "(float[N] x, int64 n) => (float[N] y)",
            'y = Loop (n, "", x) <body = b (int64 i, bool c, float[N] s) => (bool k, float[N] t)'
            "{ k = Identity(c) t = Add(s, s) }>",
        )
        feeds = [{"x": np.ones(2, np.float32), "n": np.int64(n)} for n in (0, 2)]
        assert not validate(loop, loop, feeds[:1]).ok
        assert validate(loop, loop, feeds).verified == 2

    def test_a_map_that_never_ran_is_named(self):
        two = model(
            "(seq(float[N]) xs, seq(float[N]) zs) => (seq(float[N]) ys, seq(float[N]) us)",
            "[one] ys = SequenceMap <body = b (float[N] x) => (float[N] y) { y = Relu(x) }> (xs)"
            "[two] us = SequenceMap <body = c (float[N] z) => (float[N] u) { u = Abs(z) }> (zs)",
        )
        ones = [np.ones(2, np.float32)]
        check = validate(two, two, {"xs": ones, "zs": []})
        assert check.ok
        assert check.never_ran == ("two",)
        assert check.summary.endswith("; no input ran the body of two, so nothing is proven there")
        assert validate(two, two, [{"xs": ones, "zs": []}, {"xs": [], "zs": ones}]).ok
        assert validate(two, two).never_ran == ()

    def test_a_model_without_maps_counts_every_feed(self):
        relu = model("(float[N] x) => (float[N] y)", "y = Relu(x)")
        assert validate(relu, relu, {"x": np.zeros(0, np.float32)}).ok


class TestBudget:
    # Expands to as many elements as it is told.
    EXPAND = model("(int64[2] s) => (int64 n)", "c = ConstantOfShape(s) n = Size(c)")

    def test_no_time_skips_every_feed(self):
        check = validate(RELU, ABS, budget=Budget(0, 2**30))
        assert verdicts(check) == ["skipped"] * 8
        assert not check.ok
        assert "8 skipped, which would exceed the budget (length 5 ragged: the time is over)" in (
            check.summary
        )
        assert "--verify-budget" in check.summary

    @pytest.mark.parametrize("engine", ["before", "after"])
    def test_what_needs_too_much_memory_is_skipped(self, engine):
        small = model("(int64[2] s) => (int64 n)", "n = ReduceProd <keepdims = 0> (s)")
        pair = (self.EXPAND, small) if engine == "before" else (small, self.EXPAND)
        feeds = [{"s": np.int64(s)} for s in ([10**5, 10**5], [3, 4])]
        check = validate(*pair, feeds, budget=Budget(memory=2**30))
        assert verdicts(check) == ["skipped", "equal"]
        assert check.ok
        assert "ConstantOfShape '' would take the values beyond 1024 MB" in check.summary

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory")
    def test_memory_is_limited_where_onnxruntime_alone_runs(self):
        header = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'
        custom = model(
            "(float[1] x, int64[2] s) => (float[] y)",
            "e = Expand(x, s) g = com.microsoft.Gelu(e) y = ReduceMax <keepdims = 0> (g)",
            header,
        )
        x = np.ones(1, np.float32)
        feeds = [{"x": x, "s": np.int64(s)} for s in ([10**5, 10**4], [3, 4])]
        check = validate(custom, custom, feeds, budget=Budget(memory=2**30))
        assert verdicts(check) == ["skipped", "equal"]
        assert check.cases[0].message == "onnxruntime would need more than 1024 MB"

    def test_an_endless_loop_is_stopped_on_both_engines(self):
        endless = model(
            "(float[1] x) => (float[1] y)",
            'm = Constant <value_int = 1000000000000> () y = Loop (m, "", x) <body = b (int64 i,'
            " bool c, float[1] s) => (bool k, float[1] t) { k = Identity(c) t = Add(s, s) }>",
        )
        custom = model(
            "(float[1] x) => (float[1] y)",
            'm = Constant <value_int = 1000000000000> () y = Loop (m, "", x) <body = b (int64 i,'
            " bool c, float[1] s) => (bool k, float[1] t)"
            "{ k = Identity(c) t = com.microsoft.Gelu(s) }>",
            '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>',
        )
        for one in (endless, custom):
            check = validate(one, one, {"x": np.ones(1, np.float32)}, budget=Budget(0.5))
            assert verdicts(check) == ["skipped"]

    @pytest.mark.parametrize("expected", [["equal"], ["skipped", "equal"]])
    def test_onnxruntime_judges_where_the_evaluator_takes_all_the_time(
        self, monkeypatch, expected
    ):
        class Slow:
            def run(self, _):
                time.sleep(0.6)
                raise OverBudgetError("its share of the time is over")

        def opened(model, backend):
            return Slow() if backend == "reference" else open_lists(model, backend)

        open_lists = judging.open_lists
        monkeypatch.setattr(judging, "open_lists", opened)
        check = validate(RELU, RELU, cases=len(expected), budget=Budget(1.0))
        assert verdicts(check) == expected
        assert check.cases[-1].engine == "onnxruntime on the plain expansion"

    @pytest.mark.parametrize(
        ("seconds", "expected"),
        [
            # 30 seconds do not suffice for five elements; of one both models run in the next 15.
            (7, {"length 5 ragged": "skipped", "length 1": "equal", "length 2 equal": "skipped"}),
            # One element takes all of its share in the model before.
            (
                20,
                {"length 5 ragged": "skipped", "length 1": "skipped", "length 2 equal": "skipped"},
            ),
        ],
    )
    def test_behind_a_feed_that_takes_too_long_the_smallest_is_tried(
        self, monkeypatch, seconds, expected
    ):
        take_a_while(monkeypatch, lambda _, feeds: seconds * len(feeds["xs"]))
        check = validate(RELU, RELU, budget=Budget(60))
        found = {case.description: case.verdict for case in check.cases}
        assert next(iter(found)) == "length 5 ragged"
        assert {name: found[name] for name in expected} == expected
        assert len(found) == 8

    def test_the_evaluator_proves_it_where_no_time_is_left_for_onnxruntime(self, monkeypatch):
        feed = {"xs": [np.ones(2, np.float32)]}
        take_a_while(monkeypatch, lambda backend, _: 15 if backend == "reference" else 0)
        check = validate(RELU, RELU, feed, budget=Budget(60))
        assert (check.ok, check.cases[0].engine) == (True, "reference")
        assert (
            "by the evaluator alone (onnxruntime did not run: the time is over)" in check.summary
        )
        differs = validate(RELU, ABS, {"xs": [np.float32([-1])]}, budget=Budget(60))
        assert verdicts(differs) == ["differs"]

    def test_each_feed_is_announced(self):
        told = []
        validate(RELU, RELU, cases=2, on_feed=told.append)
        assert told == ["1 of 2, length 5 ragged", "2 of 2, length 2 equal"]


class TestBrokenPass:
    STEPS = (("InlinePass", RELU), ("FusePass", ABS), ("ExpandPass", ABS))

    def test_found(self):
        feed = {"xs": [np.float32([-1])]}
        assert find_broken_pass(RELU, self.STEPS, feed) == "FusePass"
        assert find_broken_pass(RELU, self.STEPS[:1], feed) is None

    def test_named_by_validate(self):
        check = validate(RELU, ABS, passes=iter(self.STEPS))
        assert check.broken_pass == "FusePass"
        assert "differs on length 5 ragged, since the pass FusePass: " in check.summary

    def test_not_asked_for_where_nothing_is_broken(self):
        def steps():
            pytest.fail("the passes were run again")
            yield

        assert validate(RELU, RELU_EXPANDED, passes=steps()).ok


RELU_EXPANDED = rewrite(RELU, strategy="expand").model


class TestMismatch:
    def test_folder_can_be_judged_again(self, tmp_path):
        check = validate(RELU, ABS)
        folder = write_mismatch(
            tmp_path / "out.onnx.mismatch",
            RELU,
            ABS,
            check.mismatch.feed,
            "seqmap optimize in.onnx out.onnx",
            "FusePass",
        )
        assert sorted(path.name for path in folder.iterdir()) == [
            "after.onnx",
            "before.onnx",
            "command.txt",
            "feeds.npz",
        ]
        again = validate(folder / "before.onnx", folder / "after.onnx", folder / "feeds.npz")
        assert verdicts(again) == ["differs"]
        text = (folder / "command.txt").read_text()
        assert "\nseqmap optimize in.onnx out.onnx\n" in text
        assert "\nseqmap validate before.onnx after.onnx --inputs feeds.npz\n" in text
        assert text.endswith("# The first pass whose result differs: FusePass\n")

    def test_no_pass_to_name(self, tmp_path):
        folder = write_mismatch(tmp_path / "a", RELU, ABS, {"xs": []}, "seqmap validate a b")
        assert "pass" not in (folder / "command.txt").read_text()

    def test_weights_go_with_it(self, tmp_path):
        source = tmp_path / "source"
        source.mkdir()
        path = source / "model.onnx"
        scaled = model("(float[2] x) => (float[2] y)", "y = Mul(x, w)")
        scaled.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([3, 4]), "w"))
        onnx.save(scaled, path, save_as_external_data=True, location="w.bin", size_threshold=0)
        feed = {"x": np.float32([1, 2])}
        folder = write_mismatch(tmp_path / "kept", path, path, feed, "seqmap optimize a b")
        shutil.rmtree(source)
        assert validate(folder / "before.onnx", folder / "after.onnx", folder / "feeds.npz").ok
