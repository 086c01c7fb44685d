"""Resize for a run whose values judge nothing: another engine is faster."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper
from onnx.reference.ops.op_resize import Resize as OnnxResize

from rewriter.evaluator.run_watch import Lender, current_watch

__all__ = ["Resize"]


class Resize(OnnxResize):
    """Resize; another engine runs it where what watches the run lends that."""

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        watch = current_watch()
        if watch is None or watch.lender is None or self._is_open:
            results: tuple[Any, ...] = super()._run(*inputs, **attributes)
            return results
        return (self._lent(watch.lender, inputs),)

    @property
    def _is_open(self) -> bool:
        """Whether an attribute is one of the function around it."""
        return any(attribute.ref_attr_name for attribute in self.onnx_node.attribute)

    def _lent(self, lender: Lender, inputs: tuple[Any, ...]) -> Any:
        given = {f"x{at}": one for at, one in enumerate(inputs) if one is not None}
        node = onnx.NodeProto()
        node.CopyFrom(self.onnx_node)
        names = [f"x{at}" if one is not None else "" for at, one in enumerate(inputs)]
        del node.input[:], node.output[:]
        node.input.extend(names)
        node.output.append("y")
        types = {name: helper.np_dtype_to_tensor_dtype(one.dtype) for name, one in given.items()}
        graph = helper.make_graph(
            [node],
            "resize",
            [helper.make_tensor_value_info(n, types[n], one.shape) for n, one in given.items()],
            [helper.make_tensor_value_info("y", types["x0"], None)],
        )
        opset = helper.make_operatorsetid("", self.run_params["opsets"][""])
        model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
        return lender(model, given)["y"]
