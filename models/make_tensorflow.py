"""Writes models of ``models/pipelines`` that come from TensorFlow, with three vectors each.

Run ``python models/make_tensorflow.py DIRECTORY`` where tensorflow and tf2onnx (1.17 wrote the
files here) are installed. Nothing else needs them: tests use the files that are checked in.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np
import tensorflow as tf
import tf2onnx


def clip_features(signal: Any, offsets: Any) -> Any:
    """Zero crossings, loudness and peak of clips of any length: ``tf.map_fn`` over numbers."""

    def features(i: Any) -> Any:
        clip = signal[offsets[i] : offsets[i + 1]]
        turns = tf.cast(tf.sign(clip[1:]) != tf.sign(clip[:-1]), tf.float32)
        loudness = tf.sqrt(tf.reduce_mean(clip * clip))
        return tf.stack([tf.reduce_sum(turns), loudness, tf.reduce_max(tf.abs(clip))])

    numbers = tf.range(tf.shape(offsets)[0] - 1)
    return tf.map_fn(features, numbers, fn_output_signature=tf.TensorSpec([3], tf.float32))


def hysteresis(level: Any, limit: Any) -> Any:
    """A switch that turns on above a limit and off well below it: ``tf.where`` in autograph."""
    is_on = tf.constant(False)
    states = tf.TensorArray(tf.bool, tf.shape(level)[0])
    for i in tf.range(tf.shape(level)[0]):
        is_on = tf.where(level[i] > limit, True, tf.where(level[i] < limit - 0.2, False, is_on))
        states = states.write(i, is_on)
    return states.stack()


dense = tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(3, activation="softmax"))


def time_distributed(steps: Any) -> Any:
    """A layer of Keras for each step, which it picks by a loop of its own."""
    return tf.reduce_max(dense(steps), axis=1)


def regions(features: Any, boxes: Any, images: Any) -> Any:
    """Regions of feature maps, cut and resized as the second stage of detectors takes them."""
    return tf.image.crop_and_resize(features, boxes, images, [3, 4])


def transmittance(opacity: Any) -> Any:
    """How much light reaches each sample along rays: ``cumprod``, which is a loop of shifts."""
    return tf.math.cumprod(1.0 - tf.sigmoid(opacity), axis=1, exclusive=True)


def crops_at(images: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """A crop of one size of each image, at a place of its own."""
    return tf.map_fn(
        lambda pair: tf.image.crop_to_bounding_box(pair[0], pair[1][0], pair[1][1], 3, 2),
        (images, places),
        fn_output_signature=tf.float32,
    )


tf.keras.utils.set_random_seed(0)
recurrent = tf.keras.layers.GRU(3, return_sequences=True)


def masked_states(steps: Any) -> Any:
    """Each state of a layer of Keras, which keeps the one before at steps of zeros."""
    return recurrent(tf.keras.layers.Masking()(steps))


def recent_highs(level: Any) -> Any:
    """The highest of the last three rows: a window that rolls, written by hand."""
    window = tf.zeros([3, 4])
    highs = tf.TensorArray(tf.float32, tf.shape(level)[0])
    for i in tf.range(tf.shape(level)[0]):
        window = tf.concat([window[1:], level[i][None]], axis=0)
        highs = highs.write(i, tf.reduce_max(window, axis=0))
    return highs.stack()


def suppressed(corners: Any, scores: Any) -> Any:
    """Suppression of boxes by hand: what overlaps a better one that is kept is not."""
    order = tf.argsort(scores, direction="DESCENDING")
    boxes = tf.gather(corners, order)
    count = tf.shape(boxes)[0]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = tf.ones([count], tf.bool)
    for i in tf.range(count):
        begins = tf.maximum(boxes[i, :2], boxes[:, :2])
        sides = tf.maximum(tf.minimum(boxes[i, 2:], boxes[:, 2:]) - begins, 0.0)
        shared = sides[:, 0] * sides[:, 1]
        is_close = shared > 0.3 * (areas[i] + areas - shared)
        kept = kept & ~(is_close & (tf.range(count) > i) & kept[i])
    return tf.boolean_mask(order, kept)


SIGNATURES = {
    transmittance: [("opacity", [None, None], np.float32)],
    regions: [
        ("features", [None, None, None, 2], np.float32),
        ("boxes", [None, 4], np.float32),
        ("images", [None], np.int32),
    ],
    time_distributed: [("steps", [None, None, 5], np.float32)],
    clip_features: [("signal", [None], np.float32), ("offsets", [None], np.int32)],
    hysteresis: [("level", [None], np.float32), ("limit", [], np.float32)],
    crops_at: [("images", [None, 7, 6, 2], np.float32), ("places", [None, 2], np.int32)],
    masked_states: [("steps", [None, None, 4], np.float32)],
    recent_highs: [("level", [None, 4], np.float32)],
    suppressed: [("corners", [None, 4], np.float32), ("scores", [None], np.float32)],
}


def drawn(program: Any, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Draw inputs of so many clips, steps or regions."""
    if program is time_distributed:
        return [rng.standard_normal((count, count, 5)).astype(np.float32)]
    if program is regions:
        corners = np.sort(rng.random((count, 2, 2)), axis=1).reshape(count, 4)
        maps = rng.standard_normal((3, 7, 6, 2)).astype(np.float32)
        return [maps, corners.astype(np.float32), rng.integers(0, 3, count).astype(np.int32)]
    if program is transmittance:
        return [rng.standard_normal((3, count)).astype(np.float32)]
    if program is crops_at:
        places = rng.integers(0, 4, (count, 2)).astype(np.int32)
        return [rng.standard_normal((count, 7, 6, 2)).astype(np.float32), places]
    if program is hysteresis:
        return [rng.random(count, np.float32), np.array(0.6, np.float32)]
    if program is masked_states:
        lengths = rng.integers(1, count + 1, 3)
        steps = rng.standard_normal((3, count, 4)).astype(np.float32)
        return [steps * (np.arange(count) < lengths[:, None])[..., None]]
    if program is recent_highs:
        return [rng.standard_normal((count, 4)).astype(np.float32)]
    if program is suppressed:
        corners = np.sort(rng.random((count, 2, 2)), axis=1).reshape(count, 4)
        return [corners.astype(np.float32), rng.random(count, np.float32)]
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 20, count))]).astype(np.int32)
    return [rng.standard_normal(offsets[-1]).astype(np.float32), offsets]


def main(folder: pathlib.Path) -> None:
    rng = np.random.default_rng(0)
    for program, given in SIGNATURES.items():
        name = f"tf_{program.__name__}"
        function = tf.function(program)
        specs = [tf.TensorSpec(shape, dtype, name=key) for key, shape, dtype in given]
        path = str(folder / f"{name}.onnx")
        tf2onnx.convert.from_function(function, specs, opset=17, output_path=path)
        for number, count in enumerate((4, 1, 30)):
            inputs = drawn(program, count, rng)
            vector = {f"in__{spec.name}": array for spec, array in zip(specs, inputs, strict=True)}
            vector["out__0"] = function(*map(tf.constant, inputs)).numpy()
            np.savez(folder / f"{name}{f'.v{number}' * bool(number)}.npz", **vector)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
