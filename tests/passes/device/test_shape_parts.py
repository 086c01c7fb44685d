"""Parts of a shape are read off Shape itself, where that reads the same."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.device.device_forms import DeviceFormsPass
from rewriter.backends import run


def numbers(name: str, *values: int) -> str:
    return f"{name} = Constant <value_ints = [{', '.join(map(str, values))}]> () "


def model(body: str, opset: int = 18, declared: str = "float[A,B,C,D]") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g ({declared} x) => (int64[N] y) '
        f"{{ s = Shape (x) {body} y = Neg (p) }}"
    )


def formed(given: onnx.ModelProto) -> onnx.ModelProto:
    taken = ir.from_proto(given)
    DeviceFormsPass(lambda node, dtype: True)(taken)
    return ir.to_proto(taken)


def cut(start: int, end: int, *more: int) -> str:
    inputs = [start, end, *more]
    names = [f"c{i}" for i in range(len(inputs))]
    constants = "".join(numbers(n, v) for n, v in zip(names, inputs, strict=True))
    return f"{constants} p = Slice (s, {', '.join(names)})"


def picked(index: int) -> str:
    return f"i = Constant <value_int = {index}> () d = Gather (s, i) "


READ = {
    "a dimension": numbers("i", 2) + "p = Gather (s, i)",
    "the last dimension": numbers("i", -1) + "p = Gather (s, i)",
    "a dimension by a number": picked(1) + numbers("z", 0) + "p = Unsqueeze (d, z)",
    "the last by a number": picked(-4) + numbers("z", 0) + "p = Unsqueeze (d, z)",
    "the first ones": cut(0, 2),
    "the last ones": cut(-2, 2**31),
    "along an axis by one": cut(1, 3, 0, 1),
    "none": cut(3, 1),
    "more than there are": cut(-9, 9, -1),
}
KEPT = {
    "several": numbers("i", 2, 0) + "p = Gather (s, i)",
    "every other": cut(0, 4, 0, 2),
    "backwards": cut(3, -9, 0, -1),
    "another vector": "t = Abs (s) " + numbers("i", 2) + "p = Gather (t, i)",
    "by a number of its own": "i = Shape <start = 0, end = 1> (x) p = Gather (s, i)",
    "from a number of its own": (
        "i = Shape <start = 0, end = 1> (x) " + numbers("e", 4) + "p = Slice (s, i, e)"
    ),
    "up to a number of its own": (
        numbers("b", 0) + "i = Shape <start = 0, end = 1> (x) p = Slice (s, b, i)"
    ),
    "of a part": "q = Shape <start = 1> (x) " + numbers("i", 1) + "p = Gather (q, i)",
}


@pytest.mark.quick
@pytest.mark.parametrize("name", [*READ, *KEPT])
def test_parts_are_what_they_were(name: str) -> None:
    given = model({**READ, **KEPT}[name])
    after = formed(given)
    feeds = {"x": np.zeros((2, 3, 5, 7), np.float32)}
    (wanted,) = run(given, feeds).values()
    (found,) = run(after, feeds).values()
    np.testing.assert_array_equal(wanted, found)
    left = {node.op_type for node in after.graph.node} - {"Constant", "Neg", "Shape"}
    assert bool(left) == (name in KEPT)


@pytest.mark.parametrize(
    "given",
    [
        model(READ["a dimension"], opset=14),
        model(READ["a dimension"], declared="float[]"),
        model(numbers("i", 4) + "p = Gather (s, i)"),
    ],
    ids=["an opset without parts", "of unknown rank", "outside"],
)
def test_what_one_shape_does_not_yield_stays(given: onnx.ModelProto) -> None:
    assert "Gather" in {node.op_type for node in formed(given).graph.node}
