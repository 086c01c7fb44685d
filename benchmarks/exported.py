"""Loops that exporters wrote, and what a person would have written in their place."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from benchmarks.workload import Case, draw, model

__all__ = ["embedding_bag", "map_fn", "nearest_neighbours", "scripted_rows"]

_EXPORTED = pathlib.Path(__file__).parents[1] / "models" / "exported"
_IDS_IN_A_BAG = 10


def _load(name: str) -> onnx.ModelProto:
    return onnx.load(_EXPORTED / f"{name}.onnx")


def _weights(given: onnx.ModelProto, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Take initializers, or Constants of a Loop's body, under names of one's own."""
    found = {t.name: t for t in given.graph.initializer}
    for node in given.graph.node:
        for attribute in node.attribute:
            found |= {t.name: t for t in attribute.g.initializer}
            found |= {n.output[0]: n.attribute[0].t for n in attribute.g.node if not n.input}
    return {own: onnx.numpy_helper.to_array(found[theirs]) for own, theirs in names.items()}


def embedding_bag(bags: int, *, uneven: bool = False) -> Case:
    """``nn.EmbeddingBag(mode="sum")`` with offsets, scripted: a Loop over bags.

    Args:
        bags: How many bags.
        uneven: Whether bags hold 10 ids each on average, some of them none.
    """
    given = _load("ts_embedding_bag_sum")
    weights = _weights(given, {"weight": "weight"})
    hand = """
    hand (int64[T] ids, int64[B] offsets) => (float[B, 8] y) {
      zero = Constant <value_int = 0> ()
      one = Constant <value_int = 1> ()
      column = Constant <value_ints = [-1, 1]> ()
      width = Constant <value_ints = [8]> ()
      total = Shape (ids)
      nothing = ConstantOfShape <value = int64[1] {0}> (total)
      bags = Shape (offsets)
      ones = ConstantOfShape <value = int64[1] {1}> (bags)
      marks = ScatterElements <axis = 0, reduction = "add"> (nothing, offsets, ones)
      behind = CumSum (marks, zero)
      bag = Sub (behind, one)
      rows = Gather <axis = 0> (weight, ids)
      numbers = Reshape (bag, column)
      shape = Shape (rows)
      where = Expand (numbers, shape)
      size = Concat <axis = 0> (bags, width)
      sums = ConstantOfShape (size)
      y = ScatterElements <axis = 0, reduction = "add"> (sums, where, rows)
    }"""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 50, bags * _IDS_IN_A_BAG)
    offsets = np.arange(bags, dtype=np.int64) * _IDS_IN_A_BAG
    if uneven:
        offsets[1:] = np.sort(rng.integers(0, ids.size + 1, bags - 1))
    by_hand = _renamed(model(hand, weights, opset=17), given)
    feeds = {"ids": ids, "offsets": offsets}
    sizes = "of different length" if uneven else "of 10"
    return Case(f"EmbeddingBag, scripted, {bags:,} bags {sizes}", given, by_hand, feeds)


def scripted_rows(rows: int) -> Case:
    """A scripted loop over rows that appends to a list and stacks it."""
    given = _load("ts_rows_linear_stack")
    weights = _weights(given, {"w": "20", "b": "fc.bias"})
    hand = """hand (float[N, 8] x) => (float[N, 4] y) {
      m = MatMul (x, w) a = Add (m, b) y = Tanh (a) }"""
    name = f"scripted loop over rows, linear layer, {rows:,} rows"
    return Case(name, given, model(hand, weights, opset=17), {"x": draw(0, rows, 8)})


def map_fn(rows: int) -> Case:
    """``tf.map_fn`` of a dense layer."""
    given = _load("tf_map_fn_dense")
    weights = _weights(given, {"w": "map/while/Const:0"})
    hand = "hand (float[N, 8] x) => (float[N, 4] y) { m = MatMul (x, w) y = Tanh (m) }"
    by_hand = _renamed(model(hand, weights, opset=15), given)
    return Case(
        f"tf.map_fn of a dense layer, {rows:,} rows", given, by_hand, {"x": draw(0, rows, 8)}
    )


def nearest_neighbours(rows: int) -> Case:
    """scikit-learn's nearest neighbours: a Scan over the training set."""
    given = _load("skl_knn_regressor")
    by_hand = onnx.ModelProto()
    by_hand.CopyFrom(given)
    scan, *rest = by_hand.graph.node
    training, distances = scan.input[1], scan.output[1]
    helper = onnx.helper.make_node
    nodes: Sequence[onnx.NodeProto] = [
        helper("Constant", [], ["first"], value_ints=[1]),
        helper("Unsqueeze", [training, "first"], ["points"]),
        helper("Sub", [scan.input[0], "points"], ["apart"]),
        helper("ReduceSumSquare", ["apart"], [distances], axes=[2], keepdims=0),
        *rest,
    ]
    kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del by_hand.graph.node[:]
    by_hand.graph.node.extend(kept)
    return Case(f"nearest neighbours, {rows:,} rows", given, by_hand, {"X": draw(0, rows, 4)})


def _renamed(by_hand: onnx.ModelProto, given: onnx.ModelProto) -> onnx.ModelProto:
    """Give the one output the name that it has in the exported model."""
    old, new = by_hand.graph.output[0].name, given.graph.output[0].name
    by_hand.graph.output[0].name = new
    for node in by_hand.graph.node:
        node.output[:] = [new if name == old else name for name in node.output]
    return by_hand
