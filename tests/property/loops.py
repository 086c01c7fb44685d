"""Random maps in the forms in which exporters write Loops and Scans, and near-misses of each."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping

import numpy as np

__all__ = ["DIALECTS", "MISSES", "Program", "draw"]

ROW = 4
TRUE = "t = Constant <value = bool {1}> ()"


@dataclasses.dataclass
class Program:
    """A model as ONNX text, and how to feed it.

    Attributes:
        name: Dialect and near-miss.
        text: The model.
        is_map: Whether it is a map; a near-miss is not. None: it may be left alone.
        makes: Makes each input for a number of samples.
        least: The least number of samples for which the Loop is what the text says.
    """

    name: str
    text: str
    is_map: bool | None
    makes: Mapping[str, Callable[[np.random.Generator, int], object]]
    least: int = 0

    def feeds(self, samples: int, seed: int = 0) -> dict[str, object]:
        """Make the inputs for a number of samples."""
        rng = np.random.default_rng((seed, samples))
        return {name: make(rng, samples) for name, make in self.makes.items()}


def _floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


class _Body:
    """The nodes of one iteration, as text; values are float rows of known size."""

    def __init__(self, rng: random.Random, index: str | None) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.index = index
        self.count = 0

    def add(self, operation: str) -> str:
        """Add a node and return its output."""
        self.count += 1
        self.lines.append(f"v{self.count} = {operation}")
        return f"v{self.count}"

    def read(self, tensor: str = "x") -> str:
        """Add a read of the row of this iteration."""
        assert self.index is not None
        match self.rng.randrange(3):
            case 0:
                return self.add(f"Gather <axis = 0> ({tensor}, {self.index})")
            case 1:
                start = self.add(f"Unsqueeze ({self.index}, zero1)")
                rows = self.add(f"Gather <axis = 0> ({tensor}, {start})")
                return self.add(f"Squeeze ({rows}, zero1)")
        start = self.add(f"Unsqueeze ({self.index}, zero1)")
        one, axis = (self.add(f"CastLike ({c}, {start})") for c in ("one1", "zero1"))
        end = self.add(f"Add ({start}, {one})")
        rows = self.add(f"Slice ({tensor}, {start}, {end}, {axis})")
        return self.add(f"Squeeze ({rows}, zero1)")

    def compute(self, value: str) -> str:
        """Add a few nodes that keep a row a row."""
        for _ in range(self.rng.randint(1, 4)):
            other = self.rng.choice(["w", "w", "b", value])
            match self.rng.randrange(6):
                case 0:
                    value = self.add(f"Relu ({value})")
                case 1:
                    value = self.add(f"Tanh ({value})")
                case 2:
                    value = self.add(f"Add ({value}, {other if other != 'w' else 'b'})")
                case 3:
                    value = self.add(f"MatMul ({value}, w)")
                case 4:
                    total = self.add(f"ReduceSum <keepdims = 1> ({value}, zero1)")
                    value = self.add(f"Sub ({value}, {total})")
                case 5 if self.index is not None:
                    number = self.add(f"Cast <to = 1> ({self.index})")
                    value = self.add(f"Add ({value}, {number})")
        return value


def _model(opset: int, inputs: str, outputs: str, lines: list[str]) -> str:
    text = "\n  ".join(lines)
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    constants = [
        TRUE,
        "zero = Constant <value = int64 {0}> ()",
        "one = Constant <value = int64 {1}> ()",
        "zero1 = Constant <value = int64[1] {0}> ()",
        "one1 = Constant <value = int64[1] {1}> ()",
        "shape = Shape (x)",
        "n = Gather <axis = 0> (shape, zero)",
    ]
    weights = f"float[{ROW},{ROW}] w, float[{ROW}] b"
    top = "\n  ".join(constants)
    return f"{head}\nmodel ({inputs}, {weights}) => ({outputs}) {{\n  {top}\n  {text}\n}}"


def _loop(body: _Body, signature: str, outputs: str) -> str:
    text = "\n    ".join(body.lines)
    return f"<body = step ({signature}) => ({outputs}) {{\n    {text}\n  }}>"


_ROWS = {
    "x": lambda rng, n: _floats(rng, n, ROW),
    "w": lambda rng, n: _floats(rng, ROW, ROW),
    "b": lambda rng, n: _floats(rng, ROW),
}


def _counted(rng: random.Random, miss: str | None) -> Program:
    """TorchScript and onnxscript: a trip count, appends or scan outputs."""
    body = _Body(rng, "i")
    value = body.compute(body.read())
    state, result = "seq(float[]) s", "s2"
    if miss is None or miss == "early_exit":
        body.lines.append(f"s2 = SequenceInsert (s, {value})")
    else:
        value, state, result = _spoil(body, miss, value)
    condition = rng.choice(["t", "c"])
    initial = rng.choice(["t", ""]) if condition == "c" else "t"
    if miss == "early_exit":
        total = body.add(f"ReduceSum <keepdims = 0> ({value})")
        big = body.add("Constant <value = float {2.0}> ()")
        body.lines.append(f"go = Less ({total}, {big})")
    else:
        body.lines.append(f"go = Identity ({condition})")
    body.lines.append(f"y = Identity ({value})")
    loop = _loop(
        body, f"int64 i, bool c, {state}", f"bool go, {state.split()[0]} {result}, float[{ROW}] y"
    )
    begin = {
        "seq(float[])": "e = SequenceEmpty <dtype = 1> ()",
        f"float[{ROW}]": "e = Identity (b)",
        "int64": "e = Identity (zero)",
    }[state.split()[0]]
    lines = [begin, f"r, ys = Loop {loop} (n, {initial}, e)"]
    outputs = f"float[M,{ROW}] ys"
    if miss is None or result == "s2":
        lines.append("all = SequenceInsert (r, b)")
        lines.append("out = ConcatFromSequence <axis = 0, new_axis = 1> (all)")
        outputs += f", float[L,{ROW}] out"
    elif miss in ("recurrence", "saturating"):
        outputs += f", float[{ROW}] r"
    inputs = f"float[N,{ROW}] x"
    return Program(f"counted {miss}", _model(17, inputs, outputs, lines), miss is None, _ROWS)


def _spoil(body: _Body, miss: str, value: str) -> tuple[str, str, str]:
    """Make of an iteration one that depends on others; return value, state and its next value."""
    match miss:
        case "recurrence":
            value = body.add(f"Add ({value}, s)")
            return value, f"float[{ROW}] s", body.add(f"Tanh ({value})")
        case "saturating":
            total = body.add(f"Add (s, {value})")
            return value, f"float[{ROW}] s", body.add(f"Min ({total}, b)")
        case "reads_earlier":
            length = body.add("SequenceLength (s)")
            number = body.add(f"Cast <to = 1> ({length})")
            value = body.add(f"Add ({value}, {number})")
            body.lines.append(f"s2 = SequenceInsert (s, {value})")
        case "offset":
            number = body.add("Cast <to = 1> (s)")
            value = body.add(f"Add ({value}, {number})")
            largest = body.add(f"ArgMax <axis = 0, keepdims = 0> ({value})")
            return value, "int64 s", body.add(f"Add (s, {largest})")
    return value, "seq(float[]) s", "s2"


def _until(rng: random.Random, miss: str | None) -> Program:
    """A while loop over a carried counter, as PyTorch's default exporter writes it."""
    body = _Body(rng, "k")
    value = body.compute(body.read())
    more = rng.choice(["Less (k2, n)", "Greater (n, k2)"])
    if miss == "unsteady":
        largest = body.add(f"ArgMax <axis = 0, keepdims = 0> ({value})")
        body.lines += [f"jump = Add ({largest}, one)", "k2 = Add (k, jump)", f"go = {more}"]
    elif miss == "early_exit":
        total = body.add(f"ReduceSum <keepdims = 0> ({value})")
        small = body.add(f"Less ({total}, {body.add('Constant <value = float {3.0}> ()')})")
        body.lines += ["k2 = Add (k, one)", f"more = {more}", f"go = And (more, {small})"]
    else:
        body.lines += ["k2 = Add (k, one)", f"go = {more}"]
    body.lines += [f"s2 = SequenceInsert (s, {value})", f"y = Identity ({value})"]
    inner = "int64 i, bool c, int64 k, seq(float[]) s"
    outer = f"bool go, int64 k2, seq(float[]) s2, float[{ROW}] y"
    tested = rng.random() < 0.5
    limit = rng.choice(["", "", "huge"])
    lines = [
        "huge = Constant <value = int64 {9223372036854775807}> ()",
        "first = Less (zero, n)" if tested else "first = Identity (t)",
        "e = SequenceEmpty <dtype = 1> ()",
        f"last, r, ys = Loop {_loop(body, inner, outer)} ({limit}, first, zero, e)",
        "all = SequenceInsert (r, b)",
        "out = ConcatFromSequence <axis = 0, new_axis = 1> (all)",
    ]
    outputs = f"int64 last, float[L,{ROW}] out, float[M,{ROW}] ys"
    text = _model(17, f"float[N,{ROW}] x", outputs, lines)
    is_map: bool | None = miss is None
    if is_map and not tested and any("Slice" in line for line in body.lines):
        is_map = None  # without rows the first iteration's Slice would be empty
    return Program(f"until {miss}", text, is_map, _ROWS, least=0 if tested else 1)


