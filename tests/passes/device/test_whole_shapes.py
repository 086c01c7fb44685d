"""What reads a shape of several parts reads that of one value, and computes the same."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.device.whole_shapes import WholeShapesPass
from rewriter.backends import run
from rewriter.errors import RewriteError
from rewriter.placement.device_kernels import kernels_of
from rewriter.placement.placing import place
from rewriter.target_table import find_target

INPUTS = "float[N] ids, float[M,K] rows, float[A,3] table, int64[1] told"


def ints(name: str, *values: int) -> str:
    return f"{name} = Constant <value_ints = [{', '.join(map(str, values))}]> () "


def model(body: str, opset: int = 18, inputs: str = INPUTS) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g ({inputs}) => (y) {{ {body} }}'.replace(
            "(y)", "(float[] y)"
        )
    )


IDS = "n = Shape (ids) "
REST = "k = Shape <start = 1> (rows) "
FILL = "y = ConstantOfShape <value = float[1] {2.5}> (s)"
ONE = ints("one", 1)
READ = {
    "zeros of ids and rows": IDS + REST + "s = Concat <axis = 0> (n, k) " + FILL,
    "of rows and ids": IDS + REST + "s = Concat <axis = 0> (k, n) " + FILL,
    "with ones between": IDS + REST + ONE + "s = Concat <axis = 0> (one, n, one, k, one) " + FILL,
    "of two axes": IDS + "k = Shape (rows) s = Concat <axis = 0> (n, k) " + FILL,
    "of ids and nothing": IDS + "k = Shape <start = 1> (ids) s = Concat <axis = 0> (n, k) " + FILL,
    "a row in front": REST + ONE + "s = Concat <axis = 0> (one, k) " + FILL,
    "of ids and a number that is told": IDS + "s = Concat <axis = 0> (n, told) " + FILL,
    "rows of two numbers": IDS + ints("c", 2) + "s = Concat <axis = 0> (n, c) " + FILL,
    "of ids alone": IDS + "k = Shape <end = 0> (rows) s = Concat <axis = 0> (n, k) " + FILL,
    "a row for each": IDS
    + ints("c", 3)
    + "z = Constant <value_floats = [1.0, 2.0, 3.0]> () "
    + "s = Concat <axis = 0> (n, c) y = Expand (z, s)",
    "the last row for each": IDS
    + ints("i", 1)
    + "c = Shape <start = 1> (table) z = Gather <axis = 1> (table, i) "
    + "z2 = ReduceSum (z) s = Concat <axis = 0> (n, i) y = Expand (z2, s)",
    "what has a known axis": IDS
    + ints("z", 0)
    + "row = ReduceSum (table, z) c = Shape <start = 1> (table) "
    + "s = Concat <axis = 0> (n, c) y = Expand (row, s)",
    "rows as pairs": "d = Shape (table) "
    + ints("z", 0)
    + ints("o", 1)
    + ints("one", 1)
    + "a = Gather (d, z) b = Gather (d, o) p = Mul (a, b) "
    + "s = Concat <axis = 0> (p, one) y = Reshape (table, s)",
    "rows as pairs, by slices": "d = Shape (table) "
    + ints("z", 0)
    + ints("one", 1)
    + ints("two", 2)
    + "a0 = Slice (d, z, one) a1 = Squeeze (a0, z) a = Unsqueeze (a1, z) b = Slice (d, one, two) "
    + "both = Concat <axis = 0> (b, a) c = Slice (both, one, two) p = Mul (b, c) "
    + "s = Concat <axis = 0> (p, one) y = Reshape (table, s)",
    "how many": IDS + "z = Constant <value_int = 0> () c = Gather (n, z) y = Cast <to = 1> (c)",
    "how many, from the end": IDS
    + "z = Constant <value_int = -1> () c = Gather (n, z) y = Cast <to = 1> (c)",
    "how many, of one axis": IDS + ints("z", 0) + "c = Squeeze (n, z) y = Cast <to = 1> (c)",
    "rows of many numbers": IDS + ints("c", 2**16 + 1) + "s = Concat <axis = 0> (n, c) " + FILL,
    "two numbers and rows": IDS + REST + ints("c", 2) + "s = Concat <axis = 0> (n, c, k) " + FILL,
    "no vector": "k = Shape <start = 1> (rows) a = Shape <end = 1> (table) "
    + "s = Concat <axis = 0> (a, k) "
    + FILL,
    "an axis that grows": IDS
    + ints("c", 4)
    + "z = Constant <value_floats = [1.0]> () s = Concat <axis = 0> (n, c) y = Expand (z, s)",
    "all numbers known": ONE
    + "c = Shape <start = 1> (table) s = Concat <axis = 0> (one, c) "
    + FILL,
    "one number, expanded to known ones": ONE
    + "c = Shape <start = 1> (table) z = Constant <value_float = 1.5> () "
    + "s = Concat <axis = 0> (one, c) y = Expand (z, s)",
    "expanded along two tensors": "k = Shape (rows) a = Shape <end = 1> (table) "
    + "z = Constant <value_floats = [1.0, 2.0, 3.0]> () "
    + "c = Shape <start = 1> (table) s = Concat <axis = 0> (k, a, c) y = Expand (z, s)",
    "expanded, of more axes": "k = Shape <end = 1> (table) "
    + ONE
    + ints("z", 0)
    + "t = Unsqueeze (table, z) s = Concat <axis = 0> (k, one) y = Expand (t, s)",
    "the pairs of a table": ONE
    + ints("two", 2)
    + "z = Constant <value_floats = [1.0, 2.0, 3.0]> () c = Shape <start = 1> (table) "
    + "s = Concat <axis = 0> (one, c) y = Reshape (z, s)",
}
COUNTS = "d = Shape (rows) i = Constant <value_int = 1> () n = Gather (d, i) "
NUMBERS = "zero = Constant <value_int = 0> () one = Constant <value_int = 1> () "
RANGE = {
    "to a size of rows": COUNTS + NUMBERS + "r = Range (zero, n, one) y = Cast <to = 1> (r)",
    "to one number of a shape": "d = Shape <start = 1> (rows) n = Squeeze (d) "
    + NUMBERS
    + "r = Range (zero, n, one) y = Cast <to = 1> (r)",
    "from one to a size": COUNTS
    + NUMBERS
    + "e = Add (n, one) r = Range (one, e, one) y = Cast <to = 1> (r)",
    "with its end": COUNTS
    + NUMBERS
    + "e = Add (one, n) r = Range (zero, e, one) y = Cast <to = 1> (r)",
    "from below to a size": COUNTS
    + NUMBERS
    + "m = Constant <value_int = -1> () e = Add (n, m) r = Range (m, e, one) y = Cast <to = 1> (r)",
    "from below with zero": COUNTS
    + NUMBERS
    + "m = Constant <value_int = -1> () e = Add (n, zero) r = Range (m, e, one) "
    + "y = Cast <to = 1> (r)",
}
RANGE_KEPT = {
    "two more": COUNTS
    + NUMBERS
    + "two = Constant <value_int = 2> () e = Add (n, two) r = Range (zero, e, one) "
    + "y = Cast <to = 1> (r)",
    "one less": COUNTS
    + NUMBERS
    + "m = Constant <value_int = -1> () e = Add (n, m) r = Range (zero, e, one) "
    + "y = Cast <to = 1> (r)",
    "to an end that is computed with, too": COUNTS
    + NUMBERS
    + "e = Add (n, one) r = Range (one, e, one) p = Mul (r, e) y = Cast <to = 1> (p)",
    "to an end that another counts from": COUNTS
    + NUMBERS
    + "e = Add (n, one) r = Range (one, e, one) f = Add (e, e) q = Range (e, f, one) "
    + "s = ReduceSum (q) p = Add (r, s) y = Cast <to = 1> (p)",
    "by twos": COUNTS
    + NUMBERS
    + "two = Constant <value_int = 2> () e = Add (n, one) r = Range (zero, e, two) "
    + "y = Cast <to = 1> (r)",
    "a number that is computed with, too": COUNTS
    + NUMBERS
    + "r = Range (zero, n, one) p = Mul (r, n) y = Cast <to = 1> (p)",
    "an index of what has no such axis": "d = Shape (rows) i = Constant <value_int = 1> () "
    + "t = Transpose (table) n = Gather (d, i) "
    + NUMBERS
    + "e = Add (n, n) r = Range (zero, e, one) y = Cast <to = 1> (r)",
}
READ |= RANGE
SHORTER = IDS + ints("z", 0) + ints("less", -1) + NUMBERS
RANGED = "n1 = Squeeze (m, z) r = Range (zero, n1, one) y = Cast <to = 1> (r)"
READ |= {
    "one less, but not below 0": SHORTER + "k = Add (n, less) m = Max (z, k) " + RANGED,
    "one less, picked": SHORTER
    + "k = Add (n, less) m = Max (k, z) n1 = Gather (m, zero) r = Range (zero, n1, one) "
    + "y = Cast <to = 1> (r)",
    "two parts of one shape": "a = Shape <end = 1> (table) b = Shape <start = 1> (table) "
    "s = Concat <axis = 0> (a, b) t = Transpose (table) y = Reshape <allowzero = 1> (t, s)",
    "one part of a shape": "a = Shape <end = 1> (table) s = Concat <axis = 0> (a) " + FILL,
    "a size in front of a Transpose": "t = Transpose <perm = [1, 0]> (rows) "
    "s = Shape <end = 1> (t) " + FILL,
    "all elements": "d = Shape (table) "
    + ints("z", 0)
    + ints("o", 1)
    + "a = Gather (d, z) b = Gather (d, o) p = Mul (a, b) y = Reshape (table, p)",
}
READ |= {
    "to a size, handed on": "d = Shape (rows) i = Constant <value_int = 1> () n0 = Gather (d, i) "
    "n1 = Identity (n0) n = Cast <to = 7> (n1) "
    + NUMBERS
    + "r = Range (zero, n, one) y = Cast <to = 1> (r)",
    "by threes": COUNTS
    + NUMBERS
    + "three = Constant <value_int = 3> () e = Mul (n, three) r = Range (zero, e, three) "
    + "y = Cast <to = 1> (r)",
    "one less, as a size": SHORTER
    + "k = Add (n, less) m = Max (z, k) f = Constant <value_floats = [2.5]> () y = Expand (f, m)",
    "one less, as a size and picked": SHORTER
    + "k = Add (n, less) m = Max (z, k) f = Expand (z, m) n1 = Squeeze (m, z) "
    + "r = Range (zero, n1, one) a = Add (f, r) y = Cast <to = 1> (a)",
    "as many as another has": "a = Shape <end = 1> (rows) "
    + ints("c", 3)
    + "s = Concat <axis = 0> (a, c) y = Reshape <allowzero = 1> (table, s)",
    "as many as another has, and an axis more": "a = Shape <end = 1> (rows) "
    + ints("c", 3)
    + ints("one", 1)
    + "s = Concat <axis = 0> (a, one, c) y = Reshape <allowzero = 1> (table, s)",
    "as many columns as another has rows": "a = Shape <end = 1> (rows) t = Transpose (table) "
    + ints("c", 3)
    + "s = Concat <axis = 0> (c, a) y = Reshape <allowzero = 1> (t, s)",
}
OWN = "k = Shape <end = 1> (rows) n = Shape <start = 1> (rows) "
READ |= {
    "its own first size, and one that is inferred": OWN
    + ints("m", -1)
    + "t = Neg (rows) s = Concat <axis = 0> (k, m) y = Reshape (t, s)",
    "its own last size, behind one that is inferred": OWN
    + ints("m", -1)
    + "s = Concat <axis = 0> (m, n) y = Reshape (rows, s)",
    "its own sizes, with axes between": OWN
    + ints("c", 1)
    + ints("z", 0)
    + "t = Unsqueeze (rows, c) s = Concat <axis = 0> (k, c, n) y = Reshape <allowzero = 1> (t, s)",
    "a known number, behind one that is inferred": "k = Shape <start = 1> (table) "
    + ints("m", -1)
    + "t = Transpose (table) s = Concat <axis = 0> (m, k) y = Reshape (t, s)",
    "its own size, and a number": "k = Shape <end = 1> (table) "
    + ints("c", 3, 1)
    + "s = Concat <axis = 0> (k, c) y = Reshape <allowzero = 1> (table, s)",
}
KEPT = {
    **RANGE_KEPT,
    "a size of its own at another axis": OWN
    + "s = Concat <axis = 0> (n, k) y = Reshape <allowzero = 1> (rows, s)",
    "its own size, and none": "k = Shape <end = 1> (table) "
    + ints("c", 0)
    + "t = Slice (table, c, c) s = Concat <axis = 0> (k, c) y = Reshape <allowzero = 1> (t, s)",
    "one more": SHORTER + "k = Sub (n, less) m = Max (z, k) " + RANGED,
    "not below 1": SHORTER + ints("o", 1) + "k = Add (n, less) m = Max (o, k) " + RANGED,
    "one less of rows": "n = Shape <start = 1> (rows) "
    + ints("z", 0)
    + ints("less", -1)
    + NUMBERS
    + "k = Add (n, less) m = Max (z, k) "
    + RANGED,
    "both sizes behind a Transpose": "t = Transpose <perm = [1, 0]> (rows) s = Shape (t) " + FILL,
    "a part twice": "a = Shape <end = 1> (table) s = Concat <axis = 0> (a, a) "
    + "z = Constant <value_float = 1.0> () m = Mul (s, s) y0 = Expand (z, m) y = Neg (y0)",
    "parts of two shapes": "a = Shape <end = 1> (table) b = Shape <start = 1> (rows) "
    "c = Concat <axis = 0> (a, b) y = Cast <to = 1> (c)",
    "some elements": "d = Shape (rows) "
    + ints("z", 0)
    + ints("o", 1)
    + "a = Gather (d, z) b = Gather (d, o) p = Mul (a, b) t = Expand (z, p) "
    + "f = Reshape (t, p) y = Cast <to = 1> (f)",
    "three open parts": IDS
    + "k = Shape <start = 1> (rows) a = Shape <end = 1> (table) "
    + "s = Concat <axis = 0> (n, k, a) "
    + FILL,
    "expanded along three tensors": IDS
    + "k = Shape <start = 1> (rows) a = Shape <end = 1> (table) "
    + "z = Constant <value_float = 1.0> () s = Concat <axis = 0> (n, k, a) y = Expand (z, s)",
    "two numbers and one that is told": IDS
    + ints("c", 2)
    + "s = Concat <axis = 0> (told, c, n) "
    + FILL,
    "a size that is told": ints("c", 1)
    + "s = Concat <axis = 0> (told, c) z = Constant <value_float = 1.0> () y = Expand (z, s)",
    "a shape of another": "d = Shape (rows) "
    + ints("z", 0)
    + ints("c", 3)
    + "a = Gather (d, z) s = Concat <axis = 0> (a, c) y = Reshape (table, s)",
    "one less, in a table": SHORTER
    + "b = Constant <value = int64[1,1] {0}> () k = Add (n, less) m = Max (b, k) y = Cast <to = 1> (m)",
    "as many as are told": ints("c", 3)
    + "s = Concat <axis = 0> (told, c) y = Reshape <allowzero = 1> (table, s)",
    "by threes to another factor": COUNTS
    + NUMBERS
    + "three = Constant <value_int = 3> () two = Constant <value_int = 2> () e = Mul (n, two) "
    + "r = Range (zero, e, three) y = Cast <to = 1> (r)",
    "by threes from one": COUNTS
    + NUMBERS
    + "three = Constant <value_int = 3> () e = Mul (n, three) r = Range (one, e, three) "
    + "y = Cast <to = 1> (r)",
    "handed on and computed with": "d = Shape (rows) i = Constant <value_int = 1> () "
    "n0 = Gather (d, i) n = Identity (n0) "
    + NUMBERS
    + "r = Range (zero, n, one) p = Mul (r, n) y = Cast <to = 1> (p)",
    "of rows": "d = Shape (rows) z = Constant <value_int = 0> () c = Gather (d, z) "
    "y = Cast <to = 1> (c)",
    "numbers of a shape": IDS
    + "k = Shape (rows) v = Concat <axis = 0> (n, k) s = Shape (v) "
    + "z = Constant <value_int = 0> () c = Gather (s, z) y = Cast <to = 1> (c)",
}


AS_MANY = (
    "a shape of another",
    "as many as another has",
    "as many as another has, and an axis more",
    "as many columns as another has rows",
    "as many as are told",
)
"""With a table of as many rows as there are, which is an error otherwise."""


def formed(given: onnx.ModelProto) -> onnx.ModelProto:
    taken = ir.from_proto(given)
    passed = WholeShapesPass(kernels_of("cuda", taken))
    modified = passed(taken).modified
    assert not passed(taken).modified
    after = ir.to_proto(taken)
    assert modified == (after != again(given))
    return after


def again(given: onnx.ModelProto) -> onnx.ModelProto:
    return ir.to_proto(ir.from_proto(given))


def feeds(ids: int, rows: tuple[int, int], table: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "ids": rng.random(ids, np.float32),
        "rows": rng.random(rows, np.float32),
        "table": rng.random((table, 3), np.float32),
        "told": np.array([rows[1]]),
    }


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
@pytest.mark.parametrize("name", [*READ, *KEPT])
@pytest.mark.long
def test_it_computes_the_same(name: str, backend: str) -> None:
    given = model({**READ, **KEPT}[name])
    after = formed(given)
    for ids, wide, table in itertools.product((0, 1, 4), (0, 1, 3), (0, 2)):
        if name == "its own last size, behind one that is inferred" and not wide:
            continue  # an error as given
        fed = feeds(ids, (2, wide), 2 if name in AS_MANY else table)
        fed["told"] = np.array([2 if name == "as many as are told" else wide])
        (wanted,) = run(given, fed, backend=backend).values()
        (found,) = run(after, fed, backend=backend).values()
        np.testing.assert_array_equal(wanted, found)
        assert wanted.dtype == found.dtype
    assert (after != again(given)) == (name in READ)


@pytest.mark.parametrize("name", AS_MANY[1:3])
@pytest.mark.parametrize("table", [0, 1, 3])
def test_not_as_many_as_another_has_is_an_error(table: int, name: str) -> None:
    for one in (model(READ[name]), formed(model(READ[name]))):
        with pytest.raises(RewriteError, match="onnxruntime"):
            run(one, feeds(1, (2, 1), table), backend="onnxruntime")


@pytest.mark.quick
@pytest.mark.parametrize("name", READ)
def test_nothing_is_put_together(name: str) -> None:
    after = formed(model(READ[name]))
    placed = place(ir.from_proto(after), find_target("onnxruntime-cuda"))
    assert placed is not None
    assert {one.op for one in placed.host} <= {"Cast"}  # of a number that is the result


@pytest.mark.quick
@pytest.mark.parametrize("name", KEPT)
def test_what_comes_close_stays(name: str) -> None:
    given = model(KEPT[name])
    assert formed(given) == again(given)


@pytest.mark.parametrize(
    "given",
    [
        model(READ["zeros of ids and rows"], opset=14),
        model(READ["zeros of ids and rows"], inputs="float[] ids, float[] rows"),
        model(READ["how many"], inputs="float[] ids"),
        model(READ["how many"], inputs="string[N] ids"),
        model(READ["of ids and a number that is told"], inputs="float[N] ids, int64[L] told"),
    ],
    ids=["an opset without parts", "of unknown rank", "of a value", "no kernel", "any length"],
)
def test_what_is_not_known_stays(given: onnx.ModelProto) -> None:
    assert formed(given) == again(given)
