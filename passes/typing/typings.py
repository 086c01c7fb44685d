"""Element type, rank and shape of every value, by ONNX's own inference.

Two typings of one model exist. The *declared* typing says what the model's types say. The
*proven* typing is inferred again with the dimensions of all sequence types erased, and with them
every other type that an exporter may have derived from these: types of values inside the graph,
of outputs, and of inputs of bodies. It keeps what onnxruntime enforces, the shapes of tensor
inputs of the main graph, and what follows from the operators.
"""

from __future__ import annotations

import dataclasses

import onnx
import onnx_ir as ir

from passes.graph.graphs import all_graphs, subgraphs, walk_nodes
from passes.graph.names import make_names_unique
from passes.numbers.folding import Folder
from passes.promises import Promises
from passes.typing.computed_numbers import COMPUTED, show_computed
from passes.typing.corrected_nodes import CORRECTED, correct_nodes
from passes.typing.declared_types import (
    INFERENCE_PREFIX,
    enter_promises,
    erase,
    forget_element_symbols,
    name_elements,
    show_views,
)
from passes.typing.determined_dims import DETERMINED, name_determined
from passes.typing.function_types import read_functions
from passes.typing.inference import (
    infer,
    operators_in,
    proto_without_data,
    read_graph,
    show_constants,
    stand_in,
)
from passes.typing.value_types import Typing, Typings, ValueType

__all__ = ["TypeValuesPass", "Typing", "Typings", "ValueType", "type_both_ways", "type_values"]


def type_values(
    model: ir.Model,
    *,
    proven: bool = False,
    ranks: bool = True,
    promises: Promises | None = None,
) -> Typing:
    """Infer the types of all values of a model, bodies and functions included.

    The names of the model's values are made unique first, since inference goes by name.

    Args:
        model: Any model; only names change.
        proven: Erase the dimensions of sequences and of all that was derived from them.
        ranks: Keep their ranks even so; a rank that is only declared may be false too.
        promises: Shapes of inputs that the caller promises.

    Returns:
        The table. A value that inference could not type has what the model declares.
    """
    make_names_unique(model)
    proto = proto_without_data(model)
    return _type_named(model, proto, proven=proven, ranks=ranks, promises=promises)


def _type_named(
    model: ir.Model,
    proto: onnx.ModelProto,
    *,
    proven: bool = False,
    ranks: bool = True,
    numbers: bool = False,
    promises: Promises | None = None,
) -> Typing:
    """Infer the types of a model whose names are unique; see `type_values`.

    Args:
        model: The model.
        proto: The same without data; it is used up.
        proven: See `type_values`, as for the others.
        ranks: The same.
        numbers: Keep the dimensions that are numbers.
        promises: The same.
    """
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        stand_in(nodes)
    if proven:
        erase(proto, ranks=ranks, numbers=numbers)
    present = operators_in(model.graph)
    maps = "SequenceMap" in present
    if maps:
        show_views(model.graph, proto.graph)
    if promises is not None:
        enter_promises(proto.graph, promises)
    show_constants(model.graph, proto.graph, {})
    if not present.isdisjoint(CORRECTED):
        correct_nodes(model.graph, proto.graph)
    inferred = infer(proto)
    if proven and maps and name_elements(proto.graph, inferred.graph):
        inferred = infer(proto)
    typing = _read_inferred(model, proto, inferred, proven=proven)
    computes, folder = not present.isdisjoint(COMPUTED), Folder(typing)
    while computes and show_computed(model.graph, proto.graph, folder):
        inferred = infer(proto)
        typing = _read_inferred(model, proto, inferred, proven=proven)
        folder = folder.by(typing)
    if maps:
        _join_symbols(typing, model.graph)
    if proven:
        forget_element_symbols(typing, model.graph)
        if not present.isdisjoint(DETERMINED):
            name_determined(typing, model.graph, is_main=True)
    if model.functions:
        read_functions(typing, model, proto, inferred)
    return typing


