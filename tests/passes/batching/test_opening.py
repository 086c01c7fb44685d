"""Calls of functions in the body of a map are opened where they have no rule."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.batching import table
from passes.batching.families.elementwise import elementwise
from passes.batching.versions import WIDENED
from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_graphs
from rewriter import ReferenceEvaluator, rewrite
from rewriter.model_files.model_facts import count_operators
from tests.passes.batching.harness import BATCHES, Case, constant, mapped, prove

Forget = Callable[[str], None]


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Forget:
    """Return what takes the rows of operators out of the table for one test."""
    rows = {key: list(known) for key, known in table._rows.items()}
    monkeypatch.setattr(table, "_rows", rows)

    def forget(op_types: str) -> None:
        for op_type in op_types.split():
            del rows["", op_type]

    return forget


X = mapped((2, 3))
ROWS = mapped((4, 3))
CLASSES = mapped(*(np.array(t, np.int64) for t in ([0, 1, 2, 0], [1, 1, 0, 2], [2, 0, 1, 1])))
BY_DEFINITION = [
    Case("Elu", "y = Elu(x)", {"x": X}),
    Case("Elu of another slope", "y = Elu<alpha = 2.0>(x)", {"x": X}),
    Case("HardSigmoid", "y = HardSigmoid<beta = 0.1>(x)", {"x": X}, symbolic=True),
    Case("Softplus", "y = Softplus(x)", {"x": X}, opset=22),
    Case("Gelu", 'y = Gelu<approximate = "tanh">(x)', {"x": X}, opset=20),
    Case("Clip without a bound", "y = Clip(x, w)", {"x": X, "w": constant(np.float32(0))}),
    Case("GreaterOrEqual", "y = GreaterOrEqual(x, x)", {"x": X}),
    Case("LogSoftmax", "y = LogSoftmax<axis = 0>(x)", {"x": X}),
    Case("ReduceSumSquare", "y = ReduceSumSquare<keepdims = 0>(x)", {"x": X}),
    Case(
        "NegativeLogLikelihoodLoss",
        "y = NegativeLogLikelihoodLoss(x, t)",
        {"x": ROWS, "t": CLASSES},
        opset=22,
    ),
    Case(
        "SoftmaxCrossEntropyLoss",
        'y = SoftmaxCrossEntropyLoss<reduction = "sum", ignore_index = 1>(x, t)',
        {"x": ROWS, "t": CLASSES},
    ),
]


@pytest.mark.quick
@BATCHES
@pytest.mark.parametrize("case", BY_DEFINITION, ids=str)
def test_an_operator_that_is_a_function(case: Case, batch: int, forget: Forget) -> None:
    forget("Elu HardSigmoid Softplus Gelu Clip GreaterOrEqual LogSoftmax ReduceSumSquare")
    forget("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
    prove(case, batch)


def test_a_function_of_a_newer_opset_is_not_opened(forget: Forget) -> None:
    forget("Elu")  # its definition has CastLike, which came with opset 15
    model = ir.from_proto(model_of("y = Elu(x)", opset=14))
    assert not opened_in(model)


MODEL = """
<ir_version: 10, opset_import: ["" : {opset}, "my" : 1 {imports}]>
agraph (float[N,4] x, float[4] w) => (float[N,4] y)
{{
  xs = SplitToSequence <axis = 0, keepdims = 0> (x)
  [rows] ys = SequenceMap (xs, w) <body = row (float[4] x, float[4] w) => (float[4] y) {{ {body} }}>
  {after}
}}
{functions}
"""
TWICE = """
<domain: "my", opset_import: ["" : 18]>
Twice <factor: float = 2.0> (a, b) => (c)
{ f = Constant <value_float: float = @factor> () g = CastLike (f, a) d = Mul (a, g) c = Add (d, b) }
"""
OUTER = """
<domain: "my", opset_import: ["" : 18, "my" : 1]>
Outer (a, b) => (d)
{ c = my.Twice (a, b) d = my.Twice <factor = 3.0> (c, c) }
"""
PADDED = """
<domain: "my", opset_import: ["" : 18]>
Same (a) => (a, b)
{ b = Neg (a) }
"""
TWO = """
<domain: "my", opset_import: ["" : 18]>
Two (a) => (b, b)
{ b = Neg (a) }
"""
CHOICE = """
<domain: "my", opset_import: ["" : 18]>
Choice (a, k) => (c)
{
  s = ReduceSum <keepdims = 0> (k) z = Constant <value_float = 0.0> () g = Greater (s, z)
  c = If (g) <then_branch = t () => (p) { p = Neg (a) }, else_branch = e () => (q) { q = Exp (a) }>
}
"""
OTHER = """
<domain: "my", opset_import: ["" : 18, "com.microsoft" : 1]>
Scaled (a) => (c)
{ b = Neg (a) c = com.microsoft.Inverse (b) }
"""
STACKED = "y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)"


def model_of(body: str, *functions: str, opset: int = 18, imports: str = "", after: str = STACKED):
    text = MODEL.format(
        opset=opset, imports=imports, body=body, after=after, functions="\n".join(functions)
    )
    return onnx.parser.parse_model(text)


def opened_in(model: ir.Model) -> bool:
    """Whether the map of a model has been fused."""
    fuse = FuseSequenceMapPass()
    fuse(model)
    return bool(fuse.decisions)


CALLS = {
    "attribute by default": ("y = my.Twice (x, w)", [TWICE]),
    "attribute": ("y = my.Twice <factor = 5.0> (x, w)", [TWICE]),
    "two calls": ("a = my.Twice (x, w) y = my.Twice <factor = 0.5> (w, a)", [TWICE]),
    "call inside of a function": ("y = my.Outer (x, w)", [TWICE, OUTER]),
    "one value for two outputs": ("a, b = my.Two (x) y = Add (a, b)", [TWO]),
    "input that is an output": ("a, y = my.Same (x)", [PADDED]),
    "input that is the output": ("a, b = my.Same (x) y = Exp (a)", [PADDED]),
    "choice": ("y = my.Choice (x, w)", [CHOICE]),
    "inside of a branch": (
        "s = ReduceSum <keepdims = 0> (w) z = Constant <value_float = 0.0> () g = Greater (s, z) "
        "y = If (g) <then_branch = t () => (float[4] p) { p = my.Twice (x, w) }, "
        "else_branch = e () => (float[4] q) { q = Neg (x) }>",
        [TWICE],
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize(("body", "functions"), CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("samples", [0, 1, 3])
def test_a_function_of_the_model(body: str, functions: list[str], samples: int) -> None:
    model = model_of(body, *functions)
    result = rewrite(model, strategy="fuse")
    counts = count_operators(ir.from_proto(result.model))
    assert (counts.loops, counts.sequences) == (0, 0)
    rng = np.random.default_rng(samples)
    feeds = {
        "x": rng.standard_normal((samples, 4)).astype(np.float32),
        "w": rng.standard_normal(4).astype(np.float32),
    }
    (actual,) = run(result.model, feeds)
    assert actual.shape == (samples, 4)
    if samples:  # ConcatFromSequence of nothing is an error
        np.testing.assert_allclose(actual, run(model, feeds)[0], rtol=1e-6)


def run(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    return list(ReferenceEvaluator(model).run(None, feeds))


def test_a_function_that_is_called_no_more_is_dropped() -> None:
    assert not rewrite(
        model_of("y = my.Outer (x, w)", TWICE, OUTER), strategy="fuse"
    ).model.functions


def test_a_function_that_is_called_elsewhere_stays() -> None:
    after = f"{STACKED} other = my.Twice (w, w)".replace("y = Conc", "z = Conc")
    after += " wide = Expand(other, n) y = Add(z, wide) n = Constant <value_ints = [1, 4]> ()"
    after = after.replace("wide = ", "n = Constant <value_ints = [1, 4]> () wide = ", 1)
    after = after.removesuffix(" n = Constant <value_ints = [1, 4]> ()")
    result = rewrite(model_of("y = my.Twice (x, w)", TWICE, after=after), strategy="fuse")
    assert [f.name for f in result.model.functions] == ["Twice"]
    assert count_operators(ir.from_proto(result.model)).loops == 0


def test_only_what_has_no_rule_stays_in_a_loop() -> None:
    model = model_of("a = Exp (x) y = my.Scaled (a)", OTHER)
    (decision,) = rewrite(model, strategy="fuse").report.decisions
    (reason,) = decision.reasons
    assert decision.verdict == "fissioned"
    assert reason.node == "rows/body/Scaled_1/Inverse_1"
    assert reason.op_type == "Inverse"


UNKNOWN = """
<domain: "my", opset_import: ["" : 18, "else" : 1]>
Unknown (a) => (c)
{ b = Neg (a) c = else.Unknown (b) }
"""


def test_what_a_call_is_declared_to_yield_its_last_node_yields() -> None:
    model = model_of("a = my.Unknown (x) y = Exp (a)", UNKNOWN, imports=', "else" : 1')
    body = next(n for n in model.graph.node if n.op_type == "SequenceMap").attribute[0].g
    body.value_info.append(onnx.helper.make_tensor_value_info("a", 1, [4]))
    (decision,) = rewrite(model, strategy="fuse").report.decisions
    assert decision.in_loops == 1  # Exp is batched


def test_what_the_function_imports_the_model_imports() -> None:
    result = rewrite(model_of("y = my.Scaled (x)", OTHER), strategy="fuse")
    versions = {entry.domain: entry.version for entry in result.model.opset_import}
    assert versions["com.microsoft"] == 1


@pytest.mark.parametrize(
    ("functions", "imports"),
    [
        ([OTHER.replace('microsoft" : 1', 'microsoft" : 2')], ', "com.microsoft" : 1'),
        ([TWICE.replace(": 18", ": 8")], ""),
        ([TWICE.replace('"" : 18', '"ai.onnx" : 8')], ""),
    ],
    ids=["another operator set", "operators of another meaning", "by the long name of the set"],
)
def test_a_function_of_other_opsets_is_not_opened(functions: list[str], imports: str) -> None:
    name = "my.Scaled (x)" if imports else "my.Twice (x, w)"
    model = ir.from_proto(model_of(f"y = {name}", *functions, imports=imports))
    assert not opened_in(model)
    assert model.functions
    assert any(n.domain == "my" for graph in all_graphs(model) for n in graph)


def test_an_older_opset_with_the_same_operators_will_do() -> None:
    model = ir.from_proto(model_of("y = my.Same (x)", PADDED.replace(": 18", ": 13")))
    assert opened_in(model)


def test_a_function_with_a_rule_of_its_own_stays_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_rows", {k: list(v) for k, v in table._rows.items()})
    table.register("Twice", elementwise, domain="my")
    result = rewrite(model_of("y = my.Twice (x, w)", TWICE), strategy="fuse")
    assert count_operators(ir.from_proto(result.model)).by_type["my::Twice"] == 1


def test_expansion_opens_nothing() -> None:
    result = rewrite(model_of("y = my.Twice (x, w)", TWICE), strategy="expand")
    assert [f.name for f in result.model.functions] == ["Twice"]


def _signature(schema: Any) -> tuple[Any, ...]:
    return (
        [(x.name, x.option) for x in schema.inputs],
        [(x.name, x.option) for x in schema.outputs],
    )


@pytest.mark.quick
@pytest.mark.parametrize("op_type", sorted(WIDENED))
def test_what_only_gained_types(op_type: str) -> None:
    history: list[Any] = [
        schema
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == op_type and schema.domain == ""
    ]
    history.sort(key=lambda schema: schema.since_version)
    at_13 = max((s.since_version for s in history if s.since_version <= 13), default=0)
    for old, new in itertools.pairwise(s for s in history if s.since_version >= at_13):
        assert _signature(old) == _signature(new)
        for name, attribute in old.attributes.items():
            assert new.attributes[name].default_value == attribute.default_value
        added = set(new.attributes) - set(old.attributes)
        assert not any(new.attributes[name].required for name in added)
        for x, y in zip(old.inputs, new.inputs, strict=True):
            assert x.types <= y.types


FLEX = """
<ir_version: 10, opset_import: ["" : 24, "ai.onnx.preview" : 1]>
agraph (float[N,1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v) => (float[N,1,2,3,4] y)
{
  qs = SplitToSequence <axis = 0, keepdims = 0> (q)
  ys = SequenceMap (qs) <body = b (float[1,2,3,4] x) => (float[1,2,3,4] z)
    { z = ai.onnx.preview.FlexAttention (x, k, v) }>
  y = ConcatFromSequence <axis = 0, new_axis = 1> (ys)
}
"""


def test_every_operator_that_the_table_calls_opened() -> None:
    """Beside ONNX's own operators there is one; it runs on the evaluator alone."""
    names = [row.op_type for row in table.rows() if isinstance(row, table.Decomposed)]
    assert names == ["FlexAttention"]
    model = onnx.parser.parse_model(FLEX)
    result = rewrite(model, strategy="fuse")
    counts = count_operators(ir.from_proto(result.model))
    assert counts.loops == 0
    assert "ai.onnx.preview::FlexAttention" not in counts.by_type
    rng = np.random.default_rng(0)
    shapes = {"q": (3, 1, 2, 3, 4), "k": (1, 2, 5, 4), "v": (1, 2, 5, 4)}
    feeds = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    expected, actual = run(model, feeds)[0], run(result.model, feeds)[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-5)
