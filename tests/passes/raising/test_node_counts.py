"""How few operators take the place of a Loop: each costs as much as an iteration of a short one."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from passes.decisions import Code
from passes.graph.builder import BATCHED_KEY
from tests.passes.loops import model, prove, read, same

pytestmark = pytest.mark.quick

TEXT = """g ({dtype}[N,{wide}] x, {dtype}[{wide}] b, bool[N] p, bool[N,{wide}] q, int64[N] k)
    => ({outputs}) <bool go = {{1}}, int64 zero = {{0}}, int64[1] first = {{0}}> {{
  shape = Shape (x)  n = Gather (shape, zero)
  {names} = Loop (n, go, b) <body = step (int64 i, bool c, {dtype}[{wide}] s)
      => (bool d, {dtype}[{wide}] s2{collected}) {{
    d = Identity (c)  e = Gather (x, i)  f = Gather (p, i)  h = Gather (q, i)
    {body} }}> }}"""


def text(body: str, dtype: str, wide: int = 4, *, collects: bool = False) -> str:
    """Return a graph whose Loop carries a row; ``y`` is collected, where anything is."""
    last, rows = f"{dtype}[{wide}] r", f", {dtype}[N,{wide}] ys"
    return TEXT.format(
        dtype=dtype,
        wide=wide,
        body=body,
        outputs=last + rows if collects else last,
        names="r, ys" if collects else "r",
        collected=f", {dtype}[{wide}] y" if collects else "",
    )


def fed(dtype: str, length: int, wide: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(length)
    return {
        "x": (rng.standard_normal((length, wide)) * 9).astype(dtype),
        "b": (rng.standard_normal(wide) * 9).astype(dtype),
        "p": rng.random(length) < 0.5,
        "q": rng.random((length, wide)) < 0.5,
        "k": rng.permutation(length).astype(np.int64),
    }


TOTAL = "s2 = {op} (s, e)"
RUNNING = "s2 = {op} (s, e)  y = Identity (s2)"
COUNTS = {
    "sum": (TOTAL.format(op="Add"), "float32", False, 2),
    "sum_of_integers": (TOTAL.format(op="Add"), "int64", False, 4),
    "difference_of_integers": (TOTAL.format(op="Sub"), "int64", False, 5),
    "running_sum_of_integers": (RUNNING.format(op="Add"), "int64", True, 5),
    "product_of_integers": (TOTAL.format(op="Mul"), "int64", False, 5),
    "maximum": (TOTAL.format(op="Max"), "float32", False, 8),
    "maximum_of_integers": (TOTAL.format(op="Max"), "int64", False, 3),
    "sum_under_a_condition": ("t = Add (s, e)  s2 = Where (f, t, s)", "float32", False, 7),
    "last_under_a_condition": ("s2 = Where (f, e, s)", "float32", False, 9),
    "filled": ("s2 = Where (f, e, s)  y = Identity (s2)", "float32", True, 11),
    "filled_in_front": ("s2 = Where (f, e, s)  y = Identity (s)", "float32", True, 11),
    "filled_by_elements": ("s2 = Where (h, e, s)  y = Identity (s2)", "float32", True, 24),
    "running_product": (RUNNING.format(op="Mul"), "float32", True, 217),
    "running_maximum": (RUNNING.format(op="Max"), "float32", True, 176),
    "delay": ("y = Sub (e, s)  s2 = Identity (e)", "float32", True, 5),
}


@pytest.mark.parametrize("name", COUNTS)
def test_few_operators_stand_for_a_loop(name: str) -> None:
    body, dtype, collects, most = COUNTS[name]
    kind = {"float32": "float"}.get(dtype, dtype)
    feeds = [fed(dtype, n) for n in (0, 1, 2, 9)]
    found = prove(text(body, kind, collects=collects), *feeds, opset=18)
    written = found.operators
    around = {"Constant", "Identity"}
    assert sum(n for op_type, n in written.items() if op_type not in around) <= most, written


def test_the_loop_of_few_iterations_runs_nothing_that_is_not_read() -> None:
    body = RUNNING.format(op="Max")
    before = model(text(body, "float", collects=True), 18)
    found = read(before, auto=True)
    (step,) = [
        node.attributes["body"].as_graph()
        for node in ir.from_proto(found.model).graph.all_nodes()
        if node.op_type == "Loop" and BATCHED_KEY not in node.metadata_props
    ]
    assert [node.op_type for node in step] == ["Identity", "Gather", "Max", "Identity"]
    assert same(before, found.model, *(fed("float32", n) for n in (0, 1, 3, 40))) == 4


def test_rows_that_are_written_one_by_one() -> None:
    body = """a = Unsqueeze (i, first)  a2 = Unsqueeze (a, first)  t = Unsqueeze (e, first)
        s2 = ScatterND (s, a2, t)"""
    whole = text(body, "float").replace("[4] b", "[16,4] b").replace("[4] s", "[16,4] s")
    feeds = [fed("float32", n) | {"b": fed("float32", 16)["x"]} for n in (0, 1, 9)]
    found = prove(whole.replace("[4] r", "[16,4] r"), *feeds, opset=18)
    assert "ReduceProd" not in found.operators
    assert sum(found.operators.values()) - found.operators["Constant"] <= 11


@pytest.mark.parametrize("op_type", ["Mul", "Max"])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_integers_of_any_rank(op_type: str, rank: int) -> None:
    dims = ["", "[4]", "[2,4]"][rank]
    whole = text(TOTAL.format(op=op_type), "int64").replace("int64[4]", f"int64{dims}")
    whole = whole.replace("int64[N,4] x", f"int64[N{',' * bool(dims)}{dims[1:-1]}] x")
    sizes = [int(n) for n in dims[1:-1].split(",") if n]
    rng = np.random.default_rng(rank)
    feeds = [
        fed("int64", n)
        | {name: rng.integers(-(2**40), 2**40, (*lead, *sizes)) for name, lead in own.items()}
        for n in (0, 1, 5)
        for own in ({"x": (n,), "b": ()},)
    ]
    prove(whole, *feeds, opset=18)


def test_a_product_in_which_a_term_is_narrower() -> None:
    body = "w = Cast <to = 7> (f)  v = Add (w, first)  s2 = Mul (s, v)"
    prove(text(body, "int64"), *(fed("int64", n) for n in (0, 1, 5)), opset=18)


WIDE = {
    "running_product": (RUNNING.format(op="Mul"), "float", True, 256),
    "running_maximum": (RUNNING.format(op="Max"), "float", True, 256),
    "running_maximum_of_integers": (RUNNING.format(op="Max"), "int64", True, 32),
    "product_of_integers": (TOTAL.format(op="Mul"), "int64", False, 128),
    "maximum": (TOTAL.format(op="Max"), "float", False, 512),
    "best": ("g = Greater (e, s)  s2 = Where (g, e, s)", "float", False, 512),
    "filled_by_elements": ("s2 = Where (h, e, s)  y = Identity (s2)", "float", True, 128),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", WIDE)
def test_a_loop_is_faster_for_wide_rows(name: str) -> None:
    body, dtype, collects, widest = WIDE[name]
    narrow = read(model(text(body, dtype, widest, collects=collects), 18), auto=True)
    assert narrow.decisions[0].verdict.value == "fused"
    before = model(text(body, dtype, widest + 1, collects=collects), 18)
    assert read(before).loops == 0
    found = read(before, auto=True)
    assert found.loops == 1
    assert Code.COST.value in found.codes
    kind = {"float": "float32"}.get(dtype, dtype)
    assert same(before, found.model, fed(kind, 3, widest + 1)) == 1


def test_fewer_rows_than_iterations_are_an_error() -> None:
    """A tensor that is read by the number of the iteration must have a row for each."""
    whole = text("t = Add (s, e)  s2 = Where (f, t, s)", "float").replace("bool[N] p", "bool[P] p")
    before = model(whole, 18)
    found = read(before)
    assert found.loops == 0
    short, long = (fed("float32", 3) | {"p": np.array([True] * n)} for n in (2, 4))
    assert same(before, found.model, short, long) == 1
    assert same(found.model, before, short, long) == 1


def test_the_last_running_product_is_the_product() -> None:
    whole = text(RUNNING.format(op="Mul"), "int64", collects=True)
    found = prove(whole, *(fed("int64", n) for n in (0, 1, 5)), opset=18)
    assert "ScatterElements" not in found.operators


def test_a_column_that_is_read_by_the_number_of_the_iteration() -> None:
    body = "u = Gather <axis = 1> (w, i)  s2 = Add (s, u)"
    whole = text(body, "float").replace("bool[N] p", "bool[N] p, float[4,9] w")
    table = np.arange(36, dtype=np.float32).reshape(4, 9)
    prove(whole, *(fed("float32", n) | {"w": table} for n in (0, 1, 9)), opset=18)


def test_rows_of_no_numbers_are_joined() -> None:
    whole = """g (float[N,3,0] x, float[R,0] b) => (float[M,0] r)
        <bool go = {1}, int64 zero = {0}> {
      shape = Shape (x)  n = Gather (shape, zero)
      r = Loop (n, go, b) <body = b (int64 i, bool c, float[K,0] s)
          => (bool d, float[L,0] s2) {
        d = Identity (c)  e = Gather (x, i)  t = Relu (e)  s2 = Concat <axis = 0> (s, t) }> }"""
    none = np.zeros((2, 0), np.float32)
    prove(whole, *({"x": np.zeros((n, 3, 0), np.float32), "b": none} for n in (0, 1, 4)))


PAIRS = """g (float[N,4] x, float[M,4] w, float[4] b) => (float[4] r)
    <bool go = {{1}}, int64 zero = {{0}}> {{
  shape = Shape (x)  n = Gather (shape, zero)
  r = Loop (n, go, b) <body = outer (int64 i, bool c, float[4] s) => (bool d, float[4] s3) {{
    d = Identity (c)
    s3 = Loop (n, go, s) <body = inner (int64 j, bool c2, float[4] s2) => (bool d2, float[4] s4) {{
      d2 = Identity (c2)  e = Gather ({read}, i)  f = Gather (x, j)
      g = Sub (e, f)  h = Abs (g)  s4 = Add (s2, h) }}> }}> }}"""


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize(("read", "cuts"), [("x", 0), ("w", 1)])
def test_rows_of_the_tensor_that_counts_them_are_not_cut(read: str, cuts: int, opset: int) -> None:
    rows = {n: fed("float32", n) for n in (0, 1, 2, 3, 5, 7)}
    feeds = [
        {"x": rows[n]["x"], "w": rows[n + more]["x"], "b": rows[n]["b"]}
        for n in (0, 1, 5)
        for more in (0, 2)
    ]
    found = prove(PAIRS.format(read=read), *feeds, opset=opset)
    reshaped = found.operators["Reshape"]
    assert min(reshaped, 1) == cuts, found.operators


FOUND = """g (float[N,4] x, int64 b) => (int64 r) <bool go = {1}, int64 zero = {0}> {
  shape = Shape (x)  n = Gather (shape, zero)
  r = Loop (n, go, b) <body = step (int64 i, bool c, int64 s) => (bool d, int64 s2) {
    d = Identity (c)  e = Gather (x, i)  t = ReduceSum <keepdims = 0> (e)
    z = Constant <value = float {0.0}> ()  p = Greater (t, z)  q = Less (s, zero)  a = And (p, q)
    s2 = If (a) <then_branch = yes () => (int64 v) { v = Identity (i) },
                 else_branch = no () => (int64 w) { w = Identity (s) }> }> }"""


def test_flags_of_the_first_iteration_that_are_numbers_are_not_reshaped() -> None:
    feeds = [
        {"x": fed("float32", n)["x"] - shift, "b": np.array(b)}
        for n in (0, 1, 7)
        for shift in (0, 9, 99)
        for b in (-1, 5)
    ]
    found = prove(FOUND, *feeds, opset=18)
    assert found.operators["Reshape"] == 2, found.operators
