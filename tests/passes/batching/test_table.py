"""The table is whole: every operator stands in it, and every rule in it is proven by a case."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import pytest

from passes.batching import rule_choice, rules, table
from passes.batching.packed import rules as packed_rules
from passes.typing.shape_functions import has_shape_function
from tests.passes.batching.proofs import proven_operators

assert rules and packed_rules and rule_choice  # they fill the table

NEWEST = onnx.defs.onnx_opset_version()
DEFINED = {s.name: s for s in onnx.defs.get_all_schemas() if s.domain == ""}
ROWS = [row for row in table.rows() if row.domain == ""]
PROVERS = {"prove", "prove_directly", "prove_ragged"}


def test_every_operator_stands_in_the_table() -> None:
    assert {row.op_type for row in ROWS} == set(DEFINED)


def test_it_is_a_rule_or_never_or_opened() -> None:
    """One that is gone from the newest opset may have an end; the others must not."""
    for op_type in DEFINED:
        assert_it_is_one_of_them(op_type)


def assert_it_is_one_of_them(op_type: str) -> None:
    found = [row for row in ROWS if row.op_type == op_type]
    kinds = {type(row) for row in found}
    assert len(kinds) == 1
    schema = DEFINED[op_type]
    newest = schema.since_version - 1 if schema.deprecated else NEWEST
    if kinds == {table.Row}:
        assert sum(table.holds_at(row, newest) for row in found if isinstance(row, table.Row)) == 1
    elif kinds == {table.Unsupported}:
        assert [row.reason for row in found if isinstance(row, table.Unsupported)] != [""]
    else:
        assert schema.has_function or schema.has_context_dependent_function


LATER = {
    "stacked": {
        2: "Pad Split",
        4: "Concat",
        5: "Reshape",
        6: "Clip InstanceNormalization Tile",
        7: "Dropout Gemm PRelu",
        9: "BatchNormalization Flatten Scan",
        10: "TfIdfVectorizer TopK",
        11: "If NonMaxSuppression NonZero Resize",
        13: "Loop",
        16: "Unique",
    },
    "packed": {
        7: "Dropout Gemm PRelu",
        9: "BatchNormalization",
        10: "Slice TopK",
        11: "Clip Compress NonMaxSuppression NonZero Pad",
        12: "GatherND ScatterND",
        13: "Hardmax LogSoftmax Softmax",
        14: "CumProd CumSum",
        16: "If Loop NegativeLogLikelihoodLoss Scan SoftmaxCrossEntropyLoss Unique",
    },
    "flat": {
        5: "Reshape",
        6: "Tile",
        7: "Dropout",
        10: "Slice",
        11: "AveragePool Clip LpPool MaxPool Pad Resize",
        12: "GatherND ScatterND",
        13: "Hardmax LogSoftmax Softmax Split",
        15: "BatchNormalization",
        16: "If NonZero Unique",
    },
}
"""Rules that begin later than their operators: those came to mean, or to take, something else, or
the rule needs another operator."""


@pytest.mark.parametrize("layout", LATER)
def test_a_rule_begins_when_its_operator_does_or_is_known_to_begin_later(layout: str) -> None:
    stacked = [row for row in ROWS if isinstance(row, table.Row)]
    rows: Sequence[table.Row | table.RaggedRow] = {
        "stacked": stacked,
        "packed": [row for row in table._packed.values() if not row.domain],
        "flat": [row for row in table._flat.values() if not row.domain],
    }[layout]
    first: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            first[schema.name] = min(schema.since_version, first.get(schema.name, NEWEST))
    found: dict[int, set[str]] = {}
    for row in rows:
        if row.since not in (1, first[row.op_type]):
            found.setdefault(row.since, set()).add(row.op_type)
    assert found == {since: set(names.split()) for since, names in LATER[layout].items()}
    assert {r.op_type: r.until for r in stacked if r.until is not None} == {"Scatter": 10}


def test_what_stands_there_of_other_domains_is_defined() -> None:
    """By ONNX, or by a shape function here: ONNX knows no operator that a runtime contributes."""
    others = [row for row in table.rows() if row.domain != ""]
    unknown = [row for row in others if not onnx.defs.has(row.op_type, row.domain)]
    assert {row.domain for row in unknown} == {"com.microsoft"}
    assert all(
        has_shape_function(onnx.NodeProto(op_type=row.op_type, domain=row.domain))
        for row in unknown
    )


def test_rows_of_one_operator_do_not_overlap() -> None:
    for opset in range(1, NEWEST + 1):
        held = [r.op_type for r in ROWS if isinstance(r, table.Row) and table.holds_at(r, opset)]
        assert len(held) == len(set(held))


def test_every_rule_is_proven_by_a_case() -> None:
    """An operator without operands is the same for all samples, and its rule never runs."""
    proven = proven_operators(PROVERS, ("mapped", "ragged"))
    wanted = [r for r in ROWS if isinstance(r, table.Row) and DEFINED[r.op_type].max_input > 0]
    missing = [
        f"{row.op_type} from {row.since}"
        for row in wanted
        if not any(row.op_type == name and table.holds_at(row, opset) for name, opset in proven)
    ]
    assert missing == []
