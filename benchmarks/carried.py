"""Loops that carry values from one iteration to the next, and what a person would write."""

from __future__ import annotations

import numpy as np

from benchmarks.workload import Case, draw, model

__all__ = [
    "best_boxes",
    "filtered_rows",
    "index_add",
    "masks",
    "padded_clips",
    "prefix_sum",
    "projected_gru",
    "row_sum",
    "tagged_path",
]

_COUNT = """one = Constant <value_int = 1> () zero = Constant <value_int = 0> ()
      first = Constant <value_ints = [0]> () second = Constant <value_ints = [1]> ()
      go = Constant <value = bool {1}> () shape = Shape (x) n = Gather <axis = 0> (shape, zero)"""


def _loop(
    inputs: str, outputs: str, starts: str, states: str, body: str, after: str, names: str
) -> str:
    """Text of a graph with a counted Loop over the rows of ``x``; ``row`` is one of them."""
    return f"""
    looped ({inputs}) => ({outputs}) {{
      {_COUNT}
      {names} = Loop (n, go, {starts}) <body = step (int64 i, bool on, {states})
          => (bool still, {after}) {{
        still = Identity (on)
        row = Gather <axis = 0> (x, i)
        {body}
      }}>
    }}"""


def row_sum(rows: int) -> Case:
    """A sum that the Loop carries."""
    given = _loop(
        "float[N, 64] x, float[64] b",
        "float[64] y",
        "b",
        "float[64] s",
        "t = Tanh (row) s2 = Add (s, t)",
        "float[64] s2",
        "y",
    )
    hand = """hand (float[N, 64] x, float[64] b) => (float[64] y) {
      zero = Constant <value_ints = [0]> ()
      t = Tanh (x) r = ReduceSum <keepdims = 0> (t, zero) y = Add (b, r) }"""
    feeds = {"x": draw(0, rows, 64), "b": draw(1, 64)}
    return Case(f"carried sum over {rows:,} rows of 64", model(given), model(hand), feeds)


def prefix_sum(rows: int) -> Case:
    """The sums up to each row."""
    given = _loop(
        "float[N, 64] x, float[64] b",
        "float[64] last, float[N, 64] y",
        "b",
        "float[64] s",
        "s2 = Add (s, row) c = Identity (s2)",
        "float[64] s2, float[64] c",
        "last, y",
    )
    hand = """hand (float[N, 64] x, float[64] b) => (float[64] last, float[N, 64] y) {
      zero = Constant <value_int = 0> () axis = Constant <value_ints = [0]> ()
      c = CumSum (x, zero) y = Add (b, c)
      r = ReduceSum <keepdims = 0> (x, axis) last = Add (b, r) }"""
    feeds = {"x": draw(0, rows, 64), "b": draw(1, 64)}
    return Case(f"prefix sum of {rows:,} rows of 64", model(given), model(hand), feeds)


def masks(count: int, side: int) -> Case:
    """Masks that are computed one by one and joined by Concat, as torchvision pastes them."""
    weights = {"level": np.float32(0.1)}
    given = _loop(
        f"float[N, {side}, {side}] x",
        f"float[M, {side}, {side}] y",
        "none",
        f"float[K, {side}, {side}] s",
        "t = Sigmoid (row) u = Sub (t, level) v = Unsqueeze (u, first)"
        " s2 = Concat <axis = 0> (s, v)",
        f"float[K2, {side}, {side}] s2",
        "y",
    ).replace(
        "go =",
        f"size = Constant <value = int64[3] {{0, {side}, {side}}}> () "
        "none = ConstantOfShape (size) go =",
        1,
    )
    hand = f"""hand (float[N, {side}, {side}] x) => (float[N, {side}, {side}] y) {{
      t = Sigmoid (x) y = Sub (t, level) }}"""
    feeds = {"x": draw(0, count, side, side)}
    name = f"carried Concat of {count:,} masks, {side} x {side}"
    return Case(name, model(given, weights), model(hand, weights), feeds)


def index_add(rows: int) -> Case:
    """Rows that are added where an index says.

    By hand it is a ScatterElements: the threads of onnxruntime's ScatterND lose rows that go to
    one place.
    """
    given = _loop(
        "float[N, 64] x, float[64, 64] b",
        "float[64, 64] y",
        "b",
        "float[64, 64] s",
        "t = Tanh (row) a = ArgMax <axis = 0, keepdims = 1> (row)"
        ' s2 = ScatterND <reduction = "add"> (s, a, t)',
        "float[64, 64] s2",
        "y",
    )
    hand = """hand (float[N, 64] x, float[64, 64] b) => (float[64, 64] y) {
      t = Tanh (x) a = ArgMax <axis = 1, keepdims = 1> (x) s = Shape (t) at = Expand (a, s)
      y = ScatterElements <axis = 0, reduction = "add"> (b, at, t) }"""
    feeds = {"x": draw(0, rows, 64), "b": draw(1, 64, 64)}
    return Case(f"index_add of {rows:,} rows of 64", model(given), model(hand), feeds)


