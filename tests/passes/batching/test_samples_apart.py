"""Samples stay apart: an index out of range in one sample never reads or writes another."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import pytest

from passes.batching import rules, table
from passes.batching.packed import rules as packed_rules
from tests.passes.batching.apart import Misplaced, prove_apart
from tests.passes.batching.apart_cuts import CUTS
from tests.passes.batching.apart_places import PLACES

assert rules
assert packed_rules

CASES = [*PLACES, *CUTS]
ROWS = [row for row in table.rows() if isinstance(row, table.Row) and row.domain == ""]
INTEGERS = {"bool", *(f"{u}int{n}" for u in ("", "u") for n in (2, 4, 8, 16, 32, 64))}
OF_OTHER_TYPES = {("OneHot", "indices"), ("MaxRoiPool", "rois")}
"""Operands that tell places and need not be integers."""

NO_PLACES = {
    "it is a number to compute with": "And.A And.B Or.A Or.B Xor.A Xor.B Not.X BitShift.X "
    "BitShift.Y BitwiseAnd.A BitwiseAnd.B BitwiseNot.X BitwiseOr.A BitwiseOr.B BitwiseXor.A "
    "BitwiseXor.B ConvInteger.x ConvInteger.w ConvInteger.x_zero_point ConvInteger.w_zero_point "
    "MatMulInteger.A MatMulInteger.B MatMulInteger.a_zero_point MatMulInteger.b_zero_point "
    "QLinearConv.x QLinearConv.x_zero_point QLinearConv.w QLinearConv.w_zero_point "
    "QLinearConv.y_zero_point QLinearConv.B",
    "it says what runs, or how often": "If.cond Loop.M Loop.cond Where.condition "
    "Dropout.training_mode",
    "it is the size of a result, the same for all samples": "CenterCropPad.shape "
    "Col2Im.image_shape Col2Im.block_shape DFT.dft_length Expand.shape Reshape.shape Resize.sizes "
    "STFT.frame_step STFT.frame_length Tile.repeats Pad.pads MaxUnpool.output_shape "
    "NonMaxSuppression.max_output_boxes_per_class ConstantOfShape.input",
    "it is the same for all samples": "Slice.steps",
    "its rule is that of ScatterElements": "Scatter.indices",
}
ONLY_STACKED = "LSTM.sequence_lens GRU.sequence_lens RNN.sequence_lens"
"""Operands beside which packed samples stay per-sample."""


def operands() -> Iterator[tuple[str, str]]:
    """Yield each operand of an operator with a rule that is of integers, or tells places."""
    for op_type in sorted({row.op_type for row in ROWS}):
        schema = onnx.defs.get_schema(op_type)
        types = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        for operand in schema.inputs:
            allowed = types.get(operand.type_str, [operand.type_str])
            names = {t.removeprefix("tensor(").removesuffix(")") for t in allowed}
            if names <= INTEGERS or (op_type, operand.name) in OF_OTHER_TYPES:
                yield op_type, operand.name


def listed(names: str) -> set[tuple[str, str]]:
    return {(op_type, name) for op_type, _, name in (n.partition(".") for n in names.split())}


def test_every_operand_that_tells_places_has_a_case() -> None:
    without = set().union(*(listed(names) for names in NO_PLACES.values()))
    assert without <= {*operands()}
    assert {(c.op_type, c.name) for c in CASES} <= {*operands()} - without
    assert {*operands()} - without <= {(c.op_type, c.name) for c in CASES}


def test_every_such_operand_of_packed_samples_has_a_case() -> None:
    packed = {row.op_type for row in ROWS if table.has_packed_rule(row)}
    ragged = {
        (c.op_type, c.name)
        for c in CASES
        if any(x.kind == "ragged" for x in c.case.operands.values())
    }
    wanted = {(c.op_type, c.name) for c in CASES if c.op_type in packed}
    assert wanted - listed(ONLY_STACKED) == ragged


@pytest.mark.parametrize(
    "engine", ["onnxruntime", pytest.param("evaluator", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("one", CASES, ids=str)
def test_an_index_out_of_range_reaches_no_other_sample(one: Misplaced, engine: str) -> None:
    if not prove_apart(one, engine):
        pytest.skip("it has no such operator")
