from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.graph.graphs import walk_nodes
from passes.typing import type_values

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
MAP = """[{n}] {y} = SequenceMap ({x}) <body = b{n} (float[] p{n}) => (float[] q{n})
    {{ q{n} = Relu (p{n}) }}>"""


def first(node: str, y: str, x: str) -> str:
    return MAP.format(n=node, y=y, x=x)


CASES = {
    "rows of a tensor": (
        f"g (float[B,N,M] t) => (float[] z) {{ xs = SplitToSequence <keepdims = 0> (t) "
        f"{first('a', 'ys', 'xs')} z = ConcatFromSequence <axis = 0> (ys) }}",
        {"qa": ["t.1", "t.2"]},
    ),
    "a map over a map": (
        f"g (float[B,N] t) => (float[] z) {{ xs = SplitToSequence <keepdims = 0> (t) "
        f"{first('a', 'ys', 'xs')} {first('b', 'zs', 'ys')} "
        "z = ConcatFromSequence <axis = 0> (zs) }",
        {"qa": ["t.1"], "qb": ["t.1"]},
    ),
    "slices of open sizes": (
        f"g (float[R,N] t, int64[B] l) => (float[] z) {{ xs = SplitToSequence (t, l) "
        f"{first('a', 'ys', 'xs')} z = ConcatFromSequence <axis = 0> (ys) }}",
        {"qa": [None, "t.1"]},
    ),
    "a sequence input": (
        f"g (seq(float[N,M]) xs) => (float[] z) {{ {first('a', 'ys', 'xs')} "
        "z = ConcatFromSequence <axis = 0> (ys) }",
        {"qa": [None, None]},
    ),
    "a shared tensor": (
        """g (seq(float[N]) xs, float[K] w) => (float[] z) {
        ys = SequenceMap (xs, w) <body = b (float[] p, float[] v) => (float[] qa)
            { qa = Relu (v) }>
        z = ConcatFromSequence <axis = 0> (ys) }""",
        {"qa": ["w.0"]},
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_dimensions_that_are_one_number(text: str, expected: dict[str, list[str | None]]) -> None:
    model = ir.from_onnx_text(f"{HEADER} {text}")
    typing = type_values(model, proven=True)
    found = {}
    for node in walk_nodes(model.graph):
        for value in node.outputs:
            if value.name in expected:
                dims = typing.dims(value)
                assert dims is not None
                found[value.name] = [d if typing.is_one_number(d) else None for d in dims]
    assert found == expected
