"""How much larger a rewritten model is: onnxruntime loads each node in some 20 to 50 us."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

import onnx
import pytest

from rewriter.pipeline import rewrite

MODELS = pathlib.Path(__file__).parents[1] / "models"
FOLDERS = ("pipelines", "exported", "text", "demo", "authored")
PATHS = [path for name in FOLDERS for path in sorted((MODELS / name).glob("*.onnx*"))]
TIMES, MORE = 2, 130
"""A rewritten model has at most so many times the nodes that it had, and so many more."""
MOST = {
    "captured_two_depths": 169,
    "dy_embedding_bag_max_last": 307,
    "dy_embedding_bag_mean_offsets": 430,
    "dy_embedding_bag_rows": 430,
    "dy_embedding_bag_weights": 194,
    "dy_feature_pyramid_hstack": 451,
    "letterbox": 186,
    "nested_map": 168,
    "pad_behind": 227,
    "pad_to_largest": 173,
    "seqmap_sentence_encoder_twin": 802,
    "seqmap_softmax_axis0_trap": 165,
    "tf_clip_features": 431,
    "tf_transmittance": 227,
    "ts_cached_decoder": 430,
    "ts_clause_encoder": 384,
    "ts_dlrm": 610,
    "ts_embedding_bag_max": 209,
    "ts_fasttext_classifier": 220,
    "ts_images_pyramid": 183,
    "ts_log_mel_clips": 355,
    "ts_lstm_decoder": 319,
    "ts_moving_statistics": 209,
    "ts_pointnet_ragged": 388,
    "ts_spoken_tokens": 210,
    "ts_yolo_nms": 424,
    "uint8_elements": 146,
}
"""Those that have more, and how many: a number may only become smaller."""


def load(path: pathlib.Path) -> onnx.ModelProto:
    is_text = path.suffix == ".onnxtxt"
    return onnx.parser.parse_model(path.read_text("utf-8")) if is_text else onnx.load(path)


def count(nodes: Iterable[onnx.NodeProto]) -> int:
    """Return how many nodes there are, in all graphs, that are no constants."""
    return sum(
        (node.op_type != "Constant") + sum(count(a.g.node) for a in node.attribute)
        for node in nodes
    )


def nodes_of(model: onnx.ModelProto) -> int:
    return count(model.graph.node) + sum(count(function.node) for function in model.functions)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_rewritten_model_has_not_many_more_nodes(path: pathlib.Path) -> None:
    given = load(path)
    most = MOST.get(path.stem, TIMES * nodes_of(given) + MORE)
    assert nodes_of(rewrite(given).model) <= most