def _read_inferred(
    model: ir.Model, proto: onnx.ModelProto, inferred: onnx.ModelProto, *, proven: bool
) -> Typing:
    """Return a table of what inference found for the values of the main graph and inside it."""
    symbols = frozenset(
        dim.dim_param
        for value in proto.graph.input
        if value.type.HasField("tensor_type")
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param and not dim.dim_param.startswith(INFERENCE_PREFIX)
    )
    typing = Typing(symbols, names_axes=proven)
    read_graph(typing, model.graph, inferred.graph)
    return typing


def type_both_ways(model: ir.Model, promises: Promises | None = None) -> Typings:
    """Infer the declared and the proven typing of a model.

    Whoever promises that the declared types hold proves their numbers, and not their symbols.
    """
    make_names_unique(model)
    proto, again = proto_without_data(model), onnx.ModelProto()
    again.CopyFrom(proto)
    declared = _type_named(model, proto, promises=promises)
    numbers = promises is not None and promises.trust_types
    proven = _type_named(model, again, proven=True, numbers=numbers, promises=promises)
    return Typings(declared, proven)


def _written(dim: int | str | None) -> int | str | None:
    return None if isinstance(dim, str) and dim.startswith(INFERENCE_PREFIX) else dim


class TypeValuesPass(ir.passes.InPlacePass):
    """Write element type, rank and shape onto every value of a model.

    Inputs and outputs of the main graph, and values that inference cannot type, keep what they
    have. A dimension is written if it is a number or a symbol that the model gave a name.
    """

    def __init__(self, *, proven: bool = False) -> None:
        """Set up the pass.

        Args:
            proven: Erase the dimensions of sequences first.
        """
        super().__init__()
        self._proven = proven

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Type the values of a model."""
        modified = make_names_unique(model)
        typing = type_values(model, proven=self._proven)
        fixed = {*model.graph.inputs, *model.graph.outputs}
        for graph in all_graphs(model):
            for value in (*graph.inputs, *(out for node in graph for out in node.outputs)):
                known = typing[value]
                if value in fixed or known.type is None:
                    continue
                shape = None if known.dims is None else ir.Shape(map(_written, known.dims))
                if value.type != known.type or value.shape != shape:
                    value.type, value.shape = known.type, shape
                    modified = True
        return ir.passes.PassResult(model, modified)


def _join_symbols(typing: Typing, graph: ir.Graph) -> None:
    """Let the inputs of maps' bodies have the symbols of the values that they stand for.

    A body has symbols of its own for the dimensions of its inputs. Where all elements of the
    sequence outside, or the shared tensor, have one number there, the body's symbol is that
    number too, in every type that it stands in.

    Args:
        typing: The types of the graph and of the bodies in it.
        graph: The main graph of a model.
    """
    joined: dict[str, str] = {}
    for node in walk_nodes(graph):
        if node.op_type != "SequenceMap":
            continue
        for _, body in subgraphs(node):
            for inner, outer in zip(body.inputs, node.inputs, strict=False):
                if outer is not None:
                    _join(typing, inner, outer, joined)
    if not joined:
        return
    for value, known in list(typing.items()):
        if known.dims is not None and not joined.keys().isdisjoint(known.dims):
            dims = tuple(joined.get(d, d) if isinstance(d, str) else d for d in known.dims)
            typing.set(value, dataclasses.replace(known, dims=dims))


def _join(typing: Typing, inner: ir.Value, outer: ir.Value, joined: dict[str, str]) -> None:
    own, around = typing.dims(inner), typing.dims(outer)
    if own is None or around is None or len(own) != len(around):
        return
    for dim, given in zip(own, around, strict=True):
        if not isinstance(dim, str) or not isinstance(given, str):
            continue
        number = joined.get(given, given)
        if typing.is_one_number(number) and not typing.is_one_number(dim):
            joined[dim] = number
