"""A model for inputs of certain shapes, as compilers of fixed shapes want it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from passes.runtimes.fix_shapes import FixShapesPass
from rewriter.model_files.protos import from_proto, to_proto

__all__ = ["with_fixed_shapes"]

# What frontends that lag behind know.
_OLD_OPSET = 17
_HIDDEN = "seqmap.hidden"


def with_fixed_shapes(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]
) -> onnx.ModelProto:
    """Return a model that computes the same for inputs of these shapes, with fewer operators.

    Its operators are those of opset 17 where ONNX's own converter knows a way.

    Args:
        model: The model with its weights; it is not changed.
        shapes: The shape of every input that is no initializer.
    """
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    fixed = from_proto(copied)
    FixShapesPass(shapes)(fixed)
    return _in_old_opset(to_proto(fixed))


def _in_old_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    versions = {opset.domain: opset.version for opset in model.opset_import}
    inner = any(a.HasField("g") for node in model.graph.node for a in node.attribute)
    if inner or model.functions or set(versions) != {""} or versions[""] <= _OLD_OPSET:
        return model
    hidden = onnx.ModelProto()
    hidden.CopyFrom(model)
    hidden.opset_import.add(domain=_HIDDEN, version=1)
    for node in hidden.graph.node:
        if _is_unknown_to_converter(node):
            node.domain = _HIDDEN
    try:
        old = onnx.version_converter.convert_version(hidden, _OLD_OPSET)
    except RuntimeError:
        return model
    for node in old.graph.node:
        node.domain = "" if node.domain == _HIDDEN else node.domain
    (known,) = [opset for opset in old.opset_import if opset.domain == ""]
    del old.opset_import[:]
    old.opset_import.append(known)
    return old


def _is_unknown_to_converter(node: onnx.NodeProto) -> bool:
    """Whether a node is the same in opset 17, but the converter has no way for it."""
    return node.op_type == "Split" and len(node.input) == 2
