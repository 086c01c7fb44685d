"""Random models: a map over a random body, with what stands before and after it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.property.bodies import Body, Shapes, draw_body, draw_mapped
from tests.property.pool import Array, Skip, Value

__all__ = ["Feed", "Program", "Result", "Source", "draw_program"]

OPSETS = (17, 18, 18, 19, 20, 21, 22, 23, 24)
COUNTS = (0, 1, 2, 3, 5, 9)


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the elements of an input come from.

    Attributes:
        kind: ``sequence``, ``rows`` and ``slices`` (of a tensor, without and with keepdims),
            ``sizes`` (of a tensor, by given lengths), ``chunks`` (by one length), ``construct``,
            ``map`` (of the first map).
        axis: Axis that a tensor is cut along.
        declared: ``numbers``, ``symbols``, ``some`` numbers, or ``nothing``, not even the rank.
        run_time: Whether ``sizes`` are an input of the model.
        surplus: How many elements too many there are.
        sizes_of: The input that ``sizes`` are the lengths of, if it is another one.
    """

    kind: str
    axis: int = 0
    declared: str = "symbols"
    run_time: bool = False
    surplus: int = 0
    sizes_of: str = ""


@dataclasses.dataclass(frozen=True)
class Result:
    """What becomes of an output of the map.

    Attributes:
        output: Name of the body's output.
        kind: ``sequence``, ``stack`` or ``concat`` (along ``axis``), ``at`` (position ``axis``),
            ``length``.
        axis: See ``kind``.
    """

    output: str
    kind: str
    axis: int = 0


@dataclasses.dataclass(frozen=True)
class Feed:
    """The samples that a model is fed, by number."""

    samples: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """A model to be rewritten.

    Attributes:
        seed: What it was drawn from.
        body: The body of its map.
        first: The body of a map before it that yields its first input, if there is one.
        sources: Where each element input comes from.
        results: What becomes of its outputs.
        feeds: What it is fed.
        typed: Whether the inputs of the body declare types.
        options: Promises and other options of the rewrite.
        rough: Whether discrete operators read what rounding has touched.
    """

    seed: int
    body: Body
    first: Body | None
    sources: Mapping[str, Source]
    results: tuple[Result, ...]
    feeds: tuple[Feed, ...]
    typed: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rough: bool = False

    def promises(self) -> dict[str, Any]:
        """Return all promises that hold: sequences whose elements have one shape."""
        inputs = self.first.mapped if self.first is not None else ()
        equal = [
            f"{v.name}_in"
            for v in (*inputs, *self.body.mapped)
            if v.is_uniform and self.sources[v.name].kind == "sequence"
        ]
        return {"uniform": equal} if equal else {}


@functools.lru_cache(maxsize=4)
def draw_program(seed: int, *, rough: bool = False) -> Program:
    """Draw a program; the same for the same seed.

    A body of which each node runs, and that onnxruntime does not run as a whole, is drawn anew.
    """
    rng = np.random.default_rng(seed)
    while True:
        try:
            return _draw(rng, seed, rough=rough)
        except Skip:
            continue


def _draw(rng: np.random.Generator, seed: int, *, rough: bool) -> Program:
    opset = int(rng.choice(OPSETS))
    wanted = int(rng.choice(COUNTS))
    count = max(wanted, 3)
    shapes = Shapes.draw(rng, count, rough=rough)
    first = None
    mapped = [draw_mapped(rng, "x", shapes, first=True, rough=rough)]
    if rng.random() < 0.15:
        first = _first_body(rng, mapped[0], opset, rough=rough)
        if first is not None:
            samples = [row[0] for row in first.rows]
            mapped = [Value("y", tuple(samples), exact=False)]
    for name in ("z", "w")[: int(rng.choice([0, 0, 1, 1, 1, 2]))]:
        mapped.append(draw_mapped(rng, name, shapes, first=False, rough=rough))
    body = draw_body(rng, mapped, opset, rough=rough)
    sources: dict[str, Source] = {}
    if first is not None:
        sources["x"] = _draw_source(rng, first.mapped[0], wanted, 0)
        sources["y"] = Source("map")
    for value in body.mapped:
        if value.name not in sources:
            surplus = 2 if sources and rng.random() < 0.2 else 0
            drawn = _draw_source(rng, value, wanted, surplus)
            sources[value.name] = _with_sizes_of_another(rng, value, drawn, body, sources)
    results = tuple(
        result
        for name, samples in zip(body.outputs, zip(*body.rows, strict=True), strict=True)
        for result in _draw_results(rng, name, samples)
    )
    inner = first.mapped[0] if first is not None else body.mapped[0]
    feeds = _feeds(inner, sources, wanted)
    typed = bool(rng.random() < 0.5)
    program = Program(seed, body, first, sources, results, feeds, typed, rough=rough)
    return dataclasses.replace(program, options=_options(rng, program))


def _first_body(
    rng: np.random.Generator, mapped: Value, opset: int, *, rough: bool
) -> Body | None:
    body = draw_body(rng, [mapped], opset, most=2, prefix="first_", alone=True, rough=rough)
    try:
        rows = body.rows
    except Skip:
        return None
    dtypes = {row[0].dtype for row in rows}
    ranks = {row[0].ndim for row in rows}
    return body if len(dtypes) == 1 and len(ranks) == 1 else None


