"""Remedies are tried before they are offered: when they are read, once, within bounds."""

from __future__ import annotations

import copy
import itertools
import pathlib
import pickle
import time
import types
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_nodes
from rewriter import order, pipeline
from rewriter.model_files import models
from rewriter.model_files.models import share
from rewriter.options import Options
from rewriter.pipeline import explain, optimize, rewrite
from rewriter.reporting import tried_remedies
from rewriter.reporting.candidates import candidates
from rewriter.targets import TargetError

MODELS = pathlib.Path(__file__).parents[3] / "models"

HEADER = '<ir_version: 9, opset_import: ["" : 18]>\n'


def parse(graph: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER + graph)


RAGGED = """g (seq(float[N,M]) xs) => (seq(float[A,B]) ys) {
  [map] ys = SequenceMap (xs) <body = b (float[N,M] e) => (float[A,B] y) {
    p = Transpose (e)  q = Softmax (p)  [r] y = MatMul (e, q) }> }"""
SUMS = """g (seq(float[N,M]) xs, seq(float[N,M]) zs) => (seq(float[A,B]) ys) {
  [map] ys = SequenceMap (xs, zs) <body = b (float[N,M] e, float[N,M] f) => (float[A,B] y) {
    p = Add (e, f)  y = Softmax <axis = 0> (p) }> }"""
UNRANKED = """g (seq(float[]) xs) => (seq(float[]) ys) {
  [map] ys = SequenceMap (xs) <body = b (float[] e) => (float[] y) {
    p = Softmax (e)  y = Neg (p) }> }"""
IMAGES = """g (seq(float[3,H,W]) xs) => (seq(float[3,A,B]) ys) {
  [map] ys = SequenceMap (xs) <body = b (float[3,H,W] e) => (float[3,A,B] y) {
    p = Constant <value_ints = [0, 1, 2, 0, 0, 3]> () q = Pad (e, p) y = Tanh (q) }> }"""
RNN = """g (float[N,4] x, float[4] h) => (float[4] y) {
  zero = Constant <value = int64 {0}> ()
  go = Constant <value = bool {1}> ()
  shape = Shape (x)
  n = Gather (shape, zero)
  [each] y = Loop (n, go, h) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) {
    d = Identity (c)  e = Gather (x, i)  u = Add (s, e)  t = Tanh (u) }> }"""
RECURRENCE = RNN.replace("float[N,4] x", "float[5,4] x")


def offered(graph: str, **options: Any) -> list[str]:
    """Return the options that are offered for the only map."""
    (entry,) = explain(parse(graph), **options).to_dict()["maps"]
    return [remedy["option"] for remedy in entry["remedies"]]


@pytest.mark.parametrize(
    ("graph", "options", "expected"),
    [
        (RAGGED, {"strategy": "fuse"}, ["--uniform xs"]),
        (RAGGED, {"uniform": ["xs"]}, []),
        (RAGGED, {"input_shapes": {"xs": (3, 4)}}, []),
        (SUMS, {"strategy": "fuse"}, ["--uniform xs --uniform zs"]),
        (SUMS, {"strategy": "fuse", "uniform": ["zs"]}, ["--uniform xs"]),
        (RAGGED, {"strategy": "expand", "uniform": ["xs"]}, ["--strategy auto"]),
        (RECURRENCE, {}, []),
    ],
    ids=["uniform", "given", "given as a shape", "both", "the other", "strategy", "none"],
)
def test_what_is_offered(graph: str, options: dict[str, Any], expected: list[str]) -> None:
    assert offered(graph, **options) == expected


QUANTIZED = """g (float[N,4] x) => (uint8[N,4] y) {
  zero = Constant <value = int64 {0}> ()
  go = Constant <value = bool {1}> ()
  shape = Shape (x)
  n = Gather (shape, zero)
  y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, uint8[4] q) {
    d = Identity (c)  r = Gather (x, i)  s = ReduceMax <keepdims = 0> (r)  e = Exp (s)
    q = QuantizeLinear (r, e) }> }"""


