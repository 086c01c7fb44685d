"""A model in a newer opset, node by node: weights, sequences and names stay as they are."""

from __future__ import annotations

import onnx
import onnx.version_converter
import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.builder import Builder
from passes.graph.graphs import (
    all_graphs,
    constant_value,
    default_opset,
    is_default_domain,
    node_paths,
    record_paths,
    subgraphs,
    with_subgraphs,
)
from passes.graph.opsets import schema_of
from passes.graph.splice import splice
from passes.typing import Typing, type_values

__all__ = ["ConvertOpsetPass"]

_SAME_SINCE = {"Constant": 1, "If": 1, "Loop": 1, "Scan": 9}
"""Operators that mean the same since a version; later ones only take more types."""

_WRONG_BEFORE = {"Hardmax": 13, "Resize": 11, "Upsample": 11}
"""Operators whose forms before an opset onnx.version_converter converts wrongly."""


class ConvertOpsetPass(ir.passes.InPlacePass):
    """Convert every node whose operator changed by ONNX's version converter.

    Each is converted in a model of its own: the converter knows no weights in other files, no
    sequences and no functions.
    """

    def __init__(self, opset: int) -> None:
        """Set up.

        Args:
            opset: The opset of the new model.
        """
        super().__init__()
        self._opset = opset

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Convert the main graph, subgraphs and functions.

        Raises:
            RewriteError: The model has a newer opset, or a node cannot be converted.
        """
        given, newest = default_opset(model), onnx.defs.onnx_opset_version()
        if not given <= self._opset <= newest:
            raise RewriteError(
                f"the model of opset {given} cannot be converted to opset {self._opset}: choose "
                f"one from {given} to {newest}"
            )
        if self._opset == given:
            return ir.passes.PassResult(model, modified=False)
        paths, typing = node_paths(model), type_values(model)
        for function in model.functions.values():
            _check_function(function, self._opset)
        versions = dict.fromkeys(with_subgraphs(model.graph), given)
        for function in model.functions.values():
            own = function.opset_imports.get("", function.opset_imports.get("ai.onnx", given))
            versions |= dict.fromkeys(with_subgraphs(function.graph), own)
        for graph in list(all_graphs(model)):
            for node in list(graph):
                _convert(node, paths[node], typing, versions[graph], self._opset)
        for imports in (model.opset_imports, *(f.opset_imports for f in model.functions.values())):
            imports["ai.onnx" if "ai.onnx" in imports and "" not in imports else ""] = self._opset
        return ir.passes.PassResult(model, modified=True)


def _check_function(function: ir.Function, opset: int) -> None:
    own = function.opset_imports.get("", function.opset_imports.get("ai.onnx", 0))
    if own > opset:
        raise RewriteError(
            f"the function {function.name} has opset {own} and cannot be converted to {opset}: "
            f"choose opset {own} or a newer one"
        )


def _convert(node: ir.Node, path: str, typing: Typing, given: int, wanted: int) -> None:
    """Convert one node, if its operator changed between two opsets."""
    if node.graph is None or not is_default_domain(node) or not _changed(node, given, wanted):
        return
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        raise _refusal(node, path, given, wanted, "an attribute is set by a function's caller")
    if subgraphs(node):
        raise _refusal(node, path, given, wanted, "it takes its inputs in another order there")
    if given < _WRONG_BEFORE.get(node.op_type, 0):
        raise _refusal(node, path, given, wanted, "it computes something else there")
    names = _names(node)
    alone = _alone(node, names, typing, given)
    try:
        made = onnx.version_converter.convert_version(alone, wanted)
    except Exception as error:
        raise _refusal(node, path, given, wanted, _short(error)) from error
    if _is_same(made.graph, alone.graph):
        return
    _put(node, path, names, made.graph)


def _changed(node: ir.Node, given: int, wanted: int) -> bool:
    known = _SAME_SINCE.get(node.op_type)
    if known is not None and given >= known:
        return False
    one, other = (schema_of(node.op_type, version) for version in (given, wanted))
    if one is None or other is None:
        return onnx.defs.has(node.op_type) and not subgraphs(node)
    return one.since_version != other.since_version or other.deprecated


def _refusal(node: ir.Node, path: str, given: int, wanted: int, why: str) -> RewriteError:
    return RewriteError(
        f"{path} ({node.op_type}) cannot be converted from opset {given} to {wanted}: {why}; "
        "choose another opset, or export the model anew"
    )


def _short(error: Exception) -> str:
    """Return what the converter says, in one line and without the place in its source."""
    text = " ".join(str(error).split())
    return text.rpartition("failed: ")[2].rstrip(". ")[:200] or type(error).__name__


def _names(node: ir.Node) -> dict[str, ir.Value]:
    """Name the values of a node for a model of its own."""
    values = dict.fromkeys(v for v in (*node.inputs, *node.outputs) if v is not None and v.name)
    return {f"v{i}": value for i, value in enumerate(values)}


def _alone(
    node: ir.Node, names: dict[str, ir.Value], typing: Typing, opset: int
) -> onnx.ModelProto:
    """Return a model of one node; small constants that it reads are known in it."""
    proto = ir.serde.serialize_node(node)
    proto.ClearField("metadata_props")
    name_of = {value: name for name, value in names.items()}
    for field, values in ((proto.input, node.inputs), (proto.output, node.outputs)):
        del field[:]
        field.extend("" if value is None else name_of.get(value, "") for value in values)
    declared = {name: _declared(name, value, typing) for name, value in names.items()}
    graph = onnx.helper.make_graph(
        [proto],
        "alone",
        [declared[name] for name in dict.fromkeys(proto.input) if name],
        [declared[name] for name in proto.output if name],
    )
    for name in dict.fromkeys(proto.input):
        known = constant_value(names[name]) if name else None
        if known is not None and known.dtype != object:
            graph.initializer.append(onnx.numpy_helper.from_array(known, name))
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8
    )


def _declared(name: str, value: ir.Value, typing: Typing) -> onnx.ValueInfoProto:
    known = typing[value]
    if known.type is None:
        return onnx.ValueInfoProto(name=name)
    shape = None if known.dims is None else ir.Shape(known.dims)
    return ir.serde.serialize_value(ir.Value(name=name, type=known.type, shape=shape))


def _is_same(made: onnx.GraphProto, alone: onnx.GraphProto) -> bool:
    """Whether the converter left the node as it was."""
    if len(made.node) != 1:
        return False
    one, other = made.node[0], alone.node[0]
    attributes = [
        sorted(a.SerializeToString(deterministic=True) for a in node.attribute)
        for node in (one, other)
    ]
    fields = [(n.op_type, [*n.input], [*n.output]) for n in (one, other)]
    return attributes[0] == attributes[1] and fields[0] == fields[1]


def _put(node: ir.Node, path: str, names: dict[str, ir.Value], made: onnx.GraphProto) -> None:
    """Put converted nodes into the place of a node."""
    builder = Builder.at(node)
    graph = ir.serde.deserialize_graph(made)
    values = {value: names[value.name] for value in graph.inputs if value.name}
    for value in graph.initializers.values():
        if value not in values and value.const_value is not None:
            values[value] = builder.constant(value.const_value.numpy())
    for one in graph:
        inputs = [None if value is None else values[value] for value in one.inputs]
        attributes = dict(one.attributes)
        new = builder.node(
            one.op_type, inputs, attributes, outputs=len(one.outputs), domain=one.domain
        )
        for value, converted in zip(one.outputs, new.outputs, strict=True):
            values[value] = converted
            if not value.name:
                converted.name = ""
        new.name = node.name
        new.metadata_props.clear()
        new.metadata_props.update(node.metadata_props)
    record_paths(dict.fromkeys(builder.nodes, path))
    splice(builder, node, [(names[v.name], values[v]) for v in graph.outputs if v.name])
