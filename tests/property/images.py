"""Random bodies over images of any size: chains of resizes, windows, turns and arithmetic.

``python -m tests.property.images --seeds 0:500`` judges many.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from passes.errors import RewriteError
from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.errors import BackendError
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from rewriter.proof.engines import plain_expansion
from rewriter.targets import TargetError
from tests.passes.batching.images import FlatCase, drawn, loops_and_sequences, reached

__all__ = ["Verdict", "draw_images", "judge_images"]

_MOST_STEPS = 5


@dataclasses.dataclass
class _Body:
    """A body as it is drawn.

    Attributes:
        rng: Draws.
        axes: What each axis of the value is: ``h``, ``w`` or ``c``.
        dtype: Its element type.
        lines: The nodes so far; the value is ``v0``, ``v1``, ...
        sums: Whether floats were summed, so that bits may differ.
        rounds: Whether they were rounded otherwise, so that what is discrete may flip.
    """

    rng: np.random.Generator
    axes: str
    dtype: str
    lines: list[str] = dataclasses.field(default_factory=list)
    count: int = 0
    sums: bool = False
    rounds: bool = False

    @property
    def value(self) -> str:
        return f"v{self.count}"

    def step(self, text: str) -> None:
        """Add a node; ``{x}`` is the value, ``{y}`` the next one, ``{n}`` a number of its own."""
        x, self.count = self.value, self.count + 1
        self.lines.append(text.format(x=x, y=self.value, n=self.count))

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def image_axes(self) -> tuple[int, int]:
        return tuple(sorted((self.axes.index("h"), self.axes.index("w"))))  # type: ignore[return-value]


def _ints(name: str, numbers: Sequence[int]) -> str:
    return f"{name} = Constant <value_ints = [{', '.join(map(str, numbers))}]> () "


def _resize(body: _Body) -> None:
    first, second = body.image_axes()
    mode = body.pick(["nearest", "linear", "linear", "antialias"])
    kind = {"antialias": "linear"}.get(mode, mode)
    attributes = [f'mode = "{kind}"', f"axes = [{first}, {second}]"]
    body.sums |= body.dtype == "float" and mode != "nearest"
    if mode == "antialias":
        attributes.append("antialias = 1")
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    attributes.append(f'coordinate_transformation_mode = "{body.pick(modes)}"')
    if mode == "nearest":
        roundings = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        attributes.append(f'nearest_mode = "{body.pick(roundings)}"')
    if body.rng.random() < 0.3:
        scales = ", ".join(str(body.pick([0.5, 0.7, 1.3, 2.0])) for _ in range(2))
        text = f"s{{n}} = Constant <value_floats = [{scales}]> () "
        body.step(text + f"{{y}} = Resize <{', '.join(attributes)}> ({{x}},,s{{n}})")
        return
    policy = body.pick(["stretch", "stretch", "not_larger", "not_smaller"])
    attributes.append(f'keep_aspect_ratio_policy = "{policy}"')
    sizes = [int(body.rng.integers(2, 20)) for _ in range(2)]
    text = _ints("s{n}", sizes)
    body.step(text + f"{{y}} = Resize <{', '.join(attributes)}> ({{x}},,,s{{n}})")


def _crop(body: _Body) -> None:
    axes = list(body.image_axes())
    if body.rng.random() < 0.3:
        axes = [body.pick(axes)]
    sizes = [int(body.rng.integers(2, 20)) for _ in axes]
    body.step(_ints("t{n}", sizes) + f"{{y}} = CenterCropPad <axes = {axes}> ({{x}}, t{{n}})")


def _slice(body: _Body) -> None:
    axes = list(body.image_axes())
    steps = [body.pick([1, 1, 2, -1]) for _ in axes]
    starts = [body.pick([0, 1, -6]) if s > 0 else -1 for s in steps]
    ends = [body.pick([1000, -1, 7]) if s > 0 else -1000 for s in steps]
    named = zip("abkd", (starts, ends, axes, steps), strict=True)
    text = "".join(_ints(f"{name}{{n}}", numbers) for name, numbers in named)
    body.step(text + "{y} = Slice ({x}, a{n}, b{n}, k{n}, d{n})")


def _pad(body: _Body) -> None:
    mode = body.pick(["constant", "edge", "reflect"])
    amounts = [int(body.rng.integers(0, 4)) for _ in range(4)]
    text = _ints("p{n}", amounts) + _ints("k{n}", body.image_axes())
    body.step(text + f'{{y}} = Pad <mode = "{mode}"> ({{x}}, p{{n}}, , k{{n}})')


def _turn(body: _Body) -> None:
    perm = [int(a) for a in body.rng.permutation(len(body.axes))]
    body.axes = "".join(body.axes[a] for a in perm)
    body.step(f"{{y}} = Transpose <perm = {perm}> ({{x}})")


def _unary(body: _Body) -> None:
    if body.dtype == "uint8":
        body.dtype = "float"
        body.step("{y} = Cast <to = 1> ({x})")
        return
    names = ["Relu", "Neg", "Abs", "Abs" if body.rounds else "Floor"]
    body.step(f"{{y}} = {body.pick(names)} ({{x}})")


def _channels(body: _Body) -> None:
    if body.dtype != "float":
        return
    shape = ",".join("3" if axis == "c" else "1" for axis in body.axes)
    text = f"m{{n}} = Constant <value = float[{shape}] {{{{1.5, 2.0, -3.0}}}}> () "
    body.step(text + f"{{y}} = {body.pick(['Add', 'Sub', 'Mul', 'Max'])} ({{x}}, m{{n}})")


def _by_image(body: _Body) -> None:
    if body.dtype != "float":
        return
    axes = list(body.image_axes())
    body.step(_ints("r{n}", axes) + "q{n} = ReduceMax ({x}, r{n}) {y} = Sub ({x}, q{n})")


def _with_itself(body: _Body) -> None:
    if body.dtype == "float":
        body.step("u{n} = Relu ({x}) {y} = Add (u{n}, {x})")


def _less_a_line(body: _Body) -> None:
    if body.dtype != "float":
        return
    axis = int(body.rng.integers(len(body.axes)))
    kind = body.pick(["ReduceMax", "ReduceMin", "ReduceMean"])
    body.sums |= kind == "ReduceMean"
    body.rounds |= kind == "ReduceMean"
    body.step(
        _ints("r{n}", [axis]) + f"q{{n}} = {kind} ({{x}}, r{{n}}) {{y}} = Sub ({{x}}, q{{n}})"
    )


def _softmax(body: _Body) -> None:
    if body.dtype == "float":
        body.sums = body.rounds = True
        axis = int(body.rng.integers(len(body.axes)))
        body.step(f"{{y}} = Softmax <axis = {axis}> ({{x}})")


def _through_other_shapes(body: _Body) -> None:
    """Pixels are put one behind the other, and back into an image."""
    if body.dtype != "float":
        return
    rank = len(body.axes)
    before = int(body.rng.integers(rank + 1))
    form = body.pick(["Flatten", "vector", "copied"])
    if form == "Flatten":
        text = f"f{{n}} = Flatten <axis = {before}> ({{x}}) "
    else:
        target = [-1] if form == "vector" else [*[0] * min(before, rank - 1), -1]
        text = _ints("t{n}", target) + "f{n} = Reshape ({x}, t{n}) "
    body.step(text + "o{n} = Shape ({x}) g{n} = Neg (f{n}) {y} = Reshape (g{n}, o{n})")


def _joined(body: _Body) -> None:
    axis = body.pick(body.image_axes())
    text = _ints("a{n}", [0]) + _ints("b{n}", [2]) + _ints("k{n}", [axis])
    other = body.pick(["i{n} = Identity ({x}) ", text + "i{n} = Slice ({x}, a{n}, b{n}, k{n}) "])
    body.step(other + f"{{y}} = Concat <axis = {axis}> ({{x}}, i{{n}})")


def _tiled(body: _Body) -> None:
    times = [1 if axis == "c" else int(body.rng.integers(1, 3)) for axis in body.axes]
    body.step(_ints("t{n}", times) + "{y} = Tile ({x}, t{n})")


def _counted(body: _Body) -> None:
    if body.dtype != "float":
        return
    axis = body.pick(body.image_axes())
    behind = list(range(1, len(body.axes) - axis))
    line = f"o{{n}} = Shape <start = {axis}, end = {axis + 1}> ({{x}}) " + _ints("k{n}", [0])
    line += "s{n} = Squeeze (o{n}, k{n}) zero{n} = Constant <value_int = 0> () "
    line += "one{n} = Constant <value_int = 1> () r{n} = Range (zero{n}, s{n}, one{n}) "
    line += "c{n} = Cast <to = 1> (r{n}) "
    if behind:
        line += _ints("w{n}", behind) + "u{n} = Unsqueeze (c{n}, w{n}) {y} = Mul ({x}, u{n})"
    else:
        line += "{y} = Mul ({x}, c{n})"
    body.step(line)


def _by_matrix(body: _Body) -> None:
    if body.dtype != "float" or body.axes[-1] != "c":
        return
    body.sums = body.rounds = True
    numbers = "1.0, 2.0, -1.0, 0.5, 1.0, 0.25, -2.0, 1.0, 0.5"
    text = f"m{{n}} = Constant <value = float[3,3] {{{{{numbers}}}}}> () "
    body.step(text + "{y} = MatMul ({x}, m{n})")


def _lines(body: _Body) -> None:
    axis = body.pick(body.image_axes())
    text = _ints("i{n}", body.pick([[0, -1], [1, 0, -2, 1], [-1]]))
    body.step(text + f"{{y}} = Gather <axis = {axis}> ({{x}}, i{{n}})")


def _backwards(body: _Body) -> None:
    """Each place of an axis is read by its number."""
    axis = body.pick(body.image_axes())
    text = f"o{{n}} = Shape <start = {axis}, end = {axis + 1}> ({{x}}) " + _ints("k{n}", [0])
    text += "s{n} = Squeeze (o{n}, k{n}) zero{n} = Constant <value_int = 0> () "
    text += f"step{{n}} = Constant <value_int = {body.pick([1, 2])}> () "
    text += "r{n} = Range (zero{n}, s{n}, step{n}) one{n} = Constant <value_int = 1> () "
    text += "q{n} = Sub (s{n}, r{n}) i{n} = Sub (q{n}, one{n}) "
    body.step(text + f"{{y}} = Gather <axis = {axis}> ({{x}}, i{{n}})")


def _either(body: _Body) -> None:
    """Samples that are taller than wide take the one branch."""
    first, second = body.image_axes()
    perm = list(range(len(body.axes)))
    perm[first], perm[second] = second, first
    turned = f"a{{n}} = Transpose <perm = {perm}> ({{x}})"
    ways = [turned, "a{n} = Identity ({x})"]
    if body.dtype == "float":
        ways.append("a{n} = Neg ({x})")
    text = f"o{{n}} = Shape ({{x}}) p{{n}} = Constant <value_int = {first}> () "
    text += f"q{{n}} = Constant <value_int = {second}> () h{{n}} = Gather (o{{n}}, p{{n}}) "
    text += "w{n} = Gather (o{n}, q{n}) g{n} = Greater (h{n}, w{n}) "
    names = ("then", "else")
    declared = f"{body.dtype}[{','.join('uvw'[: len(perm)])}]"
    graphs = ", ".join(
        f"{name}_branch = {name}{{n}} () => ({declared} {name[0]}a{{n}}) "
        f"{{{{ {body.pick(ways).replace('a{n} =', f'{name[0]}a{{n}} =')} }}}}"
        for name in names
    )
    body.step(text + f"{{y}} = If (g{{n}}) <{graphs}>")


def _at_places(body: _Body) -> None:
    if body.dtype != "float" or body.rounds or body.sums:
        return
    text = f"k{{n}} = Constant <value_float = {body.pick([0.0, 100.0, 999.0])}> () "
    text += "b{n} = Greater ({x}, k{n}) f{n} = NonZero (b{n}) "
    text += "p{n} = Transpose <perm = [1, 0]> (f{n}) g{n} = GatherND ({x}, p{n}) "
    body.step(text + "m{n} = Neg (g{n}) {y} = ScatterND ({x}, p{n}, m{n})")


_STEPS = (
    *(_lines, _backwards, _either, _at_places),
    *(_resize, _resize, _crop, _slice, _pad, _turn, _unary, _channels, _by_image, _with_itself),
    *(_less_a_line, _softmax, _through_other_shapes, _joined, _tiled, _counted, _by_matrix),
)


def draw_images(seed: int) -> FlatCase:
    """Draw a body."""
    rng = np.random.default_rng(seed)
    axes = ("hwc", "chw", "hw")[int(rng.integers(3))]
    dtype = ("uint8", "float")[int(rng.integers(2))]
    body = _Body(rng, axes, dtype)
    steps = [s for s in _STEPS if s is not _channels or "c" in axes]
    for _ in range(int(rng.integers(1, _MOST_STEPS + 1))):
        body.pick(steps)(body)
    sizes = {"h": "H", "w": "W", "c": "3"}
    result = ",".join(f"d{i}" for i in range(len(axes)))
    return FlatCase(
        f"seed {seed}",
        f"v0 = Identity (x) {' '.join(body.lines)} y = Identity ({body.value})",
        f"{dtype}[{','.join(sizes[a] for a in axes)}]",
        f"{body.dtype}[{result}]",
        least=4,
        most=20,
        tolerance=2e-5 if body.rounds else 2e-6 if body.sums else 0.0,
    )


class Verdict(str):
    """``right``, ``wrong``, ``refused`` or ``failing``, and what is said of it."""

    detail: str = ""


def _verdict(word: str, detail: str = "") -> Verdict:
    found = Verdict(word)
    found.detail = detail
    return found


def judge_images(seed: int, counts: Sequence[int] = (1, 3)) -> Verdict:
    """Judge one body; ``failing`` where no images were found that the body as given takes."""
    case = draw_images(seed)
    try:
        after = reached(case)
    except TargetError as error:
        reasons = [r for d in error.report.decisions for r in d.reasons]
        return _verdict(
            "refused", f"{reasons[-1].op_type}: {reasons[-1].detail}" if reasons else ""
        )
    except RewriteError as error:
        return _verdict("failing", str(error))
    if left := loops_and_sequences(after):
        return _verdict("wrong", f"left: {left}")
    io = TensorIo.read(models.take(after).model)
    old = backends.open_session(plain_expansion(case.model), "onnxruntime")
    new = backends.open_session(after, "onnxruntime")
    compared = 0
    for number, count in enumerate(counts):
        feeds = {"xs": drawn(case, count, seed + number)}
        try:
            wanted = old.run(feeds)["ys"]
        except BackendError:
            continue
        try:
            given = outputs_as_lists(io, new.run(feeds))["ys"]
        except BackendError as error:
            return _verdict("wrong", f"fails: {error}")
        for one, other in zip(wanted, given, strict=True):
            compared += 1
            if one.shape != other.shape:
                return _verdict("wrong", f"shape {one.shape}, not {other.shape}")
            most = case.tolerance * max(1.0, float(np.abs(one).max(initial=0)))
            away = np.abs(one.astype(np.float64) - other).max(initial=0)
            if not away <= most:
                return _verdict("wrong", f"{away} away")
    return _verdict("right" if compared else "failing")


def main() -> int:
    """Judge many seeds; 1 if one is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.images")
    parser.add_argument("--seeds", default="0:100", help="FIRST:END")
    first, _, end = parser.parse_args().seeds.partition(":")
    found: Counter[str] = Counter()
    for seed in range(int(first), int(end)):
        verdict = judge_images(seed)
        found[verdict] += 1
        if verdict in ("wrong", "refused"):
            print(seed, verdict, verdict.detail, flush=True)  # noqa: T201
        reached.cache_clear()
    print(dict(found))  # noqa: T201
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
