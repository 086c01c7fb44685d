"""Two elements of a sequence have one shape only if numbers say so."""

from __future__ import annotations

import onnx
import pytest

from passes.typing.declared_types import name_elements
from tests.passes.typing.typed import HEADER, both

READ_TWICE = "a = SequenceAt (s, i)  b = SequenceAt (s, j)  y = Neg (a)  z = Neg (b)"
SEQUENCES = {
    "input": "s = Identity (xs)",
    "map": "s = SequenceMap (xs) <body = m (float[K] e) => (float[K] q) { q = Exp (e) }>",
    "map_without_types": "s = SequenceMap (xs) <body = m (e) => (q) { q = Exp (e) }>",
    "map_of_made_shapes": """s = SequenceMap (xs) <body = m (float[K] e) => (float[L] q)
        { q = Concat <axis = 0> (e, e) }>""",
    "split": "s = SplitToSequence (t, sizes)",
    "construct": "s = SequenceConstruct (t, u)",
    "insert": "s0 = SequenceConstruct (t)  s = SequenceInsert (s0, u)",
    "branches": """s = If (c) <then_branch = f () => (seq(float[]) p)
        { p = SplitToSequence (t, sizes) }, else_branch = g () => (seq(float[]) q)
        { q = SequenceConstruct (t, u) }>""",
}


def graph(lines: str) -> str:
    return f"""{HEADER}g (seq(float[N]) xs, float[T] t, float[U] u, int64[K] sizes, int64 i, int64 j,
        bool c) => (float[] y, float[] z) {{ {lines} }}"""


@pytest.mark.parametrize("name", SEQUENCES)
def test_two_elements(name: str) -> None:
    typings, values = both(graph(f"{SEQUENCES[name]}  {READ_TWICE}"))
    assert typings.proven.rank(values["y"]) == 1
    for one, other in (("a", "b"), ("y", "z"), ("a", "z")):
        assert not typings.proven.have_one_shape(values[one], values[other])


@pytest.mark.parametrize("name", SEQUENCES)
def test_two_elements_that_a_body_reads(name: str) -> None:
    typings, values = both(
        graph(f"""{SEQUENCES[name]}  r = SequenceMap (xs) <body = d (float[] e0) => (float[] w)
            {{ {READ_TWICE} w = Add (y, z) }}>  y1 = SequenceAt (r, i)  z1 = SequenceAt (r, j)""").replace(
            "=> (float[] y, float[] z)", "=> (float[] y1, float[] z1)"
        )
    )
    assert not typings.proven.have_one_shape(values["y"], values["z"])


@pytest.mark.parametrize("name", SEQUENCES)
def test_two_elements_that_a_loop_collects(name: str) -> None:
    typings, values = both(
        graph(f"""{SEQUENCES[name]}  t0 = Constant <value = bool {{1}}> ()
          y, z = Loop (i, t0) <body = d (int64 k, bool c0) => (bool c1, float[] a, float[] b)
            {{ a = SequenceAt (s, k)  b = SequenceAt (s, j)  c1 = Identity (c0) }}>""")
    )
    assert typings.proven.rank(values["y"]) == 2
    assert not typings.proven.have_one_shape(values["y"], values["z"])


def test_two_elements_in_turn() -> None:
    """Both inputs of the second body have the symbol that the first gave their sequences."""
    typings, values = both(
        graph("""s1, s2 = SequenceMap (xs) <body = m (float[K] e) => (float[K] q1, float[K] q2)
            { q1 = Exp (e)  q2 = Neg (e) }>
          one = Constant <value_ints = [1]> ()
          s3 = SequenceErase (s2)
          r = SequenceMap (s1, s3) <body = n (v, w) => (o) { v1 = Neg (v)  w1 = Neg (w)
            o = Concat <axis = 0> (v1, w1) }>
          y = SequenceAt (r, i)  z = SequenceAt (r, j)""")
    )
    assert typings.proven.have_one_shape(values["q1"], values["q2"])
    assert not typings.proven.have_one_shape(values["v1"], values["w1"])


def test_a_number_is_one_number() -> None:
    typings, values = both(
        graph(f"s = SplitToSequence <keepdims = 0> (m)  {READ_TWICE}").replace(
            "float[T] t", "float[T,R] m"
        )
    )
    assert typings.proven.dims(values["y"]) == ("m.1",)
    assert typings.proven.have_one_shape(values["y"], values["z"])


def test_elements_of_tensors_of_one_size() -> None:
    typings, values = both(graph(f"v = Neg (t)  s = SequenceConstruct (t, v)  {READ_TWICE}"))
    assert typings.proven.have_one_shape(values["y"], values["z"])


def test_values_of_one_sample() -> None:
    typings, values = both(
        graph("""s = SequenceMap (xs) <body = m (float[K] e) => (float[L] q)
            { q1 = Exp (e)  q2 = Concat <axis = 0> (q1, q1)  q3 = Neg (q2)  q = Abs (q3) }>
          y = SequenceAt (s, i)  z = SequenceAt (s, j)""")
    )
    assert typings.proven.have_one_shape(values["e"], values["q1"])
    assert typings.proven.have_one_shape(values["q2"], values["q3"])
    assert not typings.proven.have_one_shape(values["q1"], values["q2"])


NAMED = """<ir_version: 8, opset_import: ["" : 18]>
g (seq({element}) xs) => (seq(float[]) ys) {{
  ys = SequenceMap (xs) <body = m ({declared} e) => (float[] q) {{ q = Exp (e) }}> }}"""


@pytest.mark.parametrize(
    ("element", "declared", "is_named"),
    [
        ("float[N]", "float[]", True),
        ("float[N]", "float[K]", False),
        ("float[3]", "float[]", False),
    ],
)
def test_symbols_are_given_where_a_body_declares_none(
    element: str, declared: str, is_named: bool
) -> None:
    proto = onnx.parser.parse_model(NAMED.format(element=element, declared=declared))
    body = proto.graph.node[0].attribute[0].g
    if declared == "float[]":
        body.input[0].type.tensor_type.ClearField("shape")
    given = body.input[0].SerializeToString()
    assert name_elements(proto.graph, onnx.shape_inference.infer_shapes(proto).graph) == is_named
    assert (body.input[0].SerializeToString() != given) == is_named
