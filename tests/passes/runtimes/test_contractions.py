"""Products that onnxruntime gets wrong, in another form: the same numbers, of nothing as well."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from passes.graph.graphs import all_graphs
from passes.runtimes import SidestepDefectsPass
from rewriter.model_files.checking import check
from tests.passes.runtimes.test_sidestep import parse
from tests.passes.runtimes.upstream import run

SIZES = {"b": 2, "c": 3, "t": 4, "s": 5, "d": 6, "e": 7, "n": 3}
EQUATIONS = (
    "btd,bsd->bts",
    "btd,bsd->bst",
    "btd,bsd->ts",
    "btd,bsd",
    "bd,bsd->bs",
    "bd,bd->b",
    "bd,bd->bd",
    "td,sd->ts",
    "dt,ds->st",
    "t,s->ts",
    "d,d->",
    "bctd,bcsd->bcts",
    "tbcd,sbcd->bcts",
    "bctd,bsed->tcbse",
    "btd,sc->bt",
    "bd,dse,be->bs",
    "bt,bs,bd->tsd",
    "bd , b -> d",
    "btd,btd->b",
    "tbd,bds->s",
)
ANY_AXES = (
    "...d,...d->...",
    "...td,sd->...ts",
    "...td,...sd",
    "dt,...s->...td",
    "s..., ts -> ...t",
)
STAYS = ("bdd,bd->b", "btd->bt", "...dd,...d->...")


def product(equation: str, opset: int = 22) -> ir.Model:
    terms = equation.partition("->")[0].split(",")
    inputs = ", ".join(
        f"float[{','.join(term.strip().replace('...', 'n').upper())}] x{i}"
        for i, term in enumerate(terms)
    )
    operands = ", ".join(f"x{i}" for i in range(len(terms)))
    text = f"""g ({inputs}) => (float[] y) {{
        y = Einsum <equation = "{equation}"> ({operands}) }}"""
    model = ir.from_proto(parse(text, opset))
    model.graph.outputs[0].shape = None
    return model


def operators(model: ir.Model) -> set[str]:
    return {node.op_type for graph in all_graphs(model) for node in graph}


@pytest.mark.quick
@pytest.mark.parametrize("empty", ["", "b", "d", "t", "s"])
@pytest.mark.parametrize("equation", [*EQUATIONS, *ANY_AXES])
def test_einsum_as_matrix_products(equation: str, empty: str) -> None:
    model = product(equation)
    assert SidestepDefectsPass()(model).modified
    check(model)
    assert "Einsum" not in operators(model)
    sizes = SIZES | dict.fromkeys(empty, 0)
    rng = np.random.default_rng(0)
    terms = equation.replace(" ", "").replace("...", "n").partition("->")[0].split(",")
    feeds = {
        f"x{i}": rng.integers(-4, 5, [sizes[c] for c in term]).astype(np.float32)
        for i, term in enumerate(terms)
    }
    expected = np.asarray(np.einsum(equation, *feeds.values()))
    np.testing.assert_array_equal(run(ir.to_proto(model), feeds), expected, strict=True)


@pytest.mark.parametrize("equation", ["btd,sc->bt", "bd,bsd->bs", "t,s->ts"])
def test_einsum_of_its_first_opset(equation: str) -> None:
    """ReduceSum, Squeeze and Unsqueeze have their axes as attributes there."""
    model = product(equation, opset=12)
    assert SidestepDefectsPass()(model).modified
    check(model)
    terms = equation.partition("->")[0].split(",")
    feeds = {
        f"x{i}": np.ones([SIZES[c] for c in term], np.float32) for i, term in enumerate(terms)
    }
    expected = np.asarray(np.einsum(equation, *feeds.values()))
    np.testing.assert_array_equal(run(ir.to_proto(model), feeds), expected, strict=True)


@pytest.mark.parametrize("equation", STAYS)
def test_an_einsum_stays(equation: str) -> None:
    """A diagonal, one operand, letters that are not written."""
    assert not SidestepDefectsPass()(product(equation)).modified


@pytest.mark.parametrize("dims", ["B, 1", "B, N"])
@pytest.mark.parametrize("sizes", [(2, 3), (2, 1), (0, 3), (2, 0)], ids=str)
def test_a_size_that_is_spread_and_summed(dims: str, sizes: tuple[int, int]) -> None:
    text = f"""g (float[{dims}] x, float[B, N] z) => (float[B] y) {{
        y = Einsum <equation = "bd,bd->b"> (x, z) }}"""
    model = ir.from_proto(parse(text))
    assert SidestepDefectsPass()(model).modified
    check(model)
    feeds = {"x": np.full((sizes[0], 1), 2, np.float32), "z": np.ones(sizes, np.float32)}
    expected = np.float32([2 * sizes[1]] * sizes[0])
    np.testing.assert_array_equal(run(ir.to_proto(model), feeds), expected, strict=True)


def test_one_size_is_not_spread() -> None:
    text = """g (float[B, T, 6] x, float[B, S, 6] z) => (float[B, T, S] y) {
        y = Einsum <equation = "btd,bsd->bts"> (x, z) }"""
    model = ir.from_proto(parse(text))
    assert SidestepDefectsPass()(model).modified
    assert "Expand" not in operators(model)


def test_what_is_not_empty_stays() -> None:
    text = """g (float[2, 1] x, float[2, 3] z) => (float[2] y) {
        y = Einsum <equation = "bd,be->b"> (x, z) }"""
    assert not SidestepDefectsPass()(ir.from_proto(parse(text))).modified


@pytest.mark.parametrize("perm", [[0, 2, 1], [2, 1, 0], [1, 2, 0]])
@pytest.mark.parametrize("cast", ["", "Cast <to = 1>"])
def test_a_transpose_times_a_vector(perm: list[int], cast: str) -> None:
    text = f"""g (float[2, 3, 4] x, float[K] v) => (float[A, B] y) {{
        t = Transpose <perm = {perm}> (x) u = {cast or "Identity"} (t) y = MatMul(u, v) }}"""
    if not cast:
        text = text.replace("u = Identity (t) ", "").replace("MatMul(u", "MatMul(t")
    model = ir.from_proto(parse(text))
    assert SidestepDefectsPass()(model).modified
    check(model)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    t = x.transpose(perm)
    v = np.arange(t.shape[-1], dtype=np.float32)
    found = run(ir.to_proto(model), {"x": x, "v": v})
    np.testing.assert_array_equal(found, t @ v, strict=True)
