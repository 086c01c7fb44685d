"""How often a rewrite infers the types of the whole model, which takes long where it is large."""

from __future__ import annotations

import onnx
import pytest

import rewriter
from passes.typing import typings

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'
_BESIDE = "a = Neg (w) r = Abs (a)"
_LOOP = f"""g (float[N,4] x, float[4] w) => (float[N,4] y, float[4] r) {{ {_BESIDE}
    t = Constant <value = bool {{1}}> () zero = Constant <value_int = 0> ()
    shape = Shape (x) n = Gather (shape, zero)
    y = Loop (n, t) <body = b (int64 k, bool c) => (bool d, float[4] z) {{
        d = Identity (c) s = Gather (x, k) z = Relu (s) }}> }}"""
CASES = {
    "a list of samples of unknown shapes": (
        f"""g (seq(float[N]) x, float[4] w) => (seq(float[N]) y, float[4] r) {{ {_BESIDE}
            y = SequenceMap (x) <body = b (float[N] s) => (float[N] z) {{ z = Relu (s) }}> }}""",
        3,  # before maps are fused: declared and proven; then: does the Loop append alike shapes?
    ),
    "rows of a tensor": (
        f"""g (float[N,4] x, float[4] w) => (float[N,4] y, float[4] r) {{ {_BESIDE}
            s = SplitToSequence <axis = 0, keepdims = 0> (x)
            m = SequenceMap (s) <body = b (float[4] s) => (float[4] z) {{ z = Relu (s) }}>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (m) }}""",
        2,
    ),
    "rows of a tensor, computed element by element": (
        f"""g (float[N,4] x, float[4] w) => (float[N,4] y, float[4] r) {{ {_BESIDE}
            t = Tanh (x) s = SplitToSequence <axis = 0, keepdims = 0> (t)
            m = SequenceMap (s) <body = b (float[4] s) => (float[4] z) {{ z = Relu (s) }}>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (m) }}""",
        2,
    ),
    "rows of a product": (
        f"""g (float[N,4] x, float[4] w) => (float[N,4] y, float[4] r) {{ {_BESIDE}
            t = Mul (x, w) s = SplitToSequence <axis = 0, keepdims = 0> (t)
            m = SequenceMap (s) <body = b (float[4] s) => (float[4] z) {{ z = Relu (s) }}>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (m) }}""",
        3,  # first: is the number of rows known and small?
    ),
    "a Loop over rows": (_LOOP, 2),
    "no map": (f"g (float[4] w) => (float[4] r) {{ {_BESIDE} }}", 0),
}


@pytest.mark.parametrize("name", CASES)
def test_the_whole_model_is_typed_so_often(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, most = CASES[name]
    asked, infer_types = [], typings._type_named

    def counted(*args, **options):
        asked.append(options)
        return infer_types(*args, **options)

    monkeypatch.setattr(typings, "_type_named", counted)
    rewriter.rewrite(onnx.parser.parse_model(f"{HEADER} {text}"))
    assert len(asked) <= most, asked
