"""Expansion: every element type that a sequence may have, and every opset with SequenceMap."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

from rewriter.backends import BackendError, open_session
from tests.passes.expansion import expand, prove, rows, run

TYPES: dict[str, Any] = {
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "float16": np.float16,
    "float": np.float32,
    "double": np.float64,
    "string": object,
    "bool": np.bool_,
    "complex64": np.complex64,
    "complex128": np.complex128,
}
NOT_IN_ONNXRUNTIME = ("complex64", "complex128")
NOT_SPLIT_BY_ONNXRUNTIME = (
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    *NOT_IN_ONNXRUNTIME,
)
HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'


def test_the_types_are_those_of_the_specification() -> None:
    schema = onnx.defs.get_schema("SequenceMap", 18)
    (sequences,) = (c for c in schema.type_constraints if c.type_param_str == "S")
    assert {f"seq(tensor({name}))" for name in TYPES} == set(sequences.allowed_type_strs)


def mapped(declared: str) -> str:
    """Return a map that copies its elements and passes a further sequence on."""
    return f"""{HEADER}g (seq({declared}) xs, seq({declared}) zs) => (seq({declared}) ys, seq({declared}) ws) {{
      ys, ws = SequenceMap (xs, zs) <body = f ({declared} x, {declared} z) => ({declared} y, {declared} w) {{
        y = Identity (x)
        w = Concat <axis = 0> (z, z) }}> }}"""


FORMS = {
    "[2]": "Loop with scan output",
    "[N]": "Loop with blocks",
    "[N,M]": "Loop with insertion",
}


def can_insert(name: str) -> bool:
    """Whether onnxruntime has what even the specification's own form needs."""
    text = f"{HEADER}g (seq({name}[N]) xs) => (seq({name}[N]) ys) {{ ys = Identity (xs) }}"
    try:
        open_session(onnx.parser.parse_model(text))
    except BackendError:
        return False
    return True


@pytest.mark.parametrize("name", TYPES)
def test_onnxruntime_takes_the_type(name: str) -> None:
    assert can_insert(name) == (name not in NOT_IN_ONNXRUNTIME)


@pytest.mark.parametrize("dims", FORMS)
@pytest.mark.parametrize("name", TYPES)
def test_element_type(name: str, dims: str) -> None:
    dtype = TYPES[name]
    shapes = {
        "[2]": [(2,), (2,), (2,)],
        "[N]": [(2,), (0,), (3,)],
        "[N,M]": [(2, 1), (0, 2), (1, 3)],
    }[dims]
    feeds = {"xs": rows(*shapes, dtype=dtype), "zs": rows(*shapes, dtype=dtype, seed=1)}
    text = mapped(name + dims)
    if dims == "[2]":
        text = text.replace("> ys, seq", "> ys, seq").replace(
            f"seq({name}[2]) ws", f"seq({name}[4]) ws"
        )
        text = text.replace(f"{name}[2] w)", f"{name}[4] w)")
    expanded = prove(text, feeds, {"xs": [], "zs": []}, ort=name not in NOT_IN_ONNXRUNTIME)
    (decision,) = expanded.decisions
    if name in NOT_SPLIT_BY_ONNXRUNTIME and dims != "[N,M]":
        assert decision.form == "Loop with insertion"
        assert expanded.codes.count("unsplittable-type") == 2
    elif name in NOT_SPLIT_BY_ONNXRUNTIME:
        assert decision.form == "Loop with insertion"
    else:
        assert decision.form == FORMS[dims]
        assert "unsplittable-type" not in expanded.codes


