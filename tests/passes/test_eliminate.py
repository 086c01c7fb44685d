"""Sequences of which enough is known become tensors, and nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.eliminate import EliminateSequencesPass
from rewriter.backends import BackendError, open_session
from rewriter.compare import compare
from rewriter.report import count_operators

Feeds = Mapping[str, Any]


def text(
    body: str, inputs: str = "float[N,M] x", outputs: str = "float[] y", opset: int = 18
) -> str:
    return f'<ir_version: 8, opset_import: ["" : {opset}]>\nmain ({inputs}) => ({outputs}) {{\n{body}\n}}'


def eliminate(before: onnx.ModelProto) -> onnx.ModelProto:
    """Run the pass, and check what holds of every model that it gives."""
    made = []
    for _ in range(2):
        model = ir.from_proto(before)
        modified = EliminateSequencesPass()(model).modified
        made.append(ir.to_proto(model))
    after = made[0]
    assert after == made[1], "a second run on the same model gives another one"
    assert modified == (ir.to_proto(ir.from_proto(before)) != after)
    assert not EliminateSequencesPass()(model).modified
    assert ir.to_proto(model) == after, "a second pass changes the model"
    if is_valid(before):
        onnx.checker.check_model(after, full_check=True)
    for old, new in zip(
        (*before.graph.input, *before.graph.output),
        (*after.graph.input, *after.graph.output),
        strict=True,
    ):
        assert (old.name, old.type) == (new.name, new.type)
    return after


def is_valid(model: onnx.ModelProto) -> bool:
    """Whether the checker finds nothing wrong with a model, its shapes included."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def sequences(model: onnx.ModelProto) -> int:
    """Count the operators on sequences."""
    return count_operators(ir.from_proto(model)).sequences


def run(model: onnx.ModelProto, feeds: Feeds, backend: str) -> dict[str, Any] | None:
    """Run a model; None stands for an error."""
    try:
        return open_session(model, backend).run(feeds)
    except BackendError:
        return None


def prove(
    before: onnx.ModelProto,
    feeds: Feeds,
    *,
    after: onnx.ModelProto | None = None,
    defined: bool = True,
    ort: bool = True,
) -> onnx.ModelProto:
    """Assert that a model computes the same without its sequences, on both backends.

    Args:
        before: The model.
        feeds: Its inputs.
        after: The model after the pass, if it was run before.
        defined: Whether the model is expected to yield a result.
        ort: Whether onnxruntime is asked too.
    """
    after = eliminate(before) if after is None else after
    expected = run(before, feeds, "reference")
    assert (expected is not None) == defined
    if expected is None:
        return after
    for backend in ("reference", "onnxruntime") if ort else ("reference",):
        actual = run(after, feeds, backend)
        assert actual is not None, f"{backend}: an error after the pass"
        difference = compare(expected, actual)
        assert difference.equal, f"{backend}: {difference.message}"
    return after


def ranked(before: onnx.ModelProto, feeds: Feeds) -> tuple[onnx.ModelProto, bool]:
    """Declare the rank that each output turns out to have, and say whether there is one."""
    stacks = any(a.name == "new_axis" for node in before.graph.node for a in node.attribute)
    expected = run(before, feeds, "reference")
    for value in before.graph.output:
        rank = 2 + stacks if expected is None else np.ndim(expected[value.name])
        shape = value.type.tensor_type.shape
        shape.Clear()
        for i in range(rank):
            shape.dim.add().dim_param = f"{value.name}_{i}"
        value.type.tensor_type.shape.CopyFrom(shape)
    return before, expected is not None


def matrix(rows: int, columns: int, dtype: Any = np.float32) -> Any:
    numbers = np.arange(rows * columns).reshape(rows, columns)
    return numbers.astype(str).astype(object) if dtype is object else numbers.astype(dtype)


CUTS = {
    "rows": ("", ""),
    "rows without keepdims": ("", ", keepdims = 0"),
    "chunks": ("n = Constant <value_int = 2> ()", ""),
    "lengths": ("n = Constant <value_ints = [2, 0, 2]> ()", ""),
    "lengths of a computed constant": (
        "a = Constant <value_ints = [1]> () b = Constant <value_ints = [3]> () "
        "n = Concat <axis = 0> (a, b)",
        "",
    ),
}
READS = {
    "at 1": "k = Constant <value_int = 1> () y = SequenceAt (s, k)",
    "at -1": "k = Constant <value_int = -1> () y = SequenceAt (s, k)",
    "length": "y = SequenceLength (s)",
    "concat 0": "y = ConcatFromSequence <axis = 0> (s)",
    "concat 1": "y = ConcatFromSequence <axis = 1> (s)",
    "concat -1": "y = ConcatFromSequence <axis = -1> (s)",
    "stack 0": "y = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
    "stack 1": "y = ConcatFromSequence <axis = 1, new_axis = 1> (s)",
    "stack -1": "y = ConcatFromSequence <axis = -1, new_axis = 1> (s)",
}


def cut_and_read(cut: str, axis: int, read: str, dims: str) -> onnx.ModelProto:
    setup, attributes = CUTS[cut]
    inputs = "x, n" if setup else "x"
    body = f"{setup} s = SplitToSequence <axis = {axis}{attributes}> ({inputs}) {READS[read]}"
    output = "int64 y" if read == "length" else "float[] y"
    return onnx.parser.parse_model(text(body, f"float[{dims}] x", output))


@pytest.mark.parametrize("dims", ["4,4", "N,M"])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("cut", CUTS)
def test_a_tensor_that_is_cut_is_read(cut: str, axis: int, read: str, dims: str) -> None:
    before = cut_and_read(cut, axis, read, dims)
    feeds = {"x": matrix(4, 4)}
    before, defined = ranked(before, feeds)
    after = prove(before, feeds, defined=defined)
    if not defined:
        assert sequences(after) or run(after, feeds, "onnxruntime") is None
    elif (
        dims == "4,4"
        or ("concat" in read and cut == "rows")
        or ("stack" in read and "without" in cut)
    ):
        assert sequences(after) == 0
