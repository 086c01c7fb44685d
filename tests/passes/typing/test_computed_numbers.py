"""Numbers that follow from known dimensions: quotients, and bounds that are computed."""

from __future__ import annotations

import pytest

from tests.passes.typing.typed import HEADER, both

SIZE = "s = Shape (x)  d = Gather (s, one)"
CUTS = {
    "half": (f"{SIZE}  h = Div (d, two)  y = Slice (x, zero, h, one)", ("N", 24)),
    "the other half": (f"{SIZE}  h = Div (d, two)  y = Slice (x, h, d, one)", ("N", 24)),
    "a third, rounded up": (
        f"{SIZE}  e = Add (d, two)  h = Div (e, three)  y = Slice (x, zero, h, one)",
        ("N", 16),
    ),
    "a quarter": (
        f"""{SIZE}  h = Div (d, two)  z = Slice (x, zero, h, one)
        t = Shape (z)  e = Gather (t, one)  q = Div (e, two)  y = Slice (z, q, e, one)""",
        ("N", 12),
    ),
    "all but one": (f"{SIZE}  h = Sub (d, one)  y = Slice (x, zero, h, one)", ("N", 47)),
    "a column whose place is computed": (
        f"{SIZE}  h = Div (d, two)  e = Add (h, one)  c = Slice (x, h, e, one)  "
        "y = Squeeze (c, one)",
        ("N",),
    ),
    "a row at an unknown place, every axis named": (
        f"{SIZE}  n = Gather (s, zero)  h = Mod (n, two)  e = Add (h, one)  "
        "p = Concat <axis = 0> (h, zero)  q = Concat <axis = 0> (e, d)  "
        "a = Concat <axis = 0> (zero, one)  c = Slice (x, p, q, a)  y = Squeeze (c, zero)",
        (48,),
    ),
    "a part of a row at an unknown place": (
        f"{SIZE}  n = Gather (s, zero)  h = Mod (n, two)  e = Add (h, one)  "
        "p = Concat <axis = 0> (h, zero)  q = Concat <axis = 0> (e, h)  "
        "a = Concat <axis = 0> (zero, one)  c = Slice (x, p, q, a)  y = Squeeze (c, zero)",
        (None,),
    ),
    "what is left of a division": (
        f"{SIZE}  f = Add (two, three)  h = Mod (d, f)  y = Slice (x, zero, h, one)",
        ("N", 3),
    ),
    "heads": (
        f"{SIZE}  h = Div (d, three)  k = Concat <axis = 0> (m, three, h)  y = Reshape (x, k)",
        (None, 3, 16),
    ),
    "heads of what is left": (
        "s = Shape <end = 1> (x)  k = Concat <axis = 0> (s, m, three)  y = Reshape (x, k)",
        ("N", 16, 3),
    ),
    "rows of what is left, in another order": (
        "s = Shape <end = 1> (x)  k = Concat <axis = 0> (m, s)  y = Reshape (x, k)",
        (48, None),
    ),
    "nothing that divides": (
        "f = Add (two, three)  k = Concat <axis = 0> (m, f)  y = Reshape (x, k)",
        (None, 5),
    ),
    "a row expanded to a number and an unknown one": (
        "s = Shape <end = 1> (x)  k = Concat <axis = 0> (s, three, one)  "
        "e = Slice (x, zero, one, zero)  w = Unsqueeze (e, one)  y = Expand (w, k)",
        (None, 3, 48),
    ),
    "expanded in front to unknown rows": (
        "s = Shape <end = 1> (x)  k = Concat <axis = 0> (three, s, one)  y = Expand (x, k)",
        (3, None, 48),
    ),
    "expanded to what is chosen": (
        "q = Equal (two, m)  k = Where (q, one, two)  "
        "v = Concat <axis = 0> (k, three)  n = ConstantOfShape (v)  y = Expand (n, v)",
        (2, 3),
    ),
    "repeated by what is chosen": (
        "q = Equal (two, m)  k = Where (q, one, two)  v = Concat <axis = 0> (one, k)  "
        "y = Tile (x, v)",
        ("N", 96),
    ),
    "padded by what is chosen": (
        "q = Equal (two, m)  k = Where (q, one, two)  z = Sub (one, one)  "
        "p = Concat <axis = 0> (z, z, z, k)  y = Pad (x, p)",
        ("N", 50),
    ),
    "padded along an axis by an unknown number": (
        "s = Shape (x)  d = Gather (s, zero)  w = Mod (d, two)  z = Sub (one, one)  "
        "p = Concat <axis = 0> (z, z, w, z)  y = Pad (x, p)",
        (None, 48),
    ),
    "half of an unknown number": (
        "s = Shape (x)  d = Gather (s, zero)  h = Div (d, two)  y = Slice (x, zero, h, zero)",
        (None, 48),
    ),
}
CONSTANTS = "".join(
    f"{name} = Constant <value_ints = [{number}]> () "
    for name, number in {"m": -1, "zero": 0, "one": 1, "two": 2, "three": 3}.items()
)


