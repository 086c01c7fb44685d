"""Which nodes of branches have another size than inference finds."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.graph.graphs import subgraphs
from passes.runtimes.defects.inferred_sizes import is_of_another_size
from passes.runtimes.types import Types

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 10, opset_import: ["" : %d]>
g (float[1,1,1,6] e, float[1,1,6,1] column, float[1,1,N,6] open, float[] any, bool c,
   float[4] given) => (float[] y)
<float[4] rounded = {1, 1, 1, 0.8333333}, float[4] half = {1, 1, 1, 0.5},
 float[4] columns = {1, 1, 0.8333333, 1}, float[1] one = {0.8333333}, int64[4] sizes = {1, 1, 1, 5}> {
    y = If (c) <then_branch = t () => (float[] a) { %s },
                else_branch = f () => (float[] b) { b = Neg (e) }> }"""
BEHIND = "a = MaxPool <ceil_mode = 1, kernel_shape = [1, 2], strides = [1, 6]> ({})"
PADDED = "a = MaxPool <ceil_mode = 1, kernel_shape = [1, 2], strides = [1, 7], pads = {}> (e)"
SPREAD = """a = MaxPool <ceil_mode = 1, kernel_shape = [1, 2], strides = [1, {}],
    dilations = [1, {}]> (e)"""
CASES: dict[str, tuple[str, bool]] = {
    "a window behind the end": (BEHIND.format("e"), True),
    "along the first axis": (
        "a = MaxPool <ceil_mode = 1, kernel_shape = [2, 1], strides = [6, 1]> (column)",
        True,
    ),
    "behind an open axis": (BEHIND.format("open"), True),
    "along an open axis": (
        "a = MaxPool <ceil_mode = 1, kernel_shape = [2, 1], strides = [6, 1]> (open)",
        False,
    ),
    "of an unknown rank": (BEHIND.format("any"), False),
    "rounded down": (BEHIND.format("e").replace("ceil_mode = 1, ", ""), False),
    "evened": (BEHIND.format("e").replace("<", '<auto_pad = "SAME_UPPER", '), False),
    "windows that fit": (
        "a = MaxPool <ceil_mode = 1, kernel_shape = [1, 2], strides = [1, 2]> (e)",
        False,
    ),
    "a window that begins at the last place": (
        "a = MaxPool <ceil_mode = 1, kernel_shape = [1, 2], strides = [1, 5]> (e)",
        False,
    ),
    "steps of one": ("a = MaxPool <ceil_mode = 1, kernel_shape = [1, 2]> (e)", False),
    "padded in front": (PADDED.format([0, 2, 0, 0]), False),
    "padded behind": (PADDED.format([0, 0, 0, 2]), True),
    "a window of places apart": (SPREAD.format(6, 3), True),
    "a window of places apart that fits": (SPREAD.format(3, 4), False),
    "a size that floats round": ("a = Resize (e, , rounded)", True),
    "of another axis": ("a = Resize (column, , columns)", True),
    "a size that none rounds": ("a = Resize (e, , half)", False),
    "by a size": ("a = Resize (e, , , sizes)", False),
    "by what is computed": ("a = Resize (e, , given)", False),
    "of a named axis": ("a = Resize <axes = [3]> (e, , one)", True),
    "of one from the end": ("a = Resize <axes = [-1]> (e, , one)", True),
    "of a named axis of one place": ("a = Resize <axes = [2]> (e, , one)", False),
    "of an open axis": ("a = Resize <axes = [2]> (open, , one)", False),
}


def judged(nodes: str, opset: int) -> bool:
    model = ir.from_onnx_text(TEXT % (opset, nodes))
    ((_, branch), _) = subgraphs(model.graph[0])
    return is_of_another_size(branch[0], Types(model))


@pytest.mark.parametrize("name", CASES)
def test_in_a_branch(name: str) -> None:
    nodes, is_met = CASES[name]
    assert judged(nodes, 18) is is_met
    assert judged(nodes, 21) is is_met


@pytest.mark.parametrize("name", CASES)
def test_inference_of_opset_22_counts_the_windows_that_are_made(name: str) -> None:
    nodes, is_met = CASES[name]
    assert judged(nodes, 22) is (is_met and "Resize" in nodes)


@pytest.mark.parametrize("name", CASES)
def test_outside_of_a_branch_nothing_is_allocated_ahead(name: str) -> None:
    model = ir.from_onnx_text(TEXT % (18, CASES[name][0]))
    ((_, branch), _) = subgraphs(model.graph[0])
    (node,) = branch
    branch.outputs.clear()
    branch.remove(node)
    model.graph.append(node)
    assert not is_of_another_size(node, Types(model))
