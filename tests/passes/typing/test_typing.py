"""Typing: what every value is, by what the model declares and by what is proven."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.typing import (
    ValueType,
    type_values,
)
from tests.passes.typing.typed import HEADER, MAP, both, load, values


def test_declared_typing_believes_the_types_of_sequences() -> None:
    typings, named = both(MAP)
    declared = typings.declared
    float_ = ir.TensorType(ir.DataType.FLOAT)
    assert declared[named["xs"]] == ValueType(ir.SequenceType(float_), (2, "N"))
    assert declared[named["x"]] == ValueType(float_, (2, "N"))
    assert declared.dims(named["t"]) == (2, "N")
    assert declared[named["s"]] == ValueType(ir.TensorType(ir.DataType.INT64), (2,))
    assert declared.dims(named["w"]) == (6,)
    assert declared.dims(named["out"]) == (3,)


def test_proven_typing_keeps_ranks_and_tensors_only() -> None:
    typings, named = both(MAP)
    proven = typings.proven
    assert proven.rank(named["xs"]) == 2
    for name in ("xs", "x", "t", "ys"):
        assert proven.static_dims(named[name]) is None
        assert not any(proven.is_one_number(d) for d in proven.dims(named[name]) or ())
    assert proven.dims(named["s"]) == (2,)
    assert proven.dims(named["c"]) == (3,)
    assert proven.dims(named["w"]) == (6,)
    assert proven.dims(named["out"]) == (3,)


def test_proven_typing_without_ranks() -> None:
    model = load(MAP)
    proven = type_values(model, proven=True, ranks=False)
    named = values(model)
    assert proven.rank(named["xs"]) is None
    assert proven.rank(named["t"]) is None
    assert proven.dtype(named["t"]) == ir.DataType.FLOAT
    assert proven.dims(named["w"]) == (6,)


ERASED = {
    "a type of a value inside": (
        "seq(float[N]) xs",
        "<float[7] e> { z = Constant <value_int = 0> ()  e = SequenceAt (xs, z) }",
    ),
    "an optional": (
        "optional(float[7]) o",
        "{ e = OptionalGetElement (o) }",
    ),
    "an optional sequence": (
        "optional(seq(float[7])) o",
        "{ s = OptionalGetElement (o)  z = Constant <value_int = 0> ()  e = SequenceAt (s, z) }",
    ),
}


@pytest.mark.parametrize("name", ERASED)
def test_what_exporters_may_have_derived_is_not_proven(name: str) -> None:
    inputs, body = ERASED[name]
    typings, named = both(f"{HEADER}g ({inputs}) => (float[7] e) {body}")
    assert typings.declared.dims(named["e"]) == (7,)
    assert typings.proven.static_dims(named["e"]) is None
    assert typings.proven.rank(named["e"]) == 1


def test_types_of_the_inputs_of_bodies_are_not_proven() -> None:
    typings, named = both(f"""{HEADER}g (seq(float[N]) xs) => (seq(float[]) ys) {{
      ys = SequenceMap (xs) <body = b (float[7] x) => (float[7] y) {{ y = Neg (x) }}> }}""")
    assert typings.declared.dims(named["y"]) == (7,)
    assert typings.proven.static_dims(named["y"]) is None


def test_symbols_of_tensor_inputs_are_one_number_each() -> None:
    typings, named = both(f"""{HEADER}g (float[N,?,3] a, float[N] b) => (float[P] y) {{
      c = Neg (a)
      axes = Constant <value_ints = [1, 2]> ()
      y = ReduceSum <keepdims = 0> (c, axes)
    }}""")
    dims = typings.proven.dims(named["c"])
    assert dims is not None
    assert all(typings.proven.is_one_number(d) for d in dims)
    assert typings.proven.dims(named["y"]) == dims[:1]
    # Nobody checks that two dimensions of one symbol are equal.
    assert typings.proven.dims(named["b"]) != dims[:1]
    assert len(set(dims)) == 3


def test_symbols_of_inference_prove_nothing() -> None:
    """What is constructed of [3] and [5] is typed with a fresh symbol."""
    typings, named = both(f"""{HEADER}g (float[3] a, float[5] b) => (seq(float[]) s) {{
      s = SequenceConstruct (a, b) }}""")
    (dim,) = typings.proven.dims(named["s"]) or (None,)
    assert not typings.proven.is_one_number(dim)


def test_equal_symbols_of_two_inputs_prove_nothing_of_a_sequence() -> None:
    typings, named = both(f"""{HEADER}g (float[N] a, float[N] b) => (seq(float[N]) s) {{
      s = SequenceConstruct (a, b) }}""")
    assert typings.equal_dims(named["s"]) == (None,)


EQUAL_DIMS = {
    "declared number": ("seq(float[2]) xs", "y = Neg (x)", (2,)),
    "declared symbol": ("seq(float[N]) xs", "y = Neg (x)", (None,)),
    "number by an operator": ("seq(float[N]) xs", "y = Shape (x)", (1,)),
    "unknown rank": ("seq(float[]) xs", "y = Neg (x)", None),
    "symbol of a tensor": (
        "seq(float[N]) xs, float[M] c",
        "s = ReduceSum <keepdims = 0> (x)  y = Add (s, c)",
        ("c.0",),
    ),
    "number beside ragged": ("seq(float[N,3]) xs", "y = Neg (x)", (None, 3)),
}


@pytest.mark.parametrize("name", EQUAL_DIMS)
def test_dims_that_are_equal_for_all_samples(name: str) -> None:
    inputs, body, dims = EQUAL_DIMS[name]
    typings, named = both(f"""{HEADER}g ({inputs}) => (seq(float[]) ys) {{
      ys = SequenceMap (xs) <body = b (x) => (y) {{ {body} }}> }}""")
    assert typings.equal_dims(named["y"]) == dims


def test_bodies_of_all_control_flow_are_typed() -> None:
    typings, named = both(f"""{HEADER}
      g (seq(int64[2]) xs, bool c, int64 n, int64[4,2] t) => (seq(int64[2]) ys, int64[2] z) {{
        ys = SequenceMap (xs) <body = b (x) => (y) {{
          y = If (c) <
            then_branch = p () => (u) {{ u = Neg (x) }},
            else_branch = q () => (v) {{ f = Constant <value = bool {{1}}> ()
              v = Loop (n, f, x) <body = l (i, k, state) => (go, next) {{
                go = Identity (k)  next = Neg (state) }}> }}> }}>
        zero = Constant <value = int64[2] {{0, 0}}> ()
        z, all = Scan <num_scan_inputs = 1, body = s (total, row) => (sum, copy) {{
          sum = Add (total, row)  copy = Identity (sum) }}> (zero, t)
      }}""")
    declared = typings.declared
    for name in ("x", "y", "u", "v", "next", "sum", "row"):
        assert declared.dtype(named[name]) == ir.DataType.INT64, name
    # Inference forgets the shape of what a Loop carries.
    for name in ("x", "u", "sum", "row"):
        assert declared.dims(named[name]) == (2,), name
    assert declared.dims(named["all"]) == (4, 2)


def test_constants_outside_tell_shapes_inside() -> None:
    typings, named = both(f"""{HEADER}g (seq(float[N]) xs) => (seq(float[2,3]) ys) {{
      shape = Constant <value_ints = [2, 3]> ()
      ys = SequenceMap (xs) <body = b (x) => (y) {{
        s = ReduceSum <keepdims = 0> (x)  y = Expand (s, shape) }}> }}""")
    assert typings.proven.dims(named["y"]) == (2, 3)


def test_shape_of_a_captured_initializer_is_proven() -> None:
    """It is what it is, although the type that the model writes of it need not be true."""
    typings, found = both(f"""{HEADER}g (seq(float[3]) xs) => (seq(float[2]) ys)
    <float[3,2] w = {{1, 2, 3, 4, 5, 6}}> {{
      ys = SequenceMap (xs) <body = b (x) => (y) {{ y = MatMul (x, w) }}> }}""")
    assert typings.proven.dims(found["y"]) == (2,)


def test_is_sequence() -> None:
    typing, named = both(
        f"""{HEADER}g (seq(float[N]) xs, float t) => (float[N] e) {{
      z = Constant <value_int = 0> ()
      made = own.Op (t)
      e = SequenceAt (xs, z) }}""".replace('["" : 18]', '["" : 18, "own" : 1]')
    )
    declared = typing.declared
    assert declared.is_sequence(named["xs"]) is True
    assert declared.is_sequence(named["e"]) is False
    assert declared.is_sequence(named["made"]) is None
    assert declared[named["made"]] == ValueType(None, None)


COUNTS = {
    "picked": ("s = Shape (x)  n = Gather (s, one)", True),
    "cast": ("s = Shape (x)  n0 = Gather (s, one)  n = Cast <to = 7> (n0)", True),
    "cut": ("s = Shape <start = 1, end = 2> (x)  n = Squeeze (s)", True),
    "from the end": ("s = Shape <start = -1> (x)  n = Squeeze (s)", True),
    "a slice of a shape, handed on": (
        "s0 = Shape (x)  s = Identity (s0)  d = Slice (s, ones, twos, zeros, ones)  "
        "e = Squeeze (d)  n = Identity (e)",
        True,
    ),
    "a slice to the end": ("s = Shape (x)  d = Slice (s, last, far)  n = Squeeze (d)", True),
    "a slice from the end to the front": (
        "s = Shape (x)  d = Slice (s, last, zeros)  n = ReduceSum <keepdims = 0> (d)",
        False,
    ),
    "a slice of two": (
        "s = Shape (x)  d = Slice (s, zeros, twos)  n = ReduceSum <keepdims = 0> (d)",
        False,
    ),
    "a slice by steps": (
        "s = Shape (x)  d = Slice (s, ones, twos, zeros, twos)  n = Squeeze (d)",
        False,
    ),
    "a slice of what is no shape": ("d = Slice (told, ones, twos)  n = Squeeze (d)", False),
    "of floats": (
        "s = Shape (x)  n0 = Gather (s, one)  n1 = Cast <to = 10> (n0)  n = Cast <to = 7> (n1)",
        False,
    ),
    "more than it": ("s = Shape (x)  n0 = Gather (s, one)  n = Add (n0, one)", False),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_range_has_as_many_numbers_as_it_counts(name: str) -> None:
    nodes, counts = COUNTS[name]
    typings, known = both(f"""{HEADER}g (float[N,M] x, int64[2] told) => (int64[K] y)
        <int64[1] zeros = {{0}}, int64[1] ones = {{1}}, int64[1] twos = {{2}}, int64[1] last = {{-1}},
        int64[1] far = {{9223372036854775807}}> {{
        none = Constant <value = int64[1] {{0}}> ()  zero = Squeeze (none)
        one = Constant <value = int64 {{1}}> ()
        {nodes}  r = Range (zero, n, one)  y = Neg (r) }}""")
    for typing in (typings.declared, typings.proven):
        dims, (_, size) = typing.dims(known["r"]), typing.dims(known["x"]) or (None, None)
        assert dims is not None
        assert (dims[0] == size) == counts


@pytest.mark.parametrize(("declared", "dims"), [("[1]", (1,)), ("[?]", (1,)), ("", ())])
def test_an_iteration_number_is_one_number(declared: str, dims: tuple[int, ...]) -> None:
    text = f"""{HEADER} g (int64 n) => (float[K] y) {{
        y = Loop (n, "") <body = b (int64{declared} i, bool c) => (bool d, float[1] f) {{
            d = Identity (c) s = Cast <to = 1> (i) f = Identity (s) }}> }}"""
    model = load(text)
    assert type_values(model, proven=True).dims(values(model)["i"]) == dims
