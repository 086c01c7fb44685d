"""Rows and columns of one tensor that each iteration writes to, so that those of two cross."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest

from rewriter import rewrite
from tests.passes.carried.carried import LENGTHS
from tests.passes.expansion import operators
from tests.passes.loops import model, read, same

TEXT = """g (float[N,4] x, {dtype}[B,B] b) => ({dtype}[B,B] r) {{
    t = Constant <value = bool {{1}}> ()
    zero = Constant <value = int64 {{0}}> ()
    one = Constant <value = int64 {{1}}> ()
    zero1 = Constant <value = int64[1] {{0}}> ()
    one1 = Constant <value = int64[1] {{1}}> ()
    last1 = Constant <value = int64[1] {{-1}}> ()
    column = Constant <value = int64[2] {{-1, 1}}> ()
    shape = Shape (x)
    n = Gather <axis = 0> (shape, zero)
    much = Add (n, one)
    sizes = Shape (b)
    size = Gather <axis = 0> (sizes, zero)
    r = Loop (n, t, b) <body = step (int64 i, bool cond, {dtype}[B,B] s) => (bool go, {dtype}[B,B] s2) {{
        e = Gather <axis = 0> (x, i)
        total = ReduceSum (e, zero1)
        places = Range (zero, size, one)
        wide = Cast <to = 1> (places)
        v0 = Add (wide, total)
        v = Cast <to = {code}> (v0)
        vw = Neg (v0)
        w = Cast <to = {code}> (vw)
        next = Add (i, one)
        back = Sub (n, i)
        {nodes}
        go = Identity (cond)
    }}>
}}"""
ROW = (
    "{0}a = Unsqueeze ({1}, zero1)  {0}q = Unsqueeze ({0}a, zero1)  {0}u = Unsqueeze ({2}, zero1)"
)
COLUMN = """{0}p = Reshape (places, column)  {0}l = Shape ({0}p)  {0}n = Reshape ({1}, last1)
        {0}e = Expand ({0}n, {0}l)  {0}q = Concat <axis = -1> ({0}p, {0}e)  {0}u = Identity ({2})"""
POINT = """{0}a = Unsqueeze ({1}, zero1)  {0}b = Concat <axis = 0> ({0}a, {0}a)
        {0}q = Unsqueeze ({0}b, zero1)  {0}z = Unsqueeze ({2}, zero1)  {0}w = Gather <axis = 1> ({0}z, zero)
        {0}u = Identity ({0}w)"""


def nodes(*writes: tuple[str, str, str]) -> str:
    """Return nodes that write, one behind the other."""
    made, tensor = [], "s"
    for at, (form, number, value) in enumerate(writes):
        name = f"f{at}"
        after = "s2" if at + 1 == len(writes) else f"{name}s"
        made.append(form.format(name, number, value))
        made.append(f"{after} = ScatterND ({tensor}, {name}q, {name}u)")
        tensor = after
    return "\n        ".join(made)


CASES = {
    "row_and_column": nodes((ROW, "i", "v"), (COLUMN, "i", "v")),
    "row_and_another_column": nodes((ROW, "i", "v"), (COLUMN, "i", "w")),
    "column_and_row": nodes((COLUMN, "i", "v"), (ROW, "i", "w")),
    "row_and_the_next_column": nodes((ROW, "i", "v"), (COLUMN, "next", "w")),
    "the_next_row_and_a_column": nodes((ROW, "next", "v"), (COLUMN, "i", "w")),
    "both_from_the_end": nodes((ROW, "back", "v"), (COLUMN, "back", "w")),
    "and_the_diagonal": nodes((ROW, "i", "v"), (COLUMN, "i", "w"), (POINT, "i", "v")),
    "the_diagonal_in_between": nodes((ROW, "i", "v"), (POINT, "i", "w"), (COLUMN, "i", "v")),
}
NEAR = {
    "of_which_one_adds": nodes((ROW, "i", "v"), (COLUMN, "i", "w")).replace(
        "ScatterND (f0s", 'ScatterND <reduction = "add"> (f0s'
    ),
    "of_which_one_names_two_columns": nodes((ROW, "i", "v"), (COLUMN, "i", "w"))
    .replace("f1u = Identity (w)", "f1h = Neg (w)  f1u = Concat <axis = 0> (w, f1h)")
    .replace(
        "f1q = Concat <axis = -1> (f1p, f1e)",
        """f1d = Concat <axis = -1> (f1p, f1e)
        f1m = Add (f1e, one)  f1f = Concat <axis = -1> (f1p, f1m)
        f1q = Concat <axis = 0> (f1d, f1f)""",
    ),
    "in_opposite_order": nodes((ROW, "i", "v"), (COLUMN, "back", "w")),
    "of_what_was_written": "h = Gather <axis = 0> (s, i)  hv = Add (h, v)  "
    + nodes((ROW, "next", "v"), (COLUMN, "i", "hv")),
}


def text(body: str, dtype: str = "float") -> str:
    code = {"float": 1, "int64": 7, "bool": 9, "int16": 5}[dtype]
    return TEXT.format(nodes=body, dtype=dtype, code=code)


def feeds(n: int, dtype: type = np.float32) -> Mapping[str, np.ndarray]:
    """Make rows, and what is written to: two rows and columns more than iterations."""
    rng = np.random.default_rng(n)
    begin = rng.integers(-9, 9, (n + 2, n + 2)).astype(dtype)
    return {"x": rng.standard_normal((n, 4)).astype(np.float32), "b": begin}


@pytest.mark.parametrize("opset", [13, 17, 18])
@pytest.mark.parametrize("name", CASES)
def test_the_later_iteration_holds_where_writes_cross(name: str, opset: int) -> None:
    before = model(text(CASES[name]), opset)
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    many = [feeds(n) for n in LENGTHS]
    assert same(before, found.model, *many) == len(many)


@pytest.mark.parametrize("name", CASES)
def test_few_iterations_run_by_copies_of_the_body(name: str) -> None:
    before = model(text(CASES[name]), 17)
    found = rewrite(before)
    (decision,) = found.report.decisions
    assert 0 < decision.few < 4
    assert decision.notes[-1].endswith("by copies of its body, which is faster")
    assert found.report.after.loops == 0
    # No iteration runs a question in front of the If, and one in it.
    written = ir.from_proto(found.model).graph
    given = ir.from_proto(before).graph
    assert _count(written) <= _count(given) + 1
    (question,) = (node for node in written if node.op_type == "If")
    none = question.attributes["else_branch"].as_graph()
    assert [node.op_type for node in none if node.op_type != "Constant"] == ["Equal", "If"]
    many = [feeds(n) for n in range(6)]
    assert same(before, found.model, *many) == len(many)


def _count(graph: ir.Graph) -> int:
    return sum(node.op_type != "Constant" for node in graph)


@pytest.mark.parametrize("dtype", ["int64", "bool", "int16"])
def test_element_types(dtype: str) -> None:
    before = model(text(CASES["and_the_diagonal"], dtype), 17)
    made = rewrite(before, target="portable").model
    assert not operators(made)["Loop"]
    many = [feeds(n, {"bool": np.bool_}.get(dtype, np.dtype(dtype).type)) for n in LENGTHS]
    assert same(before, made, *many) == len(many)


@pytest.mark.parametrize("name", NEAR)
def test_what_is_close_stays_a_loop(name: str) -> None:
    before = model(text(NEAR[name]), 17)
    found = read(before)
    assert found.loops == 1
    assert found.codes == ["recurrence"], found.details
    many = [feeds(n) for n in LENGTHS]
    assert same(before, found.model, *many) == len(many)
