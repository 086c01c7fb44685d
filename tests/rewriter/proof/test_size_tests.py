"""The numbers of samples from which on a model takes another form, read from its Ifs."""

from __future__ import annotations

import onnx
import pytest

from rewriter.proof.size_tests import lengths_beyond

IF = """y = If ({}) <then_branch = t () => (float[N] a) {{ a = Neg (x) }},
                 else_branch = e () => (float[N] b) {{ b = Relu (x) }}>"""


@pytest.mark.parametrize(
    ("condition", "lengths"),
    [
        ("more", (6,)),
        ("less", ()),
        ("both", (6,)),
        ("three", (6, 10)),
    ],
    ids=["a number", "another comparison", "a number and a flag", "two numbers and a flag"],
)
def test_the_numbers_that_a_condition_compares_with(
    condition: str, lengths: tuple[int, ...]
) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[N] x, bool flag) => (float[N] y) {{
          n = Size (x) five = Constant <value_int = 5> () nine = Constant <value_int = 9> ()
          more = Greater (n, five) less = Less (n, five) many = Greater (n, nine)
          both = And (flag, more) three = And (both, many)
          {IF.format(condition)}
        }}""")
    assert lengths_beyond(model) == lengths