def _beside(rng: random.Random, miss: str | None) -> Program:
    """TensorFlow: an int32 counter, invariant values, floats compared."""
    body = _Body(rng, "k")
    value = body.compute(body.read("xs"))
    body.lines += [
        "k2 = Add (k, one32)",
        "kf = Cast <to = 1> (k2)",
        "mf = Cast <to = 1> (m)",
        "jf = Cast <to = 1> (i)",
        "a = Less (jf, mf)",
        "d = Less (kf, mf)",
        "go = And (a, d)",
        "m2 = Identity (m)",
    ]
    after = "xs"
    if miss == "changes":
        after = body.add("Tanh (xs)")
    elif miss == "recurrence":
        after = body.add(f"Add (xs, {value})")
    body.lines += [f"xs2 = Identity ({after})", f"y = Identity ({value})"]
    inner = f"int64 i, bool c, int32 k, int32 m, float[N,{ROW}] xs"
    outer = f"bool go, int32 k2, int32 m2, float[N,{ROW}] xs2, float[{ROW}] y"
    loop = _loop(body, inner, outer)
    limit = rng.choice(["n", ""])
    lines = [
        "one32 = Constant <value = int32 {1}> ()",
        "zero32 = Constant <value = int32 {0}> ()",
        "shape32 = Cast <to = 6> (shape)",
        "part = Slice (shape32, zero1, one1, zero1)",
        "n32 = Squeeze (part, zero1)",
        "nf = Cast <to = 1> (n32)",
        "zf = Constant <value = float {0}> ()",
        "more = Less (zf, nf)",
        "first = And (more, more)",
        f"last, same, rest, ys = Loop {loop} ({limit}, first, zero32, n32, x)",
    ]
    outputs = f"int32 last, float[M,{ROW}] ys"
    text = _model(15, f"float[N,{ROW}] x", outputs, lines)
    return Program(f"beside {miss}", text, miss is None, _ROWS)


