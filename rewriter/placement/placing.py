"""The placement of a model on a target, and what of it a requirement forbids."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import onnx
import onnx.inliner
import onnx_ir as ir

from passes.graph.graphs import is_operator
from passes.graph.made import operand
from passes.typing import TypeValuesPass
from rewriter.backends.optimized_graph import before_placement, layer_settings
from rewriter.backends.providers import provider_of, settings_of
from rewriter.backends.session import BackendError
from rewriter.model_files import protos
from rewriter.model_files.model_facts import model_facts
from rewriter.model_files.models import folder_of, share
from rewriter.placement.kernel_table import KernelTable, load_table
from rewriter.placement.predict import HostNode, PredictedPlacement, predict
from rewriter.target_table import Target, Unreached

__all__ = ["MOST_BYTES", "off_device", "place"]


MOST_BYTES = 2**28
"""The most weights that onnxruntime reads only to show what it makes of a model."""
_HALF = {"bfloat16", "float16"}
# The device that computes int64 in 32 bits.
_SHORT = "webgpu-int64"
# What WebGPU computes with channels last.
_CHANNELS_LAST = {"Conv", "ConvTranspose", "Resize", "InstanceNormalization", "BatchNormalization"}


def place(model: ir.Model, target: Target) -> PredictedPlacement | None:
    """Predict where the nodes of a model will run; None for a target without a device.

    Args:
        model: The rewritten model; it is not changed.
        target: Its target.
    """
    if not target.kernels:
        return None
    table = load_table(target.kernels)
    # An initializer that is read from a file takes part like any other, unread.
    copy = protos.to_proto(share(model))
    notes = []
    if table.kind == "list":
        notes.append(f"by the list of operators that {table.runtime} documents")
    elif reason := _too_much(model):
        notes.append(f"counted without onnxruntime's own optimization: {reason}")
    else:
        try:
            every_cast = table.kind == "plugin"
            copy = before_placement(copy, folder_of(model), every_cast=every_cast)
        except BackendError as error:
            notes.append(f"counted without onnxruntime's own optimization: {error}")
    if copy.functions:
        copy = onnx.inliner.inline_local_functions(copy)
    loaded = protos.from_proto(copy)
    TypeValuesPass()(loaded)
    notes += [*_layout_note(loaded, table), *_cast_note(model, table)]
    found = predict(loaded, table, "; ".join(notes))
    settings = {**settings_of(target.device), **layer_settings(copy)}
    return dataclasses.replace(found, settings=settings)


def _too_much(model: ir.Model) -> str:
    if model_facts(model).weight_bytes > MOST_BYTES:
        return "the weights are large"
    made = (value for node in model.graph.all_nodes() for value in node.outputs)
    values = (*model.graph.inputs, *model.graph.initializers.values(), *made)
    if any(value.dtype is not None and value.dtype.name.lower() in _HALF for value in values):
        return "the host computes half-precision floats in another type"
    return ""


def _layout_note(model: ir.Model, table: KernelTable) -> list[str]:
    operators = {node.op_type for node in model.graph.all_nodes()}
    if table.device != "WebGPU" or not any(
        op in _CHANNELS_LAST or op.endswith("Pool") for op in operators
    ):
        return []
    return ["Transpose nodes that WebGPU puts around what it computes channels last do not count"]


def _cast_note(model: ir.Model, table: KernelTable) -> list[str]:
    """The optimization drops Casts that undo one another, where a plugin computes them."""
    if table.kind != "plugin":
        return []
    if not any(_second_casts(model)):
        return []
    typed = share(model)
    TypeValuesPass()(typed)
    undone = any(_second_casts(typed, undoes=True))
    return ["Casts that undo one another do not count"] if undone else []


def _second_casts(model: ir.Model, *, undoes: bool = False) -> Iterator[ir.Node]:
    """Yield the Casts behind a Cast, or only those back to the type that it reads."""
    for node in model.graph.all_nodes():
        first = node.inputs[0].producer() if is_operator(node, "Cast") and node.inputs[0] else None
        if first is None or not is_operator(first, "Cast"):
            continue
        if not undoes or operand(first, 0).dtype == node.outputs[0].dtype:
            yield node


def off_device(placement: PredictedPlacement) -> list[Unreached]:
    """List the nodes on the host as what keeps a model from being wholly on the device."""
    short = settings_of(_SHORT)
    is_set = short.items() <= placement.settings.items()
    has_short = placement.provider == provider_of(_SHORT) and not is_set
    return [
        Unreached(one.path, one.op, _why(one), _remedy(one, has_short=has_short), cause=one.reason)
        for one in placement.host
    ]


def _why(one: HostNode) -> str:
    return f"on-device rules out a node on the host; {one.reason}"


def _remedy(one: HostNode, *, has_short: bool) -> str:
    if one.is_shapes:
        return (
            "promise the dimensions of the inputs with --input-shape, which leaves less to compute"
        )
    if has_short and " kernel for int64" in one.reason:
        return f"--target onnxruntime-{_SHORT}, where all whole numbers fit into 32 bits"
    if " (has " in one.reason:
        return "cast to a type that has a kernel where the model is made"
    return "compute it by other operators where the model is made"
