"""The windows of Conv and pools: how far they reach, and how many of them an image has.

Rounded up, the last window may begin in an image and end behind it. With SAME there is a window
for each step that begins in an image, and what is padded hangs on the size of the image.

A kernel of 3 in steps of 2 has 2 windows in 5 places, and 2 in 6; rounded up it has 3 in 6.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import onnx_ir as ir

from passes.batching.context import Context
from passes.batching.flat.formula import Formula, integers
from passes.batching.lengths import Lengths
from passes.batching.packed.checks import failing_where
from passes.decisions import Code, Decline
from passes.numbers.integers import Linear

__all__ = ["ImageWindow", "is_narrow", "left", "window_of"]


@dataclasses.dataclass(frozen=True)
class ImageWindow:
    """What an operator reads for one place of its result, along each axis of an image.

    Attributes:
        reach: How many places lie between the first and the one behind the last.
        steps: From one place of the result to the next.
        pads: How many places are added before and behind, the same for all images.
        rounds_up: Whether a last window may reach beyond what is padded.
        evens: Whether each image is padded by its own size, ``SAME_UPPER`` or ``SAME_LOWER``.
    """

    reach: tuple[int, ...]
    steps: tuple[int, ...]
    pads: tuple[int, ...]
    rounds_up: bool = False
    evens: str = ""

    def begin(self, i: int) -> int:
        """Return how many places are added before an image along an axis."""
        return self.pads[i]

    def spare(self, i: int) -> int:
        """Return how many places there are beside one window, more than the image has itself."""
        return self.pads[i] + self.pads[len(self.reach) + i] - self.reach[i]

    def evened(self, size: Formula, i: int) -> tuple[Formula, Formula]:
        """Return what SAME pads before and behind images along an axis."""
        step, reach = self.steps[i], self.reach[i]
        wanted = (size + (step - 1)) / step * step + (reach - step)
        total = (wanted - size).max(0)
        less = total / 2
        more = total - less
        return (less, more) if self.evens == "SAME_UPPER" else (more, less)

    def evened_for_all(self, size: int, i: int) -> tuple[int, int]:
        """Return the same for images that all have one size."""
        step, reach = self.steps[i], self.reach[i]
        total = max(-(-size // step) * step + reach - step - size, 0)
        less = total // 2
        return (less, total - less) if self.evens == "SAME_UPPER" else (total - less, less)


def window_of(ctx: Context, node: ir.Node, kernel: Sequence[int | str | None]) -> ImageWindow:
    """Return the window of an operator.

    Raises:
        Decline: Nothing tells its size, or runtimes read it in several ways.
    """
    given = [k for k in kernel if isinstance(k, int)]
    if len(given) < len(kernel):
        raise Decline(Code.UNKNOWN_SHAPE, "nothing tells the size of its filters")
    ones = [1] * len(given)
    dilations = ctx.attribute(node, "dilations", ones)
    steps = tuple(ctx.attribute(node, "strides", ones))
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, given, strict=True))
    auto = str(ctx.attribute(node, "auto_pad", "NOTSET"))
    none = (0,) * (2 * len(given))
    has_steps = any(step > 1 for step in steps)
    if auto.startswith("SAME") and has_steps:
        if any(step > r + 1 for step, r in zip(steps, reach, strict=True)):
            raise Decline(Code.NO_RULE, "SAME with steps over places: runtimes do not agree on it")
        return ImageWindow(reach, steps, none, evens=auto)
    if auto.startswith("SAME"):
        halves = [(r - 1) // 2 for r in reach]
        others = [r - 1 - half for r, half in zip(reach, halves, strict=True)]
        return ImageWindow(reach, steps, (*halves, *others))
    pads = none if auto == "VALID" else tuple(ctx.attribute(node, "pads", none))
    return ImageWindow(reach, steps, pads, bool(ctx.attribute(node, "ceil_mode", 0)) and has_steps)


def left(ctx: Context, lengths: Lengths, window: ImageWindow, i: int) -> Lengths:
    """Return the sizes of results along an axis: one object for windows that go alike.

    It is an error at run time if such a size were less than none.
    """
    step, size = window.steps[i], lengths.size
    if window.evens:
        return ctx.lengths_by((size, Linear(step)), lambda: _evened(ctx, lengths, step))
    rest = size + window.spare(i)
    if window.rounds_up:
        key = (rest, Linear(step), Linear(window.begin(i)), Linear(-1))
        return ctx.lengths_by(key, _checked(ctx, lambda: _rounded_up(ctx, lengths, window, i)))
    known = rest + 1 if step == 1 else None

    def rounded_down() -> Formula:
        return (integers(ctx, lengths.value) + window.spare(i)) / step + 1

    return ctx.lengths_by((rest, Linear(step), Linear(-1)), _checked(ctx, rounded_down, known))


def _checked(
    ctx: Context, sizes: Callable[[], Formula], known: Linear | None = None
) -> Callable[[], Lengths]:
    def make() -> Lengths:
        found = sizes()
        checked = failing_where(ctx, found.value, [found.compare("Less", 0).value])
        return Lengths(ctx.builder, checked, size=known)

    return make


def _rounded_up(ctx: Context, lengths: Lengths, window: ImageWindow, i: int) -> Formula:
    """Return how many windows there are; none begins behind the image."""
    step, more = window.steps[i], window.reach[i]
    size = integers(ctx, lengths.value)
    # Division cuts off, so that what it divides is made no less than 0.
    fitting = (size + (window.spare(i) + more * step + step - 1)) / step - (more - 1)
    return fitting.min((size + (window.begin(i) + step - 1)) / step)


def _evened(ctx: Context, lengths: Lengths, step: int) -> Lengths:
    return Lengths(ctx.builder, ((integers(ctx, lengths.value) + (step - 1)) / step).value)


def is_narrow(
    ctx: Context, size: ir.Value, window: ImageWindow, i: int, *, may_yield_none: bool = False
) -> ir.Value:
    """Return which images are smaller than a window along an axis, bool ``[B]``.

    Args:
        ctx: The context.
        size: The sizes of the images.
        window: The window.
        i: Which of its axes.
        may_yield_none: Whether an image that lacks one place for a window that moves by one has
            a result without places, which is no error.
    """
    least = -1 if may_yield_none and window.steps[i] == 1 else 0
    return (integers(ctx, size) + window.spare(i)).compare("Less", least).value