def _scan(rng: random.Random, miss: str | None) -> Program:
    """Scan without a state, or with one that passes through, in all directions."""
    body = _Body(rng, None)
    value = body.compute("p")
    if rng.random() < 0.6:
        value = body.add(f"Mul ({value}, q)")
    if rng.random() < 0.5:
        value = body.add(f"Add ({value}, h)")
    after = "h"
    if miss == "recurrence":
        value = body.add(f"Add ({value}, h)")
        after = value = body.add(f"Tanh ({value})")
    body.lines += [f"h2 = Identity ({after})", f"y = Identity ({value})"]
    loop = _loop(
        body,
        f"float[{ROW}] h, float[{ROW}] p, float[{ROW}] q",
        f"float[{ROW}] h2, float[{ROW}] y",
    )
    directions = [rng.randrange(2) for _ in range(2)]
    out_axis, out_direction = rng.choice([0, 1, -1]), rng.randrange(2)
    attributes = (
        f"num_scan_inputs = 2, scan_input_axes = [0, {rng.choice([1, -1])}], "
        f"scan_input_directions = {directions}, scan_output_axes = [{out_axis}], "
        f"scan_output_directions = [{out_direction}]"
    )
    lines = [f"r, ys = Scan {loop[:-1]}, {attributes}> (b, x, z)"]
    shape = f"float[M,{ROW}]" if out_axis == 0 else f"float[{ROW},M]"
    inputs = f"float[N,{ROW}] x, float[{ROW},N] z"
    makes = {**_ROWS, "z": lambda rng, n: _floats(rng, ROW, n)}
    text = _model(17, inputs, f"float[{ROW}] r, {shape} ys", lines)
    return Program(f"scan {miss}", text, miss is None, makes, least=1)


