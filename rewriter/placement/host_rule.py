"""Finds the nodes that onnxruntime leaves on the host: no kernel, or arithmetic on shapes."""

from __future__ import annotations

import dataclasses
import heapq
import json
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from passes.device.host_loops import stays_on_host
from passes.graph.graphs import captured_values, subgraphs
from rewriter.backends.optimized_graph import OPENED_KEY
from rewriter.placement.kernel_table import Kernel

__all__ = ["SMALL", "is_initializer", "shape_arithmetic"]

SMALL = 100
"""The most elements of an initializer that may be read on either side."""
# Half-precision and smaller floats are computed on the device, whatever feeds them.
_DEVICE_ONLY = {
    ir.DataType.FLOAT16,
    ir.DataType.BFLOAT16,
    ir.DataType.FLOAT8E4M3FN,
    ir.DataType.FLOAT8E4M3FNUZ,
    ir.DataType.FLOAT8E5M2,
    ir.DataType.FLOAT8E5M2FNUZ,
}


def shape_arithmetic(
    graph: ir.Graph,
    kernels: Mapping[ir.Node, Kernel],
    *,
    twice: bool = False,
    has_layers: bool = False,
) -> set[ir.Node]:
    """Return the nodes that onnxruntime keeps on the host although the device has kernels.

    It follows what kernels leave on the host (the result of Shape), and takes each reader whose
    inputs are all there, or are inputs of the graph or small constants, unless its kernel on the
    device wants them on the host anyway. Each graph is judged by itself: once with operators that
    nobody computes as one node, and once more with the nodes that these are made of.

    Args:
        graph: A graph, without those inside of its nodes.
        kernels: The kernel of each of its nodes that has one on the device.
        twice: Whether the provider is asked twice, as one that comes as a plugin and prefers
            channels last is: the second time about what it left the first time.
        has_layers: Whether a node of the model is annotated to stay on the host. The provider is
            shown each graph without these, and what others make is an input of it.
    """
    steps = [_step(node, kernels.get(node)) for node in graph if not stays_on_host(node)]
    given = {*graph.inputs}
    if has_layers:
        given.update(value for value in captured_values(graph) if not is_initializer(value))
        given.update(*(node.outputs for node in graph if stays_on_host(node)))
    closed = _closed(steps)
    kept = _asked(closed, given, twice)
    if closed == steps:
        return kept
    before = set(closed)
    # A plugin is not asked again about what it took; another provider names that again.
    later = [
        _settled(step)
        if step in before and (twice or step.kernel is None or step.node in kept)
        else step
        for step in steps
    ]
    return kept | _asked(later, given, twice)


def _asked(steps: Sequence[_Step], given: set[ir.Value], twice: bool) -> set[ir.Node]:
    """Return the nodes of steps that are kept when the device has been asked, once or twice."""
    kept = _kept(steps, given)
    return _kept(_left(steps, kept), given) if twice else kept


def _left(steps: Sequence[_Step], kept: set[ir.Node]) -> list[_Step]:
    """Return the steps as they are when the device is asked again: what it took is settled."""
    return [_settled(step) if step.kernel and step.node not in kept else step for step in steps]


def _settled(step: _Step) -> _Step:
    return dataclasses.replace(step, kernel=None, is_settled=True)


@dataclasses.dataclass(eq=False)
class _Step:
    """A node as the rule sees it; without a kernel on the device it runs on the host."""

    node: ir.Node
    inputs: Sequence[ir.Value | None]
    captured: Sequence[ir.Value]
    kernel: Kernel | None
    is_settled: bool = False
    """Whether it has its place already; it is passed over."""

    @property
    def outputs(self) -> Sequence[ir.Value]:
        return self.node.outputs


def _step(node: ir.Node, kernel: Kernel | None) -> _Step:
    captured = [value for _, inner in subgraphs(node) for value in captured_values(inner)]
    return _Step(node, node.inputs, captured, kernel)


def _closed(steps: Sequence[_Step]) -> list[_Step]:
    """Put one step without a kernel for the nodes of each operator that onnxruntime opens late."""
    values = {value.name: value for step in steps for value in step.outputs}
    inside = set[ir.Node]()
    closed: list[_Step] = []
    for step in reversed(steps):
        names = step.node.metadata_props.get(OPENED_KEY)
        if names is not None:
            inside |= _opened(step.node)
            given = [values.get(name) for name in json.loads(names)]
            closed.append(_Step(step.node, given, [], None))
        elif step.node not in inside:
            closed.append(step)
    return closed[::-1]


_OPENED_PREFIX = "_inlfunc_"


def _opened(last: ir.Node) -> set[ir.Node]:
    """Return the nodes that an operator was opened to, by the names of what they hand on."""
    found, waiting = {last}, [last]
    while waiting:
        for value in waiting.pop().inputs:
            if value is None:
                continue
            maker = value.producer()
            if maker is None or maker in found or not str(value.name).startswith(_OPENED_PREFIX):
                continue
            found.add(maker)
            waiting.append(maker)
    return found


def _kept(steps: Sequence[_Step], given: set[ir.Value]) -> set[ir.Node]:
    """Return the nodes of steps with a kernel that are kept on the host; see above."""
    readers: dict[ir.Value | None, list[int]] = {}
    for number, step in enumerate(steps):
        for value in {*step.inputs, *step.captured} - {None}:
            readers.setdefault(value, []).append(number)
    on_host = {
        value
        for step in steps
        if step.kernel
        for position, value in enumerate(step.outputs)
        if position in step.kernel.host_outputs
    }
    waiting = [number for value in on_host for number in readers.get(value, ())]
    heapq.heapify(waiting)
    kept, seen = set[ir.Node](), set[int]()
    while waiting:
        number = heapq.heappop(waiting)
        step = steps[number]
        if number in seen or step.is_settled:
            continue
        seen.add(number)
        if step.kernel and not _stays(step, on_host, given):
            continue
        if step.kernel:
            kept.add(step.node)
        on_host.update(step.outputs)
        for value in step.outputs:
            for reader in readers.get(value, ()):
                heapq.heappush(waiting, reader)
    return kept


def _stays(step: _Step, on_host: set[ir.Value], given: set[ir.Value]) -> bool:
    """Return whether all inputs of a node are on the host, and its kernel wants none there."""
    assert step.kernel is not None
    for position, value in enumerate(step.inputs):
        if value is None:
            continue
        if value.dtype in _DEVICE_ONLY:
            return False
        if _is_small_constant(value) or value in given:
            continue
        if value not in on_host or position in step.kernel.host_inputs:
            return False
    return True


def is_initializer(value: ir.Value) -> bool:
    """Return whether a value is an initializer; onnxruntime makes one of each Constant."""
    producer = value.producer()
    return value.is_initializer() or (producer is not None and producer.op_type == "Constant")


def _is_small_constant(value: ir.Value) -> bool:
    if not is_initializer(value):
        return False
    tensor: ir.TensorProtocol | None = value.const_value
    return tensor is None or tensor.size <= SMALL