@pytest.mark.parametrize(
    ("opset", "graph", "options", "expected"),
    [
        (12, QUANTIZED, {"strategy": "fuse"}, ["--opset 18"]),
        (12, QUANTIZED, {"strategy": "fuse", "opset": 13}, []),
        (13, QUANTIZED, {"strategy": "fuse"}, []),
        (15, RECURRENCE, {}, []),
    ],
    ids=["old", "given", "new enough", "does not help"],
)
def test_a_newer_opset_is_offered_where_it_helps(
    opset: int, graph: str, options: dict[str, Any], expected: list[str]
) -> None:
    proto = onnx.parser.parse_model(HEADER.replace("18", str(opset)) + graph)
    (entry,) = explain(proto, **options).to_dict()["maps"]
    assert [remedy["option"] for remedy in entry["remedies"]] == expected


def test_dimensions_that_are_not_known_are_named() -> None:
    report = explain(parse(RNN), target="portable")
    first, *_ = report.unreached
    assert first.remedy.startswith(
        "--input-shape x=N,4 with numbers for N (tried: target reached)"
    )
    assert optimize(parse(RNN), target="portable", input_shapes={"x": (5, 4)})


def test_a_rank_that_is_not_known_is_a_condition() -> None:
    shown = explain(parse(UNRANKED), strategy="fuse").to_text()
    assert "--input-shape xs=d0" not in shown or "if the elements of xs have 1 dim" in shown


def test_text_says_what_a_remedy_leads_to() -> None:
    text = explain(parse(RAGGED), strategy="fuse").to_text()
    assert "      remedy: --uniform xs (tried: fused)\n" in text


def count_tries(monkeypatch: pytest.MonkeyPatch) -> list[Options]:
    tried: list[Options] = []
    attempt = pipeline._try

    def counted(model: ir.Model, options: Options) -> tried_remedies.Outcome | None:
        tried.append(options)
        return attempt(model, options)

    monkeypatch.setattr(pipeline, "_try", counted)
    return tried


def test_nothing_is_tried_until_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = count_tries(monkeypatch)
    optimize(parse(RAGGED))
    report = rewrite(parse(RAGGED)).report
    assert report.reached
    assert not tried
    text = report.to_text()
    count = len(tried)
    assert count
    assert report.to_text() == text
    report.to_json()
    assert len(tried) == count


def test_nothing_is_tried_where_all_is_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = count_tries(monkeypatch)
    explain(parse(RAGGED), uniform=["xs"]).to_text()
    explain(parse(RECURRENCE)).to_text()
    assert not tried


