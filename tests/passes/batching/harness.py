"""Proves a batching rule: the fused map against the body run alone for each sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from passes.expand import ExpandSequenceMapPass
from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_graphs
from passes.graph.names import make_names_unique
from passes.promises import FuseOptions
from passes.runtimes import SidestepDefectsPass

__all__ = [
    "BATCHES",
    "Case",
    "Operand",
    "constant",
    "decline_of",
    "fused_model",
    "ints",
    "mapped",
    "opened",
    "prove",
    "shared",
    "words",
]

Array = np.ndarray[Any, Any]
onnxruntime.set_default_logger_severity(4)


@dataclasses.dataclass(frozen=True)
class Operand:
    """An operand of a case: `mapped`, `shared` (a graph input) or `constant`."""

    kind: str
    samples: tuple[Array, ...]

    def of(self, sample: int) -> Array:
        """Return the value of one sample."""
        return self.samples[sample if self.kind == "mapped" else 0]

    @property
    def first(self) -> Array:
        """The value of the first sample."""
        return self.samples[0]

    @property
    def dtype(self) -> ir.DataType:
        """The element type."""
        array = self.samples[0]
        return ir.DataType.STRING if array.dtype == object else ir.DataType.from_numpy(array.dtype)


MOST = 3
BATCHES = pytest.mark.parametrize("batch", [0, 1, MOST])


def ints(*numbers: int, dtype: Any = np.int64) -> Array:
    """Make a vector of integers."""
    return np.array(numbers, dtype)


def words(*samples: list[Any]) -> Operand:
    """Make an operand of texts that differ per sample."""
    return mapped(*(np.array(sample, object) for sample in samples))


def mapped(first: Any, *others: Any, dtype: Any = np.float32, seed: int = 0) -> Operand:
    """Make an operand that differs per sample.

    Args:
        first: A shape (tuple), for which random numbers are drawn; or the array of sample 0.
        others: The arrays of samples 1 and 2.
        dtype: Element type of drawn numbers.
        seed: Seed of drawn numbers.
    """
    if isinstance(first, tuple):
        rng = np.random.default_rng(seed)
        draws = [rng.standard_normal(first) * 3 for _ in range(MOST)]
        if np.dtype(dtype) == np.bool_:
            draws = [d > 0 for d in draws]
        return Operand("mapped", tuple(np.asarray(d).astype(dtype) for d in draws))
    arrays = tuple(np.asarray(a) for a in (first, *others))
    assert len(arrays) == MOST, f"give {MOST} samples"
    return Operand("mapped", arrays)


def shared(array: Any) -> Operand:
    """Make an operand that is one run-time value for all samples."""
    return Operand("shared", (np.asarray(array),))


def constant(array: Any) -> Operand:
    """Make an operand that is a constant of the model."""
    return Operand("constant", (np.asarray(array),))


@dataclasses.dataclass(frozen=True)
class Case:
    """One sample of a rule.

    Attributes:
        name: Id of the test.
        nodes: The nodes of the body as ONNX text; they read the operands by name.
        operands: The operands by name; the first mapped one gives the number of samples.
        outputs: The values that the body returns.
        opset: Version of ONNX's operators.
        symbolic: Declare the dimensions of the samples as symbols.
        rtol: Tolerance; 0 with atol 0 asks for identical bits.
        atol: Tolerance.
        loops: How many loops are expected; 0 means that every node is batched.
        inside: Loops that stand in the body and are batched themselves.
    """

    name: str
    nodes: str
    operands: Mapping[str, Operand]
    outputs: Sequence[str] = ("y",)
    opset: int = 18
    symbolic: bool = False
    rtol: float = 1e-5
    atol: float = 1e-6
    loops: int = 0
    inside: int = 0

    def __str__(self) -> str:
        """Return the id of the test."""
        return self.name


def _declared(name: str, operand: Operand, *, stacked: bool, symbolic: bool) -> str:
    dims: list[str] = [str(d) for d in operand.samples[0].shape]
    if symbolic:
        dims = [f"{name}_{i}" for i in range(len(dims))]
    if stacked:
        dims = ["B", *dims]
    shape = f"[{','.join(dims)}]" if dims else ""
    return f"{_TEXT.get(operand.dtype, operand.dtype.name.lower())}{shape} {name}"


_TEXT = {ir.DataType.FLOAT: "float", ir.DataType.DOUBLE: "double"}


def _header(case: Case) -> str:
    return f'<ir_version: 10, opset_import: ["" : {case.opset}]>\n'


def _with_constants(proto: onnx.ModelProto, case: Case) -> onnx.ModelProto:
    for name, operand in case.operands.items():
        if operand.kind == "constant":
            tensor = onnx.numpy_helper.from_array(operand.samples[0], name)
            proto.graph.initializer.append(tensor)
    return proto


def single_model(case: Case) -> onnx.ModelProto:
    """Return the body as a model of its own."""
    inputs = ", ".join(
        _declared(n, o, stacked=False, symbolic=False)
        for n, o in case.operands.items()
        if o.kind != "constant"
    )
    outputs = ", ".join(f"float[] {n}" for n in case.outputs)
    text = f"{_header(case)}g ({inputs}) => ({outputs}) {{ {case.nodes} }}"
    return _with_constants(_parse_untyped(text), case)


def map_model(case: Case) -> onnx.ModelProto:
    """Return the model that maps the body over stacked tensors and stacks the results."""
    graph_inputs, body_inputs, splits = [], [], []
    for name, operand in case.operands.items():
        if operand.kind == "constant":
            continue
        if operand.kind == "shared":
            graph_inputs.append(_declared(name, operand, stacked=False, symbolic=case.symbolic))
            continue
        stacked = _declared(f"{name}_all", operand, stacked=True, symbolic=case.symbolic)
        graph_inputs.append(stacked)
        splits.append(f"{name}_seq = SplitToSequence<axis=0, keepdims=0>({name}_all)")
        body_inputs.append(name)
    maps = ", ".join(f"{n}_seq" for n in body_inputs)
    outs = ", ".join(f"{n}_out" for n in case.outputs)
    joins = "\n".join(
        f"{n}_all_out = ConcatFromSequence<axis=0, new_axis=1>({n}_out)" for n in case.outputs
    )
    untyped_in = ", ".join(f"float[] {n}" for n in body_inputs)
    untyped_out = ", ".join(f"float[] {n}" for n in case.outputs)
    results = ", ".join(f"float[] {n}_all_out" for n in case.outputs)
    newline = "\n"
    text = f"""{_header(case)}g ({", ".join(graph_inputs)}) => ({results}) {{
        {newline.join(splits)}
        {outs} = SequenceMap({maps}) <body = b ({untyped_in}) => ({untyped_out}) {{ {case.nodes} }}>
        {joins} }}"""
    proto = _parse_untyped(text)
    body = next(n for n in proto.graph.node if n.op_type == "SequenceMap").attribute[0].g
    for value in (*body.input, *body.output):
        value.ClearField("type")
    return _with_constants(proto, case)


def _parse_untyped(text: str) -> onnx.ModelProto:
    """Parse a model and take the element types of its outputs from inference."""
    proto = onnx.parser.parse_model(text)
    for value in proto.graph.output:
        value.ClearField("type")
    return proto


def run_model(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Run a model on onnxruntime, or on the reference where onnxruntime refuses it."""
    return opened(proto)(feeds)