def _bags(rng: random.Random, miss: str | None) -> Program:
    """EmbeddingBag: rows between neighbouring offsets, reduced."""
    body = _Body(rng, None)
    first, last = ("s", "b0") if miss == "offset" else ("a0", "b0")
    if miss != "offset":
        body.lines.append("a0 = Gather <axis = 0> (all, i)")
    body.lines.append("b0 = Gather <axis = 0> (ends, i)")
    start, end = (body.add(f"Unsqueeze ({v}, zero1)") for v in (first, last))
    value = body.add(f"Slice (x, {start}, {end}, zero1)")
    if rng.random() < 0.4:
        beside = body.add(f"Slice (beside, {start}, {end}, zero1)")
        value = body.add(f"Mul ({value}, {beside})")
    for _ in range(rng.randrange(3)):
        form = rng.choice(["Relu ({})", "Add ({}, b)", "MatMul ({}, w)", "Mul ({0}, {0})"])
        value = body.add(form.format(value))
    keeps = rng.randrange(2)
    reduction = rng.choice(
        ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare"]
    )
    value = body.add(f"{reduction} <keepdims = {keeps}> ({value}, zero1)")
    if keeps:
        value = body.add(f"Squeeze ({value}, zero1)")
    value = body.add(rng.choice(["Relu ({})", "Identity ({})", "Add ({}, b)"]).format(value))
    body.lines += [f"y = Identity ({value})", "go = Identity (t)"]
    inner, outer, given = "int64 i, bool c", "bool go", ""
    if miss == "offset":
        body.lines += ["next = Add (s, one)", "s2 = Max (next, b0)"]
        inner, outer, given = f"{inner}, int64 s", f"{outer}, int64 s2", ", zero"
    loop = _loop(body, inner, f"{outer}, float[{ROW}] y")
    result = "moved, ys" if miss == "offset" else "ys"
    lines = [
        "far = Constant <value = int64[1] {9223372036854775807}> ()",
        "rows = Slice (shape, zero1, one1)",
        "all = Concat <axis = 0> (offsets, rows)",
        "ends = Slice (all, one1, far, zero1)",
        "size = Size (ends)",
        "beside = Tanh (x)",
        f"{result} = Loop {loop} (size, t{given})",
    ]
    inputs = f"float[N,{ROW}] x, int64[K] offsets"
    makes = {**_ROWS, "x": lambda rng, n: _floats(rng, 3 * n, ROW), "offsets": _offsets}
    text = _model(18, inputs, f"float[M,{ROW}] ys", lines)
    return Program(f"bags {miss}", text, miss is None, makes)


