"""The speed of rewritten models over the models as given, from one sample on."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnxruntime

from benchmarks.measure import expand_with_onnx, open_session, own_feeds
from benchmarks.workload import Case, Family
from rewriter.proof.compare import compare

__all__ = ["ITERATIONS", "SIZES", "speed_table", "speedup"]

SIZES = (1, 2, 4, 16, 64, 256, 1024)
"""Numbers of samples."""

ITERATIONS = (0, 1, 2, 4, 16, 64, 256, 1024)
"""Numbers of iterations of a Loop that carries values."""

_TURN = 0.002
"""Seconds that each model runs in one turn, at least once."""

_MOST = 2.0
"""Seconds that the model as given runs in all; where that is not enough it has five turns."""

_LONGEST = 0.1
"""Where one run takes more seconds than this, larger numbers are left out (-)."""

_SETTLED = 0.95
"""The speed from which on a rewrite counts as no slower."""


def speed_table(
    families: Mapping[str, Family],
    rewrite: Callable[[Case], onnx.ModelProto],
    turns: int,
    *,
    sizes: Sequence[int] = SIZES,
    counted: str = "samples",
) -> Iterator[str]:
    """Yield the lines of the table, one row for each family.

    Args:
        families: The workloads, by name.
        rewrite: Rewrites the model of a case.
        turns: How often the two models take turns at each number of samples.
        sizes: The numbers of samples.
        counted: What they are called.
    """
    yield f"## Speed over the model as given, by the number of {counted}"
    yield ""
    yield (
        "How many times as fast as the model as given; where onnxruntime refuses that one, as "
        f"ONNX's expansion of it (*). The last column is the number of {counted} measured from "
        f"which on the speed stays at {_SETTLED} or above."
    )
    yield ""
    yield f"| case | {' | '.join(f'{n:,}' for n in sizes)} | no slower from |"
    yield f"| --- |{' ---: |' * (len(sizes) + 1)}"
    for name, family in families.items():
        speeds: list[float] = []
        is_given, took = True, 0.0
        for size in sizes:
            if took > _LONGEST:
                break
            case = family(size)
            given = _loads(case.given)
            is_given &= given is not None
            before = given or open_session(expand_with_onnx(case.given))
            after = open_session(rewrite(case))
            took = _seconds(before, own_feeds(before, case.feeds), 1)
            speeds.append(speedup(before, after, case.feeds, turns))
        cells = [f"{speed:.2f}" if speed < 10 else f"{speed:,.0f}" for speed in speeds]
        cells += ["-"] * (len(sizes) - len(speeds))
        cells.append(_settled(speeds, sizes))
        yield f"| {name}{'' if is_given else ' (*)'} | {' | '.join(cells)} |"
    yield ""


def _settled(speeds: list[float], sizes: Sequence[int]) -> str:
    slower = [i for i, speed in enumerate(speeds) if speed < _SETTLED]
    first = slower[-1] + 1 if slower else 0
    return f"{sizes[first]:,}" if first < len(speeds) else "-"


def _loads(model: onnx.ModelProto) -> onnxruntime.InferenceSession | None:
    try:
        return open_session(model)
    except Exception:  # onnxruntime raises many types of its own
        return None


def speedup(
    before: onnxruntime.InferenceSession,
    after: onnxruntime.InferenceSession,
    feeds: Mapping[str, Any],
    turns: int,
) -> float:
    """Return how many times as fast the second session is: a median of ratios turn by turn.

    Raises:
        AssertionError: The two disagree.
    """
    sessions = (before, after)
    fed = [own_feeds(session, feeds) for session in sessions]
    expected, actual = (
        dict(zip((o.name for o in s.get_outputs()), s.run(None, own), strict=True))
        for s, own in zip(sessions, fed, strict=True)
    )
    difference = compare(expected, actual)
    assert difference.equal, difference.message
    once = min(_seconds(before, fed[0], 1) for _ in range(3))
    runs = max(1, round(_TURN / once))
    turns = max(5, min(turns, round(_MOST / once)))
    order, draw, ratios = [0, 1], random.Random(0), []
    for _ in range(turns):
        draw.shuffle(order)
        took = {}
        for i in order:
            _seconds(sessions[i], fed[i], 1)  # what ran before it leaves the caches to itself
            took[i] = _seconds(sessions[i], fed[i], runs)
        ratios.append(took[0] / took[1])
    return statistics.median(ratios)


def _seconds(session: onnxruntime.InferenceSession, feeds: dict[str, Any], runs: int) -> float:
    started = time.thread_time()
    for _ in range(runs):
        session.run(None, feeds)
    return time.thread_time() - started
