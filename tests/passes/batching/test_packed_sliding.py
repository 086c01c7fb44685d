"""Convolutions along the axis in which samples differ in length."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.harness import constant, mapped, shared
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged, reasons_of

LONG = ragged(4, lengths=(5, 4, 9))
SOME = ragged(4)


def filters(*dims: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(-1, 1, dims).astype(np.float32)


def along(name: str, attributes: str, *weight: int, x=LONG) -> RaggedCase:
    """Return a case whose samples ``[1, 4, n]`` are cut to ``[n, channels]`` again."""
    text = f"""t = Transpose <perm = [1, 0]> (x) u = Unsqueeze (t, front)
        c = Conv{attributes} (u, w, b) s = Squeeze (c, front)
        y = Transpose <perm = [1, 0]> (s)"""
    operands = {
        "x": x,
        "w": constant(filters(*weight)),
        "b": shared(filters(weight[0])),
        "front": constant(np.array([0])),
    }
    return RaggedCase(name, text, operands)


IMAGES = """t = Transpose <perm = [1, 2, 0]> (x) u = Unsqueeze (t, front)
    c = Conv <pads = [1, 2, 1, 2]> (u, w) s = Squeeze (c, front)
    y = Transpose <perm = [2, 0, 1]> (s)"""
CASES = [
    along("same", "<pads = [1, 1]>", 6, 4, 3, x=ragged(4, lengths=(2, 1, 3))),
    along("two zeros at least", "<pads = [2, 2]>", 6, 4, 3, x=ragged(4, lengths=(2, 1, 3))),
    along("without zeros", "", 6, 4, 3),
    along("zeros behind", "<pads = [0, 2]>", 6, 4, 3),
    along("stride 2", "<pads = [1, 1], strides = [2]>", 6, 4, 3),
    along("stride 3, few taps", "<strides = [3]>", 6, 4, 2),
    along("stride 5", "<pads = [2, 1], strides = [5]>", 6, 4, 4),
    along("dilated", "<dilations = [2], pads = [2, 2]>", 6, 4, 3),
    along("groups", "<group = 2, pads = [1, 1]>", 6, 2, 3),
    along("one tap", "", 6, 4, 1, x=ragged(4, lengths=(2, 1, 3))),
    along("SAME_UPPER", '<auto_pad = "SAME_UPPER">', 6, 4, 4),
    along("SAME_LOWER", '<auto_pad = "SAME_LOWER">', 6, 4, 4),
    along("VALID", '<auto_pad = "VALID">', 6, 4, 4),
    RaggedCase(
        "columns of an image",
        IMAGES,
        {
            "x": ragged(2, 3, lengths=(5, 1, 2)),
            "w": constant(filters(3, 2, 3, 5)),
            "front": constant(np.array([0])),
        },
    ),
    RaggedCase(
        "two in a row, and what went in",
        """t = Transpose <perm = [1, 0]> (x) u = Unsqueeze (t, front)
        c = Conv <pads = [1, 1]> (u, w) d = Conv <pads = [2, 2], dilations = [2]> (c, w)
        e = Add (d, u) s = Squeeze (e, front) y = Transpose <perm = [1, 0]> (s)""",
        {"x": LONG, "w": constant(filters(4, 4, 3)), "front": constant(np.array([0]))},
    ),
]
POOLS = {
    "maxima": "MaxPool <kernel_shape = [2]>",
    "maxima of every other": "MaxPool <kernel_shape = [3], strides = [2]>",
    "means": "AveragePool <kernel_shape = [3], pads = [1, 1]>",
}


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_pools_for_a_target_without_branches(pool: str, batch: int) -> None:
    text = f"""t = Transpose <perm = [1, 0]> (x) u = Unsqueeze (t, front)
        c = {pool} (u) s = Squeeze (c, front) y = Transpose <perm = [1, 0]> (s)"""
    operands = {"x": LONG, "front": constant(np.array([0]))}
    case = RaggedCase(pool, text, operands, rtol=1e-5, atol=1e-6)
    prove_ragged(case, batch, lacks=("Loop", "Scan", "If"))


def frames(name: str, stft: str, x=LONG) -> RaggedCase:
    """Return a case that transforms the columns of samples ``[n, 4]``."""
    return RaggedCase(
        name,
        f"t = Transpose <perm = [1, 0]> (x) f = {stft} y = Transpose <perm = [1, 0, 2, 3]> (f)",
        {
            "x": x,
            "one": constant(np.array(1)),
            "two": constant(np.array(2)),
            "four": constant(np.array(4)),
            "w": constant(np.array([0.5, 1, 0.25], np.float32)),
            "v": shared(np.array([0.5, 1, 0.25, 2], np.float32)),
            "last": constant(np.array([-1])),
        },
        opset=17,
    )


FRAMES = [
    frames("frames, each of which begins where one ends", "STFT (t, four, , four)"),
    frames("frames that overlap", "STFT (t, two, , four)"),
    frames("frames a step of one apart", "STFT (t, one, w)"),
    frames("frames with gaps, of a window", "STFT (t, four, w)"),
    frames("frames of a shared window", "STFT (t, two, v)"),
    frames("both halves", "STFT <onesided = 0> (t, two, w)"),
    RaggedCase(
        "frames of signals with their parts in an axis of their own",
        """t = Transpose <perm = [1, 0]> (x) u = Unsqueeze (t, last) f = STFT (u, two, w)
        y = Transpose <perm = [1, 0, 2, 3]> (f)""",
        frames("", "").operands,
        opset=17,
    ),
    RaggedCase(
        "frames of a number of signals that differs",
        "y = STFT (x, one, w)",
        {**frames("", "").operands, "x": ragged(5)},
        opset=17,
    ),
]


ELEMENTS = [
    RaggedCase(
        f"{name} {how}",
        text,
        {"d": data, "i": ragged(2, dtype=np.int64, low=-3.9, high=3.9), "u": ragged(2, seed=5)},
    )
    for how, data in (("of a sample", mapped((4, 3))), ("shared", shared(filters(4, 3))))
    for name, text in (
        ("GatherElements", "y = GatherElements <axis = 0> (d, i)"),
        ("ScatterElements", 'y = ScatterElements <axis = 0, reduction = "add"> (d, i, u)'),
    )
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", [*CASES, *FRAMES, *ELEMENTS], ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


DECLINED = {
    "a step of run time": ("STFT (t, s, w)", "unknown-shape"),
    "a window of open size": ("c = Compress (w, f) q = STFT (t, two, c)", "unknown-shape"),
    "parts that differ in number": (
        "u = Unsqueeze (t, front) q = STFT <onesided = 0> (u, one, w)",
        "ragged",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_frames_of_which_too_little_is_known(name: str) -> None:
    nodes, code = DECLINED[name]
    text = nodes if " = STFT" in nodes else f"q = {nodes}"
    operands = {
        **frames("", "").operands,
        "x": ragged(4, lengths=(1, 2, 1)) if "parts" in name else LONG,
        "s": shared(np.array(2)),
        "f": shared(np.array([True, True, False])),
        "front": constant(np.array([0])),
    }
    case = RaggedCase(name, f"t = Transpose (x) {text} y = Identity (q)", operands)
    assert ("STFT", code) in reasons_of(case)