def filtered_rows(rows: int) -> Case:
    """Rows that are kept where their maximum is large enough."""
    given = _loop(
        "float[N, 64] x, float[R, 64] b",
        "float[M, 64] y",
        "b",
        "float[K, 64] s",
        """t = Tanh (row) m = ReduceMax <keepdims = 0> (row, first) keep = Greater (m, level)
        s2 = If (keep) <
          then_branch = yes () => (float[K2, 64] v) {
            u = Unsqueeze (t, first) v = Concat <axis = 0> (s, u) },
          else_branch = no () => (float[K, 64] w) { w = Identity (s) }>""",
        "float[K3, 64] s2",
        "y",
    )
    hand = """hand (float[N, 64] x, float[R, 64] b) => (float[M, 64] y) {
      axis = Constant <value_ints = [1]> ()
      t = Tanh (x) m = ReduceMax <keepdims = 0> (x, axis) keep = Greater (m, level)
      k = Compress <axis = 0> (t, keep) y = Concat <axis = 0> (b, k) }"""
    weights = {"level": np.float32(0.3)}
    feeds = {"x": draw(0, rows, 64), "b": draw(1, 2, 64)}
    return Case(
        f"filter of {rows:,} rows of 64", model(given, weights), model(hand, weights), feeds
    )


def projected_gru(steps: int, features: int) -> Case:
    """A GRU cell by hand, with the projections of its input and its output inside of the Loop."""
    weights = {
        "wx": draw(1, features, 3 * features),
        "wh": draw(2, features, 3 * features),
        "wy": draw(3, features, 2 * features),
    }
    sizes = f"float[N, 1, {features}] x, float[1, {features}] b"
    outputs = f"float[1, {features}] h, float[N, 1, {2 * features}] y"
    given = _loop(
        sizes,
        outputs,
        "b",
        f"float[1, {features}] s",
        """p = MatMul (row, wx) g = MatMul (s, wh)
        hz, hr, hn = Split <axis = -1, num_outputs = 3> (g)
        xz, xr, xn = Split <axis = -1, num_outputs = 3> (p)
        z0 = Add (hz, xz) z = Sigmoid (z0) r0 = Add (hr, xr) r = Sigmoid (r0)
        n0 = Mul (r, hn) n1 = Add (n0, xn) c = Tanh (n1)
        d = Sub (s, c) e = Mul (z, d) s2 = Add (c, e) o = MatMul (s2, wy) q = Relu (o)""",
        f"float[1, {features}] s2, float[1, {2 * features}] q",
        "h, y",
    )
    hand = f"""hand ({sizes}) => ({outputs}) {{
      first = Constant <value_ints = [0]> () second = Constant <value_ints = [1]> ()
      start = Unsqueeze (b, first)
      all, last = GRU <hidden_size = {features}, linear_before_reset = 1> (x, w, r, , , start)
      h = Squeeze (last, first) behind = Squeeze (all, second)
      o = MatMul (behind, wy) y = Relu (o) }}"""
    turned = {"w": weights["wx"].T[None].copy(), "r": weights["wh"].T[None].copy()}
    feeds = {"x": draw(4, steps, 1, features), "b": draw(5, 1, features)}
    name = f"GRU with projections, {steps:,} steps of {features}"
    hand_weights = turned | {"wy": weights["wy"]}
    return Case(name, model(given, weights), model(hand, hand_weights), feeds)


def tagged_path(steps: int, tags: int) -> Case:
    """Viterbi over scores that a linear layer gives, with back pointers."""
    weights = {"w": draw(1, 128, tags), "move": draw(2, tags, tags)}
    sizes = f"float[N, 128] x, float[{tags}] b"
    outputs = f"float[{tags}] score, int64[N, {tags}] y"
    step = """l = Unsqueeze (s, second) m = Add (l, move)
        top = ReduceMax <keepdims = 0> (m, first) s2 = Add (top, p)
        q = ArgMax <axis = 0, keepdims = 0> (m)"""
    after = f"float[{tags}] s2, int64[{tags}] q"
    given = _loop(
        sizes,
        outputs,
        "b",
        f"float[{tags}] s",
        f"o = MatMul (row, w) p = LogSoftmax (o) {step}",
        after,
        "score, y",
    )
    hand = f"""hand ({sizes}) => ({outputs}) {{
      {_COUNT}
      o = MatMul (x, w) all = LogSoftmax (o)
      score, y = Loop (n, go, b) <body = step (int64 i, bool on, float[{tags}] s)
          => (bool still, {after}) {{
        still = Identity (on)
        p = Gather <axis = 0> (all, i)
        {step}
      }}> }}"""
    feeds = {"x": draw(3, steps, 128), "b": draw(4, tags)}
    name = f"Viterbi over {steps:,} steps of {tags} tags"
    return Case(name, model(given, weights), model(hand, weights), feeds)


