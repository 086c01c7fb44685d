"""What runtimes are known to get wrong: one row each.

To add a row: a test that shows the defect, in `tests/passes/runtimes/`, so that we notice when it
is mended; what tells a node that meets it; a form that computes the same without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import onnx_ir as ir

from passes.builder import Builder
from passes.runtimes import captured, empties, integers, rearranged, sequences
from passes.runtimes.types import Types

__all__ = ["DEFECTS", "Defect"]


@dataclasses.dataclass(frozen=True)
class Defect:
    """One defect of a runtime and the way around it.

    Attributes:
        name: What it is called in tests and on its page in ``docs/upstream``.
        runtime: The runtime.
        versions: The versions in which it was seen.
        operators: The default-domain operators that may meet it.
        meets: Whether a node, with its types, meets the defect.
        form: Records nodes that compute the same and do not meet it. Returns the new outputs,
            None where the node stays as it is.
        pinned_by: The test that fails when the runtime is mended.
    """

    name: str
    runtime: str
    versions: str
    operators: tuple[str, ...]
    meets: Callable[[ir.Node, Types], bool]
    form: Callable[[ir.Node, Types, Builder], list[ir.Value] | None]
    pinned_by: str


_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "ArgMax", "ArgMin"),
)
_MOVING = ("MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")


def _onnxruntime(
    name: str,
    operators: tuple[str, ...],
    meets: Callable[[ir.Node, Types], bool],
    form: Callable[[ir.Node, Types, Builder], list[ir.Value] | None],
) -> Defect:
    return Defect(
        name,
        "onnxruntime",
        "1.31.1",
        operators,
        meets,
        form,
        f"tests/passes/runtimes/test_upstream.py::test_defect[{name}]",
    )


DEFECTS: tuple[Defect, ...] = (
    _onnxruntime("max-int64", ("Max", "Min"), integers.is_at_risk, integers.compared),
    _onnxruntime("clip-int64", ("Clip",), integers.is_at_risk, integers.clipped),
    _onnxruntime("sign-int64", ("Sign",), integers.is_at_risk, integers.signs),
    _onnxruntime(
        "reduce-max-int64", ("ReduceMax", "ReduceMin"), integers.is_at_risk, integers.extremum
    ),
    _onnxruntime(
        "reduction-from-the-back",
        _REDUCTIONS,
        empties.has_negative_axes,
        empties.from_the_front,
    ),
    _onnxruntime("product-by-a-vector", ("MatMul",), empties.is_by_a_vector, empties.by_a_matrix),
    _onnxruntime(
        "product-of-a-short-left-side", ("MatMul",), empties.is_left_short, empties.left_as_long
    ),
    _onnxruntime(
        "product-of-a-transpose",
        ("MatMul",),
        empties.is_fused_with_transpose,
        empties.untransposed,
    ),
    _onnxruntime(
        "reshape-to-a-computed-shape",
        ("Reshape",),
        empties.is_shape_replaced,
        empties.computed_shape,
    ),
    _onnxruntime(
        "cast-back-and-captured",
        ("Cast", "CastLike"),
        captured.is_cast_back_and_captured,
        captured.before_the_casts,
    ),
    _onnxruntime(
        "dequantized-and-captured",
        _MOVING,
        captured.is_dequantized_and_captured,
        captured.kept,
    ),
    _onnxruntime(
        "rows-of-text", ("Gather",), rearranged.reads_rows_of_text, rearranged.gathered_one_by_one
    ),
    _onnxruntime(
        "pad-of-some-axes",
        ("Pad", "CenterCropPad"),
        rearranged.is_of_some_axes,
        rearranged.of_all_axes,
    ),
    _onnxruntime(
        "split-of-several-rows",
        ("SplitToSequence",),
        sequences.is_cut_by_several,
        sequences.with_its_axis,
    ),
    _onnxruntime(
        "product-with-an-inverse",
        ("Div",),
        rearranged.is_inverse_of_a_constant,
        rearranged.reciprocal,
    ),
)
