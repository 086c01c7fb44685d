"""An ``onnx.backend`` Backend that rewrites a model before it runs it.

It lets ONNX's own test suite, and whatever else speaks that interface, drive the rewriter. A
model runs on onnxruntime when that can load it, otherwise on the reference evaluator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from passes.errors import RewriteError
from rewriter.backends import BackendError, Session, open_session

__all__ = ["SeqmapBackend", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


class SeqmapBackendRep(BackendRep):
    """A rewritten model that is ready to run."""

    def __init__(self, model: onnx.ModelProto, session: Session) -> None:
        initializers = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [v.name for v in model.graph.input if v.name not in initializers]
        self._session = session

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Run the model once.

        Args:
            inputs: Values in the order of the graph's inputs, or by name; one array for a model
                with one input.

        Returns:
            The outputs in the graph's order, also by name.

        Raises:
            BackendError: The model fails on these inputs.
        """
        if isinstance(inputs, Mapping):
            feeds = dict(inputs)
        elif isinstance(inputs, Sequence):
            feeds = dict(zip(self._inputs, inputs, strict=False))
        else:
            feeds = dict.fromkeys(self._inputs[:1], inputs)
        outputs = self._session.run(feeds)
        made: tuple[Any, ...] = namedtupledict("Outputs", list(outputs))(*outputs.values())
        return made


class SeqmapBackend(Backend):
    """Rewrites, then runs."""

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", **options: Any
    ) -> SeqmapBackendRep:
        """Rewrite a model and make it ready to run.

        Args:
            model: The model.
            device: ``CPU``, or another device that onnxruntime runs on here.
            **options: Options of :func:`rewriter.rewrite`, such as ``strategy``.

        Raises:
            RewriteError: The model cannot be rewritten, or nothing here can run the result.
        """
        from rewriter.pipeline import rewrite

        rewritten = rewrite(model, **options).model
        return SeqmapBackendRep(model, _open(rewritten, device))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **options: Any
    ) -> tuple[Any, ...]:
        """Rewrite a model and run it once."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[Any, ...]:
        """Run one node on tensors, as a model of its own.

        Args:
            node: The node.
            inputs: Arrays in the order of the node's inputs.
            device: Where to run.
            outputs_info: Element type and shape of each output, where they are known.
            **options: ``opset_version``, the opset that the node is of (by default the newest
                that every backend here accepts), and the options of :func:`rewriter.rewrite`.
        """
        opset = options.pop("opset_version", _OPSET)
        model = _model_of(node, inputs, outputs_info, opset)
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether a model would run on that device."""
        try:
            _open(_PROBE, device)
        except BackendError:
            return False
        return True


prepare = SeqmapBackend.prepare
run_model = SeqmapBackend.run_model
run_node = SeqmapBackend.run_node
supports_device = SeqmapBackend.supports_device
is_compatible = SeqmapBackend.is_compatible

_OPSET = 26
_IR_VERSION = 10
_FLOAT = onnx.TensorProto.FLOAT
_PROBE = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 21]> probe (float[N] x) => (float[N] y) { y = Relu(x) }'
)


def _open(model: Any, device: str) -> Session:
    name = device.split(":")[0].lower()
    try:
        return open_session(model, "onnxruntime", name)
    except BackendError:
        # The evaluator stands in for the CPU and for nothing else.
        if name != "cpu":
            raise
        return open_session(model, "reference")


def _model_of(
    node: onnx.NodeProto,
    inputs: Sequence[Any],
    outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None,
    opset: int,
) -> onnx.ModelProto:
    names = list(dict.fromkeys(name for name in node.input if name))
    if len(names) != len(inputs):
        raise RewriteError(
            f"the node {node.op_type} has {len(names)} inputs and {len(inputs)} were given"
        )
    graph = helper.make_graph(
        [node],
        node.op_type,
        [
            helper.make_value_info(n, _type_of(value))
            for n, value in zip(names, inputs, strict=True)
        ],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    if outputs_info is not None:
        for output, (dtype, shape) in zip(graph.output, outputs_info, strict=True):
            element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            output.type.CopyFrom(helper.make_tensor_type_proto(element, shape))
    imports = [helper.make_opsetid(node.domain, opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION)
    return onnx.shape_inference.infer_shapes(model)


def _type_of(value: Any) -> onnx.TypeProto:
    if isinstance(value, list):
        element = _type_of(value[0]) if value else helper.make_tensor_type_proto(_FLOAT, None)
        element.tensor_type.ClearField("shape")
        return helper.make_sequence_type_proto(element)
    array = np.asarray(value)
    kind = onnx.TensorProto.STRING if array.dtype.kind in "OUST" else array.dtype
    element_type = kind if isinstance(kind, int) else helper.np_dtype_to_tensor_dtype(kind)
    return helper.make_tensor_type_proto(element_type, array.shape)
