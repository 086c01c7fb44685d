"""The passes that write for the device of a target, and its kernels as they ask for them."""

from __future__ import annotations

import functools

import onnx_ir as ir

from passes.device.decided_on_device import DecidedOnDevicePass
from passes.device.device_forms import DeviceFormsPass
from passes.device.device_numbers import DeviceNumbersPass
from passes.device.forms_pass import HasKernel
from passes.device.gathered_ranges import GatheredRangesPass
from passes.device.host_loops import HostLoopsPass
from passes.device.host_numbers import HostNumbersPass, ReadsOnHost
from passes.device.joined_shapes import JoinedShapesPass
from passes.device.shapes_on_host import ShapesOnHostPass
from passes.device.short_constants import ShortConstantsPass
from passes.device.whole_shapes import WholeShapesPass
from passes.graph.graphs import all_graphs, all_nodes, default_opset
from passes.graph.opsets import schema_of
from passes.typing import TypeValuesPass
from rewriter.model_files.models import share
from rewriter.placement.host_rule import shape_arithmetic
from rewriter.placement.kernel_table import Kernel, load_table
from rewriter.placement.node_kernels import kernel_of
from rewriter.placement.placed_graphs import placed_graphs

__all__ = [
    "copying_loops",
    "host_nodes",
    "keeps_numbers",
    "kernels_of",
    "passes_behind_all",
    "passes_for_device",
    "reads_on_host",
    "splits_on_host",
]


def passes_for_device(name: str, model: ir.Model) -> list[ir.passes.InPlacePass]:
    """Return the passes for a device, in order.

    Args:
        name: The table of the device.
        model: The model that they will change.
    """
    has_kernel, on_host = kernels_of(name, model), reads_on_host(name, model)
    if not keeps_numbers(name):
        # Forms write constants, too, and cast those that are there.
        is_short = load_table(name).short_int64
        shortened = [ShortConstantsPass(on_host)] if is_short else []
        joined = [JoinedShapesPass(has_kernel)] if is_short else []
        forms = _forms(name, model)
        return [*shortened, *joined, forms, *shortened, ShapesOnHostPass(has_kernel)]
    return [
        DecidedOnDevicePass(on_host),
        DeviceFormsPass(has_kernel),
        GatheredRangesPass(),
        HostNumbersPass(on_host),
        # Sizes that a whole shape holds are brought to the device, and free others to be that.
        WholeShapesPass(has_kernel),
        DeviceNumbersPass(functools.partial(host_nodes, name), on_host),
        WholeShapesPass(has_kernel),
    ]


def passes_behind_all(name: str, model: ir.Model) -> list[ir.passes.InPlacePass]:
    """Return the passes for what is written around defects of a runtime, which is last of all.

    Args:
        name: The table of the device; nothing is left to do where the host keeps numbers.
        model: The model that they will change.
    """
    if keeps_numbers(name):
        return []
    is_plugin = load_table(name).kind == "plugin"
    kept = [HostLoopsPass(functools.partial(copying_loops, name))] if is_plugin else []
    return [_forms(name, model), *kept]


def _forms(name: str, model: ir.Model) -> DeviceFormsPass:
    return DeviceFormsPass(kernels_of(name, model), short_int64=load_table(name).short_int64)


def kernels_of(name: str, model: ir.Model) -> HasKernel:
    """Return what tells whether a device computes a node with a type.

    A type counts only if the device casts to and from it: values are cast in front of a node
    and behind it.

    Args:
        name: The table of the device.
        model: The model, whose opset is asked for whenever a node is.
    """
    table = load_table(name)
    casts = ir.Node("", "Cast", [])

    def has_kernel(node: ir.Node, dtype: ir.DataType | None) -> bool:
        opset = default_opset(model)

        def takes(one: ir.Node) -> bool:
            schema = schema_of(one.op_type, opset)
            return schema is not None and table.takes(one, schema.since_version, dtype)

        return takes(node) and (dtype is None or takes(casts))

    return has_kernel


def keeps_numbers(name: str) -> bool:
    """Return whether a device leaves arithmetic on shapes on the host, by onnxruntime's rule."""
    return bool(name) and not load_table(name).kind


def splits_on_host(name: str) -> bool:
    """Return whether onnxruntime splits a tensor into a sequence on the host, for a device."""
    if not name:
        return False
    table = load_table(name)
    return table.kind != "list" and ("", "SplitToSequence") not in table.kernels


def host_nodes(name: str, model: ir.Model) -> dict[ir.Node, bool]:
    """Return the nodes that stay on the host, and whether the device has a kernel for each.

    Args:
        name: The table of the device.
        model: The model; it is not changed.
    """
    table, copy = load_table(name), share(model)
    TypeValuesPass()(copy)
    kept = dict[ir.Node, bool]()
    for graph in all_graphs(copy):
        found = {node: kernel_of(node, table, copy.opset_imports) for node in graph}
        kernels = {node: one for node, one in found.items() if isinstance(one, Kernel)}
        kept |= dict.fromkeys(found.keys() - kernels.keys(), False)
        kept |= dict.fromkeys(shape_arithmetic(graph, kernels), True)
    nodes = zip(all_nodes(copy), all_nodes(model), strict=True)
    return {own: kept[other] for other, own in nodes if other in kept}


def copying_loops(name: str, model: ir.Model) -> list[ir.Node]:
    """Return the Loops and Scans that a device has no kernel for and that copy in each iteration.

    Args:
        name: The table of the device.
        model: The model; it is not changed.
    """
    table, copy = load_table(name), share(model)
    TypeValuesPass()(copy)
    copying = {one.loop for one in placed_graphs(copy, table) if one.copies}
    nodes = zip(all_nodes(copy), all_nodes(model), strict=True)
    return [
        own for other, own in nodes if other in copying and ("", own.op_type) not in table.kernels
    ]


def reads_on_host(name: str, model: ir.Model) -> ReadsOnHost:
    """Return what tells whether a node reads an input in the memory of the host.

    Args:
        name: The table of the device.
        model: The model, whose opset is asked for whenever a node is.
    """
    table = load_table(name)

    def reads(node: ir.Node, position: int) -> bool:
        schema = schema_of(node.op_type, default_opset(model), node.domain)
        if schema is None:
            return False
        rows = table.kernels.get((node.domain, node.op_type), ())
        served = [row for row in rows if row.serves(schema.since_version)]
        return all(position in row.host_inputs for row in served)

    return reads
