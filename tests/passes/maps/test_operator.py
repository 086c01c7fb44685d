"""What ONNX infers of the operator that stands for a map."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from passes.maps.operator import register_schema
from passes.sequence_operators import DOMAIN, OP_TYPE, is_map

TEXT = """<ir_version: 9, opset_import: ["" : 18, "seqmap" : 1]>
g (float[N,3] x, float[6,3] z) => (seq(float[]) y) <int64 size = {{{size}}}> {{
    y = seqmap.Map <body = s (v) => (r) {{ r = Neg (v) }}, kinds = ["slice"], sources = [0],
        axes = [0], keepdims = [{keepdims}], reverses = [0], splits = [{split}],
        scalar_splits = [{scalar}], count = -1, like = 0, results = ["sequence"],
        result_outputs = [0], result_axes = [0], result_reverses = [0]> ({tensor}, size) }}"""
PLAIN = {"tensor": "z", "size": 2, "keepdims": 0, "split": 1, "scalar": 1}
SAMPLES: dict[str, tuple[dict[str, object], list[int]]] = {
    "rows": ({"split": -1}, [3]),
    "rows that stay": ({"split": -1, "keepdims": 1}, [1, 3]),
    "slices of a size that divides the whole": ({}, [2, 3]),
    "slices of a size that does not": ({"size": 4}, [0, 3]),
    "slices of a whole that is not known": ({"tensor": "x"}, [0, 3]),
    "slices of no rows": ({"size": 0}, [0, 3]),
    "slices of sizes one by one": ({"scalar": 0}, [0, 3]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_shape_of_a_sample(name: str) -> None:
    changes, expected = SAMPLES[name]
    register_schema()
    model = onnx.parser.parse_model(TEXT.format(**PLAIN | changes))
    model.graph.output[0].type.sequence_type.elem_type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    element = inferred.graph.output[0].type.sequence_type.elem_type
    assert [dim.dim_value for dim in element.tensor_type.shape.dim] == expected


@pytest.mark.parametrize(("split", "count"), [(-1, 6), (0, 0)])
def test_how_many_samples_there_are(split: int, count: int) -> None:
    """Of slices of a size, which may be the first input, nothing tells it."""
    register_schema()
    text = TEXT.format(**PLAIN | {"split": split, "size": 1}).replace("(z, size)", "(size, z)")
    text = text.replace("sources = [0]", "sources = [1]").replace('"sequence"', '"stacked"')
    model = onnx.parser.parse_model(text.replace("(seq(float[]) y)", "(float[A,B,C] y)"))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    dims = inferred.graph.output[0].type.tensor_type.shape.dim
    assert dims[0].dim_value == count


@pytest.mark.parametrize(
    ("domain", "op_type", "expected"),
    [(DOMAIN, OP_TYPE, True), ("other", OP_TYPE, False), (DOMAIN, "Fold", False)],
)
def test_only_that_operator_of_that_domain_is_a_map(
    domain: str, op_type: str, *, expected: bool
) -> None:
    assert is_map(ir.node(op_type, [], domain=domain)) is expected


def test_a_map_says_all_of_itself() -> None:
    register_schema()
    schema = onnx.defs.get_schema(OP_TYPE, domain=DOMAIN)
    assert all(attribute.required for attribute in schema.attributes.values())