def best_boxes(images: int, boxes: int) -> Case:
    """Detection postprocessing: each image keeps the boxes with the best scores, clipped."""
    weights = {"low": np.float32(0), "high": np.float32(1), "k": np.array([16])}
    body = """p = Sigmoid ({scores}) m = ReduceMax <keepdims = 0> (p, {last})
      best, at = TopK <axis = {axis}> (m, k) label = ArgMax <axis = {behind}, keepdims = 0> (p)"""
    sizes = f"float[N, {boxes}, 4] b, float[N, {boxes}, 20] x"
    outputs = "float[N, 16] y, float[N, 16, 4] kept, int64[N, 16] labels"
    per_image = body.format(scores="row", last="second", axis=0, behind=1)
    given = f"""
    looped ({sizes}) => ({outputs}) {{
      {_COUNT}
      y, kept, labels = Loop (n, go) <body = step (int64 i, bool on)
          => (bool still, float[16] best, float[16, 4] clipped, int64[16] names) {{
        still = Identity (on)
        row = Gather <axis = 0> (x, i) own = Gather <axis = 0> (b, i)
        {per_image}
        some = Gather <axis = 0> (own, at) clipped = Clip (some, low, high)
        names = Gather <axis = 0> (label, at)
      }}> }}"""
    whole = body.format(scores="x", last="third", axis=1, behind=2).replace("best,", "y,")
    hand = f"""hand ({sizes}) => ({outputs}) {{
      third = Constant <value_ints = [2]> () four = Constant <value_ints = [1, 1, 4]> ()
      {whole}
      each = Unsqueeze (at, third) spread = Tile (each, four)
      some = GatherElements <axis = 1> (b, spread) kept = Clip (some, low, high)
      labels = GatherElements <axis = 1> (label, at) }}"""
    feeds = {"x": draw(0, images, boxes, 20), "b": draw(1, images, boxes, 4)}
    name = f"detection postprocessing, {images:,} images of {boxes:,} boxes"
    return Case(name, model(given, weights), model(hand, weights), feeds)


def padded_clips(clips: int) -> Case:
    """Clips of different length, padded to one length and put through a layer."""
    weights = {"w": draw(1, 160, 32), "zero": np.array([0]), "frame": np.array([-1, 160])}
    given = """
    mapped (seq(float[L]) clips) => (float[B, 10, 32] y) {
      results = SequenceMap (clips) <body = one (float[L] c) => (float[10, 32] r) {
        whole = Constant <value_ints = [1600]> () n = Shape (c) rest = Sub (whole, n)
        pads = Concat <axis = 0> (zero, rest) p = Pad (c, pads)
        f = Reshape (p, frame) o = MatMul (f, w) r = Relu (o)
      }>
      y = ConcatFromSequence <axis = 0, new_axis = 1> (results)
    }"""
    hand = """
    hand (seq(float[L]) clips) => (float[B, 10, 32] y) {
      first = Constant <value_int = 0> () one = Constant <value_int = 1> ()
      whole = Constant <value_int = 1600> () row = Constant <value_ints = [1, -1]> ()
      column = Constant <value_ints = [-1, 1]> () cut = Constant <value_ints = [0, 10, 160]> ()
      go = Constant <value = bool {1}> ()
      packed = ConcatFromSequence <axis = 0> (clips) n = SequenceLength (clips)
      lengths = Loop (n, go) <body = each (int64 i, bool on) => (bool still, int64 size) {
        still = Identity (on) c = SequenceAt (clips, i) size = Size (c) }>
      ends = CumSum (lengths, first) starts = Sub (ends, lengths)
      s = Reshape (starts, column) l = Reshape (lengths, column)
      r0 = Range (first, whole, one) r = Reshape (r0, row)
      inside = Less (r, l) at0 = Add (s, r) total = Size (packed) last = Sub (total, one)
      at = Min (at0, last) g = Gather (packed, at) none = CastLike (first, w)
      p = Where (inside, g, none) f = Reshape (p, cut) o = MatMul (f, w) y = Relu (o)
    }"""
    lengths = np.random.default_rng(0).integers(400, 1600, clips)
    feeds = {"clips": [draw(i, int(n)) for i, n in enumerate(lengths)]}
    return Case(
        f"padded batch of {clips:,} clips", model(given, weights), model(hand, weights), feeds
    )
