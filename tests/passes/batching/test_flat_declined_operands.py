"""Operands and attributes that a rule for images of several sizes cannot take: it says why.

A model with such a node stays a loop; what it computes is what it computed as given.
"""

from __future__ import annotations

import pytest

from tests.passes.batching.images import FlatCase

pytestmark = pytest.mark.quick

FRONT = ("float[1,3,H,W]", "float[1,c,h,w]")
LAST = ("float[H,W,3]", "float[h,w,c]")
PLANE = ("float[H,W]", "float[h,w]")
TO_INTEGERS = "i = Cast <to = 7> (x) "
FIRST = f"{TO_INTEGERS}n = Constant <value = int64 {{0}}> () f = Gather (i, n) "
"""Integers of the first row of each sample, as many as it is wide."""
OWN_NUMBER = "m = ReduceMin <keepdims = 0> (x) n = Cast <to = 7> (m) z = Constant <value_ints = [0]> () k = Unsqueeze (n, z) "
"""An integer of each sample."""


def ones(name: str, *dims: int) -> str:
    """Return nodes that make a tensor which all samples share."""
    shape = ", ".join(map(str, dims))
    return (
        f"{name}_one = Constant <value = float {{1.0}}> () "
        f"{name}_dims = Constant <value_ints = [{shape}]> () "
        f"{name} = Expand ({name}_one, {name}_dims) "
    )


def numbers(name: str, *values: float) -> str:
    """Return a node that makes a vector of floats."""
    return f"{name} = Constant <value_floats = [{', '.join(str(float(v)) for v in values)}]> () "


REGION = 'coordinate_transformation_mode = "tf_crop_and_resize"'
PLANE_OF = numbers("q", 0.1, 0.1, 0.9, 0.9)