def known(dims: tuple[int | str | None, ...] | None) -> list[int | None]:
    return [d if isinstance(d, int) else None for d in dims or ()]


@pytest.mark.quick
@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("place", ["the main graph", "a body"])
def test_dimensions_by_what_is_computed(name: str, place: str) -> None:
    nodes, dims = CUTS[name]
    if place == "the main graph":
        text = f"{HEADER}g (float[N,48] x) => (float[] r) {{ {CONSTANTS} {nodes} r = Neg (y) }}"
    else:
        text = f"""{HEADER}g (float[B,N,48] xs) => (float[] r) {{ {CONSTANTS}
          r = Scan <num_scan_inputs = 1, body = b (x) => (r0) {{ {nodes} r0 = Neg (y) }}> (xs) }}"""
    typings, named = both(text)
    for typing in (typings.declared, typings.proven):
        assert known(typing.dims(named["y"])) == known(dims)


def test_an_axis_that_is_not_padded_keeps_its_size() -> None:
    typings, named = both(f"""{HEADER}g (float[N,48] x, int64[1] k) => (float[] r) {{
        {CONSTANTS} p = Concat <axis = 0> (zero, zero, k, zero) y = Pad (x, p) r = Neg (y) }}""")
    for typing in (typings.declared, typings.proven):
        assert known(typing.dims(named["y"])) == [None, 48]


@pytest.mark.parametrize("opset", [11, 12])
@pytest.mark.parametrize(
    ("last", "dims"),
    [("{3}", (None, 16, 3)), ("{-1}", (None, 16, 3)), ("", (None, 16, None))],
)
def test_axes_of_what_is_reshaped_below_opset_13(
    opset: int, last: str, dims: tuple[int | None, ...]
) -> None:
    """ONNX's inference follows no number through an Unsqueeze by an attribute."""
    given = f"l = Constant <value = int64[1] {last}> ()" if last else "l = Identity (k)"
    typings, named = both(f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[N,16,3] x, int64[1] k) => (float[] r) {{
            i = Constant <value = int64 {{0}}> () j = Constant <value = int64 {{1}}> ()
            s = Shape (x) p = Gather <axis = 0> (s, i) q = Gather <axis = 0> (s, j)
            u = Unsqueeze <axes = [0]> (p) v = Unsqueeze <axes = [0]> (q) {given}
            t = Concat <axis = 0> (u, v, l) y = Reshape (x, t) r = Neg (y) }}""")
    for typing in (typings.declared, typings.proven):
        assert known(typing.dims(named["y"])) == known(dims)


MADE = {
    "filled": "y = ConstantOfShape (t)",
    "a number expanded": "y = Expand (i, t)",
    "a matrix expanded to what it is": "z = ConstantOfShape (t) y = Expand (z, t)",
}


@pytest.mark.parametrize("opset", [11, 12, 18])
@pytest.mark.parametrize("name", MADE)
def test_a_shape_is_made_of_dimensions_that_have_names(opset: int, name: str) -> None:
    axes = "<axes = [0]> (p) v = Unsqueeze <axes = [0]> (q)"
    axes = axes if opset < 13 else "(p, o) v = Unsqueeze (q, o)"
    typings, named = both(f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[N,16,M] x) => (float[] r) {{
            i = Constant <value = int64 {{0}}> () j = Constant <value = int64 {{2}}> ()
            o = Constant <value = int64[1] {{0}}> () s = Shape (x)
            p = Gather <axis = 0> (s, i) q = Gather <axis = 0> (s, j) u = Unsqueeze {axes}
            t = Concat <axis = 0> (u, v) {MADE[name]} f = Cast <to = 1> (y) r = Neg (f) }}""")
    rows, _, columns = typings.proven.dims(named["x"]) or ()
    assert typings.proven.dims(named["y"]) == (rows, columns)
    assert typings.declared.dims(named["y"]) == ("N", "M")


def test_what_is_left_of_an_unknown_rank_is_unknown() -> None:
    typings, named = both(f"""{HEADER}g (float[N,48] x, int64[K] k) => (float[] r) {{
        {CONSTANTS} w = Reshape (x, k) y = Reshape (w, m) r = Neg (y) }}""")
    assert known(typings.proven.dims(named["y"])) == [None]
