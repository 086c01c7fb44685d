"""Attention within samples that differ in length, for a target without loops."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir
import pytest

from tests.passes.batching.harness import Operand, constant, mapped, run_model, shared
from tests.passes.batching.ragged import (
    RaggedCase,
    feeds_of,
    fused,
    loops_of,
    prove_declined,
    prove_ragged,
    ragged,
    reasons_of,
    wanted,
)

LENGTHS = {"some none": (2, 0, 3), "equal": (3, 3, 3), "one long": (1, 40, 2), "none": (0, 0, 0)}
SCALE = constant(np.float32(0.5))
ATTENTION = """
  t = Transpose(k) s = MatMul(q, t) m = Mul(s, f) w = Softmax<axis = -1>(m) y = MatMul(w, v)
"""
HEADS = """
  t = Transpose<perm = [1, 2, 0]>(k) h = Transpose<perm = [1, 0, 2]>(q)
  u = Transpose<perm = [1, 0, 2]>(v) s = MatMul(h, t) m = Mul(f, s) w = Softmax(m)
  o = MatMul(w, u) y = Transpose<perm = [1, 0, 2]>(o)
"""


def case(name: str, nodes: str, lengths: tuple[int, ...], **others: Operand) -> RaggedCase:
    operands = {
        "q": ragged(4, lengths=lengths),
        "k": ragged(4, lengths=lengths, seed=1),
        "v": ragged(5, lengths=lengths, seed=2),
        "f": SCALE,
        **others,
    }
    return RaggedCase(name, nodes, operands, rtol=1e-5, atol=1e-6)


CASES = [
    *(case(f"attention, {name}", ATTENTION, lengths) for name, lengths in LENGTHS.items()),
    *(
        case(
            f"heads, {name}",
            HEADS,
            lengths,
            **{n: ragged(2, 4, lengths=lengths, seed=i) for i, n in enumerate("qkv")},
        )
        for name, lengths in LENGTHS.items()
    ),
    case(
        "scores between bounds",
        """t = Transpose(k) s = MatMul(q, t) c = Clip(s, l, h) d = Clip(c, , m)
        e = CastLike(d, q) w = Softmax<axis = -1>(e) y = MatMul(w, v)""",
        (2, 0, 3),
        l=constant(np.float32(-0.5)),
        h=shared(np.float32(0.5)),
        m=mapped(()),
    ),
    case(
        "keys of other lengths",
        ATTENTION,
        (2, 0, 3),
        k=ragged(4, lengths=(1, 2, 5), seed=1),
        v=ragged(5, lengths=(1, 2, 5), seed=2),
    ),
    case("a scale of each sample", ATTENTION, (2, 0, 3), f=mapped(())),
    case("a number of each row", ATTENTION, (2, 0, 3), f=ragged(1)),
    case(
        "the best keys",
        ATTENTION.partition("w = ")[0] + "y, best = TopK(m, one)",
        (2, 0, 3),
        one=constant(np.array([1])),
    ),
    case(
        "the least keys, and where they are",
        ATTENTION.partition("w = ")[0] + "z, y = TopK<largest = 0>(m, two)",
        (2, 0, 3),
        two=constant(np.array([2])),
    ),
    case("without Softmax", ATTENTION.replace("Softmax<axis = -1>", "Exp"), (2, 0, 3)),
    case(
        "scores that are compared",
        ATTENTION.replace("w = Softmax<axis = -1>(m)", "c = Greater(m, f) w = Cast<to = 1>(c)"),
        (2, 0, 3),
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    if batch or "equal" not in case.name:  # nothing tells the one length where there is no sample
        prove_ragged(case, batch, lacks=("Loop", "Scan", "If"))


def test_neighbours_are_not_reached() -> None:
    poison = np.array([[np.nan, np.inf], [1, 2]], np.float32)
    sound = np.array([[1, 0.5], [2, 1], [0, 1]], np.float32)
    samples = Operand("ragged", (poison, sound, -poison[::-1]))
    prove_ragged(case("", ATTENTION, (), q=samples, k=samples, v=samples), 3, lacks=("Loop",))


EXPERTS = [
    RaggedCase(
        f"an expert of each sample, {lengths}",
        "h = MatMul(x, w) y = Relu(h)",
        {"x": ragged(4, lengths=lengths), "w": mapped((4, 5))},
    )
    for lengths in ((2, 0, 3), (1, 40, 2), (0, 0, 0), (7, 7, 8), (0, 9, 0))
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", EXPERTS, ids=str)
def test_rows_by_a_matrix_of_their_sample(case: RaggedCase, batch: int) -> None:
    if any(len(x) for x in case.operands["x"].samples):
        prove_ragged(case, batch)


def test_experts_do_not_reach_each_other() -> None:
    x = Operand("ragged", tuple(np.full((n, 2), v, np.float32) for n, v in ((1, np.inf), (3, 1))))
    w = Operand("mapped", (np.eye(2, dtype=np.float32), np.full((2, 2), np.nan, np.float32)))
    case = RaggedCase("", "y = MatMul(x, w)", {"x": x, "w": w})
    model, _ = fused(dataclasses.replace(case), wanted(case, 2))
    got = run_model(ir.to_proto(model), feeds_of(case, 2))[0]
    np.testing.assert_array_equal(got, np.concatenate([a[0] for a in wanted(case, 2)]))


def test_large_experts_stay_in_a_loop() -> None:
    case = RaggedCase("", "y = MatMul(x, w)", {"x": ragged(256), "w": mapped((256, 256))})
    assert ("MatMul", "cost") in reasons_of(case)


@pytest.mark.parametrize("lengths", [(30, 40, 35), (1, 300, 2), (2, 0, 3)], ids=str)
def test_a_loop_runs_where_padding_would_waste_too_much(lengths: tuple[int, ...]) -> None:
    made = case("", ATTENTION, lengths)
    model, _ = fused(made, wanted(made, 3))
    asked = [node for node in model.graph if node.op_type == "If"]
    assert len(asked) == 1
    assert loops_of(model) == 1
    prove_ragged(dataclasses.replace(made, loops=1), 3)


AS_FLAT = {
    "Softmax over the rows": ATTENTION.replace("axis = -1", "axis = 0"),
    "a maximum of the scores": ATTENTION.replace(
        "w = Softmax<axis = -1>(m)", "a = ReduceMax<keepdims = 1>(m) w = Sub(m, a)"
    ),
    "scores turned over": ATTENTION.replace(
        "y = MatMul(w, v)", "z = Transpose(w) y = MatMul(z, v)"
    ),
}


def test_a_mask_of_two_axes_stays_in_a_loop() -> None:
    mask = {"g": shared(np.ones((1, 3), np.float32))}
    made = case(
        "a mask of two axes", ATTENTION.replace("Mul(s, f)", "Add(s, g)"), (3, 3, 3), **mask
    )
    with pytest.raises(AssertionError, match="loops are left"):
        prove_ragged(made, 3, lacks=("Loop",))


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("lengths", [(3, 1, 3), (2, 1, 4), (1, 7, 1)], ids=str)
@pytest.mark.parametrize("name", AS_FLAT)
def test_scores_that_have_no_rule_are_samples_of_two_axes(
    name: str, lengths: tuple[int, ...], batch: int
) -> None:
    """Padded to the longest, the rows of one sample would meet those of no sample."""
    prove_ragged(case(name, AS_FLAT[name], lengths), batch, lacks=("Loop",))


@pytest.mark.parametrize("name", AS_FLAT)
def test_scores_that_have_no_rule_stay_in_a_loop_where_there_are_loops(name: str) -> None:
    with pytest.raises(AssertionError, match="loops are left"):
        prove_ragged(case(name, AS_FLAT[name], (3, 3, 3)), 3)


BRANCHES = """t = Transpose(k)
  s = If(c) <then_branch = a () => (p) { p = MatMul(q, t) },
             else_branch = b () => (r) { m = MatMul(q, t) r = Neg(m) }> """
READ = {
    "the shape": "y = Shape(s)",
    "weights": "w = Softmax(s) y = MatMul(w, k)",
    "a sum": "e = Exp(s) y = ReduceSum<keepdims = 0>(e)",
}


@pytest.mark.parametrize(
    "condition",
    [shared(np.array(True)), mapped(np.array(True), np.array(False), np.array(True))],
    ids=["shared", "of each"],
)
@pytest.mark.parametrize("name", READ)
def test_scores_that_a_branch_yields_have_sizes_of_their_own(
    name: str, condition: Operand
) -> None:
    operands = {"q": ragged(4), "k": ragged(4, lengths=(1, 2, 3), seed=1), "c": condition}
    prove_declined(
        RaggedCase(name, BRANCHES + READ[name], operands), "If ragged", lacks=("Loop", "Scan")
    )
