"""Exporters' models with Loops and Scans: which become loop-free, and which stay and why."""

from __future__ import annotations

import pathlib

import onnx
import pytest

import rewriter
from passes.decisions import Code, Verdict

EXPORTED = pathlib.Path(__file__).parents[3] / "models" / "exported"
SEQUENCES = ("ts_listcomp_relu", "onnxscript_python_loop")
LOOP_FREE = {
    "dy_embedding_bag": "PyTorch's default exporter",
    "dy_embedding_bag_max_last": "PyTorch's default exporter",
    "dy_embedding_bag_mean_offsets": "PyTorch's default exporter",
    "dy_embedding_bag_rows": "PyTorch's default exporter",
    "dy_embedding_bag_sum_last": "PyTorch's default exporter",
    "dy_embedding_bag_sum_offsets": "PyTorch's default exporter",
    "dy_embedding_bag_weights": "PyTorch's default exporter",
    "dy_scan_identity_state": "Scan with unchanged states",
    "skl_knn_regressor": "Scan with unchanged states",
    "tf_map_fn_dense": "TensorFlow's exporter",
    "tf_while_tensorarray": "TensorFlow's exporter",
    "ts_embedding_bag_mean": "counted Loop",
    "ts_embedding_bag_sum": "counted Loop",
    "ts_rows_linear_stack": "TorchScript's exporter",
    "ts_split_map_cat": "TorchScript's exporter",
}


def load(name: str) -> onnx.ModelProto:
    return onnx.load(EXPORTED / f"{name}.onnx")


@pytest.mark.parametrize("name", LOOP_FREE)
def test_is_loop_free_and_the_report_names_the_dialect(name: str) -> None:
    report = rewriter.explain(load(name), require=["loop-free"])
    assert report.reached
    assert report.after.loops == report.after.sequences == 0
    (decision,) = report.decisions
    assert decision.verdict is Verdict.FUSED
    assert LOOP_FREE[name] in decision.notes[0]


@pytest.mark.parametrize("name", SEQUENCES)
def test_is_loop_free_where_all_elements_have_one_shape(name: str) -> None:
    report = rewriter.explain(load(name), uniform=["xs"])
    assert report.after.loops == 0
    assert any("promised" in assumption for assumption in report.assumptions)


@pytest.mark.parametrize("name", ["ts_embedding_bag_sum", "dy_embedding_bag_sum_offsets"])
def test_bags_need_no_branch_for_a_target_without_them(name: str) -> None:
    report = rewriter.explain(load(name), target="portable")
    assert report.reached


@pytest.mark.parametrize("name", ["ts_embedding_bag_weights", "ts_embedding_bag_weights_scripted"])
def test_weights_of_each_id_stand_behind_a_guard(name: str) -> None:
    (decision,) = rewriter.explain(load(name)).decisions
    assert decision.verdict is Verdict.GUARDED


@pytest.mark.parametrize("strategy", ["auto", "fuse"])
def test_a_segmented_maximum_needs_no_newer_opset(strategy: str) -> None:
    (decision,) = rewriter.explain(load("ts_embedding_bag_max"), strategy=strategy).decisions
    assert decision.verdict is Verdict.FUSED


@pytest.mark.quick
@pytest.mark.parametrize("name", [*LOOP_FREE, *SEQUENCES])
def test_expand_touches_no_loop(name: str) -> None:
    report = rewriter.explain(load(name), strategy="expand")
    assert report.decisions
    for decision in report.decisions:
        assert decision.verdict is Verdict.KEPT
        assert [reason.code for reason in decision.reasons] == [Code.STRATEGY]
    assert report.after == report.before


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("ts_filter_negative", Verdict.KEPT), ("ts_rnn_negative", Verdict.FISSIONED)],
)
@pytest.mark.parametrize("strategy", ["auto", "fuse"])
def test_no_map_stays_and_the_report_says_why(name: str, verdict: Verdict, strategy: str) -> None:
    report = rewriter.explain(load(name), strategy=strategy)
    (decision,) = report.decisions
    assert decision.verdict is verdict  # without the list, which is collected
    assert [reason.node for reason in decision.reasons] != [""]
    assert report.after.loops == report.before.loops
