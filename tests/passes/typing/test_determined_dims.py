"""Dimensions that follow from numbers of the whole model are one number each."""

from __future__ import annotations

import pytest

from tests.passes.typing.typed import HEADER, both

# name: nodes of a body, whether their result has one shape in all iterations
BODIES = {
    "a sum of two vectors": ("y = Add (a, b)", True),
    "what is computed of it": ("s = Add (a, b)  t = Exp (s)  y = Neg (t)", True),
    "a sum of a sum": ("s = Add (a, b)  y = Mul (s, c)", True),
    "joined vectors": ("y = Concat <axis = 0> (a, b)", True),
    "in a vector": ("u = Unsqueeze (a, zero)  s = Add (u, b)  y = Reshape (s, open)", True),
    "a row of a matrix": ("r = Gather (m, i)  y = Add (r, b)", True),
    "as many as are given": ("r = Range (none, n, one)  f = Cast <to = 1> (r)  y = Exp (f)", True),
    "what is computed of so many": (
        "r = Range (none, n, one)  c = Less (r, i)  y = Cast <to = 1> (c)",
        True,
    ),
    "cut by bounds that are given": ("y = Slice (m, zero, ends, zero)", True),
    "all of an axis": ("s = Slice (m, zero, open, one1)  t = Add (s, s)  y = Exp (t)", True),
    "of the shape of what is found": ("s = Mul (found, i)  y = Cast <to = 1> (s)", True),
    "made of a size that is given": ("y = ConstantOfShape (ends)", True),
    "expanded to such a size": ("r = Gather (a, i)  y = Expand (r, ends)", True),
    "cut by what is counted": (
        "q = Unsqueeze (i, zero)  s = Slice (k, zero, q, zero)  y = Add (s, s)",
        False,
    ),
    "made of what is counted": ("q = Unsqueeze (i, zero)  y = ConstantOfShape (q)", False),
    "as many as counted": ("r = Range (none, i, one)  y = Add (r, k)", False),
    "joined to what is counted": ("r = Range (none, i, one)  y = Concat <axis = 0> (r, k)", False),
    "what is not 0": ("n = NonZero (a)  t = Transpose (n)  y = Add (t, k)", False),
    "by a target that is computed": (
        "q = Unsqueeze (i, zero)  s = Concat <axis = 0> (q, open)  y = Reshape (m, s)",
        False,
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_shape_that_follows_from_shapes(name: str) -> None:
    nodes, is_one = BODIES[name]
    typings, named = both(f"""{HEADER}g (float[A] a, float[B] b, float[C] c, float[D,E] m,
        int64[K] k, int64 n) => (float[] r) <int64[1] zero = {{0}}, int64 none = {{0}},
        int64 one = {{1}}, int64[1] one1 = {{1}}, int64[1] open = {{-1}}, bool yes = {{1}}> {{
          ends = Unsqueeze (n, zero)  places = NonZero (k)  found = Transpose (places)
          r = Loop (n, yes) <body = d (int64 i, bool go) => (bool go1, float[] z) {{
            go1 = Identity (go)  {nodes}  z = Identity (y) }}> }}""")
    dims = typings.equal_dims(named["y"])
    assert (dims is not None and None not in dims) is is_one
    if is_one:
        assert typings.proven.dims(named["z"]) == typings.proven.dims(named["y"])


def test_two_sums_are_two_numbers() -> None:
    typings, named = both(f"""{HEADER}g (float[A] a, float[B] b) => (float[] r) {{
        s = Add (a, b)  r = Sub (a, b) }}""")
    assert not typings.proven.have_one_shape(named["s"], named["r"])
    assert typings.proven.have_one_shape(named["s"], named["s"])
