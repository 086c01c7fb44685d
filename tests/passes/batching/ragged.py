"""Proves a rule for packed operands: the fused map against the body run alone for each sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from passes.expand import ExpandSequenceMapPass
from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_graphs
from passes.graph.names import make_names_unique
from passes.promises import FuseOptions
from passes.runtimes import SidestepDefectsPass
from rewriter.evaluator.reference import ReferenceEvaluator
from tests.passes.batching.harness import (
    Array,
    Case,
    Operand,
    assert_equal,
    run_model,
    single_model,
    typed_outputs,
)

__all__ = [
    "LENGTHS",
    "RaggedCase",
    "alone",
    "feeds_by",
    "feeds_of",
    "fused",
    "joined",
    "loops_of",
    "prove_declined",
    "prove_ragged",
    "ragged",
    "reasons_of",
    "sample_of",
    "wanted",
]

LENGTHS = (2, 0, 3)
TEXT = {np.dtype(np.float32): "float", np.dtype(np.float64): "double", np.dtype(object): "string"}


def ragged(
    *rest: int,
    dtype: Any = np.float32,
    lengths: Sequence[int] = LENGTHS,
    seed: int = 0,
    low: float = -5,
    high: float = 5,
) -> Operand:
    """Make an operand whose samples are ``[length, *rest]``."""
    rng = np.random.default_rng(seed)
    draws = [rng.uniform(low, high, (n, *rest)) for n in lengths]
    if np.dtype(dtype) == np.bool_:
        draws = [d > 0 for d in draws]
    return Operand("ragged", tuple(d.astype(dtype) for d in draws))


@dataclasses.dataclass(frozen=True)
class RaggedCase:
    """One sample of a rule; see `tests.passes.batching.harness.Case`."""

    name: str
    nodes: str
    operands: Mapping[str, Operand]
    outputs: Sequence[str] = ("y",)
    opset: int = 18
    rtol: float = 1e-5
    atol: float = 1e-6
    loops: int = 0

    def __str__(self) -> str:
        """Return the id of the test."""
        return self.name

    def single(self) -> Case:
        """Return the body as a case that is run alone for each sample."""
        return Case(
            self.name,
            self.nodes,
            self.operands,
            self.outputs,
            self.opset,
            rtol=self.rtol,
            atol=self.atol,
        )


def _sizes(operand: Operand) -> tuple[int, ...]:
    return tuple(a.shape[0] for a in operand.samples)


def sample_of(operand: Operand, k: int) -> Array:
    return operand.samples[k if operand.kind in ("ragged", "mapped") else 0]


def alone(case: RaggedCase) -> onnx.ModelProto:
    """Return the body as a model whose ragged inputs may have any length."""
    proto = typed_outputs(single_model(case.single()), case.single())
    for value in proto.graph.input:
        if case.operands[value.name].kind == "ragged":
            value.type.tensor_type.shape.dim[0].Clear()
    return proto


def wanted(case: RaggedCase, batch: int) -> list[list[Array]]:
    """Return the outputs of the body for each sample, at least those of the first."""
    single = alone(case)
    feeds = [
        {n: sample_of(o, k) for n, o in case.operands.items() if o.kind != "constant"}
        for k in range(max(batch, 1))
    ]
    return [_run_alone(single, one) for one in feeds]


def _run_alone(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Run on onnxruntime, or on the evaluator where it dies of a sample without rows."""
    if any(array.shape[:1] == (0,) for array in feeds.values()):
        try:
            return list(ReferenceEvaluator(proto).run(None, dict(feeds)))
        except Exception:
            return run_model(proto, feeds)
    return run_model(proto, feeds)


def _names(case: RaggedCase) -> dict[tuple[int, ...], str]:
    """Return the graph input that holds each tuple of lengths."""
    found: dict[tuple[int, ...], str] = {}
    for operand in case.operands.values():
        if operand.kind == "ragged":
            found.setdefault(_sizes(operand), f"lengths_{len(found)}")
    return found


def ragged_model(case: RaggedCase, want: Sequence[Sequence[Array]]) -> onnx.ModelProto:
    """Return the model that maps the body over split tensors and joins the results."""
    names = _names(case)
    inputs = [f"int64[B] {name}" for name in names.values()]
    splits, body_inputs = [], []
    for name, operand in case.operands.items():
        array = operand.samples[0]
        kind = TEXT.get(array.dtype, array.dtype.name)
        if operand.kind == "constant":
            continue
        if operand.kind == "shared":
            shape = ",".join(str(d) for d in array.shape)
            inputs.append(f"{kind}[{shape}] {name}" if shape else f"{kind} {name}")
            continue
        body_inputs.append(name)
        if operand.kind == "mapped":
            inputs.append(f"{kind}[{','.join(['B', *map(str, array.shape)])}] {name}_all")
            splits.append(f"{name}_seq = SplitToSequence<axis=0, keepdims=0>({name}_all)")
        else:
            rest = "".join(f",{d}" for d in array.shape[1:])
            inputs.append(f"{kind}[T{len(splits)}{rest}] {name}_all")
            splits.append(
                f"{name}_seq = SplitToSequence<axis=0>({name}_all, {names[_sizes(operand)]})"
            )
    joins = [
        f"{n}_all_out = ConcatFromSequence"
        f"<axis={_axis(want, i)}, new_axis={int(_is_even(want, i))}>({n}_out)"
        for i, n in enumerate(case.outputs)
    ]
    body = ", ".join(f"float[] {n}" for n in body_inputs)
    returns = ", ".join(f"float[] {n}" for n in case.outputs)
    text = f"""<ir_version: 10, opset_import: ["" : {case.opset}]>
      g ({", ".join(inputs)}) => ({", ".join(f"float[] {n}_all_out" for n in case.outputs)}) {{
        {" ".join(splits)}
        {", ".join(f"{n}_out" for n in case.outputs)} =
          SequenceMap({", ".join(f"{n}_seq" for n in body_inputs)})
          <body = b ({body}) => ({returns}) {{ {case.nodes} }}>
        {" ".join(joins)} }}"""
    proto = onnx.parser.parse_model(text)
    mapped = next(n for n in proto.graph.node if n.op_type == "SequenceMap").attribute[0].g
    for value in (*mapped.input, *mapped.output, *proto.graph.output):
        value.ClearField("type")
    for name, operand in case.operands.items():
        if operand.kind == "constant":
            tensor = onnx.numpy_helper.from_array(operand.samples[0], name)
            proto.graph.initializer.append(tensor)
    return typed_outputs(proto, case.single())


