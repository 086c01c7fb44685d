"""Does a model say what belongs to what? Names, order, numbers of inputs, bytes of tensors.

Everything behind this check may rely on it; types and shapes are not looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx

from rewriter.errors import ModelError
from rewriter.model_files.arity import Arity, BodyArity, Imports, check_arity, version_of
from rewriter.model_files.sorting import sort_nodes
from rewriter.model_files.tensor_bytes import check_bytes

__all__ = ["check_message"]

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
_TENSORS = (onnx.AttributeProto.TENSOR, onnx.AttributeProto.TENSORS)


def check_message(proto: onnx.ModelProto, name: str) -> None:
    """Reject an invalid ModelProto; sort its nodes if they are not sorted.

    Args:
        proto: The message; nodes are put in topological order, with a warning, where they are
            not: ONNX requires that order, and onnxruntime does not.
        name: What to call the model in an error.

    Raises:
        ModelError: The first fault that is found: the path of the node, why, and what to do.
    """
    if not proto.HasField("graph") or not proto.opset_import:
        missing = "imports no opset" if proto.HasField("graph") else "has no graph"
        raise ModelError(f"{name} {missing}: export the model again")
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    try:
        _StructureCheck(_imports(proto.opset_import), functions).graph(proto.graph, "", ())
        for function in proto.functions:
            where = f"{function.domain}.{function.name}/".removeprefix(".")
            _StructureCheck(_imports(function.opset_import), functions).function(function, where)
    except ModelError as error:
        raise ModelError(f"{name} is not a valid ONNX model: {error}") from None


def _imports(entries: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {entry.domain: entry.version for entry in entries}


class _StructureCheck:
    """One walk over a graph or a function and everything inside."""

    def __init__(
        self,
        imports: Imports,
        functions: Mapping[tuple[str, str, str], onnx.FunctionProto],
    ) -> None:
        self._imports = imports
        self._functions = functions

    def graph(
        self, graph: onnx.GraphProto, where: str, outer: tuple[Mapping[str, str], ...]
    ) -> set[str]:
        """Check a graph; return the names that it reads of the graphs around it."""
        for tensor in graph.initializer:
            check_bytes(tensor, f"the initializer {where + tensor.name!r}")
        inputs = [value.name for value in graph.input]
        defaults = [tensor.name for tensor in graph.initializer]
        made: dict[str, str] = {}
        for kind, names in (("an input", inputs), ("an initializer", defaults)):
            own: dict[str, str] = {}
            for name in names:
                _define(own, name, kind, where)
            made |= own
        outputs = [value.name for value in graph.output]
        return self._nodes(graph, where, outer, made, outputs)

    def function(self, function: onnx.FunctionProto, where: str) -> None:
        """Check a model-local function."""
        made: dict[str, str] = {}
        for name in function.input:
            _define(made, name, "an input", where)
        self._nodes(function, where, (), made, function.output)

    def _nodes(
        self,
        owner: onnx.GraphProto | onnx.FunctionProto,
        where: str,
        outer: tuple[Mapping[str, str], ...],
        made: dict[str, str],
        outputs: Sequence[str],
    ) -> set[str]:
        paths = [
            where + (node.name or f"{node.op_type}_{index}")
            for index, node in enumerate(owner.node)
        ]
        makers: dict[str, int] = {}
        for index, node in enumerate(owner.node):
            for name in filter(None, node.output):
                _define(made, name, f"{node.op_type} {paths[index]!r}", where)
                makers[name] = index
        visible = (made, *outer)
        reads = []
        for node, path in zip(owner.node, paths, strict=True):
            reads.append(self._node(node, path, visible))
        for name in outputs:
            if not any(name in names for names in visible):
                of = f"of {where.rstrip('/')!r}" if where else "of the graph"
                raise ModelError(
                    f"the output {name!r} {of} is not defined: add the node that makes it, or "
                    "correct the name"
                )
        sort_nodes(owner, paths, reads, makers)
        read = set(itertools.chain(outputs, *reads))
        return {name for name in read if name not in made}

    def _node(
        self, node: onnx.NodeProto, path: str, visible: tuple[Mapping[str, str], ...]
    ) -> set[str]:
        """Check a node and its bodies; return the names that they read."""
        label = f"{node.op_type} {path!r}"
        reads = {name for name in node.input if name}
        for name in node.input:
            if name and not any(name in names for names in visible):
                raise ModelError(
                    f"{label} reads {name!r}, which is not defined: add the node that makes it, "
                    "or correct the name"
                )
        bodies = {}
        for attribute in node.attribute:
            for name, body in _bodies(attribute):
                bodies[name] = _counts(body)
                reads |= self.graph(body, f"{path}/{name}/", visible)
            for tensor in _tensors(attribute):
                check_bytes(tensor, f"the attribute {attribute.name!r} of {label}")
        function = self._functions.get((node.domain, node.op_type, node.overload))
        if function is not None:
            _check_call(node, function, label)
        else:
            self._check_arity(node, label, bodies)
        return reads

    def _check_arity(
        self, node: onnx.NodeProto, label: str, bodies: Mapping[str, BodyArity]
    ) -> None:
        check_arity(
            Arity(
                label,
                node.op_type,
                node.domain,
                version_of(self._imports, node.domain),
                [bool(name) for name in node.input],
                [bool(name) for name in node.output],
                {a.name: None if a.ref_attr_name else a.type for a in node.attribute},
                bodies,
            )
        )


def _bodies(attribute: onnx.AttributeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    if attribute.type in _GRAPHS and not attribute.ref_attr_name:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for index, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{index}]", graph


def _tensors(attribute: onnx.AttributeProto) -> list[onnx.TensorProto]:
    if attribute.type not in _TENSORS or attribute.ref_attr_name:
        return []
    return [attribute.t] if attribute.HasField("t") else list(attribute.tensors)


def _counts(body: onnx.GraphProto) -> BodyArity:
    defaults = {tensor.name for tensor in body.initializer}
    required = sum(value.name not in defaults for value in body.input)
    return BodyArity(len(body.input), required, len(body.output))


def _check_call(node: onnx.NodeProto, function: onnx.FunctionProto, label: str) -> None:
    for side, given, most in (
        ("inputs", len(node.input), len(function.input)),
        ("outputs", len(node.output), len(function.output)),
    ):
        if given > most:
            raise ModelError(
                f"{label} has {given} {side}, and the function {most}: make them match"
            )


def _define(made: dict[str, str], name: str, by: str, where: str) -> None:
    if name in made:
        of = f" in {where.rstrip('/')!r}" if where else ""
        raise ModelError(
            f"{name!r} is defined twice{of}, as {made[name]} and as {by}: rename one of them"
        )
    made[name] = by
