"""Windows whose places hang on the size of an image: rounded up, padded by SAME, one fixed side."""

from __future__ import annotations

import numpy as np
import pytest

from passes.tensors.io import TensorIo
from rewriter import backends
from rewriter.feeding.tensor_io import outputs_as_lists
from rewriter.model_files import models
from tests.passes.batching.images import FlatCase, drawn, prove_flat, prove_nothing, reached

POOLS = ("MaxPool", "LpPool", "AveragePool")
ROUNDED_UP = (
    "kernel_shape = [3, 3], strides = [2, 2]",
    "kernel_shape = [2, 2], strides = [2, 2]",
    "kernel_shape = [3, 2], strides = [2, 3], pads = [1, 1, 1, 0]",
    "kernel_shape = [2, 2], strides = [3, 2], dilations = [2, 1]",
)
EVENED = (
    'kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_UPPER"',
    'kernel_shape = [2, 3], strides = [2, 3], auto_pad = "SAME_LOWER"',
)
KERNEL = (
    "n = Constant <value_floats = [1.0, -2.0, 0.5, 3.0, -1.0, 2.0, 0.25, 1.5, -0.5, 1.0, 2.0, "
    "-3.0, 0.75, 1.25, -1.5, 2.5, 0.5, 1.0]> () d = Constant <value_ints = [1, 2, 3, 3]> () "
    "k = Reshape (n, d) "
)
SIDES = {
    "any": ("float[1,2,H,W]", "float[1,c,h,w]"),
    "a width": ("float[1,2,H,7]", "float[1,c,h,v]"),
}


def case(name: str, nodes: str, side: str = "any") -> FlatCase:
    """Make a case over images of any size, or of one width."""
    element, result = SIDES[side]
    return FlatCase(
        f"{name}, {side}", nodes, element, result, high=9.0, most=9, tolerance=1e-6, opset=19
    )


CASES = [
    *(
        case(f"{op} {attributes}", f"y = {op} <{attributes}, ceil_mode = 1> (x)", side)
        for op in POOLS
        for attributes in ROUNDED_UP
        for side in SIDES
    ),
    *(
        case(f"{op} {attributes}", f"y = {op} <{attributes}> (x)", side)
        for op in POOLS
        for attributes in EVENED
        for side in SIDES
    ),
    *(
        case(
            f"AveragePool of all, {attributes}",
            f"y = AveragePool <{attributes}, count_include_pad = 1> (x)",
        )
        for attributes in EVENED
    ),
    case("Rounded up without pads", f"y = AveragePool <{ROUNDED_UP[0]}, ceil_mode = 1, "
         "count_include_pad = 1> (x)"),
    *(
        case(f"Conv {attributes}", KERNEL + f"y = Conv <{attributes}> (x, k)", side)
        for attributes in (
            'strides = [2, 2], auto_pad = "SAME_UPPER"',
            'strides = [3, 2], auto_pad = "SAME_LOWER"',
        )
        for side in SIDES
    ),
    case("windows of padding alone", "y = MaxPool <kernel_shape = [2, 2], dilations = [2, 2], "
         "pads = [1, 1, 1, 1]> (x)"),
    case("two ways to half the size", KERNEL
         + 'c = Conv <strides = [2, 2], auto_pad = "SAME_UPPER"> (x, k) m = MaxPool <kernel_shape '
         '= [2, 2], strides = [2, 2], auto_pad = "SAME_LOWER"> (x) y = Add (c, m)'),
    case("one pool behind another", "m = MaxPool <kernel_shape = [3, 3], strides = [2, 2], "
         "ceil_mode = 1> (x) y = AveragePool <kernel_shape = [2, 2], strides = [2, 2], "
         'auto_pad = "SAME_UPPER"> (m)'),
    case("what was padded before", "p = Constant <value_ints = [0, 0, 1, 0, 0, 0, 0, 2]> () "
         "q = Pad (x, p) y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], "
         'auto_pad = "SAME_UPPER"> (q)'),
]  # fmt: skip
FIXED = [
    FlatCase(f"{op}, a width", f"y = {op} (x)", *SIDES["a width"], least=3, most=9, tolerance=1e-6)
    for op in (
        "MaxPool <kernel_shape = [3, 3]>",
        "AveragePool <kernel_shape = [3, 2], strides = [1, 2]>",
    )
] + [
    FlatCase("Conv, a width", KERNEL + "y = Conv (x, k)", *SIDES["a width"], least=3, most=9,
             high=9.0, tolerance=1e-6),
]  # fmt: skip
LINES = [
    FlatCase("wrapped around", "p = Constant <value_ints = [0, 1, 3, 0, 2, 0]> () "
             'y = Pad <mode = "wrap"> (x, p)', "float[2,H,W]", "float[2,h,w]", most=6, opset=19),
    FlatCase("a signal, rounded up", "y = MaxPool <kernel_shape = [3], strides = [2], "
             "ceil_mode = 1> (x)", "float[1,2,W]", "float[1,2,w]"),
    FlatCase("a signal, evened", "n = Constant <value_floats = [1.0, -2.0, 0.5, 3.0, -1.0, 2.0]> "
             "() d = Constant <value_ints = [1, 2, 3]> () k = Reshape (n, d) "
             'y = Conv <strides = [2], auto_pad = "SAME_UPPER"> (x, k)', "float[1,2,W]",
             "float[1,1,w]", high=9.0, tolerance=1e-6),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("one", [*CASES, *FIXED, *LINES], ids=str)
def test_windows_of_images(one: FlatCase) -> None:
    prove_flat(one)


@pytest.mark.parametrize("one", [*CASES[::5], *FIXED, *LINES], ids=str)
def test_windows_of_no_image(one: FlatCase) -> None:
    prove_nothing(one)


@pytest.mark.parametrize(("sides", "is_padded"), [("[1, 1]", False), ("[1, 2]", True)])
def test_windows_of_one_place_fit_wherever_there_is_one(sides: str, is_padded: bool) -> None:
    """Of no image the largest is one place, which only a larger window needs more than."""
    after = reached(case("narrow", f"y = MaxPool <kernel_shape = {sides}> (x)"))
    assert ("Pad" in {node.op_type for node in after.graph.node}) == is_padded


MIRRORED = FlatCase(
    "mirrored more than once",
    'p = Constant <value_ints = [5, 7, 0, 6, 3, 0]> () y = Pad <mode = "reflect"> (x, p)',
    most=5,
)


def test_an_image_is_mirrored_as_often_as_it_takes() -> None:
    """onnxruntime refuses the model as given there, and the evaluator mirrors again."""
    after = reached(MIRRORED)
    images = drawn(MIRRORED, 6)
    wanted = backends.open_session(MIRRORED.model, "reference").run({"xs": images})["ys"]
    given = backends.open_session(after, "onnxruntime").run({"xs": images})
    found = outputs_as_lists(TensorIo.read(models.take(after).model), given)["ys"]
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(other, one)