@pytest.mark.parametrize("dims", ["[2,3]", "[N,3]"])
@pytest.mark.parametrize("name", TYPES)
def test_element_type_that_is_concatenated(name: str, dims: str) -> None:
    """Where nothing is split, every type has the linear form."""
    text = f"""{HEADER}g (seq({name}{dims}) xs) => ({name}[P,3] out) {{
      ys = SequenceMap (xs) <body = f ({name}{dims} x) => ({name}{dims} y) {{ y = Identity (x) }}>
      out = ConcatFromSequence <axis = 0> (ys) }}"""
    shapes = [(2, 3), (2, 3)] if dims == "[2,3]" else [(1, 3), (0, 3), (2, 3)]
    feeds = {"xs": rows(*shapes, dtype=TYPES[name])}
    expanded = prove(text, feeds, ort=name not in NOT_IN_ONNXRUNTIME)
    form = "Loop with scan output" if dims == "[2,3]" else "Loop with blocks"
    assert expanded.decisions[0].form == form
    assert "unsplittable-type" not in expanded.codes


@pytest.mark.parametrize("dims", ["[2,3]", "[N,3]", "[3]"])
@pytest.mark.parametrize("name", TYPES)
def test_element_type_of_a_sequence_whose_length_is_known(name: str, dims: str) -> None:
    """What SplitToSequence cannot cut, Split can, into a number of parts that is known.

    Few samples that are not of one shape are inserted, and not packed, so that none are cut.
    """
    text = f"""{HEADER}g ({name}{dims} a, {name}{dims} b) => (seq({name}{dims}) ys) {{
      xs = SequenceConstruct (a, b, a)
      ys = SequenceMap (xs) <body = f ({name}{dims} x) => ({name}{dims} y) {{ y = Identity (x) }}>
    }}"""
    shapes = {"[2,3]": [(2, 3), (2, 3)], "[N,3]": [(1, 3), (2, 3)], "[3]": [(3,), (3,)]}[dims]
    a, b = rows(*shapes, dtype=TYPES[name])
    expanded = prove(text, {"a": a, "b": b}, ort=name not in NOT_IN_ONNXRUNTIME)
    linear = "Loop with blocks" if dims == "[N,3]" else "Loop with scan output"
    assert expanded.decisions[0].form == linear
    assert "unsplittable-type" not in expanded.codes
    is_cut = dims != "[N,3]"
    assert expanded.operators["Split"] == (is_cut and name in NOT_SPLIT_BY_ONNXRUNTIME)
    assert expanded.operators["SplitToSequence"] == (
        is_cut and name not in NOT_SPLIT_BY_ONNXRUNTIME
    )


@pytest.mark.parametrize("name", TYPES)
def test_element_type_read_from_a_split(name: str) -> None:
    text = f"""{HEADER}g ({name}[R,2] t, int64[L] n) => ({name}[R,2] out) {{
      a = SplitToSequence <keepdims = 0> (t)
      p = SequenceMap (a) <body = f (x) => (y) {{ y = Identity (x) }}>
      q = ConcatFromSequence <axis = 0, new_axis = 1> (p)
      b = SplitToSequence (q, n)
      r = SequenceMap (b) <body = h (x) => (y) {{ y = Identity (x) }}>
      out = ConcatFromSequence <axis = 0> (r) }}"""
    feeds = {"t": rows((5, 2), dtype=TYPES[name])[0], "n": np.array([2, 0, 3])}
    runs_before = name not in NOT_SPLIT_BY_ONNXRUNTIME
    forms = ("linear", "plain") if runs_before else ("linear",)
    expanded = prove(
        text,
        feeds,
        ort=name not in NOT_IN_ONNXRUNTIME,
        second_opinion=runs_before,
        forms=forms,
    )
    assert expanded.operators["SplitToSequence"] == 0


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_element_type_stacked_along_another_axis(name: str, keepdims: int) -> None:
    declared = "[1,3]" if keepdims else "[3]"
    text = f"""{HEADER}g ({name}[R,3] t) => ({name}[{"P,Q,R" if keepdims else "P,Q"}] out) {{
      xs = SplitToSequence <keepdims = {keepdims}> (t)
      ys = SequenceMap (xs) <body = f (x) => ({name}{declared} y) {{ y = Identity (x) }}>
      out = ConcatFromSequence <axis = -1, new_axis = 1> (ys) }}"""
    feeds = {"t": rows((4, 3), dtype=TYPES[name])[0]}
    runs_before = name not in NOT_SPLIT_BY_ONNXRUNTIME
    expanded = prove(
        text,
        feeds,
        ort=name not in NOT_IN_ONNXRUNTIME,
        second_opinion=runs_before,
        forms=("linear", "plain") if runs_before else ("linear",),
    )
    assert expanded.decisions[0].form == "Loop with scan output"


