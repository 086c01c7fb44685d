"""The workloads: each as SequenceMap, and batched by hand where a person could have done it."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import onnx

from benchmarks import carried, exported, ragged
from benchmarks.workload import Case, Family, Sweep, draw, model

__all__ = ["CASES", "FAMILIES", "SWEEPS"]

_DEMO = pathlib.Path(__file__).parents[1] / "models" / "demo"


def _over_rows(sample: str, result: str, output: str, body: str) -> str:
    """Text of a graph that maps a body from ``a`` to ``b`` over axis 0 of ``x`` and stacks."""
    return f"""
    mapped (float[B, {sample}] x) => (float[{output}] y) {{
      rows = SplitToSequence <axis = 0, keepdims = 0> (x)
      results = SequenceMap (rows) <body = per_sample (float[{sample}] a) => (float{result} b) {{
        {body}
      }}>
      y = ConcatFromSequence <axis = 0, new_axis = 1> (results)
    }}"""


def _perceptron(samples: int) -> Case:
    weights = {f"w{i}": draw(i, 64, 64) for i in (1, 2)}
    weights |= {f"b{i}": draw(10 + i, 64) for i in (1, 2)}
    body = """h = MatMul ({x}, w1) h1 = Add (h, b1) h2 = Relu (h1)
              o = MatMul (h2, w2) {y} = Add (o, b2)"""
    return Case(
        f"two-layer perceptron on rows, {samples:,} x 64",
        model(_over_rows("64", "[64]", "B, 64", body.format(x="a", y="b")), weights),
        model(
            f"hand (float[B, 64] x) => (float[B, 64] y) {{ {body.format(x='x', y='y')} }}", weights
        ),
        {"x": draw(0, samples, 64)},
    )


def _attention(samples: int) -> Case:
    weights = {name: draw(i, 32, 32) for i, name in enumerate(("wq", "wk", "wv", "wo"))}
    weights |= {"w1": draw(4, 32, 128), "w2": draw(5, 128, 32)}
    body = """q = MatMul ({x}, wq) k = MatMul ({x}, wk) v = MatMul ({x}, wv)
              t = Transpose <perm = {perm}> (k) s = MatMul (q, t)
              root = Constant <value_float = 0.17677669> () scaled = Mul (s, root)
              p = Softmax <axis = -1> (scaled) c = MatMul (p, v) o = MatMul (c, wo)
              r = Add ({x}, o) h = MatMul (r, w1) h1 = Relu (h) h2 = MatMul (h1, w2)
              {y} = Add (r, h2)"""
    given = body.format(x="a", y="b", perm="[1, 0]")
    hand = body.format(x="x", y="y", perm="[0, 2, 1]")
    return Case(
        f"attention block, {samples} x 16 x 32",
        model(_over_rows("16, 32", "[16, 32]", "B, 16, 32", given), weights),
        model(f"hand (float[B, 16, 32] x) => (float[B, 16, 32] y) {{ {hand} }}", weights),
        {"x": draw(9, samples, 16, 32)},
    )


def _convolution(samples: int) -> Case:
    weights = {"w1": draw(1, 32, 3, 3, 3), "w2": draw(2, 64, 32, 3, 3)}
    body = """c1 = Conv <pads = [1, 1, 1, 1]> ({x}, w1) r1 = Relu (c1)
              c2 = Conv <pads = [1, 1, 1, 1]> (r1, w2) r2 = Relu (c2)
              g = GlobalAveragePool (r2) {y} = Flatten (g)"""
    first = "first = Constant <value_ints = [0]> ()"
    given = f"""{first} a4 = Unsqueeze (a, first) {body.format(x="a4", y="b2")}
                b = Squeeze (b2, first)"""
    hand = body.format(x="x", y="y")
    return Case(
        f"convolution net, {samples} x 3 x 48 x 48",
        model(_over_rows("3, 48, 48", "[64]", "B, 64", given), weights),
        model(f"hand (float[B, 3, 48, 48] x) => (float[B, 64] y) {{ {hand} }}", weights),
        {"x": draw(0, samples, 3, 48, 48)},
    )


_ELEMENTWISE = """m = Mul ({x}, scale) s = Add (m, shift) g = Sigmoid (s) {y} = Mul (g, {x})"""


def _elementwise(samples: int) -> Case:
    weights = {"scale": draw(1, 64), "shift": draw(2, 64)}
    given = _over_rows("64", "[64]", "B, 64", _ELEMENTWISE.format(x="a", y="b"))
    hand = _ELEMENTWISE.format(x="x", y="y")
    return Case(
        f"elementwise on vectors, {samples:,} x 64",
        model(given, weights),
        model(f"hand (float[B, 64] x) => (float[B, 64] y) {{ {hand} }}", weights),
        {"x": draw(0, samples, 64)},
    )


def _sequence(samples: int, *, promised: bool = False, ragged: bool = False) -> Case:
    weights = {"scale": draw(1, 16), "shift": draw(2, 16)}
    given = f"""
    mapped (seq(float[N, 16]) xs) => (seq(float[N, 16]) ys) {{
      ys = SequenceMap (xs) <body = per_sample (float[N, 16] a) => (float[N, 16] b) {{
        {_ELEMENTWISE.format(x="a", y="b")}
      }}>
    }}"""
    hand = f"""
    hand (seq(float[N, 16]) xs) => (seq(float[N, 16]) ys) {{
      x = ConcatFromSequence <axis = 0, new_axis = 1> (xs)
      {_ELEMENTWISE.format(x="x", y="y")}
      ys = SplitToSequence <axis = 0, keepdims = 0> (y)
    }}"""
    kind = "ragged, guarded" if ragged else "promised" if promised else "guarded"
    rows = [12 + i % 9 if ragged else 16 for i in range(samples)]
    return Case(
        f"sequence in and out ({kind}), {samples:,} x 16 x 16",
        model(given, weights),
        None if ragged else model(hand, weights),
        {"xs": [draw(i, n, 16) for i, n in enumerate(rows)]},
        {"uniform": ("xs",)} if promised else {},
    )


def _two_ragged_axes(samples: int, nodes: int = 24) -> Case:
    """Elements that differ along both axes: a guard asks for their shapes in vain.

    The body has as many nodes as make a guard worth its cost where the shapes turn out equal.
    """
    steps = [f"a{i + 1} = {('Tanh', 'Sigmoid')[i % 2]} (a{i})" for i in range(nodes)]
    given = f"""
    mapped (seq(float[N, M]) xs) => (seq(float[N, M]) ys) {{
      ys = SequenceMap (xs) <body = per_sample (float[N, M] a0) => (float[N, M] a{nodes}) {{
        {" ".join(steps)}
      }}>
    }}"""
    elements = [draw(i, 12 + i % 9, 12 + i % 5) for i in range(samples)]
    name = f"sequence in and out (the guard fails), {samples:,} of two ragged axes"
    return Case(name, model(given), None, {"xs": elements})


def _preprocessing(samples: int) -> Case:
    given = onnx.parser.parse_model((_DEMO / "resnet50_preprocessing.onnxtxt").read_text("utf-8"))
    hand = """
    hand (seq(uint8[H, W, 3]) images) => (float[B, 3, 224, 224] batch) {
      short = Constant <value_ints = [256, 256]> ()
      size = Constant <value_ints = [224, 224]> ()
      go = Constant <value = bool {1}> ()
      count = SequenceLength (images)
      crops = Loop (count, go) <body = per_image (int64 i, bool go_on)
                                       => (bool more, uint8[224, 224, 3] crop) {
        more = Identity (go_on)
        image = SequenceAt (images, i)
        resized = Resize <mode = "linear", antialias = 1, axes = [0, 1],
                          keep_aspect_ratio_policy = "not_smaller"> (image, , , short)
        crop = CenterCropPad <axes = [0, 1]> (resized, size)
      }>
      mean = Constant <value_floats = [123.675, 116.28, 103.53]> ()
      deviation = Constant <value_floats = [58.395, 57.12, 57.375]> ()
      pixels = Cast <to = 1> (crops)
      centred = Sub (pixels, mean)
      scaled = Div (centred, deviation)
      batch = Transpose <perm = [0, 3, 1, 2]> (scaled)
    }"""
    rng = np.random.default_rng(0)
    images = [
        rng.integers(0, 256, (256 + 16 * (i % 5), 256 + 24 * (i % 7), 3), np.uint8)
        for i in range(samples)
    ]
    return Case(
        f"ResNet-50 preprocessing, {samples} images", given, model(hand), {"images": images}
    )


def _unique_sum(samples: int) -> Case:
    body = "u, p, v, n = Unique (a) b = ReduceSum <keepdims = 0> (u)"
    numbers = np.random.default_rng(0).integers(0, 9, (samples, 16)).astype(np.float32)
    given = model(_over_rows("16", "", "B", body))
    return Case(f"Unique, then a sum, {samples:,} x 16", given, None, {"x": numbers})


_POSITIVE = """zero = Constant <value_float = 0.0> () above = Greater ({x}, zero)
               {y} = Compress ({x}, above)"""


def _kept(samples: int, *, joined: bool) -> Case:
    """Every row keeps its positive numbers: results ragged in their only axis."""
    join = "y = ConcatFromSequence <axis = 0> (kept)" if joined else ""
    given = f"""
    mapped (float[B, 16] x) => ({"float[T] y" if joined else "seq(float[K]) kept"}) {{
      rows = SplitToSequence <axis = 0, keepdims = 0> (x)
      kept = SequenceMap (rows) <body = per_sample (float[16] a) => (float[K] b) {{
        {_POSITIVE.format(x="a", y="b")}
      }}>
      {join}
    }}"""
    hand = f"""
    hand (float[B, 16] x) => (float[T] y) {{
      all = Constant <value_ints = [-1]> ()
      flat = Reshape (x, all)
      {_POSITIVE.format(x="flat", y="y")}
    }}"""
    return Case(
        f"ragged, {'concatenated' if joined else 'as a sequence'}, {samples:,} x 16",
        model(given),
        model(hand) if joined else None,
        {"x": draw(0, samples, 16)},
    )


# In the order of the tables. Each is made when it is its turn.
CASES: tuple[Callable[[], Case], ...] = (
    functools.partial(_perceptron, 1024),
    functools.partial(_attention, 64),
    functools.partial(_convolution, 32),
    functools.partial(_elementwise, 1000),
    functools.partial(_sequence, 1000, promised=True),
    functools.partial(_sequence, 1000),
    functools.partial(_sequence, 1000, ragged=True),
    functools.partial(_two_ragged_axes, 1000),
    functools.partial(_preprocessing, 16),
    functools.partial(_unique_sum, 1000),
    functools.partial(_unique_sum, 16000),
    functools.partial(_kept, 1000, joined=True),
    functools.partial(_kept, 16000, joined=True),
    functools.partial(_kept, 16000, joined=False),
    functools.partial(ragged.position_wise, 1000, sequences=False),
    functools.partial(ragged.position_wise, 1000, sequences=True),
    functools.partial(ragged.cumulative_products, 1000),
    functools.partial(ragged.images, 1000, 8),
    functools.partial(ragged.images, 1000, 128),
    functools.partial(exported.embedding_bag, 64),
    functools.partial(exported.embedding_bag, 4096),
    functools.partial(exported.embedding_bag, 64, uneven=True),
    functools.partial(exported.embedding_bag, 4096, uneven=True),
    functools.partial(exported.scripted_rows, 64),
    functools.partial(exported.scripted_rows, 16384),
    functools.partial(exported.map_fn, 1024),
    functools.partial(exported.nearest_neighbours, 1024),
    functools.partial(carried.row_sum, 1024),
    functools.partial(carried.masks, 100, 160),
    functools.partial(carried.index_add, 1024),
    functools.partial(carried.prefix_sum, 1024),
    functools.partial(carried.filtered_rows, 1024),
    functools.partial(carried.padded_clips, 256),
    functools.partial(carried.projected_gru, 64, 256),
    functools.partial(carried.tagged_path, 256, 24),
    functools.partial(carried.best_boxes, 64, 300),
)
FAMILIES: Mapping[str, Family] = {
    "two-layer perceptron on rows of 64": _perceptron,
    "attention block, 16 x 32": _attention,
    "convolution net, 3 x 48 x 48": _convolution,
    "elementwise on vectors of 64": _elementwise,
    "sequence in and out (promised), 16 x 16": functools.partial(_sequence, promised=True),
    "sequence in and out (guarded), 16 x 16": _sequence,
    "sequence in and out (ragged, guarded), 12 to 20 x 16": functools.partial(
        _sequence, ragged=True
    ),
    "sequence in and out (the guard fails), two ragged axes": _two_ragged_axes,
    "ResNet-50 preprocessing": _preprocessing,
    "Unique, then a sum, of 16": _unique_sum,
    "ragged, concatenated, of 16": functools.partial(_kept, joined=True),
    "ragged, as a sequence, of 16": functools.partial(_kept, joined=False),
    "position-wise block, ragged, tensor in and out": functools.partial(
        ragged.position_wise, sequences=False
    ),
    "position-wise block, ragged, sequence in and out": functools.partial(
        ragged.position_wise, sequences=True
    ),
    "two layers of 256 with weights of the model, ragged (guarded)": ragged.wide_layers,
    "cumulative 3 x 3 products, groups of 1 to 199": ragged.cumulative_products,
    "pixels of images of about 8 x 8, joined": functools.partial(ragged.images, side=8),
    "pixels of images of about 128 x 128, joined": functools.partial(ragged.images, side=128),
    "EmbeddingBag, scripted, bags of 10": exported.embedding_bag,
    "EmbeddingBag, scripted, bags of different length": functools.partial(
        exported.embedding_bag, uneven=True
    ),
    "scripted loop over rows, linear layer": exported.scripted_rows,
    "tf.map_fn of a dense layer": exported.map_fn,
    "nearest neighbours": exported.nearest_neighbours,
}
"""What is measured from one sample on."""

SWEEPS: tuple[Sweep, ...] = (
    Sweep("fused, tensor in and out (two-layer perceptron)", 2.2, _perceptron),
    Sweep("fused, tensor in and out (elementwise)", 2.2, _elementwise),
    Sweep("cannot be batched, results of one shape (Unique, then a sum)", 2.4, _unique_sum),
    Sweep(
        "results ragged in the first axis, concatenated (Compress)",
        3.0,
        functools.partial(_kept, joined=True),
    ),
    Sweep(
        "results ragged in the first axis, as a sequence (Compress)",
        3.0,
        functools.partial(_kept, joined=False),
    ),
    Sweep(
        "products along samples of different length (Scan), 1 to 19 matrices",
        2.4,
        functools.partial(ragged.cumulative_products, most=19),
    ),
)
