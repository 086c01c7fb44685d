"""Typing: what every value is, by what the model declares and by what is proven."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.errors import RewriteError
from passes.graphs import all_graphs
from passes.typing import (
    TypeValuesPass,
    Typing,
    Typings,
    ValueType,
    type_both_ways,
    type_values,
)

HEADER = '<ir_version: 10, opset_import: ["" : 18]>\n'
LOCAL = '<ir_version: 10, opset_import: ["" : 18, "local" : 1, "other" : 1]>\n'
MODELS = sorted((pathlib.Path(__file__).parents[2] / "models").rglob("*.onnx*"))


def load(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(text))


def load_file(path: pathlib.Path) -> ir.Model:
    if path.suffix == ".onnxtxt":
        return load(path.read_text("utf-8"))
    return ir.load(path)


def values(model: ir.Model) -> dict[str, ir.Value]:
    """Return the values of a model by their names."""
    found: dict[str, ir.Value] = {}
    for graph in all_graphs(model):
        for value in (*graph.inputs, *graph.initializers.values()):
            found[value.name or ""] = value
        for node in graph:
            found |= {value.name or "": value for value in node.outputs}
    return found


def both(text: str) -> tuple[Typings, dict[str, ir.Value]]:
    model = load(text)
    return type_both_ways(model), values(model)


MAP = f"""{HEADER}g (seq(float[2,N]) xs, float[3] c) => (seq(float[2,N]) ys, float[P] out) {{
  ys = SequenceMap (xs) <body = b (x) => (y) {{
    s = Shape (x)
    t = Add (x, x)
    w = Concat <axis = 0> (c, c)
    y = Identity (t) }}>
  out = Neg (c)
}}"""


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


FUNCTION = """
<domain: "local", opset_import: ["" : 18, "other" : 1]>
f <k: int = 0> (a) => (b) {
  t = Neg (a)
  u = ReduceSum <keepdims: int = @k> (t)
  b = other.f (t)
}
<domain: "other", opset_import: ["" : 18]>
f (p) => (q) { q = Abs (p) }
"""


def test_function_is_typed_from_its_call() -> None:
    """Two functions of one name in two domains, one called by the other."""
    typings, named = both(
        f"{LOCAL}g (int32[2,N] x) => (int32[2,N] y) {{ y = local.f (x) }}{FUNCTION}"
    )
    declared = typings.declared
    for name in ("a", "t", "b", "p", "q"):
        assert declared[named[name]] == ValueType(ir.TensorType(ir.DataType.INT32), (2, "N")), name
    assert declared.dims(named["u"]) == ()


def test_attribute_of_the_call_is_used() -> None:
    text = f"{LOCAL}g (int32[2,N] x) => (int32[2,N] y) {{ y = local.f <k = 1> (x) }}{FUNCTION}"
    typings, named = both(text)
    assert typings.declared.dims(named["u"]) == (1, 1)


def test_function_called_with_several_types_keeps_what_agrees() -> None:
    typings, named = both(
        f"""{LOCAL}g (float[2,3] x, float[2,4] z, float[5] w) => (float[2,3] y) {{
          y = local.f (x)  v = local.f (z) }}{FUNCTION}"""
    )
    assert typings.declared[named["t"]] == ValueType(ir.TensorType(ir.DataType.FLOAT), (2, None))


def test_function_called_with_several_ranks_keeps_the_element_type() -> None:
    typings, named = both(
        f"{LOCAL}g (float[2] x, float z) => (float[2] y) {{ y = local.f (x)  v = local.f (z) }}{FUNCTION}"
    )
    assert typings.declared[named["t"]] == ValueType(ir.TensorType(ir.DataType.FLOAT), None)


@pytest.mark.parametrize("order", [("x", "z"), ("z", "x")], ids=["first", "last"])
def test_function_called_with_several_element_types_keeps_nothing(order: tuple[str, str]) -> None:
    calls = "  ".join(f"y{i} = local.f ({name})" for i, name in enumerate(order))
    typings, named = both(
        f"{LOCAL}g (float[2] x, int32[2] z) => (float[2] y) {{ {calls} y = Neg (x) }}{FUNCTION}"
    )
    assert typings.declared[named["t"]] == ValueType(None, None)


@pytest.mark.parametrize("order", [("x", "z"), ("z", "x")], ids=["first", "last"])
def test_function_called_once_without_types_keeps_nothing(order: tuple[str, str]) -> None:
    calls = "  ".join(f"y{i} = local.f ({name})" for i, name in enumerate(order))
    typings, named = both(
        f"{LOCAL}g (float[2] x) => (float[2] y) {{ z = other.Made (x)  {calls} y = Neg (x) }}{FUNCTION}"
    )
    assert typings.declared[named["t"]] == ValueType(None, None)


CALLERS = {
    "in a branch": """y = If (c) <then_branch = p () => (float[2] u1) { u1 = local.f (x) },
                                else_branch = q () => (float[2] u2) { u2 = Neg (x) }>""",
    "with a captured value of a branch": """
        y = If (c) <then_branch = p () => (float[2] u1) { m = Neg (x)
              u1 = If (c) <then_branch = p2 () => (float[2] u3) { u3 = local.f (m) },
                           else_branch = q2 () => (float[2] u4) { u4 = Neg (m) }> },
            else_branch = q () => (float[2] u2) { u2 = Neg (x) }>""",
    "with an initializer": "y = local.f (w)",
    "with a constant": "k = Constant <value_floats = [1.0, 2.0]> ()  y = local.f (k)",
    "by another function": "y = local.g (x)",
}


@pytest.mark.parametrize("name", CALLERS)
def test_function_called(name: str) -> None:
    other = '\n<domain: "local", opset_import: ["" : 18, "local" : 1]>\ng (r) => (s) { s = local.f (r) }'
    typings, named = both(
        f"""{LOCAL}g (float[2] x, bool c) => (float[2] y) <float[2] w = {{1, 2}}> {{
          {CALLERS[name]} }}{FUNCTION}{other if "function" in name else ""}"""
    )
    assert typings.declared[named["t"]] == ValueType(ir.TensorType(ir.DataType.FLOAT), (2,))


def test_external_data_is_not_read(tmp_path: pathlib.Path) -> None:
    model = load(
        f"{HEADER}g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Mul (x, w) }}"
    )
    absent = ir.ExternalTensor(
        "absent.bin", 0, 8, ir.DataType.FLOAT, shape=ir.Shape([2]), name="w", base_dir=tmp_path
    )
    model.graph.initializers["w"].const_value = absent
    typing = type_values(model)
    assert typing.dims(values(model)["y"]) == (2,)
    assert typing.static_dims(values(model)["w"]) == (2,)
    assert model.graph.initializers["w"].const_value is absent


def test_large_and_string_initializers_are_put_back() -> None:
    large = np.zeros((1000, 3), np.float32)
    words = np.array(["a", "b"], object)
    model = load(
        f"{HEADER}g (float[3] x) => (float[1000,3] y) {{ y = Add (x, w)  z = Identity (s) }}".replace(
            "{ y", '<float[1] w = {1}, string[1] s = {"q"}> { y'
        )
    )
    graph = model.graph
    tensors = {"w": ir.tensor(large, name="w"), "s": ir.StringTensor(words, name="s")}
    for name, tensor in tensors.items():
        graph.initializers[name].const_value = tensor
        graph.initializers[name].shape = ir.Shape(tensor.shape)
    typing = type_values(model)
    named = values(model)
    assert typing.dims(named["y"]) == (1000, 3)
    assert typing[named["z"]] == ValueType(ir.TensorType(ir.DataType.STRING), (2,))
    assert all(graph.initializers[name].const_value is tensor for name, tensor in tensors.items())


def test_shape_from_a_small_initializer_is_known() -> None:
    typings, named = both(
        f"{HEADER}g (float x) => (float[2,3] y) <int64[2] s = {{2, 3}}> {{ y = Expand (x, s) }}"
    )
    assert typings.proven.dims(named["y"]) == (2, 3)


def test_initializer_that_contradicts_its_declared_type() -> None:
    proto = onnx.parser.parse_model(
        f"{HEADER}g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Add (x, w) }}"
    )
    proto.graph.value_info.append(
        onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [2, 2])
    )
    model = ir.from_proto(proto)
    model.graph.initializers["w"].shape = ir.Shape([2, 2])
    with pytest.raises(RewriteError, match="types that the model declares contradict each other"):
        type_values(model)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("proven", [False, True], ids=["declared", "proven"])
def test_pass_is_idempotent_and_deterministic(path: pathlib.Path, proven: bool) -> None:
    model, other = load_file(path), load_file(path)
    before = ir.to_proto(model)
    modified = TypeValuesPass(proven=proven)(model).modified
    once = ir.to_proto(model)
    assert modified == (once != before)
    assert not TypeValuesPass(proven=proven)(model).modified
    assert ir.to_proto(model) == once
    TypeValuesPass(proven=proven)(other)
    assert ir.to_proto(other) == once
    assert list(once.graph.input) == list(before.graph.input)
    assert list(once.graph.output) == list(before.graph.output)


def test_pass_writes_no_symbols_of_inference() -> None:
    model = load(f"""{HEADER}g (float[3] a, float[5] b) => (float[P] y) {{
      s = SequenceConstruct (a, b)
      y = ConcatFromSequence <axis = 0> (s) }}""")
    TypeValuesPass()(model)
    assert "unk__" not in str(ir.to_proto(model))
    assert values(model)["s"].shape == ir.Shape([None])


def test_pass_writes_types_into_bodies_and_functions() -> None:
    model = load(
        f"""{LOCAL}g (seq(int32[2]) xs) => (seq(int32[2]) ys) {{
          ys = SequenceMap (xs) <body = b (x) => (y) {{ m = Abs (x)  y = local.f (m) }}> }}{FUNCTION}"""
    )
    assert TypeValuesPass()(model).modified
    named = values(model)
    for name in ("x", "m", "t", "p"):
        assert named[name].type == ir.TensorType(ir.DataType.INT32), name
        assert named[name].shape == ir.Shape([2]), name
    onnx.checker.check_model(ir.to_proto(model))


def test_pass_writes_sequence_types_on_sequences() -> None:
    model = load(f"""{HEADER}g (float[4,2] x) => (float[P,2] y) {{
      s = SplitToSequence <keepdims = 0> (x)
      y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }}""")
    TypeValuesPass()(model)
    assert values(model)["s"].type == ir.SequenceType(ir.TensorType(ir.DataType.FLOAT))


def test_pass_that_only_renames_says_so() -> None:
    """Inference goes by name; a name that stands twice is changed."""
    text = f"""{HEADER}g (float[2] x, bool c) => (float[2] z) {{
      z = If (c) <then_branch = p () => (float[2] u) {{ t = Neg (x)  u = Abs (t) }},
                  else_branch = q () => (float[2] v) {{ t = Abs (x)  v = Neg (t) }}> }}"""
    model = load(text)
    assert TypeValuesPass()(model).modified
    assert not TypeValuesPass()(model).modified


def test_copies_get_what_is_known_of_the_original() -> None:
    typings, named = both(MAP)
    copy, other = ir.Value(name="copy"), ir.Value(name="other")
    typings.copy({named["t"]: copy, named["c"]: None, ir.Value(name="unknown"): other})
    assert typings.declared[copy] == typings.declared[named["t"]]
    assert typings.proven[copy] == typings.proven[named["t"]]
    assert typings.proven[other] == ValueType(None, None)


COMBINED: list[Any] = [
    ((None, 3), (2, None), (2, 3)),
    (("N", None), (None, "M"), (None, "M")),
    (None, (2, None), (2, None)),
    ((2, None), None, (2, None)),
    ((2,), (2, 3), (2,)),
]


@pytest.mark.parametrize(("mine", "theirs", "dims"), COMBINED)
def test_copy_combines_what_two_inferences_know(mine: Any, theirs: Any, dims: Any) -> None:
    typing = Typing()
    old, new = ir.Value(name="old"), ir.Value(name="new")
    type_ = ir.TensorType(ir.DataType.FLOAT)
    typing.set(new, ValueType(type_, mine))
    typing.set(old, ValueType(type_, theirs))
    typing.copy({old: new})
    assert typing[new] == ValueType(type_, dims)
