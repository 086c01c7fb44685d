"""Random chains of sequence operators, computed as they are written."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx

__all__ = ["Chain"]

Array = Any


class Chain:
    """A random model of sequence operators that runs without an error, and its inputs.

    Args:
        seed: Equal seeds give equal models.
        maps: Whether there are maps among them.

    Attributes:
        model: The model; its outputs are tensors.
        feeds: Its inputs.
    """

    def __init__(self, seed: int, *, maps: bool = False) -> None:
        self._maps = maps
        self._rng = np.random.default_rng(seed)
        self._inputs: list[str] = []
        self._lines: list[str] = []
        self._outputs: dict[str, Array] = {}
        self._names = 0
        self.feeds: dict[str, Array] = {}
        self._tensors: dict[str, Array] = {}
        self._sequences: dict[str, list[Array]] = {}
        self._is_static = bool(self._rng.integers(2))
        for shape in ((4, 6), (4, 6), (2, 6), (4, 3, 2)):
            value = self._rng.integers(0, 99, shape).astype(np.float32)
            self._tensors[self._input(value)] = value
        for _ in range(int(self._rng.integers(3, 12))):
            self._step()
        self._read_all()
        self.model = onnx.parser.parse_model(self._text())
        onnx.checker.check_model(self.model)

    def _text(self) -> str:
        outputs = ", ".join(
            f"{'int64' if value.dtype == np.int64 else 'float'}"
            + (f"[{','.join(f'{name}_{i}' for i in range(value.ndim))}] " if value.ndim else " ")
            + name
            for name, value in self._outputs.items()
        )
        lines = "\n".join(self._lines)
        return (
            '<ir_version: 8, opset_import: ["" : 18]>\n'
            f"main ({', '.join(self._inputs)}) => ({outputs}) {{\n{lines}\n}}"
        )

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def _pick(self, names: Any) -> Any:
        names = list(names)
        return names[int(self._rng.integers(len(names)))]

    def _chance(self, percent: int) -> bool:
        return bool(self._rng.integers(100) < percent)

    def _input(self, value: Array) -> str:
        name = self._name()
        kinds = {"f": "float", "i": "int64", "b": "bool"}
        dims = [str(d) if self._is_static else f"{name}_{i}" for i, d in enumerate(value.shape)]
        self._inputs.append(
            kinds[value.dtype.kind] + (f"[{','.join(dims)}] " if dims else " ") + name
        )
        self.feeds[name] = value
        return name

    def _number(self, value: int | list[int], computed: int = 25) -> str:
        """Write a number, or a vector, as a constant or now and then as an input."""
        if self._chance(computed):
            return self._input(np.array(value, np.int64))
        name = self._name()
        kind = "value_int" if isinstance(value, int) else "value_ints"
        self._lines.append(f"{name} = Constant <{kind} = {value}> ()")
        return name

    def _add_sequence(self, operator: str, value: list[Array]) -> str:
        name = self._name()
        self._lines.append(f"{name} = {operator}")
        self._sequences[name] = value
        return name

    def _add_tensor(self, operator: str, value: Array) -> None:
        name = self._name()
        self._lines.append(f"{name} = {operator}")
        if value.dtype == np.float32 and value.size < 500:
            self._tensors[name] = value
        self._outputs[name] = value

    def _step(self) -> None:
        steps = [self._split, self._construct]
        if self._sequences:
            steps += [self._insert, self._insert, self._erase, self._pass_on, self._branch]
            steps += [self._at, self._length, self._join, self._append_in_loop]
            steps += [self._map, self._map] if self._maps else []
        self._pick(steps)()

    def _split(self) -> None:
        x = self._pick(self._tensors)
        value = self._tensors[x]
        if value.ndim == 0 or 0 in value.shape:
            return
        axis = int(self._rng.integers(-value.ndim, value.ndim))
        size = value.shape[axis]
        kind = self._pick(["ones", "unstack", "chunks", "lengths"])
        attributes = f"axis = {axis}"
        if kind in ("ones", "unstack"):
            pieces = np.split(value, size, axis)
            if kind == "unstack":
                attributes += ", keepdims = 0"
                pieces = [piece.squeeze(axis) for piece in pieces]
            self._add_sequence(f"SplitToSequence <{attributes}> ({x})", pieces)
            return
        if kind == "chunks":
            number = int(self._rng.integers(1, size + 2))
            split = self._number(number)
            ends = list(range(number, size, number))
        else:
            ends = sorted(int(n) for n in self._rng.integers(0, size + 1, 2))
            bounds = [0, *ends, size]
            split = self._number([b - a for a, b in itertools.pairwise(bounds)])
        pieces = np.split(value, ends, axis)
        self._add_sequence(f"SplitToSequence <{attributes}> ({x}, {split})", pieces)

    def _construct(self) -> None:
        if self._chance(25):
            self._add_sequence("SequenceEmpty ()", [])
            return
        names = [self._pick(self._tensors) for _ in range(int(self._rng.integers(1, 4)))]
        self._add_sequence(
            f"SequenceConstruct ({', '.join(names)})", [self._tensors[name] for name in names]
        )

    def _insert(self) -> None:
        s, x = self._pick(self._sequences), self._pick(self._tensors)
        value = list(self._sequences[s])
        position = int(self._rng.integers(-len(value), len(value) + 1))
        if self._chance(40):
            self._add_sequence(f"SequenceInsert ({s}, {x})", [*value, self._tensors[x]])
            return
        value.insert(position, self._tensors[x])
        k = self._number(position, 10)
        self._add_sequence(f"SequenceInsert ({s}, {x}, {k})", value)

    def _erase(self) -> None:
        s = self._pick(self._sequences)
        value = list(self._sequences[s])
        if not value:
            return
        if self._chance(40):
            self._add_sequence(f"SequenceErase ({s})", value[:-1])
            return
        position = int(self._rng.integers(-len(value), len(value)))
        del value[position]
        self._add_sequence(f"SequenceErase ({s}, {self._number(position, 10)})", value)

    def _pass_on(self) -> None:
        s = self._pick(self._sequences)
        self._add_sequence(f"Identity ({s})", self._sequences[s])

    def _branch(self) -> None:
        first, second = self._pick(self._sequences), self._pick(self._sequences)
        condition = self._input(np.array(self._chance(50)))
        chosen = first if self.feeds[condition] else second
        a, b, x = self._name(), self._name(), self._pick(self._tensors)
        self._add_sequence(
            f"If ({condition}) <then_branch = g{a} () => ({a}) "
            f"{{ {a} = SequenceInsert ({first}, {x}) }}, else_branch = g{b} () => ({b}) "
            f"{{ {b} = SequenceInsert ({second}, {x}) }}>",
            [*self._sequences[chosen], self._tensors[x]],
        )

    def _map(self) -> None:
        """Write a map whose body asks for the rank of its sample, over one or two sequences."""
        s, t = self._pick(self._sequences), self._pick(self._sequences)
        if len(self._sequences[t]) < len(self._sequences[s]) or self._chance(50):
            t = s
        samples = list(zip(self._sequences[s], self._sequences[t], strict=False))
        e, f, o, n, r, c, p, q = (self._name() for _ in range(8))
        two = self._number(2, 0)
        self._add_sequence(
            f"SequenceMap ({s}, {t}) <body = g{e} ({e}, {f}) => ({o}) {{ {n} = Shape ({e}) "
            f"{r} = Size ({n}) {c} = Less ({r}, {two}) {o} = If ({c}) <then_branch = t{o} () => "
            f"({p}) {{ {p} = Neg ({e}) }}, else_branch = f{o} () => ({q}) {{ {q} = Relu ({f}) }}> }}>",
            [-a if a.ndim < 2 else np.maximum(b, 0) for a, b in samples],
        )

    def _append_in_loop(self) -> None:
        s, x = self._pick(self._sequences), self._pick(self._tensors)
        value = self._tensors[x]
        if value.ndim == 0 or 0 in value.shape:
            return
        trips = int(self._rng.integers(0, value.shape[0] + 1))
        count, (i, c, t, e, u, d) = self._number(trips), (self._name() for _ in range(6))
        self._add_sequence(
            f'Loop ({count}, "", {s}) <body = g{i} (int64 {i}, bool {c}, seq(float[]) {t}) => '
            f"(bool {d}, seq(float[]) {u}) {{ {e} = Gather <axis = 0> ({x}, {i}) "
            f"{u} = SequenceInsert ({t}, {e}) {d} = Identity ({c}) }}>",
            [*self._sequences[s], *value[:trips]],
        )

    def _at(self) -> None:
        s = self._pick(self._sequences)
        value = self._sequences[s]
        if value:
            k = int(self._rng.integers(-len(value), len(value)))
            self._add_tensor(f"SequenceAt ({s}, {self._number(k, 50)})", value[k])

    def _length(self) -> None:
        s = self._pick(self._sequences)
        value = np.array(len(self._sequences[s]), np.int64)
        self._add_tensor(f"SequenceLength ({s})", value)

    def _join(self) -> None:
        s = self._pick(self._sequences)
        value = self._sequences[s]
        if not value:
            return
        new = int(self._rng.integers(2))
        rank = value[0].ndim + new
        axis = int(self._rng.integers(-rank, rank)) if rank else 0
        try:
            joined = np.stack(value, axis) if new else np.concatenate(value, axis)
        except ValueError:
            return
        if joined.size < 5000:
            self._add_tensor(f"ConcatFromSequence <axis = {axis}, new_axis = {new}> ({s})", joined)

    def _read_all(self) -> None:
        for _ in range(4):
            if not self._sequences:
                self._construct()
            self._pick([self._at, self._join, self._length])()
        self._length()
