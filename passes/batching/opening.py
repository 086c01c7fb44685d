"""Opens calls of functions: the nodes of the function take the place of the call.

An operator without a rule may be a function, by its own definition or by the model's. Its nodes
may have rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from passes.batching import rules, table
from passes.batching.contributed_functions import fused_function
from passes.batching.versions import DEFAULT_DOMAINS, means_the_same
from passes.graph.graphs import (
    all_nodes,
    default_opset,
    forget_paths,
    paths_below,
    record_paths,
    recorded_path,
    subgraphs,
    walk_nodes,
)
from passes.graph.node_copies import copy_nodes
from passes.graph.opsets import schema_of
from passes.typing import Typing, type_values

__all__ = ["open_functions"]

assert rules

_Id = ir.OperatorIdentifier


def open_functions(
    model: ir.Model,
    bodies: Iterable[ir.Graph],
    stays: Callable[[ir.Node], bool] | None = None,
) -> bool:
    """Open the calls of functions in bodies, and in what these hold, where there is no rule.

    1. A function of the model, an operator that its definition gives as a function, or one that
       onnxruntime fused.
    2. Only where the function means by its operators what the model's opsets mean by them.
    3. Functions of the model that nothing calls any more are dropped.

    Args:
        model: The model.
        bodies: Graphs of the model.
        stays: Tells which nodes are not opened, in place of whether there is a rule.

    Returns:
        Whether a call was opened.
    """
    opener = _Opener(model, stays)
    for body in bodies:
        opener.open_nodes(list(body), frozenset())
    opener.drop_unused()
    return bool(opener.opened)


class _Opener:
    """Opens calls in one model.

    Attributes:
        opened: The functions whose calls were opened.
    """

    def __init__(self, model: ir.Model, stays: Callable[[ir.Node], bool] | None = None) -> None:
        self._stays = stays or self._has_rule
        self.opened: set[_Id] = set()
        self._model = model
        self._opset = default_opset(model)
        self._typing: Typing | None = None

    def open_nodes(self, nodes: Sequence[ir.Node], above: frozenset[_Id]) -> None:
        """Open the calls among nodes of a graph.

        Args:
            nodes: The nodes, in order.
            above: The functions that the nodes came from.
        """
        for node in nodes:
            for _, inner in subgraphs(node):
                self.open_nodes(list(inner), above)
            if node.op_identifier() in above or self._stays(node):
                continue
            function = self._function(node)
            if function is None or not self._may_open(node, function):
                continue
            identifier = node.op_identifier()
            self.opened.add(identifier)
            self._import(function)
            new = _replace(node, function)
            self._typing = None
            self.open_nodes(new, above | {identifier})

    def _has_rule(self, node: ir.Node) -> bool:
        return table.find(node, self._opset) is not None

    def drop_unused(self) -> None:
        """Forget the opened functions of the model that nothing calls any more."""
        functions = self._model.functions
        while candidates := [i for i in self.opened if i in functions]:
            called = {node.op_identifier() for node in all_nodes(self._model)}
            unused = [identifier for identifier in candidates if identifier not in called]
            if not unused:
                return
            for identifier in unused:
                del functions[identifier]

    def _function(self, node: ir.Node) -> ir.Function | None:
        known = self._model.functions.get(node.op_identifier())
        if known is not None:
            return known
        fused = fused_function(node, self._opset)
        if fused is not None:
            return fused
        body = _body_by_definition(node, self._version(node.domain, 1), self._type)
        # Range is defined by a Loop, and runs as it is where all samples share its operands.
        is_loop = body is not None and any(inner.op_type == "Loop" for inner in body)
        return None if is_loop else body

    def _type(self, value: ir.Value) -> ir.TypeProtocol | None:
        if self._typing is None:
            self._typing = type_values(self._model)
        return self._typing[value].type

    def _may_open(self, node: ir.Node, function: ir.Function) -> bool:
        """Whether the call fits the function, and the function the model."""
        given = dict(zip(function.inputs, node.inputs, strict=False))
        passed_on = set(function.inputs) & set(function.outputs)
        return (
            len(node.inputs) <= len(function.inputs)
            and len(node.outputs) <= len(function.outputs)
            and all(given.get(formal) is not None for formal in passed_on)
            and not any(attribute.is_ref() for attribute in node.attributes.values())
            and all(
                means_the_same(function, domain, version, self._version(domain, version))
                for domain, version in function.opset_imports.items()
            )
        )

    def _version(self, domain: str, default: int) -> int:
        if domain in DEFAULT_DOMAINS:
            return self._opset
        return self._model.opset_imports.get(domain, default)

    def _import(self, function: ir.Function) -> None:
        for domain, version in function.opset_imports.items():
            if domain not in DEFAULT_DOMAINS:
                self._model.opset_imports.setdefault(domain, version)


def _body_by_definition(
    node: ir.Node, version: int, type_of: Callable[[ir.Value], ir.TypeProtocol | None]
) -> ir.Function | None:
    """Return the function that an operator is by its definition, None if it is none.

    Args:
        node: A node of the operator; some bodies depend on its attributes and types.
        version: Version of its domain in the model.
        type_of: Tells the type of an input.
    """
    schema: Any = schema_of(node.op_type, version, node.domain)
    if schema is None:
        return None
    made: bytes | None = None
    if schema.has_function:
        made = schema.get_function_with_opset_version(
            _newest(schema.function_opset_versions, version)
        )
    elif schema.has_context_dependent_function:
        types = [None if value is None else type_of(value) for value in node.inputs]
        if any(v is not None and t is None for v, t in zip(node.inputs, types, strict=True)):
            return None
        made = schema.get_context_dependent_function_with_opset_version(
            _newest(schema.context_dependent_function_opset_versions, version),
            ir.serde.serialize_node(node).SerializeToString(),
            [_serialized(t) for t in types],
        )
    if not made:
        return None
    proto = onnx.FunctionProto.FromString(made)
    del proto.output[len(node.outputs) :]
    function = ir.serde.deserialize_function(proto)
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type and name in function.attributes:
            default = ir.serde.deserialize_attribute(attribute.default_value)
            function.attributes[name] = default
    return function


def _newest(versions: Sequence[int], version: int) -> int:
    """Return the newest of some versions that is not newer than a version, if there is one."""
    return max((v for v in versions if v <= version), default=versions[0])


def _serialized(type_: ir.TypeProtocol | None) -> bytes:
    if type_ is None:
        return b""
    return bytes(ir.serde.serialize_type(type_).SerializeToString())


def _replace(node: ir.Node, function: ir.Function) -> list[ir.Node]:
    """Put the nodes of a function into the place of a call."""
    graph = node.graph
    assert graph is not None
    values: dict[ir.Value, ir.Value | None] = dict.fromkeys(function.inputs)
    values.update(zip(function.inputs, node.inputs, strict=False))
    new = copy_nodes(function, values)
    defaults = {n: a for n, a in function.attributes.items() if a.value is not None}
    _resolve(new, {**defaults, **node.attributes})
    forget_paths(walk_nodes(new))
    if path := recorded_path(node):
        record_paths(paths_below(new, f"{path}/"))
    base = node.name or node.op_type
    for position, one in enumerate(new):
        one.name = f"{base}/{one.name or f'{one.op_type}_{position}'}"
        one.metadata_props.update({**node.metadata_props, **one.metadata_props})
        for output in one.outputs:
            output.name = output.name and f"{base}/{output.name}"
    graph.insert_before(node, new)
    for old, formal in zip(node.outputs, function.outputs, strict=False):
        value = values[formal]
        assert value is not None
        if old.is_graph_output() and (value.is_graph_output() or value.producer() not in new):
            copied = ir.node("Identity", [value], name=f"{base}/Identity")
            graph.insert_before(node, copied)
            new.append(copied)
            value = copied.outputs[0]
        value.type, value.shape = value.type or old.type, value.shape or old.shape
        is_output, name = old.is_graph_output(), old.name
        old.replace_all_uses_with(value, replace_graph_outputs=True)
        if is_output:
            old.name, value.name, value.type, value.shape = None, name, old.type, old.shape
    graph.remove(node, safe=True)
    return new


def _resolve(nodes: Sequence[ir.Node], attributes: Mapping[str, ir.Attr]) -> None:
    """Replace references to attributes of a call by these; one that it lacks is left out."""
    for node in walk_nodes(nodes):
        for name, attribute in list(node.attributes.items()):
            if not attribute.is_ref():
                continue
            given = attributes.get(attribute.ref_attr_name or "")
            if given is None:
                del node.attributes[name]
            else:
                node.attributes[name] = ir.Attr(name, given.type, given.value)
