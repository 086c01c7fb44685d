"""Targets without If: what could fail runs where there are no samples, and does not fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_graphs
from passes.promises import FuseOptions
from rewriter.backends import BackendError, run
from rewriter.proof.compare import compare

LENGTH = "d = Shape (e) n = Gather (d, zero) "
# name: body, whether it ends without If
CASES: dict[str, tuple[str, bool]] = {
    "positions up to a dimension": (
        f"{LENGTH} r = Range (zero, n, one) f = Gather (w, r) o = Add (e, f)",
        True,
    ),
    "positions up to a number that is computed": (
        f"{LENGTH} q = Sub (n, one) p = Add (q, one) r = Range (zero, p, one) "
        "f = Gather (w, r) o = Add (e, f)",
        True,
    ),
    "positions up to one of 32 bits": (
        f"{LENGTH} q = Sub (n, one) p = Add (q, one) m = Cast<to = 6> (p) "
        "r = Range (short, m, step) f = Gather (w, r) o = Add (e, f)",
        True,
    ),
    "an axis counted from the back": (
        f"{LENGTH} r = Range (zero, n, one) f = Gather<axis = -2> (w, r) o = Add (e, f)",
        True,
    ),
    "positions of 32 bits": (
        f"{LENGTH} m = Cast<to = 6> (n) r = Range (short, m, step) f = Gather (w, r) o = Add (e, f)",
        True,
    ),
    "one position": (f"{LENGTH} q = Sub (n, one) f = Gather (w, q) o = Add (e, f)", True),
    "two after another": (
        f"{LENGTH} q = Sub (n, one) i = Gather (table, q) f = Gather (w, i) o = Add (e, f)",
        True,
    ),
    "one of rows of unknown number": (
        f"{LENGTH} q = Sub (n, one) f = Gather (v, q) o = Add (e, f)",
        True,
    ),
    "one of columns of unknown number": (
        f"{LENGTH} q = Sub (n, one) u = Transpose (v) m = Unsqueeze (q, axis) "
        "f = Gather<axis = -1> (u, m) t = Transpose (f) o = Add (e, t)",
        True,
    ),
    "the last but some of rows": (
        f"{LENGTH} q = Sub (one, n) m = Cast<to = 6> (q) f = Gather (v, m) o = Add (e, f)",
        True,
    ),
    "several of rows of unknown number": (
        f"{LENGTH} q = Sub (n, one) m = Unsqueeze (q, axis) i = Concat<axis = 0> (m, m) "
        "f = Gather (v, i) g = ReduceSum (f) o = Add (e, g)",
        False,
    ),
    "rows of none": (f"{LENGTH} q = Sub (n, one) f = Gather (empty, q) o = Add (e, f)", False),
    "positions from one that is computed": (
        f"{LENGTH} q = Sub (n, one) r = Range (q, n, one) f = Gather (w, r) o = Add (e, f)",
        False,
    ),
    "positions in steps that are computed": (
        f"{LENGTH} q = Sub (n, one) r = Range (zero, n, q) f = Gather (w, r) o = Add (e, f)",
        False,
    ),
    "positions counted by halves": (
        f"{LENGTH} q = Cast<to = 1> (n) h = Range (nought, q, half) r = Cast<to = 7> (h) "
        "f = Gather (w, r) g = ReduceSum (f) o = Add (e, g)",
        False,
    ),
    "positions counted by floats": (
        f"{LENGTH} q = Cast<to = 1> (n) h = Range (nought, q, whole) r = Cast<to = 7> (h) "
        "f = Gather (w, r) o = Add (e, f)",
        True,
    ),
    "positions counted by numbers of 16 bits": (
        f"{LENGTH} q = Cast<to = 5> (n) h = Range (tiny, q, small) r = Cast<to = 7> (h) "
        "f = Gather (w, r) o = Add (e, f)",
        False,
    ),
    "more numbers than memory has": (
        f"{LENGTH} h = Range (far, n, down) q = Cast<to = 1> (h) g = ReduceSum (q) o = Add (e, g)",
        False,
    ),
    "constants at constant places": (
        f"c = ScatterND (w, places, rows) {LENGTH} r = Range (zero, n, one) f = Gather (c, r) "
        "o = Add (e, f)",
        True,
    ),
    "constants at places that are not there": (
        f"p = Add (places, far) c = ScatterND (w, p, rows) {LENGTH} r = Range (zero, n, one) "
        "f = Gather (c, r) o = Add (e, f)",
        False,
    ),
    "constants expanded to a shape that is chosen": (
        "q = Equal (wide, down) k = Where (q, one, wide) c = Expand (row, k) "
        f"{LENGTH} r = Range (zero, n, one) f = Gather (c, r) o = Add (e, f)",
        True,
    ),
    "so many zeros as are missing": (
        "q = Sub (axis, axis) h = ConstantOfShape (q) g = ReduceSum (h) "
        f"{LENGTH} r = Range (zero, n, one) f = Gather (w, r) p = Add (e, f) o = Add (p, g)",
        True,
    ),
    "a shape that may not fit": (
        f"{LENGTH} s = Unsqueeze (n, axis) t = Concat<axis = 0> (s, s) f = Reshape (v, t) "
        "g = ReduceSum (f) o = Add (e, g)",
        False,
    ),
}


def model(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[B,T,2] x, float[R,2] v) => (float[B,T,2] y)
        <float[4,2] w = {{1, 2, 3, 4, 5, 6, 7, 8}}, int64[4] table = {{3, 2, 1, 0}},
         int64 zero = {{0}}, int64 one = {{1}}, int32 short = {{0}}, int32 step = {{1}}, int64[1] axis = {{0}},
         float[0,2] empty = {{}}, float nought = {{0}}, float whole = {{1}}, int64[1] back = {{-2}}, float half = {{0.5}},
         int16 tiny = {{0}}, int16 small = {{1}}, int64 far = {{1099511627776}},
         int64 down = {{-1}}, int64[2,1] places = {{2, -1}}, float[2,2] rows = {{9, 8, 7, 6}},
         int64[2] wide = {{4, 2}}, float[1,2] row = {{3, 5}}> {{
            s = SplitToSequence<axis = 0, keepdims = 0> (x)
            m = SequenceMap (s) <body = b (float[T2,2] e) => (float[T2,2] o) {{ {body} }}>
            y = ConcatFromSequence<axis = 0, new_axis = 1> (m)
        }}""")


