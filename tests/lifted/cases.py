"""The official node tests that can be the body of a map, and the role of their inputs."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import onnx
import onnx.version_converter
from onnx import TensorProto, helper, numpy_helper

from tests.lifted.collected import collect
from tests.lifted.operands import CONSTANT_OPERANDS, SHAPED_BY_VALUES

__all__ = [
    "CONSTANT",
    "FALSELY_DECLARED",
    "MAPPED",
    "ONNXRUNTIME_DEFECTS",
    "SHARED",
    "WAYS",
    "Official",
    "Role",
    "case_names",
    "nodes_of",
    "official_cases",
    "share",
    "stable_hash",
]

Role = str
MAPPED: Role = "mapped"
SHARED: Role = "shared"
CONSTANT: Role = "constant"

_NOT_LIFTED = frozenset(
    {
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "SequenceMap",
    }
)
_ELEMENT_TYPES = frozenset(
    {
        TensorProto.BOOL,
        TensorProto.COMPLEX64,
        TensorProto.COMPLEX128,
        TensorProto.DOUBLE,
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.INT8,
        TensorProto.INT16,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.STRING,
        TensorProto.UINT8,
        TensorProto.UINT16,
        TensorProto.UINT32,
        TensorProto.UINT64,
    }
)
# onnxruntime runs opsets up to 26, SequenceMap begins at 17; what is left runs on the evaluator.
_OPSETS = (26, *range(25, 16, -1), *range(27, onnx.defs.onnx_opset_version() + 1))
_IR_VERSION = 10


@dataclasses.dataclass(frozen=True)
class Official:
    """One official node test, at an opset that has SequenceMap.

    Attributes:
        name: Name of the official test, e.g. ``test_relu``.
        op_type: The operator that it tests.
        model: The single model; its graph is what becomes the body.
        inputs: The official inputs by name, in the order of the graph.
        outputs: The official outputs, in the order of the graph.
        converted: Whether ONNX's version converter made the model.
    """

    name: str
    op_type: str
    model: onnx.ModelProto
    inputs: Mapping[str, np.ndarray]
    outputs: tuple[np.ndarray, ...]
    converted: bool = False


def stable_hash(text: str) -> int:
    """Hash a name in the same way on every machine and in every process."""
    return zlib.crc32(text.encode())


def share(name: str, parts: int) -> bool:
    """Whether a case belongs to the fixed ``1/parts`` of the table."""
    return stable_hash(name) % parts == 0


@functools.cache
def official_cases() -> Mapping[str, Official]:
    """Collect the official node tests that pass the filter of the lifted suite, by name."""
    found = {}
    for test in collect():
        if "_expanded" in test.name or not _liftable(test.model):
            continue
        model = _at_usable_opset(test.model)
        converted = model is None
        model = model or _converted(test.model)
        if model is None:
            continue
        data_inputs, data_outputs = test.data_sets[0]
        names = [value.name for value in model.graph.input]
        found[test.name] = Official(
            name=test.name,
            op_type=model.graph.node[0].op_type,
            model=model,
            inputs=dict(zip(names, map(_as_array, data_inputs), strict=True)),
            outputs=tuple(map(_as_array, data_outputs)),
            converted=converted,
        )
    return found


def _liftable(model: onnx.ModelProto) -> bool:
    nodes = list(nodes_of(model.graph))
    values = [*model.graph.input, *model.graph.output]
    return (
        bool(model.graph.input)
        and all(node.domain in ("", "ai.onnx") for node in nodes)
        and not any(node.op_type in _NOT_LIFTED for node in nodes)
        and all(value.type.WhichOneof("value") == "tensor_type" for value in values)
        and all(value.type.tensor_type.elem_type in _ELEMENT_TYPES for value in values)
    )


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes of a graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)


def _as_array(value: object) -> np.ndarray:
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def _at_usable_opset(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Declare an opset that has SequenceMap and the same operator, preferably one ORT runs."""
    declared = next(entry.version for entry in model.opset_import if entry.domain == "")
    ops = {node.op_type for node in nodes_of(model.graph)}
    now = {op: _since(op, declared) for op in ops}
    for opset in _OPSETS:
        if all(_since(op, opset) == since for op, since in now.items()):
            return _with_opset(model, opset)
    return None


def _converted(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Convert a test of an old operator to the newest opset that onnxruntime runs."""
    ops = {node.op_type for node in nodes_of(model.graph)}
    try:
        converted = onnx.version_converter.convert_version(model, _OPSETS[0])
    except (RuntimeError, onnx.version_converter.ConvertError):
        return None
    kept = {node.op_type for node in nodes_of(converted.graph)}
    return _with_opset(converted, _OPSETS[0]) if ops <= kept else None


def _since(op_type: str, opset: int) -> int | None:
    try:
        return onnx.defs.get_schema(op_type, opset, "").since_version
    except onnx.defs.SchemaError:
        return None


def _with_opset(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    return helper.make_model(
        model.graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=_IR_VERSION
    )


def _all_mapped(official: Official) -> dict[str, Role]:
    return dict.fromkeys(official.inputs, MAPPED)


def _first_mapped(official: Official) -> dict[str, Role]:
    roles = dict.fromkeys(official.inputs, SHARED)
    roles[next(iter(official.inputs))] = MAPPED
    return roles


def _typical(official: Official) -> dict[str, Role]:
    """Constant: operands that set shapes, axes, counts, weights or scales; mapped: the others."""
    positions = CONSTANT_OPERANDS.get(official.op_type, frozenset())
    node = next(n for n in official.model.graph.node if n.op_type == official.op_type)
    constant = {name for i, name in enumerate(node.input) if i in positions}
    return {name: CONSTANT if name in constant else MAPPED for name in official.inputs}


#: How a way gives every input of an official test its role. In the way ``ragged``, samples also
#: differ in length, and sequences are cut from packed tensors.
WAYS: Mapping[str, Callable[[Official], dict[str, Role]]] = {
    "all": _all_mapped,
    "first": _first_mapped,
    "typical": _typical,
    "ragged": _typical,
    "varied": _all_mapped,
}

#: The way in which the declared types of the results are those of the first sample, which the
#: others do not have.
FALSELY_DECLARED = "varied"

#: Cases that onnxruntime computes wrongly inside of any Loop: judged on the evaluator.
ONNXRUNTIME_DEFECTS: Mapping[str, str] = dict.fromkeys(
    ("test_batchnorm_epsilon_training_mode", "test_batchnorm_example_training_mode"),
    "BatchNormalization in training mode overwrites the running mean that it captures",
)


def case_names(way: str) -> list[str]:
    """Names of the official tests of which a way maps at least one input.

    Where types are declared falsely, only results can break them whose shapes follow from values.
    """
    return [
        name
        for name, official in official_cases().items()
        if MAPPED in WAYS[way](official).values()
        and (way != FALSELY_DECLARED or official.op_type in SHAPED_BY_VALUES)
    ]
