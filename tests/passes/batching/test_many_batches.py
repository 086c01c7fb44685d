"""Each rule over fifty random batches, against the operator run alone for each sample."""

from __future__ import annotations

import pytest

from tests.passes.batching.harness import Case
from tests.passes.batching.images import FlatCase
from tests.passes.batching.many_batches import batches_compared
from tests.passes.batching.proofs import proven_cases
from tests.passes.batching.ragged import RaggedCase

CASES = [
    *proven_cases(["prove"], (Case,)),
    *proven_cases(["prove_ragged"], (RaggedCase,)),
    *proven_cases(["prove_flat"], (FlatCase,)),
]
"""Some are proven by two tests."""


@pytest.mark.full
@pytest.mark.parametrize("case", {id(case): case for case in CASES}.values(), ids=str)
def test_a_rule_is_right_for_many_batches(case: Case | RaggedCase | FlatCase) -> None:
    if not batches_compared(case):
        pytest.skip("its tests draw no batch that the body takes")
