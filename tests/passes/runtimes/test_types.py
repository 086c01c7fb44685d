"""What defects ask of types is answered without inference where a graph says enough itself."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from passes.graph.opsets import element_type_by_makers
from passes.reading import kept_typing
from passes.runtimes import branches
from passes.runtimes.defects import empties, matrix_products, rearranged
from passes.runtimes.types import Types

HEADER = '<ir_version: 9, opset_import: ["" : 18]>'


def parsed(nodes: str) -> tuple[ir.Model, ir.Node]:
    """Return a model of some nodes that read ``x`` and ``w``, and the last of them."""
    text = f"{HEADER} g (float[N,4] x, float[K,4] w, bool b) => (y) {{ {nodes} }}"
    model = ir.from_proto(onnx.parser.parse_model(text))
    for value in [out for node in model.graph for out in node.outputs]:
        value.type = value.shape = None
    return model, list(model.graph)[-1]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    {
        "by declaration": ("y = Relu (x)", ir.DataType.FLOAT),
        "of a shape": ("s = Shape (x) y = Identity (s)", ir.DataType.INT64),
        "of a comparison": ("y = Less (x, w)", ir.DataType.BOOL),
        "of a cast": ("c = Cast <to = 10> (x) y = Neg (c)", ir.DataType.FLOAT16),
        "of several": ("s = Shape (x) t = Shape (w) y = Concat <axis = 0> (s, t)", 7),
        "of the second output": ("v, i = TopK (x, n) y = Neg (i)", ir.DataType.INT64),
        "of an If": ("y = If (b) <then_branch = t () => (p) { p = Relu (x) }>", None),
        "of another domain": ("y = my.Op (x)", None),
        "of nothing": ("y = Relu (unknown)", None),
    }.values(),
)
def test_element_types_follow_from_the_schemas(
    nodes: str, expected: ir.DataType | int | None
) -> None:
    _, node = parsed(nodes)
    assert element_type_by_makers(node.outputs[0]) == expected


UNMET = {
    "a product of no Transpose, fused": (
        "t = Tanh (x) y = MatMul (t, w)",
        matrix_products.is_fused_with_transpose,
    ),
    "a product of no Transpose, by a vector": (
        "t = Tanh (x) y = MatMul (t, w)",
        matrix_products.is_transposed_by_a_vector,
    ),
    "a product of no Transpose, of halves": (
        "t = Tanh (x) y = MatMul (t, w)",
        matrix_products.is_of_halves,
    ),
    "a shape that hangs on an input": (
        "t = Tanh (x) s = Shape (w) y = Expand (t, s)",
        empties.is_expanded_to_nothing,
    ),
    "rows of numbers": ("s = Shape (x) y = Gather (s, i)", rearranged.reads_rows_of_text),
    "a product of no normalized vector": (
        "t = Tanh (x) y = Mul (x, t)",
        rearranged.is_scaled_from_the_left,
    ),
    "a quotient of no constant": (
        "t = Tanh (x) y = Div (x, t)",
        rearranged.is_inverse_of_a_constant,
    ),
    "a condition by a shape, and by what is fed": (
        """t = Tanh (x) s = Shape (t) n = Size (s) f = Cast <to = 9> (n) c = And (f, b)
           y = If (c) <then_branch = p () => (q) { q = Relu (x) },
                       else_branch = r () => (u) { u = Neg (x) }>""",
        branches.has_constant_condition,
    ),
    "a condition by the shape of an input": (
        """s = Shape (x) n = Size (s) c = Cast <to = 9> (s)
           y = If (c) <then_branch = p () => (q) { q = Relu (x) },
                       else_branch = r () => (u) { u = Neg (x) }>""",
        branches.has_constant_condition,
    ),
}


@pytest.mark.parametrize("name", UNMET)
def test_no_types_are_inferred_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, meets = UNMET[name]
    model, node = parsed(nodes)

    def infer(*_: object, **__: object) -> None:
        raise AssertionError("the whole model is typed")

    monkeypatch.setattr(kept_typing, "type_values", infer)
    assert not meets(node, Types(model))


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ([4, 4], True),
        ([4], True),
        ([4, 5], False),
        (["N", "N"], False),
        ([None], False),
        ([], False),
    ],
)
def test_symbols_of_inputs_are_no_proof_of_one_size(
    dims: list[int | str | None], *, expected: bool
) -> None:
    model, _ = parsed("y = Relu (x)")
    assert Types(model).are_one_size(dims) is expected
