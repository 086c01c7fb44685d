"""Rows of flat samples that stay where they are: nothing reads them one by one."""

from __future__ import annotations

import onnx
import pytest

from tests.passes.batching.images import FlatCase, prove_flat, prove_nothing, reached

pytestmark = pytest.mark.quick

AXES = "zero = Constant <value_ints = [0]> () "
IMAGE = "float[3,H,W]"

STAY = [
    FlatCase("axes of size 1 change places", "y = Transpose <perm = [1, 0, 2, 3]> (x)",
             "float[1,3,H,W]", "float[3,1,h,w]"),
    FlatCase("one moves behind", "y = Transpose <perm = [1, 2, 3, 0]> (x)",
             "float[1,3,H,W]", "float[3,h,w,1]"),
    FlatCase("one moves in front", f"{AXES} y = Unsqueeze (x, zero)", IMAGE, "float[1,3,h,w]"),
    FlatCase("one comes, and they meet", f"{AXES} u = Unsqueeze (x, zero) y = Add (u, x)", IMAGE,
             "float[1,3,h,w]"),
    FlatCase("one comes, moves and goes", f"{AXES} one = Constant <value_ints = [1]> () "
             "u = Unsqueeze (x, zero) t = Transpose <perm = [1, 0, 2, 3]> (u) "
             "y = Squeeze (t, one)", IMAGE, "float[3,h,w]"),
]  # fmt: skip

MOVE = [
    FlatCase("channels move behind", "y = Transpose <perm = [1, 2, 0]> (x)", IMAGE,
             "float[h,w,3]"),
    FlatCase("rows and columns change places", "y = Transpose <perm = [0, 2, 1]> (x)", IMAGE,
             "float[3,w,h]"),
    FlatCase("an axis of size 1 and rows", "y = Transpose <perm = [2, 0, 1, 3]> (x)",
             "float[1,3,H,W]", "float[h,1,3,w]"),
]  # fmt: skip


def rows_read(case: FlatCase) -> int:
    """Return how many Gathers of a rewritten model read floats."""
    graph = onnx.shape_inference.infer_shapes(reached(case)).graph
    known = [*graph.input, *graph.value_info, *graph.output]
    floats = {v.name for v in known if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT}
    return sum(node.op_type == "Gather" and node.input[0] in floats for node in graph.node)


@pytest.mark.parametrize("case", [*STAY, *MOVE], ids=str)
def test_values(case: FlatCase) -> None:
    prove_flat(case, (1, 3, 5))
    prove_nothing(case)


@pytest.mark.parametrize("case", STAY, ids=str)
def test_they_stay(case: FlatCase) -> None:
    assert rows_read(case) == 0


@pytest.mark.parametrize("case", MOVE, ids=str)
def test_others_move_at_once(case: FlatCase) -> None:
    assert rows_read(case) == 1


def test_places_are_counted_once() -> None:
    """Grids that have as many rows in each sample count them together."""
    nodes = (
        "t = Transpose <perm = [1, 2, 0]> (x) s = Shape (t) k = Constant <value_ints = [-1, 3]> () "
        "r = Reshape (t, k) b = Reshape (r, s) n = Transpose <perm = [1, 0, 2]> (b) "
        "y = Transpose <perm = [2, 1, 0]> (n)"
    )
    case = FlatCase("there and back", nodes, IMAGE, IMAGE.lower())
    prove_flat(case)
    found = [node.op_type for node in reached(case).graph.node]
    assert found.count("ScatterElements") <= 2