def _draw_source(rng: np.random.Generator, value: Value, count: int, surplus: int) -> Source:
    declared = str(rng.choice(["numbers", "symbols", "symbols", "some", "nothing"]))
    run_time = bool(rng.random() < 0.5)
    kinds = ["sequence"] * 3
    axis = 0
    if value.is_uniform:
        kinds += ["rows"] * 3
        ones = [i for i, n in enumerate(value.dims) if n == 1]
        if ones:
            kinds += ["slices"] * 2
        kinds += ["chunks"] if value.rank and 0 not in value.dims else []
    others = [i for i, n in enumerate(value.dims) if n is None]
    if value.rank and len(others) <= 1:
        kinds += ["sizes"] * (6 if others else 2)
    if count and not surplus:
        kinds += ["construct"]
    kind = str(rng.choice(kinds))
    if kind == "rows":
        axis = int(rng.integers(-value.rank - 1, value.rank + 1))
    elif kind == "slices":
        axis = int(rng.choice(ones))
    elif kind == "chunks":
        axis = int(rng.integers(value.rank))
    elif kind == "sizes":
        axis = others[0] if others else int(rng.integers(value.rank))
        run_time = run_time or not count  # ONNX refuses a constant of no sizes
    if not value.is_uniform and declared == "numbers":
        declared = "some"
    if declared == "nothing" and kind != "sequence":
        declared = "symbols"
    return Source(kind, axis, declared, run_time, surplus)


def _with_sizes_of_another(
    rng: np.random.Generator,
    value: Value,
    drawn: Source,
    body: Body,
    sources: Mapping[str, Source],
) -> Source:
    """Cut a tensor by the lengths of another input where they are the same, more often than not."""
    others = [i for i, n in enumerate(value.dims) if n is None]
    if len(others) != 1:
        return drawn
    declared = "symbols" if drawn.declared == "nothing" else drawn.declared
    for other in body.mapped:
        source = sources.get(other.name)
        if source is None or source.kind != "sizes" or source.surplus or source.sizes_of:
            continue
        found = Source("sizes", others[0], declared, source.run_time, sizes_of=other.name)
        if _lengths(other, source) == _lengths(value, found) and rng.random() < 0.7:
            return found
    return drawn


def _lengths(value: Value, source: Source) -> list[int]:
    """Return the lengths that a tensor is cut by."""
    return [s.shape[source.axis] for s in value.samples]


def _draw_results(rng: np.random.Generator, name: str, samples: Sequence[Array]) -> list[Result]:
    options = [Result(name, "sequence")] * 3
    shapes = {s.shape for s in samples}
    ranks = {len(s) for s in shapes}
    rank = ranks.pop() if len(ranks) == 1 else -1
    if len(shapes) == 1:
        options += [Result(name, "stack")] * 3
        options.append(Result(name, "stack", int(rng.integers(-rank - 1, rank + 1))))
    joinable = [
        a for a in range(max(rank, 0)) if len({(*s[:a], *s[a + 1 :]) for s in shapes}) == 1
    ]
    if joinable:
        axis = int(rng.choice(joinable))
        options += [Result(name, "concat", axis)] * 2
        options.append(Result(name, "concat", axis - rank))
    options += [Result(name, "at", int(rng.integers(-1, 1))), Result(name, "length")]
    picks = rng.choice(len(options), int(rng.choice([1, 1, 1, 2])), replace=False)
    found = [options[int(i)] for i in picks]
    return list(dict.fromkeys(found))


def _feeds(first: Value, sources: Mapping[str, Source], count: int) -> tuple[Feed, ...]:
    """Feed what was drawn; where the model leaves the number open, also others.

    No sample, one, and samples that have one shape although they need not.
    """
    drawn = Feed(tuple(range(count)))
    fixed = any(
        s.kind == "construct"
        or (s.kind == "sizes" and not s.run_time)
        or (s.kind != "sequence" and s.declared == "numbers")
        for s in sources.values()
    )
    if fixed:
        return (drawn,)
    shape = first.samples[-1].shape
    alike = tuple(i for i, s in enumerate(first.samples) if s.shape == shape)
    feeds = [drawn, Feed(()), Feed((1,)), Feed(alike), Feed((*alike, *alike))]
    return tuple(dict.fromkeys(feeds))


def _options(rng: np.random.Generator, program: Program) -> dict[str, Any]:
    """Draw promises that hold."""
    inputs = program.first.mapped if program.first is not None else ()
    equal = {
        v.name: v.samples[0].shape
        for v in (*inputs, *program.body.mapped)
        if v.is_uniform and program.sources[v.name].kind == "sequence"
    }
    drawn = rng.random()
    options: dict[str, Any] = {}
    if equal and drawn < 0.3:
        options["uniform"] = [f"{name}_in" for name in equal]
    elif equal and drawn < 0.4:
        options["input_shapes"] = {f"{name}_in": shape for name, shape in equal.items()}
    elif drawn < 0.5:
        options["trust_types"] = True
    if rng.random() < 0.05:
        options["exact"] = True
    return options