def opened(proto: onnx.ModelProto) -> Callable[[Mapping[str, Array]], list[Array]]:
    """Return what runs a model: onnxruntime, or the reference where onnxruntime refuses it."""
    given = {i.name for i in proto.graph.input}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    except Exception:
        from rewriter.evaluator.reference import ReferenceEvaluator

        session = ReferenceEvaluator(proto)

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        outputs = session.run(None, {k: v for k, v in feeds.items() if k in given})
        return [
            x.astype(object) if isinstance(x, np.ndarray) and x.dtype.kind == "U" else x
            for x in outputs
        ]

    return run


def _output_types(case: Case) -> dict[str, onnx.TypeProto]:
    """Return the types of the outputs, which a constant that is out of range does not change."""
    proto = single_model(case)
    for tensor in proto.graph.initializer:
        dims = list(tensor.dims)
        proto.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, dims)
        )
    del proto.graph.initializer[:]
    inferred = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    types = {o.name: o.type for o in inferred.graph.output}
    for type_ in types.values():
        type_.tensor_type.ClearField("shape")
    return types


def typed_outputs(proto: onnx.ModelProto, case: Case) -> onnx.ModelProto:
    types = _output_types(case)
    for value in proto.graph.output:
        value.type.CopyFrom(types[value.name.removesuffix("_all_out")])
    return proto


