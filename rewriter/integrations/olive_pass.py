"""A pass of Olive that rewrites an ONNX model; it needs ``olive-ai``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.passes import Pass
from olive.passes.onnx.common import get_external_data_config, model_proto_to_olive_model
from olive.passes.pass_config import PassConfigParam

from rewriter.pipeline import rewrite

__all__ = ["SeqmapRewrite"]

_OPTIONS: dict[str, tuple[Any, Any, str]] = {
    "strategy": (str, "auto", "auto, fuse or expand"),
    "target": (str, "onnxruntime", "the runtime that the model is for"),
    "uniform": (list[str], [], "sequence inputs whose elements have one shape"),
    "require": (list[str], [], "sequence-free, loop-free"),
    "trust_types": (bool, False, "take the declared shapes of elements for true"),
    "tensor_io": (bool, False, "pass sequences at inputs and outputs as tensors"),
    "exact": (bool, False, "keep per-sample what batching could change by rounding"),
    "verify": (bool, True, "compare with the model as given; a difference is repaired"),
}
"""The options of `rewriter.rewrite` that a workflow may set: type, default, meaning."""


class SeqmapRewrite(Pass):  # type: ignore[misc] # olive ships no types
    """Replace SequenceMap, Loop and Scan by batched operators where that is proven."""

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, PassConfigParam]:
        options = {
            name: PassConfigParam(type_=kind, default_value=default, description=meaning)
            for name, (kind, default, meaning) in _OPTIONS.items()
        }
        return {**options, **get_external_data_config()}

    def _run_for_config(
        self, model: ONNXModelHandler, config: Any, output_model_path: str
    ) -> ONNXModelHandler:
        given = Path(model.model_path)
        proto = rewrite(given, **{name: getattr(config, name) for name in _OPTIONS}).model
        # Olive writes to a folder of its own, where recorded places of weights do not hold.
        onnx.load_external_data_for_model(proto, str(given.parent))
        out = resolve_onnx_path(output_model_path, given.name)
        return model_proto_to_olive_model(proto, out, config)
