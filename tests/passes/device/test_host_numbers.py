"""Numbers that loops compute for the host: handed over as shapes, and the results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.device.host_numbers import HostNumbersPass
from rewriter.model_files.protos import from_proto
from rewriter.placement.device_kernels import keeps_numbers, reads_on_host
from rewriter.placement.placing import place
from rewriter.target_table import find_target

HEAD = '<ir_version: 9, opset_import: ["" : 18]> '


def looped(body: str, *, before: str = "", given: str = "float[N] x, int64 n") -> str:
    return f"""{HEAD} g ({given}) => (float[K, M] y)
    <int64[1] axis = {{0}}, int64[1] axis2 = {{1}}, int64 zero = {{0}}, int64 one = {{1}},
     int64 two = {{2}}, bool yes = {{1}}> {{
        {before}
        y = Loop (n, yes) <body = b (int64 i, bool c) => (bool d, float[M] r) {{
            d = Identity (c)  {body} }}> }}"""


# A slice of the iteration's own, between a captured number and the number behind it.
SLICED = "s = Add (k, i) e = Add (s, two) f = Unsqueeze (s, axis) t = Unsqueeze (e, axis) r = Slice (x, f, t)"
COUNT = "k = Size (w)"
CASES = {
    "a captured size": (looped(SLICED, before=COUNT, given="float[N] x, int64 n, float[W] w"), 1),
    "a captured length": (
        looped(SLICED, before="k = SequenceLength (w)", given="float[N] x, int64 n, seq(float) w"),
        1,
    ),
    "a product of sizes": (
        looped(
            SLICED,
            before="z = Size (w) m = Min (z, two) k = Mul (m, two)",
            given="float[N] x, int64 n, float[W] w",
        ),
        1,
    ),
    "two numbers": (
        looped(
            "s = Add (k, i) e = Add (s, l) f = Unsqueeze (s, axis) t = Unsqueeze (e, axis) r = Slice (x, f, t)",
            before=f"{COUNT} l = Max (k, two)",
            given="float[N] x, int64 n, float[W] w",
        ),
        2,
    ),
    "the number of an outer loop": (
        f"""{HEAD} g (float[N] x, int64 n) => (float[K, J, M] y)
        <int64[1] axis = {{0}}, int64 zero = {{0}}, int64 two = {{2}}, bool yes = {{1}}> {{
            y = Loop (n, yes) <body = b (int64 k, bool c) => (bool d, float[J, M] q) {{
                d = Identity (c)
                q = Loop (two, yes) <body = b2 (int64 i, bool c2) => (bool d2, float[M] r) {{
                    d2 = Identity (c2)  {SLICED} }}> }}> }}""",
        1,
    ),
    "inside of an If": (
        looped(
            f"""b = Greater (i, zero)
            r = If (b) <then_branch = t () => (float[M] r1) {{ {SLICED.replace("r = ", "r1 = ")} }},
                else_branch = e () => (float[M] r2) {{ {SLICED.replace("r = ", "r2 = ").replace("(k, i)", "(k, zero)")} }}>""",
            before=COUNT,
            given="float[N] x, int64 n, float[W] w",
        ),
        2,
    ),
}
# What is no count is read where the host has it: how often a table is brought there.
TABLE = "s = Gather (p, i) f = Unsqueeze (s, axis) e = Add (f, axis2) r = Slice (x, f, e)"
TABLES = {
    "a number that may be negative": (looped(SLICED, given="float[N] x, int64 n, int64 k"), 1),
    "a difference": (
        looped(
            SLICED, before="z = Size (w) k = Sub (z, two)", given="float[N] x, int64 n, float[W] w"
        ),
        1,
    ),
    "what the device reads, too": (
        looped(
            SLICED + " h = Cast <to = 1> (s) v = Add (r, h)",
            before="z = Size (w) k = Sub (z, two)",
            given="float[N] x, int64 n, float[W] w",
        ).replace("float[M] r)", "float[M] v)"),
        1,
    ),
    "a position read from data": (looped(TABLE, given="float[N] x, int64 n, int64[P] p"), 1),
    "positions of 32 bits": (
        looped(
            "s = Gather (p, i) l = Cast <to = 7> (s) f = Unsqueeze (l, axis) e = Add (f, axis2) r = Slice (x, f, e)",
            given="float[N] x, int64 n, int32[P] p",
        ),
        1,
    ),
    "positions of known number": (
        looped(TABLE, given="float[N] x, int64 n, int64[3] p"),
        1,
    ),
    "a row of positions": (
        looped(
            "t = Gather (q, i) s = Gather (t, zero) g = Gather (t, one) f = Unsqueeze (s, axis) e = Unsqueeze (g, axis) r = Slice (x, f, e)",
            before="u = Unsqueeze (p, axis2) v = Add (u, two) q = Concat <axis = 1> (u, v)",
            given="float[N] x, int64 n, int64[P] p",
        ),
        1,
    ),
    "positions selected by a vector": (
        looped(
            "j = Unsqueeze (i, axis) f = Gather (p, j) e = Add (f, axis2) r = Slice (x, f, e)",
            given="float[N] x, int64 n, int64[P] p",
        ),
        1,
    ),
    "a whole vector": (
        looped(
            "z = Gather (x, i) s = Reshape (z, axis2) t = Mul (l, axis2) r = Expand (s, t)",
            before="l = ReduceMax <keepdims = 1> (p)",
            given="float[N] x, int64 n, int64[P] p",
        ),
        1,
    ),
    "the iteration number alone": (
        looped(
            "e = Add (i, two) f = Unsqueeze (i, axis) t = Unsqueeze (e, axis) r = Slice (x, f, t)"
        ),
        0,
    ),
}
LEFT = {
    "no loop": f"""{HEAD} g (float[N] x, float[W] w) => (float[M] y) <int64[1] axis = {{0}}> {{
        k = Size (w)  f = Unsqueeze (k, axis)  e = Add (f, axis)  y = Slice (x, f, e) }}""",
    "nothing whose size is open": looped(SLICED, given="float[12] x, int64 n, int64 k"),
    "a number that the device made in the iteration": looped(
        "h = Gather (x, i) s = Cast <to = 7> (h) f = Unsqueeze (s, axis) e = Add (f, axis2) r = Slice (x, f, e)"
    ),
}


def kept(text: str) -> tuple[onnx.ModelProto, ir.Model, bool]:
    given = onnx.parser.parse_model(text)
    onnx.checker.check_model(given, full_check=True)
    model = from_proto(given)
    result = HostNumbersPass(reads_on_host("cuda", model))(model)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return given, model, result.modified


def copies(given: onnx.ModelProto, model: ir.Model) -> tuple[int, int]:
    """Return the copies in each iteration, before and after."""
    target = find_target("onnxruntime-cuda")
    before, after = place(from_proto(given), target), place(model, target)
    assert before is not None and after is not None
    assert not HostNumbersPass(reads_on_host("cuda", model))(model).modified
    return before.copies_per_iteration, after.copies_per_iteration


def compare(given: onnx.ModelProto, model: ir.Model, feeds: dict[str, Any]) -> None:
    """The same result, or a failure of both."""
    try:
        expected = rewriter.run(given, feeds)["y"]
    except rewriter.RewriteError:
        with pytest.raises(rewriter.RewriteError):
            rewriter.run(model, feeds)
        return
    np.testing.assert_array_equal(rewriter.run(model, feeds)["y"], expected)


@pytest.mark.sampled
@pytest.mark.parametrize(("text", "numbers"), CASES.values(), ids=CASES)
def test_numbers_are_handed_over_as_shapes(text: str, numbers: int) -> None:
    given, model, modified = kept(text)
    assert modified
    made = [node for node in model.graph.all_nodes() if node.op_type == "ConstantOfShape"]
    assert len(made) == numbers
    before, after = copies(given, model)
    assert after < before
    x = np.arange(12, dtype=np.float32)
    for samples in (0, 1, 3):
        for width in (0, 1, 3):
            feeds = {"x": x, "n": np.array(samples, np.int64)}
            if len(given.graph.input) == 3:
                w = np.ones(width, np.float32)
                feeds["w"] = list(w) if given.graph.input[2].type.HasField("sequence_type") else w
            compare(given, model, feeds)


@pytest.mark.parametrize(("text", "tables"), TABLES.values(), ids=TABLES)
@pytest.mark.long
def test_integers_are_read_where_the_host_has_them(text: str, tables: int) -> None:
    given, model, modified = kept(text)
    assert modified
    assert sum(node.op_type == "GatherND" for node in model.graph) == tables
    before, after = copies(given, model)
    assert before > after == 0
    x = np.arange(12, dtype=np.float32)
    for samples in (0, 1, 3, 4):
        for k in (-3, 0, 5):
            feeds = {"x": x, "n": np.array(samples, np.int64), "k": np.array(k, np.int64)}
            feeds |= {"w": np.ones(k + 3, np.float32), "p": np.array([k, 2, -1], np.int64)}
            kinds = {one.name: one.type.tensor_type for one in given.graph.input}
            if "p" in kinds:
                feeds["p"] = feeds["p"].astype(ir.DataType(kinds["p"].elem_type).numpy())
            compare(given, model, {name: feeds[name] for name in kinds})


def test_what_is_put_on_the_host_is_told_as_such() -> None:
    _, model, _ = kept(TABLES["a position read from data"][0])
    placement = place(model, find_target("onnxruntime-cuda"))
    assert placement is not None
    told = [one.reason for one in placement.host if one.op == "GatherND"]
    assert len(told) == 2
    assert all("put there so that no iteration copies" in one for one in told)


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_what_is_left_as_it_is(text: str) -> None:
    _, model, modified = kept(text)
    assert not modified
    assert all(node.op_type != "ConstantOfShape" for node in model.graph.all_nodes())


def test_the_devices_that_leave_shapes_on_the_host() -> None:
    assert keeps_numbers("cuda") and keeps_numbers("dml")
    assert not any(map(keeps_numbers, ("", "webgpu", "tensorrt")))


def test_loops_over_blocks_copy_nothing() -> None:
    model = onnx.load("models/exported/seqmap_mlp_ragged_rows.onnx")
    placement = rewriter.rewrite(model, target="onnxruntime-cuda").report.placement
    assert placement is not None
    assert placement.copies_per_iteration == 0


def test_a_number_that_the_device_computes_with_is_read_from_a_range() -> None:
    body = SLICED.replace("r =", "u =") + " v = Cast <to = 1> (i) r = Add (u, v)"
    text = looped(body, before=COUNT, given="float[N] x, int64 n, float[W] w")
    given, model, modified = kept(text)
    assert modified
    ranges = [node for node in model.graph.all_nodes() if node.op_type == "Range"]
    assert [
        node.op_type
        for one in ranges
        for reader in one.outputs[0].consumers()
        for node in reader.outputs[0].consumers()
    ] == ["Cast"]
    feeds = {"x": np.arange(12, dtype=np.float32), "n": np.array(3), "w": np.ones(2, np.float32)}
    compare(given, model, feeds)