@pytest.mark.parametrize("most", [0, 1])
def test_a_large_model_is_not_tried(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    tried = count_tries(monkeypatch)
    monkeypatch.setattr(pipeline, "MOST_NODES", most)
    report = explain(parse(RAGGED), strategy="fuse", target="portable")
    assert "may help: promise equal shapes with --uniform" in report.to_text()
    assert "tried" not in report.to_text()
    assert "; may help: " in str(TargetError(report))
    assert not tried


def test_only_as_many_are_tried_as_the_budget_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = count_tries(monkeypatch)
    nodes = sum(1 for _ in all_nodes(ir.from_proto(parse(SUMS))))
    monkeypatch.setattr(tried_remedies, "MOST_NODES", 2 * nodes)
    report = explain(parse(SUMS), strategy="fuse")
    assert report.remedies.maps == {}
    assert len(tried) == 2


def test_what_fails_is_no_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a pass fails")

    report = explain(parse(RAGGED), strategy="fuse")
    monkeypatch.setattr(order, "passes_for", fail)
    assert report.remedies.maps == {}


def test_the_model_may_change_before_it_is_read() -> None:
    model = ir.from_proto(parse(RAGGED))
    report = explain(model, strategy="fuse")
    for node in list(model.graph):
        for value in node.outputs:
            value.name = "changed"
    assert report.to_dict() == explain(parse(RAGGED), strategy="fuse").to_dict()


def test_an_error_says_what_the_report_says() -> None:
    with pytest.raises(TargetError) as caught:
        optimize(parse(RAGGED), target="portable")
    report = caught.value.report
    assert report.unreached == explain(parse(RAGGED), target="portable").unreached
    assert report.unreached[0].remedy in caught.value.on_command_line()
    assert "(tried: target reached)" in report.unreached[0].remedy


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_report_has_its_remedies(duplicate: Any) -> None:
    report = explain(parse(RAGGED), strategy="fuse")
    assert duplicate(report).to_dict() == report.to_dict()


def test_copies_to_try_on_share_the_weights() -> None:
    model = onnx.parser.parse_model(HEADER + "g (float[2] x) => (float[2] y) { y = Add (x, w) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "w"))
    taken = models.take(model).model
    shared = share(taken)
    one, other = (m.graph.initializers["w"] for m in (taken, shared))
    assert one.const_value is not None
    assert isinstance(other.const_value, ir.LazyTensor)
    assert other.const_value.raw() is one.const_value
    other.name = "renamed"
    assert (one.name, one.const_value.name) == ("w", "w")


@pytest.mark.parametrize("graph", [RAGGED, SUMS, UNRANKED, RNN])
@pytest.mark.parametrize("strategy", ["auto", "fuse", "expand"])
def test_candidates_differ(graph: str, strategy: Any) -> None:
    options = Options(strategy, "onnxruntime", (), None, False, False, True, ())
    found = list(candidates(options, ir.from_proto(parse(graph)), fused=True))
    changes = [sorted((k, str(v)) for k, v in one.changes.items()) for one in found]
    assert all(changes.count(one) == 1 for one in changes)
    assert len({one.text for one in found}) == len(found)


def test_nothing_is_no_way_beside_one_that_was_tried() -> None:
    scan = """<ir_version: 10, opset_import: ["" : 21]>
        g (float[N,2] x, float[2] first) => (float[2] last) {
          last = Scan <num_scan_inputs = 1, body = b (float[2] h, float[2] e) => (float[2] n)
            { s = Add(h, e) n = Tanh(s) }> (first, x) }"""
    report = explain(onnx.parser.parse_model(scan), require="loop-free")
    assert report.unreached[0].remedy == (
        "--input-shape x=N,2 with numbers for N (tried: target reached)"
    )


def test_no_reason_says_that_nothing_helps_where_something_does() -> None:
    report = explain(MODELS / "pipelines" / "tf_crops_at.onnx")
    (remedy,) = report.remedies.maps["map/while_loop"]
    assert str(remedy) == "--strategy fuse (tried: fused)"
    (reason,) = report.to_dict()["maps"][0]["reasons"]
    assert (reason["code"], reason["remedy"]) == ("data-dependent-shape", "")
    assert "nothing;" not in report.to_text()


def test_images_of_any_size_leave_as_tensors_where_their_map_is_fused() -> None:
    """A loop is the faster form, and yields a sequence."""
    with pytest.raises(TargetError, match=r'remedy: strategy="fuse" \(tried: target reached\)'):
        optimize(parse(IMAGES), tensor_io=True)
    fused = optimize(parse(IMAGES), tensor_io=True, strategy="fuse")
    assert "Loop" not in {node.op_type for node in fused.graph.node}


@pytest.mark.parametrize(("clock", "found"), [("perf_counter", True), ("thread_time", False)])
def test_what_else_runs_on_the_machine_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, clock: str, found: bool
) -> None:
    ticks = itertools.count(step=1000)
    fake = {"perf_counter": time.perf_counter, "thread_time": time.thread_time}
    fake[clock] = lambda: float(next(ticks))
    monkeypatch.setattr(tried_remedies, "time", types.SimpleNamespace(**fake))
    assert bool(offered(RAGGED)) is found