def test_onnxruntime_gathers_but_the_first_string_of_a_row() -> None:
    """Why rows of strings are read by Slice. Once this fails, Gather will do."""
    text = f"{HEADER}g (string[R,2] t, int64 i) => (string[2] row) {{ row = Gather (t, i) }}"
    feeds = {"t": np.array([["a", "b"], ["c", "d"]], object), "i": np.array(1)}
    model = onnx.parser.parse_model(text)
    assert run(model, feeds, "reference")["row"].tolist() == ["c", "d"]
    assert run(model, feeds)["row"].tolist() == ["c", ""]


@pytest.mark.parametrize("form", ["linear", "plain"])
def test_bfloat16(form: Any) -> None:
    """No sequence of the specification's list, but tensors of the body may have it."""
    text = f"""{HEADER}g (seq(float[N]) xs) => (seq(float[N]) ys) {{
      ys = SequenceMap (xs) <body = f (float[N] x) => (float[N] y) {{
        b = Cast <to = 16> (x) y = Cast <to = 1> (b) }}> }}"""
    elements = [np.array([1.0, 2.5]), np.array([1 + 2**-10])]
    feeds = {"xs": [element.astype(np.float32) for element in elements]}
    out = run(expand(text, form).model, feeds, "reference")["ys"]
    for got, element in zip(out, elements, strict=True):
        np.testing.assert_array_equal(got, element.astype(ml_dtypes.bfloat16).astype(np.float32))


FIRST, NEWEST_OF_ONNXRUNTIME = 17, 26
OPSETS = range(FIRST, onnx.defs.onnx_opset_version() + 1)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.long
def test_opset(opset: int) -> None:
    """The opset stays; above onnxruntime's own limit the evaluator judges."""
    text = f"""<ir_version: 10, opset_import: ["" : {opset}]>
    g (seq(float[N,2]) xs, float[R,2] t, int64[L] n)
      => (seq(float[N,2]) ys, seq(float) zs, float[R,2] out, seq(float[N,M]) ws) {{
      ys, zs = SequenceMap (xs) <body = f (float[N,2] x) => (float[N,2] y, float z) {{
        y = Neg (x) z = ReduceSum <keepdims = 0> (x) }}>
      parts = SplitToSequence (t, n)
      moved = SequenceMap (parts) <body = h (u) => (v) {{ v = Abs (u) }}>
      out = ConcatFromSequence <axis = 0> (moved)
      ws = SequenceMap (xs) <body = k (float[N,2] x) => (float[N,M] w) {{
        a = Shape (x) b = Add (a, a) w = Expand (c, b) c = Constant <value_float = 1.0> () }}>
    }}"""
    text = text.replace(
        " w = Expand (c, b) c = Constant <value_float = 1.0> ()",
        " c = Constant <value_float = 1.0> () w = Expand (c, b)",
    )
    feeds = {"t": rows((5, 2))[0], "n": np.array([2, 0, 3])}
    expanded = prove(
        text,
        {"xs": rows((2, 2), (0, 2), (3, 2)), **feeds},
        {"xs": [], **feeds},
        ort=opset <= NEWEST_OF_ONNXRUNTIME,
    )
    assert [o.version for o in expanded.model.opset_import] == [opset]


def test_onnxruntime_refuses_what_is_above_its_limit() -> None:
    """1.32 takes two opsets more, of which it computes some operators by their definition only."""
    is_new = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 32)
    newest = NEWEST_OF_ONNXRUNTIME + 2 * is_new
    text = f'<ir_version: 10, opset_import: ["" : {newest + 1}]>\n'
    text += "g (float[N] x) => (float[N] y) { y = Neg (x) }"
    with pytest.raises(BackendError, match="refuses the model"):
        open_session(onnx.parser.parse_model(text))
