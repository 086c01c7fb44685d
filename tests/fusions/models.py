"""Random models: maps, and between them nodes that onnxruntime makes one operator of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.fusions.drawing import SAMPLES, Drawing
from tests.fusions.moves import AROUND, INSIDE, Move

__all__ = ["Drawn", "draw_model"]

OPSETS = (18, 20, 21, 22)
SIZES = "sizes"
"""The input that says how samples are cut."""


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A model that was drawn.

    Attributes:
        seed: Its seed.
        model: The model.
        shapes: The shape of each input; `SAMPLES` is the number of samples.
        dtype: The element type of the inputs.
        is_empty_safe: Whether onnxruntime runs the model as given for no samples: a Scan along
            another axis than the first ends the process.
        is_cut: Whether samples are cut into three, by an input of sizes.
    """

    seed: int
    model: onnx.ModelProto
    shapes: dict[str, tuple[int, ...]]
    dtype: np.dtype
    is_empty_safe: bool
    is_cut: bool

    def feed(self, samples: int) -> dict[str, np.ndarray]:
        """Return inputs for a number of samples."""
        rng = np.random.default_rng(self.seed + samples)
        feed = {
            name: rng.normal(size=[samples if n == SAMPLES else n for n in shape]).astype(
                self.dtype
            )
            for name, shape in self.shapes.items()
        }
        if self.is_cut:
            cuts = np.sort(rng.integers(0, samples + 1, 2))
            feed[SIZES] = np.diff(cuts, prepend=0, append=samples)
        return feed


def draw_model(seed: int) -> Drawn:
    """Draw a model; the same for the same seed."""
    drawing = Drawing(seed)
    rng = drawing.rng
    sizes = [rng.choice([2, 3, 4, 5]) for _ in range(rng.choice([1, 2, 2, 3]))]
    sizes[rng.randrange(len(sizes))] = SAMPLES
    value = drawing.input(*sizes)
    outputs: list[str] = []
    scans_sideways = False
    for _ in range(rng.choice([1, 1, 2])):
        value = _moved(drawing, value, rng.randint(0, 2), outputs)
        value, is_sideways = _mapped(drawing, value)
        scans_sideways |= is_sideways
        value = _moved(drawing, value, rng.randint(1, 4), outputs)
    outputs = [*outputs[-2:], value]
    is_cut = any(SIZES in node.input for node in drawing.nodes)
    given = [drawing.info(name) for name in drawing.inputs]
    if is_cut:
        given.append(helper.make_tensor_value_info(SIZES, TensorProto.INT64, [3]))
    graph = helper.make_graph(
        drawing.nodes,
        "drawn",
        given,
        [drawing.info(name) for name in outputs],
        drawing.weights,
    )
    for output in graph.output:
        for dim in output.type.tensor_type.shape.dim:
            dim.Clear()
    opset = helper.make_opsetid("", rng.choice(OPSETS))
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    shapes = {name: drawing.shapes[name] for name in drawing.inputs}
    return Drawn(seed, model, shapes, drawing.dtype, not scans_sideways, is_cut)


def _moved(drawing: Drawing, value: str, count: int, outputs: list[str]) -> str:
    """Add moves; a result that holds no samples any more becomes an output."""
    for _ in range(count):
        made = _move(drawing, value, AROUND)
        if SAMPLES in drawing.shapes[made]:
            value = made
        else:
            outputs.append(made)
    return value


def _move(drawing: Drawing, value: str, moves: Sequence[Move]) -> str:
    """Add the first move that fits."""
    made = None
    while made is None:
        made = drawing.rng.choice(moves)(drawing, value)
    return made


def _mapped(drawing: Drawing, value: str) -> tuple[str, bool]:
    """Map over the axis of samples; whether a Scan does so along another axis than the first."""
    axis = drawing.shapes[value].index(SAMPLES)
    kind = drawing.rng.choice([_by_scan, _by_scan, _by_loop, _by_map, _by_pieces])
    if kind is _by_scan:
        return _by_scan(drawing, value, axis)
    shape = drawing.shapes[value]
    perm = [axis, *(other for other in range(len(shape)) if other != axis)]
    if axis:
        value = drawing.op("Transpose", [value], *(shape[n] for n in perm), perm=perm)
    return kind(drawing, value, 0)


