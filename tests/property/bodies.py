"""Random bodies: what they read, 1 to 9 nodes of many families, what they return."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tests.property import (
    moves_control,
    moves_images,
    moves_integers,
    moves_numbers,
    moves_ranks,
    moves_shapes,
)
from tests.property.pool import Array, Pool, Skip, Value, run_nodes

__all__ = ["Body", "Shapes", "draw_body", "names_read"]

MOVES = [
    *moves_numbers.MOVES,
    *moves_shapes.MOVES,
    *moves_control.MOVES,
    *moves_images.MOVES,
    *moves_integers.MOVES,
    *moves_ranks.MOVES,
]
ROUGH_MOVES = [(12, moves_numbers.sharpen), (12, moves_numbers.matmul)]
MOST_NODES = 9


@dataclasses.dataclass(frozen=True)
class Body:
    """A body with what it is given for each sample.

    Attributes:
        opset: Version of ONNX's operators.
        mapped: Its element inputs.
        shared: Its tensor inputs.
        captured: Inputs of the main graph that it reads.
        constants: Initializers, by name: place (``body`` or ``main``) and value.
        nodes: Its nodes.
        outputs: What it returns.
    """

    opset: int
    mapped: tuple[Value, ...]
    shared: tuple[Value, ...]
    captured: tuple[Value, ...]
    constants: Mapping[str, tuple[str, Array]]
    nodes: tuple[onnx.NodeProto, ...]
    outputs: tuple[str, ...]

    @functools.cached_property
    def rows(self) -> list[list[Array]]:
        """For each sample the outputs of the body run alone."""
        return self.results()

    def results(self, names: Sequence[str] = ()) -> list[list[Array]]:
        """Run the body alone: for each sample its outputs, or the named values.

        Raises:
            Skip: onnxruntime refuses it.
        """
        count = len(self.mapped[0].samples)
        given = [*self.mapped, *self.shared, *self.captured]
        given += [Value(k, (a,) * count, varies=False) for k, (_, a) in self.constants.items()]
        return run_nodes(self.nodes, given, names or self.outputs, self.opset)

    def without_dead_parts(self) -> Body:
        """Return the body with only what its outputs need."""
        needed = set(self.outputs)
        nodes = []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                nodes.append(node)
                needed |= names_read(node)
        return dataclasses.replace(
            self,
            nodes=tuple(reversed(nodes)),
            mapped=tuple(v for i, v in enumerate(self.mapped) if i == 0 or v.name in needed),
            shared=tuple(v for v in self.shared if v.name in needed),
            captured=tuple(v for v in self.captured if v.name in needed),
            constants={k: c for k, c in self.constants.items() if k in needed},
        )


def names_read(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, those that its graphs capture among them."""
    found = {name for name in node.input if name}
    for graph in _graphs(node):
        own = {v.name for v in graph.input} | {o for n in graph.node for o in n.output}
        inner = {name for n in graph.node for name in names_read(n)}
        found |= (inner | {v.name for v in graph.output}) - own
    return found


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g


KINDS = ["equal"] * 4 + ["ragged"] * 4 + ["ragged last"] + ["ragged twice"] * 2


