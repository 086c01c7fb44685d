"""The lifted suite under expansion: each sample must give what it gives alone.

By default a fixed tenth of the table; ``pytest -m full tests/lifted`` runs all of it.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.lifted import judge
from tests.lifted.outcome import judge as outcome_of
from tests.lifted.outcome import prepare
from tests.lifted.table import assert_right, table
from tests.versions import is_at_least


@pytest.mark.parametrize(("name", "way", "strategy"), table("expand", "plain"))
def test_every_sample_gives_what_it_gives_alone(name: str, way: str, strategy: str) -> None:
    assert_right(name, way, strategy)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("test_linear_attention_gated_delta", "all"),
        ("test_linear_attention_gated_delta_gqa", "first"),
        ("test_causal_conv_with_state_fp16", "typical"),
    ],
)
def test_what_runs_of_an_opset_above_that_of_the_target(
    name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime 1.32 runs these operators, of which it needs to know the ranks."""
    monkeypatch.setattr(judge, "_HIGHEST_OPSET", 27)
    prepare.cache_clear()
    outcome = outcome_of(name, way, "expand")
    prepare.cache_clear()
    assert (outcome.status, outcome.detail) == ("right", "")
    runs = is_at_least("onnxruntime", "1.32")
    assert outcome.rewritten == ("onnxruntime" if runs else "reference")


def test_onnxruntime_overwrites_the_captured_mean_of_a_batch_normalization() -> None:
    """The trap behind `ONNXRUNTIME_DEFECTS`; when this fails, upstream has mended it."""
    model = onnx.parser.parse_model(
        """
        <ir_version: 10, opset_import: ["": 18]>
        captures (seq(float[2,1,2]) xs, float[1] mean) => (seq(float[1]) means) {
            count = SequenceLength (xs)
            true = Constant <value = bool {1}> ()
            none = SequenceEmpty ()
            means = Loop (count, true, none) <body = step (int64 i, bool go, seq(float[1]) so_far)
                => (bool go_on, seq(float[1]) with_this) {
                go_on = Identity (go)
                x = SequenceAt (xs, i)
                one = Constant <value = float[1] {1.0}> ()
                y, running_mean, running_var =
                    BatchNormalization <training_mode = 1> (x, one, one, mean, one)
                with_this = SequenceInsert (so_far, running_mean)
            }>
        }
        """
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    x = np.ones((2, 1, 2), np.float32)
    first, second = session.run(None, {"xs": [x, x], "mean": np.zeros(1, np.float32)})[0]
    assert first != second
