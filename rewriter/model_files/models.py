"""What a caller hands in as a model, the working copy of it, and how it is given back.

A working copy shares the weights of a model and nothing that a pass changes. A model is a web of
nodes and values that refer to each other, and all of it is reachable: each look of Python for
unreachable cycles finds nothing, and takes a sixth of the time that a large model takes. So
`seldom_collected` makes them seldom while a copy is worked on.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from passes.graph.graphs import all_graphs, is_operator
from rewriter.errors import ModelError
from rewriter.model_files import external_data, graphsurgeon, on_disk, protos
from rewriter.model_files.arity import check_model
from rewriter.model_files.kinds import AnyModel, model_inside
from rewriter.model_files.model_facts import external_tensors
from rewriter.model_files.sequence_types import mend_sequences

__all__ = [
    "ModelKind",
    "Taken",
    "clone",
    "folder_of",
    "give",
    "seldom_collected",
    "share",
    "take",
]


_CONVERTERS = (
    ("sklearn", "skl2onnx.to_onnx"),
    ("keras", "tf2onnx.convert.from_keras"),
    ("tensorflow", "tf2onnx.convert"),
    ("torch", "torch.onnx.export"),
    ("onnxruntime", "onnx.load of the file that it was opened from"),
)
"""Packages whose objects are taken for models, and what makes a model of one."""


Tensor = ir.TensorProtocol | None

_NEW_OBJECTS = 50_000
"""So many may be made between two looks at the young ones; Python's own number is 700."""

_lock = threading.Lock()
_found: list[tuple[int, int, int]] = []
"""What was set before each block that runs now; threads may run several."""


class ModelKind(enum.Enum):
    """The kind of model that a caller handed in, and so gets back."""

    PATH = "path"
    PROTO = "proto"
    IR = "ir"
    GRAPHSURGEON = "graphsurgeon"
    PROGRAM = "program"


@dataclasses.dataclass(frozen=True)
class Taken:
    """A model that may be changed, and what it was made from.

    Attributes:
        model: The working copy; changing it never changes `original`.
        kind: What the caller handed in.
        folder: The folder that external weights are relative to, None where it is not known.
        original: What the caller handed in.
    """

    model: ir.Model
    kind: ModelKind
    folder: Path | None
    original: AnyModel


def take(model: AnyModel) -> Taken:
    """Make a working copy of a model of any kind.

    Args:
        model: A path, an ``onnx.ModelProto``, an ``onnx_ir.Model``, an
            ``onnx_graphsurgeon.Graph``, an ``ONNXProgram`` of ``torch.onnx.export``, or a function
            of onnxscript; it is never changed.

    Returns:
        The copy. The weights of an ``onnx_ir.Model`` are shared with it, not copied; external
        weights are not read.

    Raises:
        ModelError: If it is none of these, or cannot be read.
    """
    if isinstance(model, str | os.PathLike):
        return Taken(on_disk.load(model), ModelKind.PATH, Path(model).absolute().parent, model)
    if isinstance(model, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)  # renaming an initializer of the IR writes into its message
        on_disk.check_message(proto)
        return Taken(protos.from_proto(proto), ModelKind.PROTO, None, model)
    if isinstance(model, ir.Model):
        for tensor in external_tensors(model):
            external_data.check_tensor(tensor)
        return Taken(clone(model), ModelKind.IR, folder_of(model), model)
    if graphsurgeon.is_graph(model):
        proto = graphsurgeon.to_proto(model)
        on_disk.check_message(proto)
        return Taken(protos.from_proto(proto), ModelKind.GRAPHSURGEON, None, model)
    inner = model_inside(model)
    if isinstance(inner, ir.Model):
        return dataclasses.replace(take(inner), kind=ModelKind.PROGRAM, original=model)
    if inner is not None:
        return take(inner)
    raise ModelError(
        "a model is a path, an onnx.ModelProto, an onnx_ir.Model, an onnx_graphsurgeon.Graph, an "
        "ONNXProgram of torch.onnx.export or a function of onnxscript; this is of type "
        f"{type(model).__name__}{_meant(model)}"
    )


def _meant(model: object) -> str:
    """Return how to make a model of what is none; empty where nothing tells."""
    if isinstance(model, bytes | bytearray | memoryview):
        return ": onnx.load_model_from_string makes a model of bytes"
    if isinstance(model, onnx.GraphProto):
        return ": onnx.helper.make_model makes a model of a graph"
    if hasattr(model, "read"):
        return ": give its path, or what onnx.load reads from it"
    bases = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    told = (f": {converter} makes a model of it" for of, converter in _CONVERTERS if of in bases)
    return next(told, "")


def give(taken: Taken, model: ir.Model) -> AnyModel:
    """Return a rewritten model as the kind that was taken.

    A path and a function of onnxscript give an ``onnx.ModelProto``.

    Args:
        taken: What the rewrite started from.
        model: The result, usually ``taken.model`` after the passes.
    """
    if taken.kind is ModelKind.IR:
        return model
    if taken.kind is ModelKind.PROGRAM:
        program: Any = copy.copy(taken.original)
        program.model = model
        return program
    proto = protos.to_proto(model)
    if taken.kind is ModelKind.GRAPHSURGEON:
        return graphsurgeon.from_proto(proto, taken.original)
    return proto


def folder_of(model: ir.Model) -> Path | None:
    """Return the folder that a model's external weights are relative to, None if not known."""
    for tensor in external_tensors(model):
        if tensor.base_dir:
            return Path(tensor.base_dir).absolute()
    return None


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