def _axis(want: Sequence[Sequence[Array]], position: int) -> int:
    """Return the axis along which an output differs in length, 0 if along none."""
    sizes = zip(*(one[position].shape for one in want), strict=True)
    return next((axis for axis, dims in enumerate(sizes) if len(set(dims)) > 1), 0)


def _is_even(want: Sequence[Sequence[Array]], position: int) -> bool:
    return len({one[position].shape for one in want}) == 1


def fused(
    case: RaggedCase, want: Sequence[Sequence[Array]], lacks: Collection[str] = ()
) -> tuple[ir.Model, list[Any]]:
    """Return the fused model, for a target that lacks some operators, and why loops are left."""
    model = ir.from_proto(ragged_model(case, want))
    fuse = FuseSequenceMapPass(FuseOptions(lacks=lacks))
    fuse(model)
    ExpandSequenceMapPass()(model)
    SidestepDefectsPass()(model)
    make_names_unique(model)
    decisions = [*fuse.decisions, *fuse.declined.values()]
    return model, [r for d in decisions for r in d.reasons if r.op_type]


def loops_of(model: ir.Model) -> int:
    """Return how many loops a model holds."""
    return sum(n.op_type in ("Loop", "Scan") for g in all_graphs(model) for n in g)


def reasons_of(case: RaggedCase) -> list[tuple[str, str]]:
    """Return operator and code of each node that stayed per-sample."""
    return [(r.op_type, r.code.value) for r in fused(case, wanted(case, 3))[1]]


def feeds_of(case: RaggedCase, batch: int) -> dict[str, Array]:
    """Return the inputs of the fused model for the first ``batch`` samples."""
    return feeds_by(case, range(batch))


def feeds_by(case: RaggedCase, places: Sequence[int]) -> dict[str, Array]:
    """Return the inputs of the fused model for the samples of some places."""
    feeds = {
        name: np.array([sizes[k] for k in places], np.int64)
        for sizes, name in _names(case).items()
    }
    for name, operand in case.operands.items():
        parts = [sample_of(operand, k) for k in places]
        if operand.kind == "ragged":
            feeds[f"{name}_all"] = np.concatenate([operand.samples[0][:0], *parts])
        elif operand.kind == "mapped":
            none = np.empty((0, *operand.samples[0].shape), operand.samples[0].dtype)
            feeds[f"{name}_all"] = np.stack(parts) if parts else none
        elif operand.kind == "shared":
            feeds[name] = sample_of(operand, 0)
    return feeds


def joined(
    want: Sequence[Sequence[Array]],
    position: int,
    batch: int,
    like: Sequence[Sequence[Array]] | None = None,
) -> Array:
    """Return an output of the fused model for the first samples, by those of the body alone.

    Args:
        want: The outputs of the body.
        position: Which output.
        batch: How many samples.
        like: Outputs that the model was made for, if not for these.
    """
    rows = [one[position] for one in want[:batch]]
    first = want[0][position]
    if _is_even(like or want, position):
        return np.stack(rows) if rows else np.empty((0, *first.shape), first.dtype)
    axis = _axis(like or want, position)
    return np.concatenate([np.take(first, [], axis), *rows], axis)


def prove_ragged(
    case: RaggedCase, batch: int, *, inside: int = 0, lacks: Collection[str] = ()
) -> None:
    """Assert that the fused map equals the body run alone, for the first ``batch`` samples.

    Args:
        case: The body and its operands.
        batch: How many samples.
        inside: Loops that stand in the body and are batched themselves.
        lacks: Operators that the target does not have, and of which none is left.
    """
    want = wanted(case, max(batch, 3))
    model, reasons = fused(case, want, lacks)
    assert loops_of(model) == case.loops + inside, f"loops are left: {reasons}"
    assert not any(n.op_type in lacks for g in all_graphs(model) for n in g)
    _assert_yields(model, case, want, batch)


def prove_declined(case: RaggedCase, reasons: str, *, lacks: Collection[str] = ()) -> list[str]:
    """Assert which operators stay per-sample, and why, and that all samples come out right.

    Returns:
        What exactly is said of each.
    """
    want = wanted(case, 3)
    model, found = fused(case, want, lacks)
    assert ", ".join(f"{r.op_type} {r.code.value}" for r in found) == reasons
    _assert_yields(model, case, want, 3)
    return [r.detail for r in found]


def _assert_yields(
    model: ir.Model, case: RaggedCase, want: Sequence[Sequence[Array]], batch: int
) -> None:
    outputs = run_model(ir.to_proto(model), feeds_of(case, batch))
    for position, got in enumerate(outputs):
        expected = joined(want, position, batch)
        assert got.shape == expected.shape, f"{case.outputs[position]}: {got.shape}"
        assert got.dtype == expected.dtype, f"{case.outputs[position]}: {got.dtype}"
        assert_equal(got, expected, case.single(), case.outputs[position])
