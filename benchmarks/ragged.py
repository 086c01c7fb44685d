"""Workloads over samples of different length, and the same work packed by hand."""

from __future__ import annotations

import itertools

import numpy as np

from benchmarks.workload import Case, draw, model
from rewriter.pipeline import rewrite

__all__ = ["cumulative_products", "images", "position_wise", "wide_layers"]

_BLOCK = """h = MatMul ({x}, w1) h1 = Add (h, b1) h2 = Relu (h1) h3 = MatMul (h2, w2)
            h4 = Add (h3, b2) r = Add ({x}, h4)
            {y} = LayerNormalization (r, gain, bias)"""


def position_wise(samples: int, *, sequences: bool) -> Case:
    """A block that works on each row by itself, over samples of 4 to 28 rows."""
    weights = {"w1": draw(1, 32, 64), "w2": draw(2, 64, 32), "b1": draw(3, 64), "b2": draw(4, 32)}
    weights |= {"gain": draw(5, 32), "bias": draw(6, 32)}
    rows = [4 + (7 * i) % 25 for i in range(samples)]
    body = _BLOCK.format(x="a", y="b")
    if sequences:
        given = f"""
        mapped (seq(float[N, 32]) xs) => (seq(float[N, 32]) ys) {{
          ys = SequenceMap (xs) <body = per_sample (float[N, 32] a) => (float[N, 32] b) {{
            {body}
          }}>
        }}"""
        hand = f"""
        hand (seq(float[N, 32]) xs) => (seq(float[N, 32]) ys) {{
          count = SequenceLength (xs)
          go = Constant <value = bool {{1}}> ()
          zero = Constant <value_int = 0> ()
          lengths = Loop (count, go) <body = read (int64 i, bool go_on)
                                           => (bool more, int64 length) {{
            more = Identity (go_on)
            element = SequenceAt (xs, i)
            shape = Shape (element)
            length = Gather (shape, zero)
          }}>
          x = ConcatFromSequence <axis = 0> (xs)
          {_BLOCK.format(x="x", y="y")}
          ys = SplitToSequence <axis = 0> (y, lengths)
        }}"""
        feeds = {"xs": [draw(i, n, 32) for i, n in enumerate(rows)]}
        name = f"position-wise block, {samples:,} ragged samples, sequence in and out"
        promises = {"input_shapes": {"xs": (None, 32)}}
        return Case(name, model(given, weights), model(hand, weights), feeds, promises)
    given = f"""
    mapped (float[T, 32] x, int64[B] lengths) => (float[T, 32] y) {{
      xs = SplitToSequence <axis = 0> (x, lengths)
      ys = SequenceMap (xs) <body = per_sample (float[N, 32] a) => (float[N, 32] b) {{ {body} }}>
      y = ConcatFromSequence <axis = 0> (ys)
    }}"""
    hand = f"""
    hand (float[T, 32] x, int64[B] lengths) => (float[T, 32] y) {{ {_BLOCK.format(x="x", y="y")} }}
    """
    packed = {"x": draw(0, sum(rows), 32), "lengths": np.array(rows, np.int64)}
    name = f"position-wise block, {samples:,} ragged samples, tensor in and out"
    return Case(name, model(given, weights), model(hand, weights), packed)


def wide_layers(samples: int) -> Case:
    """Two layers of 256 on lists of samples of 1 to 6 rows; the weights are the model's."""
    weights = {"w1": draw(1, 256, 256), "w2": draw(2, 256, 256)}
    given = """
    mapped (seq(float[N, 256]) xs) => (seq(float[N, 256]) ys) {
      ys = SequenceMap (xs) <body = per_sample (float[N, 256] a) => (float[N, 256] b) {
        h = MatMul (a, w1)  r = Relu (h)  b = MatMul (r, w2)
      }>
    }"""
    feeds = {"xs": [draw(i, 1 + i % 6, 256) for i in range(samples)]}
    return Case(
        f"two layers of 256, {samples:,} ragged samples", model(given, weights), None, feeds
    )