@dataclasses.dataclass(frozen=True)
class Shapes:
    """How the samples of a program look.

    Attributes:
        kind: ``equal``, ``ragged`` (in the first axis), ``ragged last`` (in the last one) or
            ``ragged twice``.
        dims: Dimensions of a sample.
        lengths: For each sample its sizes of the first and of another axis, if ragged.
    """

    kind: str
    dims: tuple[int, ...]
    lengths: tuple[tuple[int, int], ...]

    @staticmethod
    def draw(rng: np.random.Generator, count: int, *, rough: bool = False) -> Shapes:
        """Draw the shapes of ``count`` samples; rough ones are long, so that sums round."""
        kind = str(rng.choice(KINDS))
        look = str(rng.choice(["rows", "rows", "rows", "image", "steps", "few"]))
        sizes = [int(n) for n in rng.choice([1, 2, 2, 3, 3, 4], 4)]
        rank = int(rng.integers(1, 4))
        if rough:
            look, sizes, rank = "rows", [int(n) for n in rng.choice([3, 7, 17], 4)], min(rank, 2)
        dims = {
            "rows": tuple(sizes[:rank]),
            "image": (1, sizes[0], 4, int(rng.choice([4, 5]))),
            "steps": (sizes[0] + 1, 1, sizes[1]),
            "few": tuple(sizes[: rank - 1]),
        }[look]
        low = 0 if rng.random() < 0.4 else 1
        lengths = tuple((int(a), int(b)) for a, b in rng.integers(low, 5, (count, 2)))
        return Shapes(kind, dims, lengths)

    def of(self, sample: int, dims: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the shape of a sample that has ``dims`` where it is not ragged."""
        shape = list(self.dims if dims is None else dims)
        axes: dict[str, tuple[int, ...]] = {
            "equal": (),
            "ragged": (0,),
            "ragged last": (-1,),
            "ragged twice": (0, 1),
        }
        for i, axis in enumerate(axes[self.kind][: len(shape)]):
            shape[axis] = self.lengths[sample][i]
        return tuple(shape)


def _numbers(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, *, rough: bool
) -> Array:
    if dtype == np.bool_:
        return np.asarray(rng.random(shape) < 0.5)
    if rough and np.dtype(dtype).kind == "f":
        return np.asarray(rng.standard_normal(shape)).astype(dtype)
    low, high = (-3, 4) if np.dtype(dtype).kind == "f" else (0, 2)
    return np.asarray(rng.integers(low, high, shape)).astype(dtype)


DTYPES = [np.float32] * 12 + [np.float64, np.float16, np.int64, np.int32, np.bool_, np.uint8]


def draw_mapped(
    rng: np.random.Generator, name: str, shapes: Shapes, *, first: bool, rough: bool = False
) -> Value:
    """Draw an element input."""
    count = len(shapes.lengths)
    dtype = DTYPES[int(rng.integers(len(DTYPES)))] if first and not rough else np.float32
    dims: tuple[int, ...] | None = None
    kind = rng.random()
    if not first and kind < 0.25:
        dtype, dims = np.int64, ((), (2,))[int(rng.integers(2))]
    elif not first and kind < 0.35:
        dtype, dims = np.bool_, ()
    elif not first and kind < 0.55:
        dims = shapes.dims[::-1]
    equal = dims is not None or (not first and rng.random() < 0.3)
    samples = []
    for i in range(count):
        shape = (shapes.dims if dims is None else dims) if equal else shapes.of(i)
        samples.append(_numbers(rng, shape, dtype, rough=rough))
    return Value(name, tuple(samples))


def draw_given(
    rng: np.random.Generator, name: str, dims: Sequence[int | None], count: int, *, rough: bool
) -> Value:
    """Draw a tensor that all samples share: often one that broadcasts with samples of ``dims``."""
    kind = rng.random()
    dtype: Any = np.float32
    if kind < 0.15:
        dtype, shape = np.int64, ((), (1,), (2,))[int(rng.integers(3))]
    elif kind < 0.25:
        dtype, shape = np.bool_, ()
    else:
        tail = [1 if n is None else n for n in dims]
        shape = tuple(tail[int(rng.integers(len(tail) + 1)) :])
    return Value(name, (_numbers(rng, shape, dtype, rough=rough),) * count, varies=False)


def draw_body(
    rng: np.random.Generator,
    mapped: Sequence[Value],
    opset: int,
    *,
    most: int = MOST_NODES,
    prefix: str = "",
    alone: bool = False,
    rough: bool = False,
) -> Body:
    """Draw a body over element inputs.

    Args:
        rng: Draws.
        mapped: The element inputs.
        opset: Version of ONNX's operators.
        most: The body has at most about so many nodes.
        prefix: Begins all its names.
        alone: Whether it reads element inputs only and returns one value.
        rough: Whether discrete operators may read what rounding has touched.
    """
    wild = bool(rng.random() < 0.1) and not rough
    pool = Pool(rng, opset, prefix=prefix, wild=wild, rough=rough)
    count = len(mapped[0].samples)
    dims = mapped[0].dims if mapped[0].rank >= 0 else ()
    numbers = (0, 0) if alone else rng.choice([0, 0, 1, 2], 2)
    shared, captured = (
        tuple(
            draw_given(rng, f"{prefix}{stem}{i}", dims, count, rough=rough) for i in range(int(n))
        )
        for stem, n in zip(("shared", "captured"), numbers, strict=True)
    )
    given = [*shared, *captured]
    # What came last is read most.
    pool.values = [*mapped, *given] if rng.random() < 0.5 else [*given, *mapped]
    _grow(pool, int(rng.integers(1, most + 1)))
    made = [v for v in pool.values if any(v.name in n.output for n in pool.nodes)]
    varying = [v for v in made if v.varies]
    read = {name for node in pool.nodes for name in names_read(node)}
    outputs = [varying[-1] if varying else made[-1]]
    for value in made:
        wanted = 0.1 if value.name in read else 0.5
        if not alone and value.name != outputs[0].name and rng.random() < wanted:
            outputs.append(value)
    body = Body(
        opset,
        tuple(mapped),
        shared,
        captured,
        dict(pool.constants),
        tuple(pool.nodes),
        tuple(v.name for v in outputs[:3]),
    )
    return body if rng.random() < 0.2 else body.without_dead_parts()


def _grow(pool: Pool, size: int) -> None:
    moves = MOVES + ROUGH_MOVES if pool.rough else MOVES
    weights = np.array([weight for weight, _ in moves], dtype=float)
    weights /= weights.sum()
    attempts = 0
    while sum(n.op_type != "Constant" for n in pool.nodes) < size:
        attempts += 1
        mark = pool.mark()
        try:
            if attempts > 60:
                pool.one("Identity", [pool.values[-1]])
                return
            moves[int(pool.rng.choice(len(moves), p=weights))][1](pool)
        except Skip:
            pool.rollback(mark)
