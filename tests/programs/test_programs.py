"""Random whole programs come out right, by an interpreter that knows nothing of the project."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

from tests.programs import judge as judging
from tests.programs.__main__ import judge_apart
from tests.programs.interpreter import Failure, run_model
from tests.programs.judge import MODES, judge, mode_of
from tests.programs.nodes_alone import nodes_alone
from tests.programs.programs import Program, draw_program

SOME = range(12)
MANY = range(12, 4012)
CHUNK = 20
WRONG_AT_FIRST = (
    503110,
    510220,
    60152,
    60503,
    60736,
    60749,
    61456,
    700726,
    700729,
    702104,
    720003,
    721324,
    721426,
)
COVERED = range(80)
FEATURES = (
    *(f"opset {n}" for n in range(11, 27)),
    *(f"type {n}" for n in ("float16", "float32", "float64", "int8", "int16", "int32", "int64")),
    *("type uint8", "type bool", "type string", "zero-size dimension", "NaN or inf"),
    *(f"loop {n}" for n in ("torchscript", "dynamo", "onnxscript", "tensorflow")),
    *("loop scripted list", "loop free", "loop at depth 1", "map at depth 1", "map at depth 2"),
    *(f"scan of {n} states" for n in range(3)),
    *("scan backward", "function", "if", "condition of data", "condition of a shape"),
    *(f"split {n}" for n in ("ones", "rows", "chunks", "sizes")),
    *("negative position", "position out of range", "computed position", "error in a feed"),
    *("sequence output", "several outputs", "sequence of 0", "sequence of 1", "sequence of 3"),
    *(f"op Sequence{n}" for n in ("Construct", "Empty", "Insert", "Erase", "At", "Length")),
    "op ConcatFromSequence",
)


def _chunks(seeds: range, size: int = CHUNK) -> list[range]:
    return [seeds[i : i + size] for i in range(0, len(seeds), size)]


def _judge(seeds: range) -> None:
    outcomes = list(judge_apart(seeds, None))
    wrong = [f"{o.seed} {o.mode} {o.verdict}: {o.detail}" for o in outcomes if not o.is_right]
    assert not wrong, "\n".join(wrong)


def _name(seeds: range) -> str:
    return f"{seeds.start}-{seeds.stop - 1}"


@pytest.mark.long
@pytest.mark.parametrize("seeds", _chunks(SOME, 6), ids=_name)
def test_a_random_program_comes_out_right(seeds: range) -> None:
    _judge(seeds)


@pytest.mark.parametrize("seed", WRONG_AT_FIRST)
@pytest.mark.long
def test_a_program_that_came_out_wrong_at_first(seed: int) -> None:
    """Ranks of flat results, integers before opset 12, a Map that nothing reads any more.

    Nodes out of order around a map that came back, the Size of a shape.
    """
    outcome = judge(draw_program(seed), mode_of(seed))
    assert outcome.is_right, f"{seed} {outcome.mode} {outcome.verdict}: {outcome.detail}"


@pytest.mark.full
@pytest.mark.parametrize("seeds", _chunks(MANY), ids=_name)
def test_many_random_programs_come_out_right(seeds: range) -> None:
    _judge(seeds)


@pytest.mark.long
def test_the_seeds_cover_the_features() -> None:
    found: Counter[str] = Counter()
    for seed in COVERED:
        found.update(draw_program(seed).features.keys())
    assert [f for f in FEATURES if not found[f]] == []
    assert {mode_of(seed) for seed in COVERED} == set(MODES)


def test_a_program_is_the_same_for_the_same_seed() -> None:
    draw_program.cache_clear()
    before = draw_program(7)
    draw_program.cache_clear()
    again = draw_program(7)
    assert before.model.SerializeToString() == again.model.SerializeToString()
    assert before.uniform == again.uniform


SLICES = """g (float[N,3] x) => (seq(float[3]) s, float[A,3] y) <int64[2] sizes = {2, 1}> {
    t = SplitToSequence <axis = 0> (x, sizes)
    s = SequenceMap (t) <body = b (float[M,3] e) => (float[3] r)
        { zero = Constant <value_ints = [0]> () r = ReduceSum <keepdims = 0> (e, zero) }>
    y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }"""
SCANNED = """g (float[2] a, float[3,2] x) => (float[2] last, float[2,3] y) {
    last, y = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_axes = [1],
        body = b (float[2] s, float[2] e) => (float[2] t, float[2] u)
        { t = Add (s, e) u = Identity (t) }> (a, x) }"""
AT = "g (seq(float[N]) s, int64 i) => (float[M] y) { y = SequenceAt (s, i) }"
X = np.arange(9, dtype=np.float32).reshape(3, 3)


def _model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]>\n{text}')


def _run(text: str, **feeds: object) -> dict[str, object]:
    return run_model(_model(text), feeds)[0]


def test_the_interpreter_maps() -> None:
    found = _run(SLICES, x=X)
    np.testing.assert_array_equal(found["y"], [[3, 5, 7], [6, 7, 8]])
    np.testing.assert_array_equal(found["s"], [[3, 5, 7], [6, 7, 8]])


def test_the_interpreter_scans_backwards() -> None:
    found = _run(SCANNED, a=np.zeros(2, np.float32), x=X[:, :2])
    np.testing.assert_array_equal(found["last"], [9, 12])
    np.testing.assert_array_equal(found["y"], [[6, 9, 9], [7, 11, 12]])


@pytest.mark.parametrize("position", [-3, 2])
def test_the_interpreter_fails_out_of_range(position: int) -> None:
    with pytest.raises(Failure):
        _run(AT, s=[X[0], X[1]], i=np.array(position))


def test_nodes_alone_yield_what_the_interpreter_says() -> None:
    feed = {"x": X}
    found = nodes_alone(_model(SLICES), feed)
    assert [one.graph.node[0].op_type for one, _ in found] == [
        "SplitToSequence",
        "SequenceMap",
        "ConcatFromSequence",
    ]
    one, values = found[-1]
    session, refusal = judging._session(one)
    assert not refusal
    np.testing.assert_array_equal(session.run(None, values)[0], _run(SLICES, **feed)["y"])


def test_a_model_that_onnxruntime_refuses_runs_node_by_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = judging._Given(_model(SLICES))
    given._session = None
    ran = []
    monkeypatch.setattr(judging, "_run", lambda session, model, feed: ran.append(model))
    given.run({"x": X})
    assert [m.graph.name for m in ran] == ["alone", "alone", "alone", "g"]


def test_what_the_evaluator_finds_wrong_does_not_reach_a_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end(*given: object) -> None:
        raise AssertionError("the process would end here")

    program = Program(0, _model(SLICES), ({"x": X},))
    after = _model(SLICES.replace("ReduceSum", "ReduceMax"))
    given = judging._Given(program.model)
    monkeypatch.setattr(given, "run", end)
    verdict, detail = judging._judge(program, after, given, [])
    assert (verdict, "on the evaluator" in detail) == ("wrong", True)
