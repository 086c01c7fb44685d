"""Where random programs are drawn: nodes are added, and computed at once in every world.

A world is one run of a graph: one feed for the main graph, one sample or iteration for a body.
What is drawn next is chosen by the values that a name has in all of them.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.programs.interpreter import Ambiguous, Interpreter, Unsettled
from tests.programs.operators import Failure

__all__ = ["Draw", "Scope", "Stuck", "Val", "World", "tensor_of"]

LARGEST = 300
"""Elements of a tensor."""
MOST_WORLDS = 24


class Stuck(Exception):
    """What was tried cannot be drawn here."""


World = collections.ChainMap[str, Any]


@dataclasses.dataclass(frozen=True)
class Val:
    """A value of a program.

    Attributes:
        name: Its name.
        dtype: Its element type.
        is_sequence: Whether it is a sequence.
        grain: For floats that hold no rounding: they are multiples of ``2 ** -grain``.
    """

    name: str
    dtype: np.dtype[Any]
    is_sequence: bool = False
    grain: int | None = None

    @property
    def is_float(self) -> bool:
        return self.dtype.kind == "f"


@dataclasses.dataclass
class Draw:
    """What all graphs of a program share."""

    rng: np.random.Generator
    opset: int
    names: int = 0
    graphs: int = 0
    budget: int = 30
    functions: dict[tuple[str, str], onnx.FunctionProto] = dataclasses.field(default_factory=dict)
    features: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, options: Iterable[Any]) -> Any:
        options = list(options)
        if not options:
            raise Stuck
        return options[int(self.rng.integers(len(options)))]

    def number(self, low: int, high: int) -> int:
        """Return a number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def fresh(self, prefix: str) -> str:
        """Return a name that nothing else has."""
        self.names += 1
        return f"{prefix}_{self.names}"

    def graph_name(self) -> str:
        self.graphs += 1
        return f"g{self.graphs}"


