"""Working copies: they share the weights of a model and nothing that a pass changes.

A model is a web of nodes and values that refer to each other, and all of it is reachable: each
look of Python for unreachable cycles finds nothing, and takes a sixth of the time that a large
model takes. So `seldom_collected` makes them seldom while a copy is worked on.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import threading
from collections.abc import Callable, Iterator

import onnx
import onnx_ir as ir

from passes.graph.graphs import all_graphs, is_operator
from rewriter.errors import ModelError
from rewriter.model_files import protos
from rewriter.model_files.arity import check_model
from rewriter.model_files.sequence_types import mend_sequences

__all__ = ["clone", "seldom_collected", "share"]

Tensor = ir.TensorProtocol | None

_NEW_OBJECTS = 50_000
"""So many may be made between two looks at the young ones; Python's own number is 700."""

_lock = threading.Lock()
_found: list[tuple[int, int, int]] = []
"""What was set before each block that runs now; threads may run several."""


def clone(model: ir.Model) -> ir.Model:
    """Copy a model so that nothing done to the copy shows in the original.

    ``Model.clone`` alone shares type objects and tensors: setting a value's dtype, or renaming
    an initializer, would reach the original.

    Raises:
        ModelError: The model cannot be copied: a node reads what comes after it, say.
    """
    check_model(model)
    try:
        new = model.clone()
    except Exception as error:
        raise ModelError(
            f"the model cannot be copied: {protos.one_line(protos.root(error))}; where a node "
            "reads what comes after it, sort the graph with model.graph.sort()"
        ) from error
    new.meta.update(model.meta)
    outputs = _own_declarations(new, _own_tensor)
    for value in outputs:
        value.const_value = None  # a note of some earlier analysis, shared by clones
    if any(is_operator(value.producer(), "SequenceEmpty") for value in outputs):
        mend_sequences(new)
    return new


def share(model: ir.Model) -> ir.Model:
    """Copy a working copy of a model; weights stay where they are, and are not read.

    Args:
        model: What `take` gave; changing the new copy does not change it.
    """
    new = model.clone()
    new.meta.update(model.meta)
    _own_declarations(new, _shared_tensor)
    return new


def _own_declarations(model: ir.Model, own: Callable[[Tensor], Tensor]) -> list[ir.Value]:
    """Give all values of a copy types of their own, and weights tensors of their own.

    Args:
        model: The copy.
        own: Copies a tensor.

    Returns:
        The outputs of nodes.
    """
    outputs = []
    for graph in all_graphs(model):
        for value in {*graph.inputs, *graph.initializers.values()}:
            _own_declaration(value)
            value.const_value = own(value.const_value)
        for value in (value for node in graph for value in node.outputs):
            _own_declaration(value)
            outputs.append(value)
    return outputs


def _shared_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor of the same numbers with a name of its own."""
    if isinstance(tensor, ir.serde.TensorProtoTensor):
        return ir.LazyTensor(lambda: tensor, tensor.dtype, tensor.shape, name=tensor.name)
    return copy.copy(tensor)


def _own_declaration(value: ir.Value) -> None:
    """Give a value a type of its own; a negative dimension is one that is not known."""
    value.type = None if value.type is None else copy.deepcopy(value.type)
    if value.shape is not None and any(isinstance(d, int) and d < 0 for d in value.shape):
        value.shape = ir.Shape(None if isinstance(d, int) and d < 0 else d for d in value.shape)


def _own_tensor(tensor: Tensor) -> Tensor:
    if isinstance(tensor, ir.serde.TensorProtoTensor):
        proto = onnx.TensorProto()
        proto.CopyFrom(tensor.raw)
        return ir.serde.TensorProtoTensor(proto)
    return copy.copy(tensor)


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """Let Python look for cycles less often in a block, if it looks for them at all."""
    with _lock:
        _found.append(gc.get_threshold())
        first, second, third = _found[0]
        if first:
            gc.set_threshold(max(first, _NEW_OBJECTS), second, third)
    try:
        yield
    finally:
        with _lock:
            before = _found[0]
            _found.pop()
            if not _found:
                gc.set_threshold(*before)
