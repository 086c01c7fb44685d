"""What the device alone computes of sizes is computed there; what the host reads stays."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.device.device_numbers import DeviceNumbersPass
from rewriter.backends import run
from rewriter.placement.device_kernels import host_nodes, reads_on_host
from rewriter.placement.placing import place
from rewriter.target_table import find_target

INPUTS = "float[N] ids, float[M,K] rows, int64[P] places, bool yes"
NUMBERS = """zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
    axis = Constant <value_ints = [0]> () p = Mul (places, one) """


def model(body: str, opset: int = 18) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g ({INPUTS}) => (float[] y) '
        f"{{ {NUMBERS} {body} y = Cast <to = 1> (r) }}"
    )


MOVED = {
    "a size and what is computed of it": "n = Size (ids) m = Sub (n, one) r = Min (p, m)",
    "a dimension that is picked": "d = Shape (rows) n = Gather (d, one) r = Mul (p, n)",
    "a dimension from the end": """d = Shape (rows) i = Constant <value_int = -2> ()
        n = Gather (d, i) r = Less (p, n)""",
    "a part of a shape": """d = Shape <start = 1> (rows) n = Squeeze (d, axis) m = Max (n, one)
        r = Add (p, m)""",
    "of two tensors": """n = Size (ids) d = Shape (rows) k = Gather (d, one) m = Add (n, k)
        r = Sub (p, m)""",
    "an input and a size": """n = Shape (ids) a = Concat <axis = 0> (places, n)
        r = Gather (a, p)""",
    "a shape of what is computed": """n = Shape (ids) a = Concat <axis = 0> (places, n)
        s = Shape (a) e = ConstantOfShape <value = int64[1] {1}> (s) r = Add (e, a)""",
    "the number of what is computed": """n = Shape (ids) a = Concat <axis = 0> (places, n)
        s = Size (a) e = Sub (a, one) r = Concat <axis = 0> (p, e)""",
    "a size that is computed with in a branch": """n = Size (ids) m = Add (n, one)
        r = If (yes) <then_branch = t () => (int64[] a) { a = Mul (p, m) },
                      else_branch = e () => (int64[] b) { b = Sub (p, m) }>""",
}
PARTLY = {
    "what reads a number of the host and a size": """n = Shape (ids) d = Size (rows)
        a = Concat <axis = 0> (places, n) q = Max (a, d) s = Size (q) m = Add (s, one)
        r = Mul (a, m)""",
}
"""The host keeps what it needs, and hands it over."""
STAYS = {
    "what the host reads, too": """n = Size (ids) m = Add (n, one) o = Mul (p, m)
        q = Range (zero, m, one) s = ReduceSum (q) r = Add (o, s)""",
    "what a host node reads": """n = Size (ids) m = Add (n, one) k = Mul (m, m)
        q = Range (zero, k, one) s = ReduceSum (q) o = Mul (p, m) r = Add (o, s)""",
    "a whole shape": "d = Shape (rows) m = Add (d, one) c = Concat <axis = 0> (p, m) "
    "r = Mul (c, c)",
    "what reads a number that the host computes": """n = Shape (ids)
        a = Concat <axis = 0> (places, n) q = Max (a, one) s = Size (q) m = Add (s, one)
        r = Mul (a, m)""",
    "a result": "n = Size (ids) r = Add (n, one)",
    "a condition": """n = Size (ids) c = Greater (n, one)
        r = If (c) <then_branch = t () => (int64[] a) { a = Mul (p, n) },
                    else_branch = e () => (int64[] b) { b = Sub (p, n) }>""",
    "a state of a loop": """n = Size (ids) m = Add (n, one)
        r = Loop (one, yes, m) <body = b (int64 i, bool c, int64 s) => (bool d, int64 t) {
            d = Identity (c) t = Add (s, one) }>""",
}


def moved(given: onnx.ModelProto) -> onnx.ModelProto:
    taken = ir.from_proto(given)
    on_host = functools.partial(host_nodes, "cuda")
    one = DeviceNumbersPass(on_host, reads_on_host("cuda", taken))
    modified = one(taken).modified
    assert not one(taken).modified
    after = ir.to_proto(taken)
    assert modified == (after != ir.to_proto(ir.from_proto(given)))
    return after


def feeds(ids: int, wide: int, places: int) -> dict[str, np.ndarray]:
    return {
        "ids": np.zeros(ids, np.float32),
        "rows": np.zeros((3, wide), np.float32),
        "places": np.arange(places),
        "yes": np.array(True),
    }


@pytest.mark.quick
@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
@pytest.mark.parametrize("name", [*MOVED, *PARTLY, *STAYS])
def test_it_computes_the_same(name: str, backend: str) -> None:
    given = model({**MOVED, **PARTLY, **STAYS}[name])
    after = moved(given)
    assert (after != ir.to_proto(ir.from_proto(given))) == (name not in STAYS)
    for ids, wide, places in ((0, 0, 1), (1, 2, 2), (5, 1, 3)):
        fed = feeds(ids, wide, places)
        (wanted,) = run(given, fed, backend=backend).values()
        (found,) = run(after, fed, backend=backend).values()
        np.testing.assert_array_equal(wanted, found)
        assert wanted.dtype == found.dtype


@pytest.mark.parametrize("name", MOVED)
def test_nothing_is_left_on_the_host(name: str) -> None:
    placed = place(ir.from_proto(moved(model(MOVED[name]))), find_target("onnxruntime-cuda"))
    assert placed is not None
    assert not placed.host
    assert not placed.copies


def test_an_opset_without_parts_of_shapes_stays() -> None:
    given = model(MOVED["an input and a size"], opset=14)
    assert moved(given) == ir.to_proto(ir.from_proto(given))
