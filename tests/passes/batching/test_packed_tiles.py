"""Rows by a matrix of each sample: experts, of which each takes its own tokens."""

from __future__ import annotations

import numpy as np
import pytest

from passes.graph.graphs import all_graphs
from tests.passes.batching.harness import Operand, mapped, shared
from tests.passes.batching.ragged import RaggedCase, fused, prove_ragged, ragged, wanted

LENGTHS = {"some none": (2, 0, 3), "one takes all": (0, 40, 0), "one each": (1, 1, 1),
           "uneven": (1, 30, 2), "none": (0, 0, 0)}  # fmt: skip
GEMM = "y = Gemm(x, w, b)"


def case(name: str, nodes: str, lengths: tuple[int, ...], **others: Operand) -> RaggedCase:
    operands: dict[str, Operand] = {"x": ragged(4, lengths=lengths), "w": mapped((4, 5)), **others}
    return RaggedCase(name, nodes, operands, rtol=1e-5, atol=1e-6)


CASES = [
    *(case(name, "y = MatMul(x, w)", lengths) for name, lengths in LENGTHS.items()),
    case("in between", "h = MatMul(x, w) r = Relu(h) y = Add(r, b)", (2, 0, 3), b=mapped((5,))),
    case("with a bias of each", GEMM, (2, 0, 3), b=mapped((5,))),
    case("with a row of each", GEMM, (2, 0, 3), b=mapped((1, 5))),
    case("with a number of each", GEMM, (2, 0, 3), b=mapped(())),
    case("with a shared bias", GEMM, (2, 0, 3), b=shared(np.ones(5, np.float32))),
    case("one after another", "h = MatMul(x, w) y = MatMul(h, v)", (2, 0, 3), v=mapped((5, 3))),
    case("no numbers in a row", "y = MatMul(x, w)", (2, 0, 3), w=mapped((4, 0))),
    case("turned", "y = Gemm<transB = 1>(x, w)", (2, 0, 3), w=mapped((5, 4))),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    if batch or "one each" not in case.name:  # nothing tells the one length of no sample
        prove_ragged(case, batch, lacks=("Loop", "Scan", "If"))


def scatters(nodes: str, **others: Operand) -> int:
    """Return how many ScatterElements a body of experts takes."""
    made = case("", nodes, (2, 0, 3), **others)
    model, _ = fused(made, wanted(made, 3), ("Loop", "Scan", "If"))
    return sum(node.op_type == "ScatterElements" for graph in all_graphs(model) for node in graph)


def test_products_of_the_same_rows_share_their_tiles() -> None:
    once = scatters("y = MatMul(x, w)")
    assert once
    assert scatters("h = MatMul(x, w) r = Relu(h) y = MatMul(r, v)", v=mapped((5, 3))) == once