CASES = {
    "coordinates that are none": (
        numbers("r", 0.5, 0.5, 1)
        + 'y = Resize <coordinate_transformation_mode = "nothing"> (x, , r)',
        LAST,
        "Resize no-rule: coordinates by nothing have no form for samples of several sizes",
    ),
    "a region along one axis": (
        f"{numbers('q', 0, 0, 0.1, 0, 1, 1, 0.9, 1)}{numbers('r', 1, 1, 0.5, 1)}"
        f'y = Resize <mode = "linear", {REGION}> (x, q, r)',
        FRONT,
        "Resize no-rule: it resizes a region along one axis",
    ),
    "a region of bytes": (
        f"{numbers('q', 0.1, 0.1, 0, 0.9, 0.9, 1)}{numbers('r', 0.5, 0.5, 1)}b = Cast <to = 2> (x) "
        f'u = Resize <mode = "linear", {REGION}> (b, q, r) y = Cast <to = 1> (u)',
        LAST,
        "Resize no-rule: regions of UINT8 by linear have no form for several sizes",
    ),
    "a region by cubic sums": (
        f'{PLANE_OF}{numbers("r", 0.5, 0.5)}y = Resize <mode = "cubic", {REGION}> (x, q, r)',
        PLANE,
        "Resize no-rule: regions of FLOAT by cubic have no form for several sizes",
    ),
    "a region of what keeps its size": (
        f'{PLANE_OF}{numbers("r", 1, 1)}y = Resize <mode = "linear", {REGION}> (x, q, r)',
        PLANE,
        "Resize no-rule: it takes a region of what keeps its size",
    ),
    "sums of flags": (
        f"b = Cast <to = 9> (x) {numbers('r', 0.5, 0.5, 1)}"
        'u = Resize <mode = "linear"> (b, , r) y = Cast <to = 1> (u)',
        LAST,
        "Resize no-rule: linear of BOOL has no form for samples of several sizes",
    ),
    "sums along three axes of four": (
        f'{numbers("r", 1, 0.5, 0.5, 0.5)}y = Resize <mode = "linear"> (x, , r)',
        FRONT,
        "Resize no-rule: it resizes axes [1, 2, 3] of samples of rank 4",
    ),
    "elements, axis by axis": (
        f"{TO_INTEGERS}y = GatherND <batch_dims = 1> (x, i)",
        ("float[H,W]", "float[h]"),
        "GatherND ragged: its batch axes are axes along which samples differ",
    ),
    "elements of what has one shape, at images of places": (
        f"{ones('o', 4, 4)}m = ReduceMean <keepdims = 0> (x) d = Add (o, m) {TO_INTEGERS}"
        "y = GatherND (d, i)",
        ("float[H,W,2]", "float[h,w]"),
        "GatherND ragged: it reads samples by positions that differ along several axes",
    ),
    "places of any number of coordinates": (
        f"{TO_INTEGERS}y = GatherND (x, i)",
        ("float[H,W,C]", "float[h]"),
        "GatherND unknown-shape: nothing tells how many coordinates a position has",
    ),
    "points in two images": (
        f"{ones('g', 2, 3, 3, 2)}t = Concat <axis = 0> (x, x) y = GridSample (t, g)",
        FRONT,
        "GridSample no-rule: it is not of one image of float in each sample",
    ),
    "points of double": (
        f"{ones('g', 1, 3, 3, 2)}p = Cast <to = 11> (g) y = GridSample (x, p)",
        FRONT,
        "GridSample no-rule: its points are no floats",
    ),
    "the largest of each column, as many as a sample says": (
        f"{OWN_NUMBER}y, j = TopK <axis = 0> (x, k)",
        LAST,
        "TopK batched-operand: its K differs from sample to sample",
    ),
    "a scale for every block": (
        "y = QuantizeLinear <block_size = 2> (x, x)",
        PLANE,
        "QuantizeLinear no-rule: its scale has the axes of the samples",
    ),
    "groups of any number of channels": (
        f"{numbers('o', 1, 1)}y = GroupNormalization <num_groups = 2> (x, o, o)",
        ("float[1,C,H,W]", "float[1,c,h,w]"),
        "GroupNormalization unknown-shape: nothing tells how many channels it has",
    ),
    "two axes that are met by each other": (
        't = Transpose (x) y = Einsum <equation = "ij,ij->ij"> (x, t)',
        PLANE,
        "Einsum ragged: its operands are not proven to fit",
    ),
    "a sum beside what has one shape": (
        f'{ones("o", 3, 4)}y = Einsum <equation = "ij,ij->ij"> (x, o)',
        PLANE,
        "Einsum ragged: its operands are not proven to fit",
    ),
    "reshaped by the elements of a sample": (
        f"{FIRST}y = Reshape (x, f)",
        PLANE,
        "Reshape batched-operand: its shape comes from samples of several sizes",
    ),
    "any number of channels to space": (
        "y = DepthToSpace <blocksize = 2> (x)",
        ("float[1,C,H,W]", "float[1,c,h,w]"),
        "DepthToSpace ragged: its samples differ in depth",
    ),
    "turned as far as a row says": (
        f"{ones('o', 3, 4)}{FIRST}y = ReverseSequence (o, f)",
        PLANE,
        "ReverseSequence batched-operand: its lengths come from samples of several sizes",
    ),
    "cut into as many parts as a row says": (
        f"{FIRST}a, b = Split <axis = 0> (x, f) y = Neg (a)",
        PLANE,
        "Split ragged: nothing tells how many sizes there are",
    ),
    "windows, any number of channels": (
        "y = MaxPool <kernel_shape = [1, 1]> (x)",
        ("float[N,C,4,W]", "float[n,c,h,w]"),
        "MaxPool ragged: images differ in number, or in their channels",
    ),
    "spread, any number of images": (
        f"{ones('k', 3, 2, 2, 2)}y = ConvTranspose (x, k)",
        ("float[N,3,H,4]", "float[n,c,h,w]"),
        "ConvTranspose ragged: images differ in number, or in their channels",
    ),
    "what all share, padded by a row": (
        f"{ones('o', 4, 4)}{FIRST}y = Pad (o, f)",
        PLANE,
        "Pad batched-operand: its pads come from samples of several sizes",
    ),
    "padded by a row of its own": (
        f"{FIRST}y = Pad (x, f)",
        PLANE,
        "Pad ragged: its pads differ along several axes",
    ),
    "padded by too few amounts": (
        "p = Constant <value_ints = [1, 1]> () y = Pad (x, p)",
        PLANE,
        "Pad no-rule: it has no two amounts for each axis",
    ),
    "what all share, cut by a row": (
        f"{ones('o', 4, 4)}{FIRST}y = Slice (o, f, f)",
        PLANE,
        "Slice batched-operand: its bounds come from samples of several sizes",
    ),
    "channels of its own, behind a Resize": (
        f'{numbers("r", 0.5, 0.5, 1)}t = Resize <mode = "linear"> (x, , r) {OWN_NUMBER}'
        "e = Constant <value_ints = [9]> () a = Constant <value_ints = [2]> () "
        "y = Slice (t, k, e, a)",
        LAST,
        "Slice ragged: its bounds along an axis beside the ragged ones differ",
    ),
    "determinants": (
        "y = Det (x)",
        PLANE,
        "Det no-rule: it has no rule for samples that differ along several axes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_it_cannot_take_is_said(name: str) -> None:
    nodes, (element, result), reason = CASES[name]
    assert FlatCase(name, nodes, element, result, opset=19).declined() == {reason}
