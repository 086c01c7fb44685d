"""Nodes that ONNX's inference reads wrongly, made into such as it reads well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir

from passes.graph.graphs import (
    captured_values,
    constant_value,
    is_operator,
    name_of,
    walk_nodes,
    with_subgraphs,
)
from passes.graph.whole_slices import cutting_bounds, takes_all
from passes.typing.corrections import axes_of_cut, counted_axis, pass_whole
from passes.typing.protos import subgraph_pairs
from passes.typing.stand_ins import (
    stand_in_contracted,
    stand_in_counted,
    stand_in_cut,
    stand_in_framed,
    stand_in_pooled,
    stand_in_resized,
    stand_in_sorted,
)

__all__ = ["CORRECTED", "correct_nodes", "counted_values"]

_WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")

_STEPS = 256
"""A scale in such parts of 1 makes the same number of any usual size in floats and in doubles."""

_POOLS = ("AveragePool", "LpPool", "MaxPool")

CORRECTED = ("CenterCropPad", "Einsum", "Range", "Resize", "STFT", "Slice", "TopK", *_POOLS)
"""Operators that inference reads wrongly."""


def correct_nodes(
    graph: ir.Graph, proto: onnx.GraphProto, outer: Mapping[ir.Value, str] | None = None
) -> None:
    """Correct nodes that inference reads wrongly, for inference only, at any depth.

    Exporters give a Resize to sizes empty scales, too, and ONNX's inference takes them for as many
    as there are axes; of 10 places by a scale of 0.7 it makes 6, and onnxruntime 7. A Slice of all
    that there is would get dimensions of new names, as would the axes that one leaves whole, and
    one by unknown bounds, or a crop, knows none at all, nor does a TopK of an unknown number. A
    Range up to a dimension gets a new name for it. A pool that rounds up has too many windows
    below opset 22, some that begin behind the image. An STFT of a signal of open length knows
    nothing. An Einsum takes for the size of an axis the first that it meets, which may be a 1 that
    is spread.

    Args:
        graph: The graph.
        proto: The same for inference.
        outer: Names of values that it does not read (`counted_values`), if it stands alone.
    """
    for node, node_proto in zip(graph, proto.node, strict=True):
        for inner, inner_proto in subgraph_pairs(node, node_proto):
            correct_nodes(inner, inner_proto, outer)
        if not is_operator(node, CORRECTED):
            continue
        if node.op_type == "Resize":
            _correct_resize(node, node_proto)
        elif node.op_type == "TopK":
            if len(node.inputs) > 1 and constant_value(node.inputs[1]) is None:
                stand_in_sorted(node_proto)
        elif node.op_type == "Einsum":
            stand_in_contracted(node_proto)
        elif node.op_type == "STFT":
            stand_in_framed(node_proto, _number(node, 1), _frame_size(node))
        elif node.op_type in _POOLS:
            if _rounds_up(node):
                stand_in_pooled(node_proto)
        elif takes_all(node):
            pass_whole(node_proto)
        elif (bounds := cutting_bounds(node)) is not None:
            _name_cut_axes(node_proto, proto, bounds)
        elif (axes := axes_of_cut(node)) is not None:
            stand_in_cut(node_proto, axes)
        elif (counted := counted_axis(node)) is not None:
            tensor, axis = counted
            name = (outer or {}).get(tensor) or name_of(tensor)
            stand_in_counted(node_proto, name, axis)


def _name_cut_axes(
    node: onnx.NodeProto, graph: onnx.GraphProto, bounds: Sequence[np.ndarray]
) -> None:
    """Let a Slice name the axes alone that it cuts, by starts, ends, axes and steps."""
    del node.input[1:]
    for part, array in zip(("starts", "ends", "axes", "steps"), bounds, strict=True):
        node.input.append(f"{node.output[0]}/{part}")
        graph.initializer.append(onnx.numpy_helper.from_array(array, node.input[-1]))


def _correct_resize(node: ir.Node, proto: onnx.NodeProto) -> None:
    """Leave out scales that are empty, since there are sizes; read those in which floats round."""
    *_, given = [None, *node.inputs[1:3]]
    scales = None if given is None else constant_value(given)
    if scales is None:
        return
    if not scales.size:
        if len(node.inputs) > 3:
            proto.input[2] = ""
    elif (scales * _STEPS % 1).any():
        stand_in_resized(proto, scales.reshape(-1).tolist())


def _number(node: ir.Node, position: int) -> int | None:
    """Return the constant number that is an input, None where there is none."""
    value = node.inputs[position] if position < len(node.inputs) else None
    known = None if value is None else constant_value(value)
    return int(known.reshape(-1)[0]) if known is not None and known.size == 1 else None


def _frame_size(node: ir.Node) -> int | None:
    """Return how long a frame of an STFT is: as its window, or as its last input says."""
    window = node.inputs[2] if len(node.inputs) > 2 else None
    if window is None:
        return _number(node, 3)
    known, made = constant_value(window), window.producer()
    if known is not None:
        return known.size
    return _number(made, 0) if made is not None and is_operator(made, _WINDOWS) else None


def _rounds_up(node: ir.Node) -> bool:
    is_evened = node.attributes.get_string("auto_pad", "NOTSET").startswith("SAME")
    return bool(node.attributes.get_int("ceil_mode", 0)) and not is_evened


def counted_values(graph: ir.Graph) -> list[ir.Value]:
    """Return the tensors outside of a graph to whose dimensions a Range counts."""
    nodes = list(walk_nodes(graph))
    found = [counted_axis(node) for node in nodes if node.op_type == "Range"]
    known = {v for g in with_subgraphs(graph) for v in (*g.inputs, *g.initializers.values())}
    known |= {*captured_values(graph), *(v for node in nodes for v in node.outputs)}
    asked = dict.fromkeys(counted[0] for counted in found if counted is not None)
    return [v for v in asked if v not in known]