def _sample(drawing: Drawing, value: str) -> str:
    """Add moves in a body; return a result of its own."""
    for _ in range(drawing.rng.randint(1, 3)):
        value = _move(drawing, value, INSIDE)
    return drawing.like("Identity", [value])


def _body(
    drawing: Drawing, nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], result: str
) -> onnx.GraphProto:
    given = [drawing.info(name) for name in inputs]
    return helper.make_graph(nodes, "body", given, [drawing.info(result)])


def _element(drawing: Drawing, value: str, axis: int) -> str:
    shape, name = drawing.shapes[value], drawing.name()
    drawing.shapes[name] = (*shape[:axis], *shape[axis + 1 :])
    return name


def _by_scan(drawing: Drawing, value: str, axis: int) -> tuple[str, bool]:
    element = _element(drawing, value, axis)
    with drawing.apart() as nodes:
        result = _sample(drawing, element)
    shape = drawing.shapes[result]
    to = drawing.rng.randrange(len(shape) + 1)
    made = drawing.op(
        "Scan",
        [value],
        *(*shape[:to], SAMPLES, *shape[to:]),
        body=_body(drawing, nodes, [element], result),
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[to],
        scan_output_directions=[drawing.rng.choice([0, 0, 1])],
    )
    return made, bool(axis or to)


def _by_loop(drawing: Drawing, value: str, axis: int) -> tuple[str, bool]:
    rank = len(drawing.shapes[value])
    index, before, after = drawing.name(), drawing.name(), drawing.name()
    with drawing.apart() as nodes:
        element = drawing.op("Gather", [value, index], *drawing.shapes[value][1:])
        result = _sample(drawing, element)
        nodes.append(helper.make_node("Identity", [before], [after]))
    body = helper.make_graph(
        nodes,
        "body",
        [drawing.info(index, TensorProto.INT64), drawing.info(before, TensorProto.BOOL)],
        [drawing.info(after, TensorProto.BOOL), drawing.info(result)],
    )
    count = drawing.op(
        "Gather", [drawing.op("Shape", [value], rank), drawing.constant(0, np.int64)]
    )
    start = drawing.constant(True, np.bool_)
    return drawing.op("Loop", [count, start], SAMPLES, *drawing.shapes[result], body=body), False


def _by_map(drawing: Drawing, value: str, axis: int) -> tuple[str, bool]:
    element = _element(drawing, value, axis)
    with drawing.apart() as nodes:
        result = _sample(drawing, element)
    shape = drawing.shapes[result]
    rows = drawing.op("SplitToSequence", [value], axis=0, keepdims=0)
    found = drawing.op("SequenceMap", [rows], body=_body(drawing, nodes, [element], result))
    to = drawing.rng.randrange(len(shape) + 1)
    joined = (*shape[:to], SAMPLES, *shape[to:])
    return drawing.op("ConcatFromSequence", [found], *joined, axis=to, new_axis=1), False


def _by_pieces(drawing: Drawing, value: str, axis: int) -> tuple[str, bool]:
    """Map over pieces of different length; a result that has no rows any more is not used."""
    element = drawing.name()
    drawing.shapes[element] = drawing.shapes[value]
    with drawing.apart() as nodes:
        result = _sample(drawing, element)
        if drawing.shapes[result][:1] != (SAMPLES,):
            nodes.clear()
            result = drawing.like("Neg", [element])
    pieces = drawing.op("SplitToSequence", [value, SIZES], axis=0)
    found = drawing.op("SequenceMap", [pieces], body=_body(drawing, nodes, [element], result))
    joined = drawing.op("ConcatFromSequence", [found], *drawing.shapes[result], axis=0)
    return joined, False
