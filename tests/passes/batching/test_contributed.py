"""Operators that onnxruntime contributes in maps, on samples of one shape and ragged ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest

from passes.batching import table
from rewriter.backends import run
from rewriter.pipeline import rewrite

DOMAIN = "com.microsoft"
_HEADER = f'<ir_version: 10, opset_import: ["" : 18, "{DOMAIN}" : 1]>'
_WEIGHTS = {"w": (4, 3), "v": (3, 4), "b": (4,), "g": (4,)}


@dataclasses.dataclass(frozen=True)
class Contributed:
    """An operator on samples whose last axis has four numbers.

    Attributes:
        nodes: Computes ``y`` of ``x``, and of the weights.
        of_lists: Whether ragged lists of rows are batched.
        of_lines: Whether a sample of two lists is batched.
    """

    nodes: str
    of_lists: bool = True
    of_lines: bool = True


CASES = {
    "Gelu": Contributed(f"y = {DOMAIN}.Gelu (x)"),
    "QuickGelu": Contributed(f"y = {DOMAIN}.QuickGelu <alpha = 1.5> (x)"),
    "FastGelu": Contributed(f"y = {DOMAIN}.FastGelu (x)"),
    "FastGelu with a bias": Contributed(f"y = {DOMAIN}.FastGelu (x, b)"),
    "BiasGelu": Contributed(f"y = {DOMAIN}.BiasGelu (x, b)"),
    "FusedMatMul": Contributed(f"y = {DOMAIN}.FusedMatMul <alpha = 0.5> (x, w)"),
    "FusedMatMul, turned": Contributed(f"y = {DOMAIN}.FusedMatMul <transB = 1> (x, v)"),
    "FusedMatMul by itself": Contributed(
        f"y = {DOMAIN}.FusedMatMul <transB = 1> (x, x)", of_lists=False
    ),
    "FusedMatMul, turned on the left": Contributed(
        f"y = {DOMAIN}.FusedMatMul <transA = 1> (x, x)", of_lists=False
    ),
    "SkipLayerNormalization": Contributed(
        f"n = Neg (x) y = {DOMAIN}.SkipLayerNormalization <epsilon = 0.001> (x, n, g, b, b)"
    ),
    "SkipLayerNormalization and the sum": Contributed(
        f"n = Abs (x) y, , , total = {DOMAIN}.SkipLayerNormalization (x, n, g) z = Add (y, total)"
    ),
    "SkipSimplifiedLayerNormalization": Contributed(
        f"n = Abs (x) y = {DOMAIN}.SkipSimplifiedLayerNormalization (x, n, g)"
    ),
}
FORMS = {"one shape": (2, 4), "lines": (2, 3, 4), "lists": (None, 4)}


def model(case: Contributed, form: str) -> onnx.ModelProto:
    dims = FORMS[form]
    weights = ", ".join(f"float[{','.join(map(str, d))}] {n}" for n, d in _WEIGHTS.items())
    shape = ",".join("N" if d is None else str(d) for d in dims)
    result = "z" if "z = " in case.nodes else "y"
    if dims[0] is None:
        text = f"""{_HEADER} g (float[P,4] x_all, int64[B] lengths, {weights}) =>
            (seq(float[?,?]) result) {{
            s = SplitToSequence <axis = 0> (x_all, lengths)
            result = SequenceMap (s) <body = f (float[{shape}] x) => (float[?,?] {result})
            {{ {case.nodes} }}> }}"""
    else:
        rank = ",".join("?" for _ in dims)
        text = f"""{_HEADER} g (float[B,{shape}] x_all, {weights}) => (float[B,{rank}] result) {{
            one = Constant <value_int = 1> ()
            s = SplitToSequence <axis = 0, keepdims = 0> (x_all)
            r = SequenceMap (s) <body = f (float[{shape}] x) => (float[{rank}] {result})
            {{ {case.nodes} }}>
            result = ConcatFromSequence <axis = 0, new_axis = 1> (r) }}"""
    return onnx.parser.parse_model(text)


def feeds(form: str, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(count)
    fed = {n: rng.standard_normal(d).astype(np.float32) for n, d in _WEIGHTS.items()}
    if form == "lists":
        lengths = rng.integers(0, 4, count)
        rows = rng.standard_normal((lengths.sum(), 4)).astype(np.float32)
        return {**fed, "x_all": rows, "lengths": lengths}
    shape = (count, *(d or 0 for d in FORMS[form]))
    return {**fed, "x_all": rng.standard_normal(shape).astype(np.float32)}


@pytest.mark.quick
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_a_map_of_it_ends_without_a_loop(name: str, form: str) -> None:
    case = CASES[name]
    given = model(case, form)
    after = rewrite(given, strategy="fuse", trust_types=True).model
    if form != "lists" or case.of_lists:
        assert all(n.op_type not in ("Loop", "SequenceMap") for n in after.graph.node)
    for count in (1, 3):
        fed = feeds(form, count)
        expected, got = (run(one, fed)["result"] for one in (given, after))
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


DECLINED = {
    "differ in its bias": f"b2 = ReduceMean (x) y = {DOMAIN}.BiasGelu (x, b2)",
    "its mean and its deviation": f"y0, , y = {DOMAIN}.SkipLayerNormalization (x, x, g)",
    "what it adds is repeated": f"y = {DOMAIN}.SkipLayerNormalization (x, b, g)",
    "it turns a vector": "at = Constant <value_int = 0> () v1 = Gather (x, at) "
    f"p = {DOMAIN}.FusedMatMul <transA = 1> (v1, w) "
    "front = Constant <value_ints = [0]> () y = Unsqueeze (p, front)",
    "it turns the axes in front": f"y = {DOMAIN}.FusedMatMul <transBatchA = 1> (x, x)",
}


@pytest.mark.parametrize("detail", DECLINED)
def test_it_stays_in_a_loop_where_samples_or_rows_would_meet(detail: str) -> None:
    given = model(Contributed(DECLINED[detail]), "one shape")
    report = rewrite(given, strategy="fuse", trust_types=True).report
    assert "Loop" in report.after.by_type, report
    assert any(detail in reason.detail for d in report.decisions for reason in d.reasons), report


def test_every_rule_has_a_case() -> None:
    known = {row.op_type for row in table.rows() if row.domain == DOMAIN}
    assert known == {name.split()[0].rstrip(",") for name in CASES}