def fused(
    before: onnx.ModelProto, lacks: tuple[str, ...], *, for_device: bool = False
) -> tuple[onnx.ModelProto, bool]:
    taken = ir.from_proto(before)
    FuseSequenceMapPass(FuseOptions(lacks=lacks, for_device=for_device))(taken)
    branches = any(node.op_type == "If" for graph in all_graphs(taken) for node in graph)
    return ir.to_proto(taken), branches


def feeds(samples: int, rows: int) -> dict[str, Any]:
    numbers = np.arange(samples * rows * 2, dtype=np.float32)
    return {"x": numbers.reshape(samples, rows, 2), "v": np.ones((2, 2), np.float32)}


@pytest.mark.parametrize("name", CASES)
def test_without_samples_nothing_fails(name: str) -> None:
    body, ends_without = CASES[name]
    before = model(body)
    assert fused(before, ())[1]
    after, branches = fused(before, ("If",))
    assert branches is not ends_without
    onnx.checker.check_model(after, full_check=True)
    for backend in ("reference", "onnxruntime"):
        for rows in (0, 2, 9):
            shape = run(after, feeds(0, rows), backend=backend)["y"].shape
            assert shape == (0, rows if ends_without else 0, 2)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize(
    "name", [name for name, (_, ends_without) in CASES.items() if ends_without]
)
def test_with_samples_it_computes_the_same(name: str, samples: int) -> None:
    before = model(CASES[name][0])
    after, _ = fused(before, ("If",))
    given = feeds(samples, 2)
    difference = compare(run(before, given, backend="reference"), run(after, given))
    assert difference.equal, difference.message
    with pytest.raises(BackendError):
        run(after, feeds(samples, 9))


