"""Attention, LinearAttention and RotaryEmbedding."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from passes.fuse import FuseSequenceMapPass
from tests.passes.batching.harness import (
    Case,
    Operand,
    constant,
    mapped,
    prove,
    run_model,
    shared,
)
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged, ragged_model, reasons_of

N, HEADS, QUERIES, KEYS, SIZE, PAST = 2, 4, 3, 5, 6, 2


def heads(length: int, count: int = HEADS, size: int = SIZE, seed: int = 0) -> Operand:
    return mapped((N, count, length, size), seed=seed)


def flat(length: int, count: int = HEADS, seed: int = 0) -> Operand:
    return mapped((N, length, count * SIZE), seed=seed)


def mask(*shape: int, seed: int = 5) -> Operand:
    return mapped(shape, dtype=np.bool_, seed=seed)


def full(operand: Operand) -> Operand:
    """Let every query see the first key, so that no row is empty."""
    for array in operand.samples:
        array[..., 0] = True
    return operand


QKV = {"q": heads(QUERIES), "k": heads(KEYS, seed=1), "v": heads(KEYS, size=8, seed=2)}
FLAT = {"q": flat(QUERIES), "k": flat(KEYS, 2, seed=1), "v": flat(KEYS, 2, seed=2)}
PASTS = {"pk": heads(PAST, seed=3), "pv": heads(PAST, size=8, seed=4)}
LENGTHS = np.array([3, 5], np.int64)


def masked(name: str, operand: Operand, **more: object) -> Case:
    return Case(
        f"mask {name}", "y = Attention(q, k, v, m)", {**QKV, "m": operand}, opset=23, **more
    )


CASES = [
    *(Case(f"opset {o}", "y = Attention(q, k, v)", QKV, opset=o) for o in (23, 24, 25, 26)),
    Case("symbolic", "y = Attention<is_causal=1>(q, k, v)", QKV, opset=23, symbolic=True),
    Case(
        "three axes",
        f"y = Attention<q_num_heads={HEADS}, kv_num_heads=2, scale=0.5>(q, k, v)",
        FLAT,
        opset=23,
    ),
    Case(
        "shared keys and values",
        "y = Attention<softcap=2.0>(q, k, v)",
        {"q": QKV["q"], "k": shared(QKV["k"].of(0)), "v": constant(QKV["v"].of(0))},
        opset=23,
    ),
    Case(
        "shared queries",
        "y = Attention(q, k, v)",
        {"k": QKV["k"], "q": shared(QKV["q"].of(0)), "v": QKV["v"]},
        opset=23,
        symbolic=True,
    ),
    masked("of two axes", full(mask(QUERIES, KEYS))),
    masked("of two axes, shared", shared(full(mask(QUERIES, KEYS)).of(0))),
    masked("of three axes", full(mask(HEADS, QUERIES, KEYS)), symbolic=True),
    masked("of three axes, shared", shared(full(mask(1, QUERIES, KEYS)).of(0))),
    masked("of four axes", full(mask(N, HEADS, QUERIES, KEYS))),
    masked("of four axes, broadcast", full(mask(1, 1, QUERIES, KEYS)), symbolic=True),
    masked("of four axes, shared", shared(full(mask(N, 1, QUERIES, KEYS)).of(0)), symbolic=True),
    masked("of four axes, constant", constant(full(mask(1, 1, QUERIES, KEYS)).of(0))),
    masked("of floats", mapped((QUERIES, KEYS), seed=5)),
    Case(
        "past and present",
        'y, pk1, pv1 = Attention(q, k, v, "", pk, pv)',
        {**QKV, **PASTS},
        ("y", "pk1", "pv1"),
        opset=23,
    ),
    Case(
        "shared past",
        "y, pk1, pv1 = Attention<is_causal=1>(q, k, v, m, pk, pv)",
        {
            **QKV,
            "m": full(mask(QUERIES, KEYS + PAST)),
            "pk": shared(PASTS["pk"].of(0)),
            "pv": shared(PASTS["pv"].of(0)),
        },
        ("y", "pk1", "pv1"),
        opset=24,
    ),
    Case(
        "scores",
        'y, "", "", s = Attention<qk_matmul_output_mode=1>(q, k, v)',
        QKV,
        ("y", "s"),
        opset=23,
    ),
    Case(
        "number of keys that count",
        'y = Attention(q, k, v, "", "", "", n)',
        {**QKV, "n": mapped(LENGTHS, LENGTHS - 1, LENGTHS[::-1])},
        opset=24,
    ),
    Case(
        "shared number of keys that count",
        'y = Attention(q, k, v, "", "", "", n)',
        {**QKV, "n": shared(LENGTHS)},
        opset=24,
        symbolic=True,
    ),
]

COS = np.cos(np.random.default_rng(0).random((7, 3))).astype(np.float32)
SIN = np.sin(np.random.default_rng(0).random((7, 3))).astype(np.float32)
PLACES = np.array([[0, 1, 2], [6, 5, 4]], np.int64)
PICKED = {
    "c": mapped(*(COS[PLACES] + i for i in range(3))),
    "s": mapped(*(SIN[PLACES] + i for i in range(3))),
}
WHERE = mapped(PLACES, PLACES // 2, 6 - PLACES)

CASES += [
    Case(
        "rotary embedding with mapped positions",
        "y = RotaryEmbedding(x, c, s, p)",
        {"x": heads(QUERIES), "c": constant(COS), "s": shared(SIN), "p": WHERE},
        opset=23,
    ),
    Case(
        "rotary embedding with shared positions, symbolic",
        "y = RotaryEmbedding<interleaved=1>(x, c, s, p)",
        {"x": heads(QUERIES), "c": shared(COS), "s": shared(SIN), "p": shared(PLACES)},
        opset=23,
        symbolic=True,
    ),
    Case(
        "rotary embedding with mapped caches and positions",
        "y = RotaryEmbedding(x, c, s, p)",
        {
            "x": heads(QUERIES),
            "c": mapped(COS, COS / 2, -COS),
            "s": mapped(SIN, SIN / 2, -SIN),
            "p": WHERE,
        },
        opset=23,
    ),
    Case(
        "rotary embedding with one mapped cache and shared positions",
        "y = RotaryEmbedding(x, c, s, p)",
        {
            "c": mapped(COS, COS / 2, -COS),
            "x": shared(heads(QUERIES).of(0)),
            "s": shared(SIN),
            "p": shared(PLACES),
        },
        opset=23,
    ),
    Case(
        "rotary embedding with picked rows",
        "y = RotaryEmbedding(x, c, s)",
        {"x": heads(QUERIES), **PICKED},
        opset=23,
    ),
    Case(
        "rotary embedding of three axes, in part, with shared picked rows",
        f"y = RotaryEmbedding<num_heads={HEADS}, rotary_embedding_dim=4>(x, c, s)",
        {
            "x": flat(QUERIES),
            "c": shared(COS[PLACES][..., :2]),
            "s": constant(SIN[PLACES][..., :2]),
        },
        opset=23,
        symbolic=True,
    ),
]

STEPS = {
    "q": mapped((N, QUERIES, 8)),
    "k": mapped((N, QUERIES, 4), seed=1),
    "v": mapped((N, QUERIES, 6), seed=2),
}
LINEAR = "LinearAttention<q_num_heads=4, kv_num_heads=2"
GATES = {
    "p": mapped((N, 2, 2, 3), seed=3),
    "d": mapped(
        *(-np.random.default_rng(i).random((N, QUERIES, 2), np.float32) for i in range(3))
    ),
    "b": mapped(*(np.random.default_rng(i).random((N, QUERIES, 1), np.float32) for i in range(3))),
}

CASES += [
    Case(
        "linear attention",
        f'y, s = {LINEAR}, update_rule="linear">(q, k, v)',
        STEPS,
        ("y", "s"),
        opset=27,
    ),
    Case(
        "linear attention with gates and a past",
        f"y, s = {LINEAR}>(q, k, v, p, d, b)",
        {**STEPS, **GATES},
        ("y", "s"),
        opset=27,
        rtol=1e-4,
    ),
    Case(
        "linear attention with shared gates",
        f'y, s = {LINEAR}>(q, k, v, "", d, b)',
        {**STEPS, "d": shared(GATES["d"].of(0)), "b": constant(GATES["b"].of(0))},
        ("y", "s"),
        opset=28,
        rtol=1e-4,
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_equals_the_body_run_alone(case: Case, batch: int) -> None:
    prove(case, batch)


W = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
FIRST = constant(np.array([0]))
SELF = """u = Unsqueeze(x, a) q = MatMul(u, w) n = Neg(u) k = Mul(n, q)
          t = Attention<q_num_heads = 2, kv_num_heads = 2{}>(q, k, u) y = Squeeze(t, a)"""
HEADS = """u = Unsqueeze(x, a) h = Reshape(u, s) q = Transpose<perm = [0, 2, 1, 3]>(h) k = Neg(q)
           t = Attention{}(q, k, q) b = Transpose<perm = [0, 2, 1, 3]>(t) z = Reshape(b, c)
           y = Squeeze(z, a)"""
SPLIT = {"s": constant(np.array([1, -1, 2, 4])), "c": constant(np.array([1, -1, 8]))}


def of_lengths(name: str, nodes: str, *, opset: int = 24, **operands: Operand) -> RaggedCase:
    given = {"x": ragged(8, lengths=(2, 1, 3)), "a": FIRST, **operands}
    return RaggedCase(f"Attention {name}", nodes, given, opset=opset, rtol=1e-4, atol=1e-5)


RAGGED = [
    *(of_lengths(f"at opset {o}", SELF.format(""), opset=o, w=shared(W)) for o in (23, 24)),
    of_lengths("causal", SELF.format(", is_causal = 1"), w=shared(W)),
    of_lengths("with a softcap", SELF.format(", softcap = 2.0"), w=shared(W)),
    of_lengths("of heads", HEADS.format(""), **SPLIT),
    of_lengths("of heads, causal", HEADS.format("<is_causal = 1, scale = 0.7>"), **SPLIT),
    of_lengths(
        "by keys for all",
        "u = Unsqueeze(x, a) y = Attention<q_num_heads = 2, kv_num_heads = 2>(u, k, v)",
        k=shared(np.ones((1, 3, 8), np.float32)),
        v=shared(W[None, :3]),
    ),
    of_lengths(
        "by keys of a sample",
        "u = Unsqueeze(x, a) y = Attention<q_num_heads = 2, kv_num_heads = 1>(u, k, v)",
        k=mapped((1, 3, 4)),
        v=mapped((1, 3, 4), seed=1),
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", RAGGED, ids=str)
def test_sequences_of_different_length(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


def test_padding_keeps_infinities_of_other_samples_out() -> None:
    first, _, last = (np.ones((n, 8), np.float32) for n in (2, 0, 3))
    last[:] = np.inf
    x = Operand("ragged", (first, first[:1], last))
    prove_ragged(of_lengths("", HEADS.format(""), x=x, **SPLIT), 3)


def test_a_sequence_without_rows_stays_without_rows() -> None:
    """Both engines refuse such a sample alone."""
    case = of_lengths("", HEADS.format(""), x=ragged(8), **SPLIT)
    model = ir.from_proto(ragged_model(case, [[x] for x in case.operands["x"].samples]))
    FuseSequenceMapPass()(model)
    rows = np.concatenate(case.operands["x"].samples)
    (got,) = run_model(ir.to_proto(model), {"x_all": rows, "lengths_0": np.array([2, 0, 3])})
    (want,) = run_model(ir.to_proto(model), {"x_all": rows, "lengths_0": np.array([2, 3])})
    np.testing.assert_allclose(got, want, rtol=1e-5)


DECLINED = {
    "a mask": of_lengths(
        "",
        """u = Unsqueeze(x, a) t = Attention<q_num_heads = 2, kv_num_heads = 2>(u, u, u, m)
           y = Squeeze(t, a)""",
        m=shared(np.ones((1, 1), np.bool_)),
        x=ragged(8, lengths=(1, 1, 1)),
    ),
    "a second result": of_lengths(
        "",
        """u = Unsqueeze(x, a) t, n = Attention<q_num_heads = 2, kv_num_heads = 2>(u, u, u)
           y = Squeeze(t, a)""",
        x=ragged(8, lengths=(2, 1, 3)),
    ),
    "keys only": of_lengths(
        "",
        """u = Unsqueeze(x, a) t = Attention<q_num_heads = 2, kv_num_heads = 2>(q, u, u)
           y = Squeeze(t, a)""",
        q=shared(W[None, :3]),
        x=ragged(8, lengths=(2, 1, 3)),
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_differs_in_length_beside_the_sequence_stays_per_sample(name: str) -> None:
    assert reasons_of(DECLINED[name])[0] == ("Attention", "ragged")