def cumulative_products(groups: int, most: int = 199) -> Case:
    """Cumulative products of 3 x 3 matrices in each group, by hand padded to the longest."""
    scan = """Scan <body = step (float[{b}3, 3] s, float[{b}3, 3] m)
                 => (float[{b}3, 3] n, float[{b}3, 3] c) {{
                 n = MatMul (s, m) c = Identity (n) }}, num_scan_inputs = 1>"""
    given = f"""
    mapped (float[T, 3, 3] x, int64[B] lengths) => (float[T, 3, 3] y) {{
      groups = SplitToSequence <axis = 0> (x, lengths)
      products = SequenceMap (groups) <body = group (float[N, 3, 3] a) => (float[N, 3, 3] b) {{
        one = Constant <value = float[3, 3] {{1, 0, 0, 0, 1, 0, 0, 0, 1}}> ()
        last, b = {scan.format(b="")} (one, a)
      }}>
      y = ConcatFromSequence <axis = 0> (products)
    }}"""
    hand = f"""
    hand (float[T, 3, 3] x, int64[B] lengths) => (float[T, 3, 3] y) {{
      zero = Constant <value_int = 0> ()
      one = Constant <value_int = 1> ()
      first = Constant <value_ints = [0]> ()
      second = Constant <value_ints = [1]> ()
      matrix = Constant <value_ints = [3, 3]> ()
      ends = CumSum (lengths, zero)
      starts = Sub (ends, lengths)
      longest = ReduceMax <keepdims = 0> (lengths)
      steps = Range (zero, longest, one)
      column = Unsqueeze (steps, second)
      last = Sub (lengths, one)
      inside = Min (column, last)
      rows = Add (inside, starts)
      padded = Gather <axis = 0> (x, rows)
      count = Shape (lengths)
      shape = Concat <axis = 0> (count, matrix)
      unit = Constant <value = float[3, 3] {{1, 0, 0, 0, 1, 0, 0, 0, 1}}> ()
      begin = Expand (unit, shape)
      end, products = {scan.format(b="B, ")} (begin, padded)
      long = Unsqueeze (longest, first)
      valid = Less (column, lengths)
      turned = Transpose <perm = [1, 0]> (valid)
      by_sample = Transpose <perm = [1, 0, 2, 3]> (products)
      size = Mul (long, count)
      merged = Concat <axis = 0> (size, matrix)
      flat = Reshape (by_sample, merged)
      mask = Reshape (turned, size)
      y = Compress <axis = 0> (flat, mask)
    }}"""
    rng = np.random.default_rng(0)
    rows = rng.integers(1, most + 1, groups)
    turns = rng.standard_normal((int(rows.sum()), 3, 3)).astype(np.float32)
    matrices = np.linalg.qr(turns)[0].astype(np.float32)
    feeds = {"x": matrices, "lengths": rows.astype(np.int64)}
    name = f"cumulative 3 x 3 products, {groups:,} groups of 1 to {most}"
    return Case(name, model(given), model(hand), feeds)


def images(samples: int, side: int, nodes: int = 8) -> Case:
    """Elementwise work on images of different height and width, whose pixels are joined.

    By hand the pixels are joined first, as one packed tensor: that spares a kernel for each node
    and image, and takes each number through memory where a single image stays in the cache.
    """

    def steps(first: str, last: str) -> str:
        names = [first, *(f"a{i}" for i in range(nodes - 1)), last]
        kinds = ("Abs", "Neg", "Relu", "HardSwish")
        pairs = enumerate(itertools.pairwise(names))
        return " ".join(f"{b} = {kinds[i % 4]} ({a})" for i, (a, b) in pairs)

    pixels = "all = Constant <value_ints = [-1]> () b = Reshape ({}, all)"

    def text(body: str, joined: str, after: str) -> str:
        return f"""
        mapped (seq(float[H, W]) xs) => (float[T] y) {{
          ys = SequenceMap (xs) <body = per_sample (float[H, W] a) => (float[N] b) {{ {body} }}>
          {joined} = ConcatFromSequence <axis = 0> (ys)
          {after}
        }}"""

    given = model(text(f"{steps('a', 'last')} {pixels.format('last')}", "y", ""))
    hand = model(text(pixels.format("a"), "x", steps("x", "y")))
    sides = [(side // 2 + (5 * i) % side, side // 2 + (3 * i) % side) for i in range(samples)]
    return Case(
        f"pixels of {samples:,} images of about {side} x {side}, joined",
        given,
        rewrite(hand, strategy="expand").model,
        {"xs": [draw(i, *shape) for i, shape in enumerate(sides)]},
    )
