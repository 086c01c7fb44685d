"""Operators that only arrange elements, and those that only ask for shapes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.batching.direct import prove_directly
from tests.passes.batching.harness import (
    BATCHES,
    Case,
    Operand,
    constant,
    decline_of,
    fused_model,
    ints,
    mapped,
    prove,
    shared,
)

X = mapped((2, 3, 4))
ROW = mapped((1, 3, 1))
SCALAR = mapped(np.float32(2), np.float32(3), np.float32(5))
NOTHING = mapped((3, 0))


def case(name: str, nodes: str, x: Operand = X, opset: int = 18, **more: object) -> Case:
    """Return a case that must give identical bits; further operands by keyword."""
    operands = {k: v for k, v in more.items() if isinstance(v, Operand)}
    options = {k: v for k, v in more.items() if not isinstance(v, Operand)}
    return Case(name, nodes, {"x": x, **operands}, opset=opset, rtol=0, atol=0, **options)


def both_ways(name: str, nodes: str, x: Operand = X, **more: object) -> list[Case]:
    """Return a case with known and with symbolic dimensions."""
    return [
        case(name, nodes, x, **more),
        case(f"{name}, symbolic", nodes, x, **more, symbolic=True),
    ]


def targets(name: str, target: np.ndarray, x: Operand = X, attributes: str = "") -> list[Case]:
    """Return cases of Reshape with a constant and with a run-time target."""
    nodes = f"y = Reshape{attributes}(x, s)"
    return [
        *both_ways(f"reshape {name}", nodes, x, s=constant(target)),
        *both_ways(f"reshape {name}, run-time", nodes, x, s=shared(target)),
    ]


RESHAPES = [
    *targets("to numbers", ints(4, 6)),
    *targets("with -1", ints(2, -1)),
    *targets("with -1 first", ints(-1, 4)),
    *targets("with -1 in place of an axis", ints(-1, 3, 2, 2)),
    *targets("with a copied dimension", ints(0, 12)),
    *targets("with copies and -1", ints(0, -1, 2, 2)),
    *targets("all copied and -1", ints(0, 0, 0, -1)),
    *targets("to a vector", ints(-1)),
    *targets("to a scalar", ints(), mapped((1, 1))),
    *targets("of a scalar", ints(1, -1), SCALAR),
    *targets("of no elements", ints(-1, 3), NOTHING),
    *targets("zero elements, allowzero", ints(0, 5), NOTHING, "<allowzero = 1>"),
    *targets("allowzero without a zero", ints(4, -1), X, "<allowzero = 1>"),
    case("reshape at 13", "y = Reshape(x, s)", s=constant(ints(6, -1)), opset=17),
    *both_ways(
        "reshape to a computed shape",
        "s = Shape(x) z = Constant<value_ints = [0]>() a = Gather(s, z) "
        "m = Constant<value_ints = [-1]>() t = Concat<axis = 0>(a, m) y = Reshape(x, t)",
    ),
]

AXES = [
    *both_ways("transpose default", "y = Transpose(x)"),
    case("transpose", "y = Transpose<perm = [1, 2, 0]>(x)"),
    case("transpose a scalar", "y = Transpose(x)", SCALAR),
    *both_ways("flatten default", "y = Flatten(x)"),
    *both_ways("flatten 0", "y = Flatten<axis = 0>(x)"),
    *both_ways("flatten 2", "y = Flatten<axis = 2>(x)"),
    *both_ways("flatten rank", "y = Flatten<axis = 3>(x)"),
    *both_ways("flatten negative", "y = Flatten<axis = -1>(x)"),
    case("flatten a scalar", "y = Flatten<axis = 0>(x)", SCALAR),
    *both_ways("flatten no elements", "y = Flatten(x)", NOTHING),
    *both_ways("squeeze", "y = Squeeze(x, a)", ROW, a=constant(ints(0))),
    case("squeeze negative", "y = Squeeze(x, a)", ROW, a=constant(ints(-1, 0))),
    *both_ways("squeeze run-time", "y = Squeeze(x, a)", ROW, a=shared(ints(0, -1))),
    *both_ways("squeeze what is 1", "y = Squeeze(x)", ROW),
    *both_ways("squeeze nothing", "y = Squeeze(x)"),
    case("squeeze a scalar", "y = Squeeze(x)", SCALAR),
    *both_ways("unsqueeze", "y = Unsqueeze(x, a)", a=constant(ints(0, 2))),
    case("unsqueeze negative", "y = Unsqueeze(x, a)", a=constant(ints(-1, -5))),
    case("unsqueeze mixed", "y = Unsqueeze(x, a)", a=constant(ints(0, -1))),
    *both_ways("unsqueeze run-time", "y = Unsqueeze(x, a)", a=shared(ints(0, -1))),
    case("unsqueeze a scalar", "y = Unsqueeze(x, a)", SCALAR, a=constant(ints(0))),
    case(
        "unsqueeze strings",
        "y = Unsqueeze(x, a)",
        mapped(*(np.array(s, object) for s in (["a"], ["b"], ["c"]))),
        a=constant(ints(0)),
    ),
]

OLD_AXES = [
    case("squeeze attribute", "y = Squeeze<axes = [0, -1]>(x)", ROW, opset=12),
    case("squeeze nothing given", "y = Squeeze(x)", ROW, opset=12),
    case("unsqueeze attribute", "y = Unsqueeze<axes = [0, -1]>(x)", opset=12),
    *both_ways(
        "split attribute",
        "y, z = Split<axis = 1, split = [1, 2]>(x)",
        outputs=("y", "z"),
        opset=12,
    ),
    case("split in equal parts", "y, z = Split(x)", outputs=("y", "z"), opset=11),
    case("reshape", "y = Reshape(x, s)", s=constant(ints(0, -1)), opset=13),
    case("reshape run-time", "y = Reshape(x, s)", s=shared(ints(0, -1)), opset=12),
    case("flatten", "y = Flatten(x)", opset=12),
    Case(
        "size",
        "s = Size(x) y = Mul(s, i)",
        {"x": X, "i": mapped((), dtype=np.int64)},
        opset=11,
        symbolic=True,
    ),
    Case(
        "shape",
        "s = Shape(x) y = Mul(s, i)",
        {"x": X, "i": mapped((3,), dtype=np.int64)},
        opset=12,
        symbolic=True,
    ),
    case("concat", "y = Concat<axis = -1>(x, x)", opset=11),
]

SIZES = [
    *both_ways("expand", "y = Expand(x, s)", ROW, s=constant(ints(2, 3, 4))),
    *both_ways("expand to more axes", "y = Expand(x, s)", ROW, s=constant(ints(5, 1, 3, 4))),
    *both_ways("expand to fewer axes", "y = Expand(x, s)", ROW, s=constant(ints(3, 2))),
    *both_ways("expand run-time", "y = Expand(x, s)", ROW, s=shared(ints(5, 2, 1, 4))),
    *both_ways(
        "expand run-time, fewer",
        "y = Expand(x, s)",
        ROW,
        s=shared(
            ints(
                2,
            )
        ),
    ),
    case("expand a scalar", "y = Expand(x, s)", SCALAR, s=constant(ints(2, 3))),
    case("expand to nothing", "y = Expand(x, s)", ROW, s=constant(ints(0, 1, 1))),
    case("expand to nothing within", "z = Expand(x, s) y = Neg(z)", SCALAR, s=constant(ints(0))),
    case(
        "expand to nothing, by a shape that a runtime computes ahead",
        "e = Constant<value = int64[0] {}>() s = Shape(e) z = Expand(x, s) y = Neg(z)",
        SCALAR,
    ),
    *both_ways("tile", "y = Tile(x, n)", n=constant(ints(1, 2, 3))),
    *both_ways("tile run-time", "y = Tile(x, n)", n=shared(ints(2, 1, 0))),
    *both_ways("concat", "y = Concat<axis = 0>(x, z)", z=mapped((5, 3, 4), seed=1)),
    *both_ways("concat negative", "y = Concat<axis = -1>(x, x, x)"),
    *both_ways(
        "concat shared", "y = Concat<axis = 1>(w, x, w)", w=shared(np.ones((2, 1, 4), np.float32))
    ),
    case(
        "concat constant", "y = Concat<axis = 1>(x, w)", w=constant(np.ones((2, 1, 4), np.float32))
    ),
    *both_ways(
        "split with sizes",
        "y, z = Split<axis = -1>(x, n)",
        n=constant(ints(1, 3)),
        outputs=("y", "z"),
    ),
    *both_ways("split run-time", "y, z = Split(x, n)", n=shared(ints(2, 0)), outputs=("y", "z")),
    case("split by number", "y, z = Split<num_outputs = 2, axis = 1>(x)", outputs=("y", "z")),
    case("split at 17", "y, z = Split(x)", outputs=("y", "z"), opset=17),
    case("split, one output unused", "z, y = Split<num_outputs = 2>(x)"),
]

FACTOR = mapped((3,), dtype=np.int64)
QUERIES = [
    *both_ways("shape", "s = Shape(x) y = Mul(s, i)", i=FACTOR),
    *both_ways(
        "shape from 1", "s = Shape<start = 1>(x) y = Mul(s, i)", i=mapped((2,), dtype=np.int64)
    ),
    *both_ways(
        "shape to -1", "s = Shape<end = -1>(x) y = Mul(s, i)", i=mapped((2,), dtype=np.int64)
    ),
    *both_ways(
        "shape of the last two",
        "s = Shape<start = -2, end = 9>(x) y = Mul(s, i)",
        i=mapped((2,), dtype=np.int64),
    ),
    *both_ways(
        "shape beyond",
        "s = Shape<start = -9, end = 1>(x) y = Mul(s, i)",
        i=mapped((1,), dtype=np.int64),
    ),
    *both_ways(
        "shape of nothing", "s = Shape<start = 2, end = 1>(x) y = Concat<axis = 0>(s, i)", i=FACTOR
    ),
    *both_ways("size", "s = Size(x) y = Mul(s, i)", i=FACTOR),
    case("size of a scalar", "s = Size(x) y = Mul(s, i)", SCALAR, i=FACTOR),
    *both_ways("shape is the result", "y = Shape(x)"),
    *both_ways("eye", "e = EyeLike(x) y = Add(e, x)", mapped((3, 4))),
    case(
        "eye of another type",
        "e = EyeLike<dtype = 7, k = -1>(x) y = Add(e, i)",
        mapped((3, 4)),
        i=mapped((3, 4), dtype=np.int64),
    ),
    case("constant", "c = Constant<value_floats = [1.0, 2.0]>() y = Mul(x, c)", mapped((2,))),
]


@BATCHES
@pytest.mark.parametrize("case", [*RESHAPES, *AXES, *SIZES, *QUERIES], ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


# Without samples these may not run, and what they would tell of the shape is not known.
HOISTED = [
    *both_ways(
        "constant of shape of a shape", "s = Shape(x) c = ConstantOfShape(s) y = Add(x, c)"
    ),
    *both_ways(
        "range to a size",
        "s = Size(x) z = Constant<value_int = 0>() o = Constant<value_int = 1>() "
        "r = Range(z, s, o) y = Add(r, i)",
        i=mapped((24,), dtype=np.int64),
    ),
]


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("case", HOISTED, ids=str)
def test_what_depends_on_the_shape_only_runs_once(case: Case, batch: int) -> None:
    prove(case, batch)


@pytest.mark.quick
@BATCHES
@pytest.mark.parametrize("case", OLD_AXES, ids=str)
def test_rule_of_an_older_opset(case: Case, batch: int) -> None:
    prove_directly(case, batch)


SAME = mapped(ints(2, 6), ints(2, 6), ints(2, 6))
SIZED = [
    case("expand", "y = Expand(x, s)", mapped((1,)), s=SAME),
    case("constant of shape", "y = ConstantOfShape(x)", SAME),
    case("split", "y, z = Split(x, s)", mapped((8,)), s=SAME, outputs=("y", "z")),
]


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("case", SIZED, ids=str)
def test_what_is_as_large_as_each_sample_says(case: Case, batch: int) -> None:
    prove(case, batch)


DECLINED = [
    (case("reshape", "y = Reshape(x, s)", mapped((12,)), s=SAME), "data-dependent-shape"),
    (case("tile", "y = Tile(x, s)", mapped((1, 1)), s=SAME), "data-dependent-shape"),
    (
        case("squeeze", "y = Squeeze(x, a)", ROW, a=mapped(ints(0), ints(2), ints(0))),
        "batched-operand",
    ),
    (
        case("unsqueeze", "y = Unsqueeze(x, a)", a=mapped(ints(0), ints(2), ints(0))),
        "batched-operand",
    ),
    (case("squeeze nothing", "y = Squeeze(x, a)", ROW, a=constant(ints())), "no-rule"),
]


@pytest.mark.parametrize(("case", "code"), DECLINED, ids=[str(c) for c, _ in DECLINED])
def test_declines(case: Case, code: str) -> None:
    assert [said for _, said in decline_of(case)] == [code]


def operators(found: Case) -> list[str]:
    """Return the operators of a fused map."""
    proto, _ = fused_model(found)
    return sorted(n.op_type for n in proto.graph.node if n.op_type != "Constant")


def test_known_sizes_cost_nothing_at_run_time() -> None:
    nodes = "s = Shape(x) t = Reshape(x, c) f = Flatten(t) y = Unsqueeze(f, a)"
    found = case("glue", nodes, c=constant(ints(3, -1, 2)), a=constant(ints(0)))
    assert operators(found).count("Reshape") == 2
    assert not {"Concat", "ReduceProd", "Slice", "Expand"} & set(operators(found))
