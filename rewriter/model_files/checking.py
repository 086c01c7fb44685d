"""ONNX's checker, on models whose weights are elsewhere or whose operators it does not know."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import onnx
import onnx.checker
import onnx.shape_inference
import onnx_ir as ir

from passes.errors import RewriteError
from passes.graph.graphs import all_graphs, is_operator, subgraphs
from passes.typing import type_values
from passes.typing.value_types import Typing
from rewriter.errors import InvalidResultError, ModelError
from rewriter.model_files import files, protos

__all__ = ["check", "check_result", "correct_declarations", "require_valid", "run_pass"]

_STAND_IN = "seqmap.stand_in"  # a domain without schemas: its operators have any type


def check(model: onnx.ModelProto | ir.Model | str | os.PathLike[str]) -> None:
    """Run ONNX's full check: structure, schemas, and types by inference.

    No weights are read: external tensors, and inputs and outputs of unknown rank, which the
    checker refuses though runtimes accept them, are checked as values of no known producer.
    Operators of domains that ONNX does not know pass.

    Args:
        model: The model, or its file; it is not changed.

    Raises:
        ModelError: If the checker objects.
    """
    if isinstance(model, ir.Model):
        proto = protos.to_proto(model)
    elif isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
    else:
        proto = files.read(model)
    for index, graph in enumerate(protos.all_graphs(proto)):
        _stand_in(graph, main=index == 0)
        _quiet(graph.node)
    for function in proto.functions:
        _quiet(function.node)
    for imports in (proto.opset_import, *(f.opset_import for f in proto.functions)):
        imports.add(domain=_STAND_IN, version=1)
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        IndexError,  # of an STFT of no numbers
        RuntimeError,
        ValueError,
    ) as error:
        raise ModelError(f"onnx.checker refuses the model: {protos.one_line(error)}") from error


def check_result(model: ir.Model, given: Callable[[], ir.Model]) -> list[str]:
    """Check a rewritten model; return warnings of what is wrong with it as given, too.

    Args:
        model: The new model. An output that is declared falsely by proof is declared as it is.
        given: Returns a copy of the model as given.

    Raises:
        InvalidResultError: The checker objects to the new model alone.
    """
    try:
        check(model)
    except ModelError as error:
        try:
            check(given())
        except ModelError as given_error:
            return [f"the model was not valid before the rewrite: {given_error}"]
        corrected = correct_declarations(model)
        if corrected is not None:
            return [*corrected, *check_result(model, given)]
        raise InvalidResultError(f"the rewritten model is not valid: {error}") from error
    return []


def correct_declarations(model: ir.Model) -> list[str] | None:
    """Declare the outputs as what they are, where their declaration is false by proof.

    ONNX's checker does not follow the results of a Loop, so that nobody sees it before the Loop
    is gone. JAX's exporter declares the results of some loops so. Values inside of the model that
    are declared falsely are declared no more, and neither is what an If yields where nothing is
    proven of it, but of one of its branches.

    Args:
        model: Changed in place.

    Returns:
        A sentence for each output that was changed; None if nothing was.
    """
    typing = type_values(model, proven=True, ranks=False)
    falsely = [
        (value, proven, found)
        for graph in all_graphs(model)
        for value in _declared_within(graph)
        if (proven := typing.dims(value)) is not None or is_operator(value.producer(), "If")
        if (found := _contradiction(value, proven, typing)) is not None
    ]
    told = []
    for value, proven, found in falsely:
        declared = () if value.shape is None else value.shape.dims
        value.shape = None
        if value.is_graph_output() and value.graph is model.graph:
            false = f"output '{value.name}' is declared {_in_words(declared)} although"
            if proven is None:
                made = f"a branch makes it {_in_words(found)}"
                told.append(f"{false} {made}; the new model declares none")
                continue
            value.shape = ir.Shape([dim if isinstance(dim, int) else None for dim in proven])
            told.append(f"{false} it is {_in_words(proven)}; the new model declares it so")
    return told if falsely else None


def _contradiction(
    value: ir.Value, proven: Sequence[int | str | None] | None, typing: Typing
) -> Sequence[int | str | None] | None:
    """Return proven dimensions that are not as declared: the value's, or those in a branch."""
    found = [proven]
    if proven is None and (node := value.producer()) is not None:
        at = node.outputs.index(value)
        found = [typing.dims(graph.outputs[at]) for _, graph in subgraphs(node)]
    return next((dims for dims in found if dims is not None and _contradicts(value, dims)), None)


def _declared_within(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yield the values that the nodes of a graph make and that are declared with a shape."""
    for node in graph:
        yield from (value for value in node.outputs if value.shape is not None)


def _contradicts(value: ir.Value, proven: Sequence[int | str | None]) -> bool:
    declared = () if value.shape is None else value.shape.dims
    if len(declared) != len(proven):
        return True
    pairs = zip(declared, proven, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def _in_words(dims: Sequence[Any]) -> str:
    return f"[{','.join(str(d) if isinstance(d, int) else '?' for d in dims)}]"


def run_pass(
    one: ir.passes.InPlacePass, model: ir.Model, given: Callable[[], ir.Model]
) -> ir.passes.PassResult:
    """Run a pass; where it fails and the model as given is not valid, the model is to blame.

    Args:
        one: The pass.
        model: The model; it is changed.
        given: Returns a copy of the model as given.

    Raises:
        ModelError: The pass fails, and the checker objects to the model as given.
    """
    try:
        return one(model)
    except RewriteError:
        raise
    except Exception:
        require_valid(given())
        raise


def require_valid(model: onnx.ModelProto | ir.Model) -> None:
    """Raise ModelError if the input model, not the rewrite, is to blame.

    Raises:
        ModelError: If the checker objects.
    """
    try:
        check(model)
    except ModelError as error:
        raise ModelError(f"{error}; mend the model where it is made") from error


def _stand_in(graph: onnx.GraphProto, main: bool) -> None:
    """Replace what the checker would read from a file, or refuses, by outputs of a stand-in."""
    named: list[str] = []
    declared = {info.name for info in graph.input}
    for index in reversed(range(len(graph.initializer))):
        tensor = graph.initializer[index]
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            if tensor.name not in declared:
                named.append(tensor.name)
                graph.value_info.append(
                    onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                )
            del graph.initializer[index]
    if main:
        for infos in (graph.input, graph.output):
            for index in reversed(range(len(infos))):
                info = infos[index]
                if info.type.HasField("tensor_type") and not info.type.tensor_type.HasField(
                    "shape"
                ):
                    if infos is graph.input:
                        named.append(info.name)
                    graph.value_info.add().CopyFrom(info)
                    del infos[index]
    if named:
        graph.node.insert(0, onnx.helper.make_node("Value", [], named, domain=_STAND_IN))


def _quiet(nodes: Iterable[onnx.NodeProto]) -> None:
    """Make stand-ins of the constants whose value lies in a file."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.t.data_location == onnx.TensorProto.EXTERNAL:
                node.domain = _STAND_IN
                node.ClearField("attribute")
                break