# What a device does not ask for: the others are copied or cut for it, which an If is not.
FOR_DEVICE = (
    "positions up to a dimension",
    "positions of 32 bits",
    "an axis counted from the back",
)


@pytest.mark.parametrize("name", CASES)
def test_a_device_runs_without_samples_what_only_reads_other_places(name: str) -> None:
    before = model(CASES[name][0])
    after, branches = fused(before, (), for_device=True)
    if name in FOR_DEVICE:
        assert not branches
    for samples in (0, 3):
        given = feeds(samples, 2)
        wanted = run(before, given, backend="reference") if samples else {"y": None}
        found = run(after, given)
        assert found["y"].shape[0] == samples
        if samples:
            assert compare(wanted, found).equal


@pytest.mark.parametrize("lacks", [(), ("If",)], ids=["", "without If"])
@pytest.mark.parametrize(("rows", "columns"), [(3, 8), (0, 8), (1, 0), (0, 0)])
def test_what_is_left_of_a_shape_beside_dimensions_of_0(
    rows: int, columns: int, lacks: tuple[str, ...]
) -> None:
    """Behind a Reshape to -1 there is the size that a product with weights wants."""
    before = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[B,T,C,6] x) => (float[B,P,Q,R,S] y)
        <float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, int64[2] rest = {2, -1}> {
            s = SplitToSequence<axis = 0, keepdims = 0> (x)
            m = SequenceMap (s) <body = b (float[T2,C2,6] e) => (float[T2,C2,2,3] o) {
                d = Shape<end = 2> (e) t = Concat<axis = 0> (d, rest) r = Reshape (e, t)
                o = MatMul (r, w) }>
            y = ConcatFromSequence<axis = 0, new_axis = 1> (m)
        }""")
    after, branches = fused(before, lacks)
    assert not branches
    given = {"x": np.ones((0, rows, columns, 6), np.float32)}
    for backend in ("reference", "onnxruntime"):
        assert run(after, given, backend=backend)["y"].shape == (0, rows, columns, 2, 3)


REDUCED = {
    "the largest of rows": "g = ReduceMax<keepdims = 0> (v, axis) o = Add (e, g)",
    "the least of all": "g = ReduceMin<keepdims = 0> (v) o = Add (e, g)",
    "the mean of rows from the back": "g = ReduceMean<keepdims = 1> (v, back) o = Add (e, g)",
    "the sum of exponents": "g = ReduceLogSumExp<keepdims = 0> (v, axis) o = Add (e, g)",
    "the place of the largest": "p = ArgMax<axis = 0, keepdims = 0> (v) g = Cast<to = 1> (p) o = Add (e, g)",
    "the place of the least": "p = ArgMin<axis = -2> (v) g = Cast<to = 1> (p) o = Add (e, g)",
}


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("name", REDUCED)
def test_a_reduction_of_nothing_does_not_fail_without_samples(name: str, rows: int) -> None:
    before = model(REDUCED[name])
    assert fused(before, ())[1]
    after, branches = fused(before, ("If",))
    assert not branches
    onnx.checker.check_model(after, full_check=True)
    v = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    for backend in ("reference", "onnxruntime"):
        assert run(after, {"x": np.ones((0, 5, 2), np.float32), "v": v}, backend=backend)[
            "y"
        ].shape == (0, 5, 2)
    if rows:
        given = {"x": np.ones((2, 5, 2), np.float32), "v": v}
        difference = compare(run(before, given, backend="reference"), run(after, given))
        assert difference.equal, difference.message
