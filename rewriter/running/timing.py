"""Timing a model as given and rewritten, over numbers of samples."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import onnx_ir as ir

from passes.errors import RewriteError
from rewriter import backends, pipeline
from rewriter.backends import BACKENDS, BackendError, Session
from rewriter.evaluator.run_watch import trying
from rewriter.feeding.feed_checks import as_feeds, check_feeds
from rewriter.feeding.feeds import FeedMaker, read_feeds
from rewriter.model_files import models, weights
from rewriter.model_files.checking import require_valid
from rewriter.model_files.kinds import AnyModel
from rewriter.options import RewriteOptions, takes_options
from rewriter.proof.compare import element_type
from rewriter.reporting.bench_record import Bench, BenchRow

__all__ = ["SIZES", "Bench", "bench"]

SIZES = (1, 16, 256, 4096)
"""The sizes that are tried where none are asked for."""
_LEAST = 3
"""Pairs that are run at every size."""


@takes_options
def bench(
    model: AnyModel,
    *,
    sizes: Sequence[int] | None = None,
    dimension: str = "",
    inputs: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    repeats: int = 30,
    seconds: float = 10.0,
    backend: str = "onnxruntime",
    device: str = "cpu",
    threads: int = 1,
    seed: int = 0,
    on_size: Callable[[str], None] | None = None,
    **options: Unpack[RewriteOptions],
) -> Bench:
    """Time a model as given and rewritten, run in turns, at each size.

    Args:
        model: A model of any kind; it is not changed.
        sizes: Numbers of samples: the length of sequences, the first axis of tensors where there
            is no sequence. None tries `SIZES` until the time is over.
        dimension: The name of a dimension of the inputs that the sizes are of instead.
        inputs: Inputs to use instead of drawn ones; then there is one size.
        repeats: How many pairs of runs are made at most at each size.
        seconds: The time for all; sizes that were asked for are run at least three times.
        backend: What runs the models.
        device: One of its devices.
        threads: The threads of a run, 0 for what the runtime chooses; onnxruntime only.
        seed: What the inputs are drawn from.
        on_size: Called before each size with a few words.
        options: As for `rewriter.rewrite`.

    Returns:
        The times. A model that the backend refuses as given has none.

    Raises:
        RewriteError: The model cannot be rewritten, or no input is found that it accepts.
        BackendError: The backend refuses the rewritten model.
    """
    _check_sizes(sizes)
    if threads < 0:
        raise RewriteError(f"threads is {threads}: give a number from 1, or 0 for all")
    before = models.take(model).model
    weights.require(before)
    result = pipeline.rewrite(before, **options)
    after = result.model
    slow, refusal = _open(before, backend, device, threads)
    if slow is None:
        require_valid(before)  # what is invalid can end the process, rewritten
    fast = backends.open_session(after, backend, device, threads=threads or None)
    sessions = [fast] if slow is None else [slow, fast]
    # The rewritten model carries the promises that the inputs have to keep.
    wanted = (0,) if inputs is not None else tuple(sizes or SIZES)
    if inputs is not None:
        draw = _given(inputs, after)
    else:
        maker = FeedMaker(after, seed)
        maker.sized(max(wanted), dimension)  # refused before any time is spent
        draw = _drawn(maker, dimension, sessions)
    clock = _Clock(seconds, len(wanted), repeats, is_asked=sizes is not None)
    rows, is_cut_short = _timed(wanted, draw, sessions, clock, on_size)
    stopped = ""
    if is_cut_short:
        stopped = f"no more than {rows[-1].size:,}: the next size would exceed {seconds:g} s"
    version = f"{backend} {BACKENDS[backend].version}".strip()
    used = threads if backend == "onnxruntime" else 0
    axis = dimension or "samples"
    same = result.report.nothing_to_do
    return Bench(tuple(rows), axis, version, device, used, seed, refusal, stopped, same)


def _timed(
    wanted: Sequence[int],
    draw: _Draw,
    sessions: Sequence[Session],
    clock: _Clock,
    on_size: Callable[[str], None] | None,
) -> tuple[list[BenchRow], bool]:
    """Return the times at each size, and whether there was no time for all sizes.

    Args:
        wanted: The sizes.
        draw: Gives inputs of a size.
        sessions: The model as given, if it runs, and the rewritten one.
        clock: Runs them.
        on_size: Called before each size with a few words.

    Raises:
        RewriteError: The model runs at no size, or not at one that was asked for.
    """
    rows: list[BenchRow] = []
    refused: RewriteError | None = None
    for size in wanted:
        if on_size is not None:
            on_size(f"at {size:,}")
        try:
            feed, actual = draw(size)
        except RewriteError as error:
            if clock.is_asked:
                raise
            refused = error
            continue
        if rows and actual == rows[-1].size:
            break  # all shapes are fixed
        if rows and clock.is_over(rows[-1], actual):
            return rows, True
        medians, count = clock.medians(sessions, feed)
        given = medians[0] if len(sessions) > 1 else None
        rows.append(BenchRow(actual, given, medians[-1], count, drawn_text(feed)))
    if not rows and refused is not None:
        raise refused
    return rows, False


def _check_sizes(sizes: object) -> None:
    """Refuse what is no list of numbers from 1 on."""
    if sizes is None:
        return
    if isinstance(sizes, Mapping):
        raise RewriteError(f"sizes is {sizes!r}: give the list alone, and the name as dimension=")
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        raise RewriteError(f"sizes is {sizes!r}: give a list of numbers, such as [1, 64, 1024]")
    for size in sizes:
        if not isinstance(size, int | np.integer) or size < 1:
            raise RewriteError(f"sizes is {list(sizes)}: give numbers from 1 on")


def drawn_text(feed: Mapping[str, Any]) -> str:
    """Return what inputs are: type, length and shape of each."""
    return "; ".join(f"{name}: {_value_text(value)}" for name, value in feed.items())


def _value_text(value: Any) -> str:
    if value is None:
        return "absent"
    if not isinstance(value, list):
        return f"{element_type(value)}[{', '.join(map(str, value.shape))}]"
    if not value:
        return "sequence of 0"
    if len({item.ndim for item in value}) > 1:
        return f"sequence of {len(value):,}"
    spans = [(min(dims), max(dims)) for dims in zip(*(item.shape for item in value), strict=True)]
    shown = ", ".join(str(low) if low == high else f"{low}..{high}" for low, high in spans)
    return f"sequence of {len(value):,} {element_type(value[0])}[{shown}]"


def _open(model: ir.Model, backend: str, device: str, threads: int) -> tuple[Session | None, str]:
    try:
        return backends.open_session(model, backend, device, threads=threads or None), ""
    except BackendError as error:
        return None, " ".join(str(error).split())


_Draw = Callable[[int], tuple[dict[str, Any], int]]
"""Gives inputs of a size, and the size that they have."""


def _given(inputs: Any, model: ir.Model) -> _Draw:
    from_file = isinstance(inputs, str | os.PathLike)
    feed = read_feeds(inputs, model) if from_file else as_feeds(inputs)
    check_feeds(model, feed)
    sizes = [len(value) for value in feed.values() if isinstance(value, list)]
    return lambda _: (feed, sizes[0] if sizes else 0)


def _drawn(maker: FeedMaker, dimension: str, sessions: Sequence[Session]) -> _Draw:
    """Return what draws inputs that every session accepts, of the size that is asked for.

    The way of drawing that a small feed worked with is tried first at all sizes. Where none of
    that size is accepted, one of another is drawn.
    """
    worked: list[int] = []

    def draw(size: int) -> tuple[dict[str, Any], int]:
        kind = maker.sized(size, dimension)
        last: RewriteError | None = None
        other: tuple[dict[str, Any], int] | None = None
        for attempt in [*worked, *maker.attempts(kind, None)]:
            try:
                feed = maker.draw(kind, attempt)
                actual = size if dimension else maker.size_of(feed)
                if other and actual != size:
                    continue
                with trying():
                    for session in sessions:
                        session.run(feed.values)
            except RewriteError as error:
                last = error
                continue
            if actual == size or not maker.has_sizes:
                worked[:] = [attempt]
                return feed.values, actual
            other = feed.values, actual
        if other:
            return other
        raise RewriteError(
            f"the model ran on none of the inputs drawn for size {size} (the last: {last}); give "
            "inputs that it accepts with --inputs"
        )

    with contextlib.suppress(RewriteError):  # each size says by itself what it refuses
        draw(2)
    return draw


class _Clock:
    """Runs sessions in turns within a time.

    Attributes:
        repeats: How many pairs are run at most.
        is_asked: Whether the sizes were asked for.
    """

    def __init__(self, seconds: float, sizes: int, repeats: int, *, is_asked: bool) -> None:
        self.repeats = repeats
        self._share = seconds / sizes
        self._end = time.perf_counter() + seconds
        self.is_asked = is_asked

    def is_over(self, last: BenchRow, size: int) -> bool:
        """Return whether a size would take more than is left; it may grow with the square."""
        if self.is_asked:
            return False
        pair = (last.after_ms + (last.before_ms or 0.0)) / 1e3
        growth = (size / max(last.size, 1)) ** 2 if last.size else 1.0
        return time.perf_counter() + _LEAST * pair * growth > self._end

    def medians(
        self, sessions: Sequence[Session], feed: Mapping[str, Any]
    ) -> tuple[list[float], int]:
        """Run the models in turn, so that what disturbs the machine disturbs them all alike.

        Returns:
            The median milliseconds of each session, and how often they ran.
        """
        times: list[list[float]] = [[] for _ in sessions]
        end = time.perf_counter() + self._share
        count = 0
        while count < self.repeats and (count < min(_LEAST, self.repeats) or _before(end)):
            for session, own in zip(sessions, times, strict=True):
                started = time.perf_counter()
                session.run(feed)
                own.append(1e3 * (time.perf_counter() - started))
            count += 1
        return [statistics.median(own) for own in times], count


def _before(end: float) -> bool:
    return time.perf_counter() < end