class Scope:
    """One graph that is being drawn."""

    def __init__(
        self, draw: Draw, worlds: Sequence[World], outer: Scope | None = None, prefix: str = "v"
    ) -> None:
        if not worlds:
            raise Stuck
        self.draw = draw
        self.outer = outer
        self.worlds = list(worlds)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.own: list[Val] = []
        self.vague: list[Val] = []  # what a Loop of no trips yields in some feed: outputs only
        self.depth: int = 0 if outer is None else outer.depth + 1
        self._names = 0
        self._prefix = prefix
        self.has_failed = False

    # Names and values.

    def name(self) -> str:
        """Return a new name; bodies beside each other use the same ones."""
        self._names += 1
        return f"{self._prefix}{self._names}"

    def child(self, worlds: Sequence[World], *, apart: bool = False) -> Scope:
        """Return the scope of a body; ``apart`` if it sees nothing from outside."""
        if len(worlds) > MOST_WORLDS:
            chosen = self.draw.rng.choice(len(worlds), MOST_WORLDS, replace=False)
            worlds = [worlds[i] for i in sorted(chosen)]
        prefix = f"{self._prefix}{'abcdefghij'[self.depth % 10]}"
        if self.draw.chance(0.5):  # else siblings share their names
            self.draw.names += 1
            prefix += f"{self.draw.names}_"
        return Scope(self.draw, worlds, None if apart else self, prefix)

    def visible(self) -> list[Val]:
        """Return all values that a node here may read, the own ones more often."""
        found = list(self.own)
        if self.outer is not None:
            captured = self.outer.visible()
            found = found * 3 + captured if found else captured
        return found

    def values(self, val: Val) -> list[Any]:
        """Return a value in all worlds."""
        return [world[val.name] for world in self.worlds]

    def shapes(self, val: Val) -> list[tuple[int, ...]]:
        """Return the shapes that a value has, of elements for a sequence, each once."""
        if val.is_sequence:
            return list({e.shape for v in self.values(val) for e in v})
        return list({v.shape for v in self.values(val)})

    def rank(self, val: Val) -> int:
        """Return the rank of a tensor, or of the elements of a sequence."""
        ranks = {len(s) for s in self.shapes(val)}
        if len(ranks) != 1:
            raise Stuck
        return ranks.pop()

    def static(self, val: Val) -> tuple[int, ...] | None:
        """Return the shape that a value has in all worlds, if it is one."""
        shapes = self.shapes(val)
        return shapes[0] if len(shapes) == 1 else None

    def is_odd(self, val: Val) -> bool:
        """Whether there is a NaN or an infinity in a value."""
        if not val.is_float:
            return False
        arrays = [e for v in self.values(val) for e in (v if val.is_sequence else [v])]
        return any(not np.isfinite(a).all() for a in arrays)

    def tensors(self, kinds: str = "", least: int = 0) -> list[Val]:
        """Return the visible tensors of some kinds (of numpy, any if empty) and rank."""
        return [
            v
            for v in self.visible()
            if not v.is_sequence
            and (not kinds or v.dtype.kind in kinds)
            and self._has_rank(v, least)
        ]

    def _has_rank(self, val: Val, least: int) -> bool:
        shapes = self.shapes(val)
        return len({len(s) for s in shapes}) == 1 and len(shapes[0]) >= least

    def sequences(self) -> list[Val]:
        return [v for v in self.visible() if v.is_sequence]

    def tensor(self, kinds: str = "", least: int = 0) -> Val:
        return self.draw.pick(self.tensors(kinds, least))

    def sequence(self) -> Val:
        return self.draw.pick(self.sequences())

    # Nodes.

    def add_input(self, val: Val) -> Val:
        """Add a value that the worlds already hold."""
        self.own.append(val)
        return val

    def constant(self, value: Any, dtype: Any = None) -> Val:
        """Add a constant, in one of the forms that there are."""
        array = np.asarray(value, dtype)
        draw = self.draw
        name = self.name()
        grain = 2 if array.dtype.kind == "f" else None
        val = Val(name, array.dtype, False, grain)
        for world in self.worlds:
            world[name] = array
        is_plain = draw.opset >= 12 and array.dtype in (np.int64, np.float32) and array.ndim < 2
        if is_plain and array.size and draw.chance(0.4):
            kind = "value_" + ("int" if array.dtype == np.int64 else "float") + "s" * array.ndim
            self.nodes.append(helper.make_node("Constant", [], [name], **{kind: array.tolist()}))
        elif self.outer is None and self._prefix == "v" and draw.chance(0.5):
            self.initializers.append(tensor_of(array, name))
        else:
            tensor = tensor_of(array, name)
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return val

    def op(
        self,
        op_type: str,
        *inputs: Val | None,
        outputs: int = 1,
        sequences: Sequence[bool] = (False,),
        grain: int | None = None,
        dtypes: Sequence[np.dtype[Any] | None] = (),
        domain: str = "",
        may_fail: bool = False,
        keep: bool = True,
        **attributes: Any,
    ) -> Any:
        """Add a node and return its outputs, one as it is.

        Args:
            op_type: The operator.
            inputs: Its inputs; None for one that is left out.
            outputs: How many outputs it has.
            sequences: Which of the outputs are sequences.
            grain: That of the outputs.
            dtypes: Element types of outputs that hold nothing in any world.
            domain: Its domain.
            may_fail: Whether an error in some of the worlds is taken.
            keep: Whether the outputs may be read by what is drawn later.
            attributes: Its attributes.

        Raises:
            Stuck: It fails, or a result is too large.
        """
        names = [self.name() for _ in range(outputs)]
        given = [v.name if v is not None else "" for v in inputs]
        node = helper.make_node(op_type, given, names, domain=domain, **attributes)
        interpreter = Interpreter(self.draw.opset, self.draw.functions)
        results: list[tuple[Any, ...] | None] = []
        for world in self.worlds:
            try:
                found = interpreter.node(node, world)
            except Failure:
                if not may_fail or self.outer is not None:
                    raise Stuck from None
                found = None
            except (Ambiguous, KeyError, ValueError, IndexError, OverflowError, TypeError):
                raise Stuck from None
            is_loop = self.outer is None and op_type == "Loop"
            if found is not None and not all(_is_small(r, loose=is_loop) for r in found):
                raise Stuck
            results.append(found)
        if all(r is None for r in results):
            raise Stuck
        if any(r is None for r in results):
            self.draw.features["error in a feed"] += 1
        alive = [(w, r) for w, r in zip(self.worlds, results, strict=True) if r is not None]
        self.worlds = [w for w, _ in alive]
        for world, found in alive:
            world.update(zip(names, found, strict=True))
        kinds = [*sequences] * outputs if len(sequences) == 1 else sequences
        vals = []
        for i, name in enumerate(names):
            dtype = self._dtype([r[i] for _, r in alive])
            dtype = dtype or (dtypes[i] if i < len(dtypes) else None)
            if dtype is None:
                raise Stuck
            held = grain if dtype.kind == "f" else None
            vals.append(Val(name, dtype, bool(kinds[i]), held))
        self.nodes.append(node)
        if keep:
            self.own.extend(vals)
        self.draw.features[f"op {op_type}"] += 1
        return vals[0] if outputs == 1 else vals

    def _dtype(self, values: Sequence[Any]) -> np.dtype[Any] | None:
        for value in values:
            for array in value if isinstance(value, list) else [value]:
                if isinstance(array, np.ndarray):
                    return array.dtype
        return None

    def forget(self, vals: Sequence[Val]) -> None:
        """Let what is drawn later not read some values."""
        self.own = [v for v in self.own if v not in vals]

    # Parts that many moves need.

    def axes_form(self, op_type: str, since: int, x: Val, axes: Sequence[int], **more: Any) -> Val:
        """Add an operator whose axes are an attribute before an opset, and an input from it on."""
        if self.draw.opset < since:
            return self.op(op_type, x, axes=list(axes), **more)
        return self.op(op_type, x, self.constant(np.array(axes, np.int64)), **more)

    def identity(self, val: Val) -> Val:
        """Add a copy of a value."""
        if val.is_sequence:
            if self.draw.opset < 14:
                raise Stuck
            return self.op("Identity", val, sequences=[True], grain=val.grain, dtypes=[val.dtype])
        return self.op("Identity", val, grain=val.grain)

    def graph(
        self,
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[Val],
        level: str | None = None,
    ) -> onnx.GraphProto:
        """Return the graph of a body; types of outputs are filled in when the program is done."""
        infos = [self.info(v, level) for v in outputs]
        return helper.make_graph(
            self.nodes, self.draw.graph_name(), list(inputs), infos, self.initializers
        )

    def info(self, val: Val, level: str | None = None) -> onnx.ValueInfoProto:
        """Return a declaration; how much it says is filled in when the program is done.

        Levels: ``nothing``, ``element`` type, ``rank``, ``numbers``, ``some`` numbers.
        """
        level = level or self.draw.pick(["element", "rank", "numbers", "some"])
        kind = helper.np_dtype_to_tensor_dtype(val.dtype)
        make = (
            helper.make_tensor_sequence_value_info
            if val.is_sequence
            else helper.make_tensor_value_info
        )
        info = make(val.name, kind, None)
        info.doc_string = level
        return info


def tensor_of(array: np.ndarray, name: str) -> onnx.TensorProto:
    """Return an array as a message."""
    if array.dtype == object:
        kind = onnx.TensorProto.STRING
        texts = [s.encode() for s in array.reshape(-1)]
        return helper.make_tensor(name, kind, array.shape, texts)
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def inner_world(world: World, values: Mapping[str, Any], *, apart: bool = False) -> World:
    """Return a world of a body."""
    if apart:
        return collections.ChainMap(dict(values))
    return world.new_child(dict(values))


def _is_small(value: Any, *, loose: bool) -> bool:
    if isinstance(value, Unsettled):
        return loose
    arrays = value if isinstance(value, list) else [value]
    return len(arrays) <= 20 and all(a.size <= LARGEST for a in arrays)