def _bags_until(rng: random.Random, miss: str | None) -> Program:
    """EmbeddingBag as PyTorch's default exporter writes it: an If asks for an empty bag."""
    body = _Body(rng, None)
    value = body.add("Slice (x, a, d)")
    for _ in range(rng.randrange(3)):
        form = rng.choice(["Relu ({})", "Add ({}, b)", "MatMul ({}, w)", "Mul ({0}, {0})"])
        value = body.add(form.format(value))
    reduction = rng.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"])
    value = body.add(f"{reduction} ({value}, zero1)")
    if rng.random() < 0.5:
        value = body.add(f"Tanh ({value})")
    rows = "\n      ".join(body.lines)
    is_last = rng.random() < 0.5
    grown = "grown = Add (k, jump)" if miss == "unsteady" else "grown = Add (k, one)"
    step = f"""<body = step (int64 i, bool c, seq(float[]) s, int64 k)
      => (bool go, seq(float[]) s2, int64 k2) {{
      p = Reshape (k, one1)
      q = Add (p, one1)
      a = Slice (all, p, q)
      q2 = Add (q, one1)
      d = Slice (all, q, q2)
      none = Equal (a, d)
      y = If (none) <then_branch = p0 () => (float[1,{ROW}] z) {{ z = Identity (nought) }},
        else_branch = p1 () => (float[1,{ROW}] {value}) {{
      {rows}
      }}>
      s2 = SequenceInsert (s, y)
      size = Sub (d, a)
      some = Max (size, one1)
      jump = Squeeze (some)
      {grown}
      k2 = Identity (grown)
      go = Less (k2, bags)
    }}>"""
    lines = [
        f"nought = Constant <value = float[1,{ROW}] {{{', '.join(['0'] * ROW)}}}> ()",
        "many = Size (offsets)",
        "rows = Slice (shape, zero1, one1)",
        "bags = Sub (many, one)" if is_last else "bags = Identity (many)",
        "all = Identity (offsets)" if is_last else "all = Concat <axis = 0> (offsets, rows)",
        "e = SequenceEmpty <dtype = 1> ()",
        "more = Less (zero, bags)",
        f"r, last = Loop {step} (, more, e, zero)",
        "joined = SequenceInsert (r, nought)",
        "ys = ConcatFromSequence <axis = 0> (joined)",
    ]
    inputs = f"float[N,{ROW}] x, int64[K] offsets"
    makes = {**_ROWS, "x": lambda rng, n: _floats(rng, 3 * n, ROW), "offsets": _offsets}
    text = _model(18, inputs, f"float[M,{ROW}] ys", lines)
    return Program(f"bags_until {miss}", text, miss is None, makes)


def _offsets(rng: np.random.Generator, bags: int) -> np.ndarray:
    """Make offsets for ``3 * bags`` rows: even, ascending, or any."""
    match rng.integers(3):
        case 0:
            return np.arange(bags, dtype=np.int64) * 3
        case 1:
            return np.sort(rng.integers(0, 3 * bags + 1, bags))
    return rng.integers(-2, 3 * bags + 2, bags)


DIALECTS: dict[str, Callable[[random.Random, str | None], Program]] = {
    "counted": _counted,
    "until": _until,
    "beside": _beside,
    "scan": _scan,
    "bags": _bags,
    "bags_until": _bags_until,
}

MISSES = {
    "counted": (
        "recurrence",
        "saturating",
        "reads_earlier",
        "offset",
        "early_exit",
    ),
    "until": ("early_exit", "unsteady"),
    "beside": ("changes", "recurrence"),
    "scan": ("recurrence",),
    "bags": ("offset",),
    "bags_until": ("unsteady",),
}


def draw(dialect: str, seed: int, miss: str | None = None) -> Program:
    """Return a random program.

    Args:
        dialect: One of `DIALECTS`.
        seed: Decides everything else.
        miss: How it fails to be a map, one of `MISSES`; None for a map.
    """
    return DIALECTS[dialect](random.Random(f"{dialect} {seed}"), miss)