def fused_model(
    case: Case, lacks: Collection[str] = (), *, for_device: bool = False
) -> tuple[onnx.ModelProto, FuseSequenceMapPass]:
    """Return the fused model, for a target that lacks some operators, and the pass."""
    model = ir.from_proto(typed_outputs(map_model(case), case))
    fuse = FuseSequenceMapPass(FuseOptions(lacks=lacks, for_device=for_device))
    fuse(model)
    ExpandSequenceMapPass()(model)
    SidestepDefectsPass()(model)
    make_names_unique(model)
    return ir.to_proto(model), fuse


def _count(proto: onnx.ModelProto, op_types: Collection[str]) -> int:
    graphs = all_graphs(ir.from_proto(proto))
    return sum(n.op_type in op_types for g in graphs for n in g)


def decline_of(case: Case) -> list[tuple[str, str]]:
    """Return operator and code of each node that stayed per-sample."""
    _, fuse = fused_model(case)
    decisions = [*fuse.decisions, *fuse.declined.values()]
    return [(r.op_type, r.code.value) for d in decisions for r in d.reasons if r.op_type]


def prove(case: Case, batch: int, lacks: Collection[str] = (), *, for_device: bool = False) -> int:
    """Assert that the fused map equals the body run alone, for the first ``batch`` samples.

    Args:
        case: The body and its operands.
        batch: How many samples.
        lacks: Operators that the target does not have, and of which none is left.
        for_device: Whether the target is a device beside the host.

    Returns:
        The number of Ifs that are left.
    """
    proto, fuse = fused_model(case, lacks, for_device=for_device)
    said = [d.reasons for d in (*fuse.decisions, *fuse.declined.values())]
    loops = _count(proto, ("Loop", "Scan", "SequenceMap"))
    assert loops == case.loops + case.inside, f"loops are left: {said}"
    assert not _count(proto, lacks)
    single = typed_outputs(single_model(case), case)
    wanted = [
        run_model(single, {n: o.of(k) for n, o in case.operands.items() if o.kind != "constant"})
        for k in range(max(batch, 1))
    ]
    feeds = {}
    for name, operand in case.operands.items():
        if operand.kind == "mapped":
            rows = [operand.of(k) for k in range(batch)]
            empty = np.empty((0, *operand.samples[0].shape), operand.samples[0].dtype)
            feeds[f"{name}_all"] = np.stack(rows) if rows else empty
        elif operand.kind == "shared":
            feeds[name] = operand.of(0)
    outputs = run_model(proto, feeds)
    for position, (name, got) in enumerate(zip(case.outputs, outputs, strict=True)):
        shape = (batch, *wanted[0][position].shape)
        assert got.shape == shape, f"{name}: shape {got.shape}, wanted {shape}"
        assert got.dtype == np.asarray(wanted[0][position]).dtype, f"{name}: {got.dtype}"
        for k in range(batch):
            assert_equal(got[k], wanted[k][position], case, f"{name} of sample {k}")
    return _count(proto, ("If",))


def assert_equal(got: Array, want: Array, case: Case, where: str) -> None:
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=case.rtol, atol=case.atol, err_msg=where)
    elif want.dtype.kind == "V":
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32), where)
    else:
        np.testing.assert_array_equal(got, want, err_msg=where)
