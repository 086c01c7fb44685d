"""Sequence inputs and outputs as tensors: which form, and what stays a sequence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from passes.promises import Promises
from passes.tensors.finish import FinishTensorIoPass
from passes.tensors.inputs import TensorInputsPass
from passes.tensors.io import TENSOR_IO_KEY, PassedSequence, TensorIo
from passes.tensors.outputs import TensorOutputsPass
from rewriter.model_files.checking import check

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'


def parse(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model(f"{HEADER} {text}"))


def described(values: Iterable[ir.Value]) -> list[str]:
    return [f"{v.name}: {_dims(v)}" for v in values]


def _dims(value: ir.Value) -> str:
    kind = "seq" if isinstance(value.type, ir.SequenceType) else str(value.dtype).lower()
    dims = "..." if value.shape is None else ",".join(_dim(d) for d in value.shape)
    return f"{kind}[{dims}]"


def _dim(dim: int | ir.SymbolicDim) -> str:
    return str(dim) if isinstance(dim, int) else dim.value or "?"


def element_input(type_: str) -> ir.Model:
    return parse(f"g (seq({type_}) xs) => (int64 n) {{ n = SequenceLength (xs) }}")


@dataclasses.dataclass(frozen=True)
class Input:
    type: str
    promises: Promises
    inputs: list[str]
    assumed: bool = False


UNIFORM = Promises(uniform=frozenset({"xs"}))
NONE = Promises()
INPUTS = {
    "promised": Input("float[N,8]", UNIFORM, ["xs: float[xs_length,N,8]"]),
    "promised, unknown rank": Input("float[]", UNIFORM, ["xs: float[...]"]),
    "promised scalars": Input("float", UNIFORM, ["xs: float[xs_length]"]),
    "promised shape": Input(
        "float[N,M]", Promises(input_shapes={"xs": (3, 4)}), ["xs: float[xs_length,3,4]"]
    ),
    "promised shape, unknown rank": Input(
        "float[]", Promises(input_shapes={"xs": (3,)}), ["xs: float[xs_length,3]"]
    ),
    "trusted types": Input("float[2,3]", Promises(trust_types=True), ["xs: float[xs_length,2,3]"]),
    "declared numbers": Input("float[2,3]", NONE, ["xs: float[xs_length,2,3]"], assumed=True),
    "scalars": Input("int64", NONE, ["xs: int64[xs_length]"]),
    "ragged": Input("float[N]", NONE, ["xs: float[xs_rows]", "xs.lengths: int64[xs_length]"]),
    "ragged, declared rest": Input(
        "uint8[N,3]",
        NONE,
        ["xs: uint8[xs_rows,3]", "xs.lengths: int64[xs_length]"],
        assumed=True,
    ),
    "ragged, promised rest": Input(
        "float[N,M]",
        Promises(input_shapes={"xs": (None, 4)}),
        ["xs: float[xs_rows,4]", "xs.lengths: int64[xs_length]"],
    ),
    "ragged, whatever is declared": Input(
        "float[3,4]",
        Promises(input_shapes={"xs": (None, 4)}),
        ["xs: float[xs_rows,4]", "xs.lengths: int64[xs_length]"],
    ),
    "declared and trusted": Input(
        "float[3,4]",
        Promises(input_shapes={"xs": (None, 4)}, trust_types=True),
        ["xs: float[xs_length,3,4]"],
    ),
    "two ragged axes": Input(
        "float[H,W,3]",
        Promises(),
        ["xs: float[xs_rows,3]", "xs.sizes: int64[xs_length,2]"],
        assumed=True,
    ),
    "ragged along the second": Input(
        "float[2,N]",
        Promises(),
        ["xs: float[xs_rows]", "xs.sizes: int64[xs_length,1]"],
        assumed=True,
    ),
    "one symbol twice": Input("float[N,N]", UNIFORM, ["xs: float[xs_length,?,?]"]),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", INPUTS.values(), ids=INPUTS)
def test_input(case: Input) -> None:
    model = element_input(case.type)
    one = TensorInputsPass(case.promises)
    assert one(model).modified
    assert described(model.graph.inputs) == case.inputs
    assert bool(one.io.assumptions) is case.assumed
    assert not one.refused
    assert TensorIo.read(model).inputs == one.io.inputs
    check(model)
    again = TensorInputsPass(case.promises)
    assert not again(model).modified
    assert described(model.graph.inputs) == case.inputs


REFUSED = {
    "unknown rank": ("seq(float[]) xs", "unknown rank", "--input-shape"),
    "optional": ("optional(seq(float[2])) xs", "may be absent", "plain sequence"),
}


@pytest.mark.parametrize(("declared", "reason", "remedy"), REFUSED.values(), ids=REFUSED)
def test_refused_input(declared: str, reason: str, remedy: str) -> None:
    model = parse(
        f"g ({declared}) => (float[2] y) {{ y = Constant <value_floats=[1.0, 2.0]> () }}"
    )
    one = TensorInputsPass()
    assert not one(model).modified
    (refusal,) = one.refused
    assert (refusal.side, refusal.name) == ("input", "xs")
    assert reason in refusal.reason
    assert remedy in refusal.remedy
    assert TENSOR_IO_KEY not in model.metadata_props


@pytest.mark.parametrize(
    ("element", "reason"),
    [
        ("float[H,W,3]", "may differ along axes 0 and 1"),
        ("float[2,N]", "axis 1, which is not the first"),
    ],
)
def test_flat_samples_need_a_newer_reshape(element: str, reason: str) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13]> g (seq({element}) xs) => (int64 n) '
        "{ n = SequenceLength (xs) }"
    )
    one = TensorInputsPass()
    assert not one(ir.from_proto(model)).modified
    (refusal,) = one.refused
    assert reason in refusal.reason
    assert "convert the model to opset 14" in refusal.remedy


def test_other_inputs_keep_their_places_and_names_stay_unique() -> None:
    model = parse("""g (float[2] a, seq(float[N]) xs, int64[1] "xs.lengths", float[K] xs_rows)
        => (int64 n) { n = SequenceLength (xs) }""")
    TensorInputsPass()(model)
    names = [value.name for value in model.graph.inputs]
    assert names == ["a", "xs", "xs.lengths", "xs_rows", "xs.lengths_1"]


def test_a_symbol_that_two_inputs_share_is_dropped() -> None:
    """A shared symbol of two sequences proves nothing; of two tensors it would."""
    model = parse("""g (seq(float[N]) xs, seq(float[N]) ys) => (int64 n) {
        n = SequenceLength (xs) }""")
    TensorInputsPass(Promises(uniform=frozenset({"xs", "ys"})))(model)
    assert described(model.graph.inputs) == ["xs: float[xs_length,?]", "ys: float[ys_length,?]"]


def test_an_input_that_is_an_output() -> None:
    model = parse("g (seq(float[N]) xs) => (int64 n) { n = SequenceLength (xs) }")
    model.graph.outputs.append(model.graph.inputs[0])
    one = TensorInputsPass()
    one(model)
    assert [v.name for v in model.graph.outputs] == ["n", "xs", "xs.lengths"]
    assert model.graph.outputs[1] is model.graph.inputs[0]
    assert one.io.outputs == one.io.inputs
    assert not TensorOutputsPass()(model).modified


MAP = """[map] ys = SequenceMap (xs) <body = b (float[N,8] x) => ({out} y) {{ {body} }}>"""
OUTPUTS = {
    "stacked by the map": (
        f"g (float[B,N,8] t) => (seq(float[N,8]) ys) {{ xs = SplitToSequence <keepdims=0> (t) "
        f"{MAP.format(out='float[N,8]', body='y = Relu (x)')} }}",
        ["ys: float[?,?,8]"],
    ),
    "packed by the map": (
        f"g (float[R,8] t, int64[B] l) => (seq(float[N,8]) ys) {{ xs = SplitToSequence (t, l) "
        f"{MAP.format(out='float[N,8]', body='y = Relu (x)')} }}",
        ["ys: float[?,8]", "ys.lengths: int64[?]"],
    ),
    "made equal by the map": (
        f"g (seq(float[N,8]) xs) => (seq(float[8]) ys) {{ "
        f"{MAP.format(out='float[8]', body='a = Constant <value_ints=[0]> () y = ReduceSum <keepdims=0> (x, a)')} }}",
        ["ys: float[?,8]"],
    ),
    "rows of a tensor": (
        "g (float[B,3] t) => (seq(float[3]) ys) { ys = SplitToSequence <keepdims=0> (t) }",
        ["ys: float[?,3]"],
    ),
    "rows with their axis": (
        "g (float[B,3] t) => (seq(float[1,3]) ys) { ys = SplitToSequence (t) }",
        ["ys: float[?,1,3]"],
    ),
    "slices of given sizes": (
        "g (float[R,3] t, int64[B] l) => (seq(float[N,3]) ys) { ys = SplitToSequence (t, l) }",
        ["ys: float[?,3]", "ys.lengths: int64[?]"],
    ),
    "slices of one size, the last may be shorter": (
        """g (float[R,3] t) => (seq(float[N,3]) ys) { two = Constant <value_int=2> ()
            ys = SplitToSequence (t, two) }""",
        ["ys: float[?,3]", "ys.lengths: int64[?]"],
    ),
    "constructed of equal shapes": (
        "g (float[2,3] a, float[2,3] b) => (seq(float[N,3]) ys) { ys = SequenceConstruct (a, b) }",
        ["ys: float[?,2,3]"],
    ),
    "constructed of unequal shapes": (
        "g (float[2,3] a, float[K,3] b) => (seq(float[N,3]) ys) { ys = SequenceConstruct (a, b) }",
        ["ys: float[?,3]", "ys.lengths: int64[?]"],
    ),
    "branches that split or are empty": (
        """g (float[B,3] t, bool c) => (seq(float[3]) ys) { ys = If (c) <
            then_branch = a () => (seq(float[3]) p) { p = SplitToSequence <keepdims=0> (t) },
            else_branch = b () => (seq(float[3]) q) { q = SequenceEmpty () }> }""",
        ["ys: float[...]"],
    ),
    "branches that split by sizes or are empty": (
        """g (float[R,3] t, int64[B] l, bool c) => (seq(float[N,3]) ys) { ys = If (c) <
            then_branch = a () => (seq(float[N,3]) p) { p = SplitToSequence (t, l) },
            else_branch = b () => (seq(float[N,3]) q) { q = SequenceEmpty () }> }""",
        ["ys: float[...]", "ys.lengths: int64[...]"],
    ),
    "branches that say nothing of elements": (
        """g (float[B,3] t, bool c) => (seq(float[]) ys) { ys = If (c) <
            then_branch = a () => (seq(float[]) p) { p = SplitToSequence <keepdims=0> (t) },
            else_branch = b () => (seq(float[]) q) { q = SequenceEmpty () }> }""",
        ["ys: float[...]"],
    ),
    "branches that say nothing of slices": (
        """g (float[R,3] t, int64[B] l, bool c) => (seq(float[]) ys) { ys = If (c) <
            then_branch = a () => (seq(float[]) p) { p = SequenceEmpty () },
            else_branch = b () => (seq(float[]) q) { q = SplitToSequence (t, l) }> }""",
        ["ys: float[...]", "ys.lengths: int64[...]"],
    ),
}


@pytest.mark.parametrize(("text", "outputs"), OUTPUTS.values(), ids=OUTPUTS)
def test_output(text: str, outputs: list[str]) -> None:
    model = parse(text)
    one = TensorOutputsPass()
    assert one(model).modified
    assert not one.refused
    shown = [entry.split(": ")[0] for entry in outputs]
    assert [value.name for value in model.graph.outputs] == shown
    forms = [(kind := entry.split(": ")[1])[: kind.index("[")] for entry in outputs]
    assert [str(value.dtype).lower() for value in model.graph.outputs] == forms
    if "..." not in outputs[0]:
        assert described(model.graph.outputs) == outputs
    assert TensorIo.read(model).outputs == one.io.outputs
    unread = [node for node in model.graph if not any(v.uses() for v in node.outputs)]
    assert not {"SplitToSequence", "SequenceConstruct"} & {node.op_type for node in unread}
    FinishTensorIoPass()(model)
    check(model)
    again = TensorOutputsPass()
    assert not again(model).modified


@pytest.mark.parametrize("lengths", [[], [2, 0, 1]])
def test_outputs_of_no_elements(lengths: list[int]) -> None:
    """What is concatenated has its element type and rank where there is nothing, too."""
    model = parse(OUTPUTS["packed by the map"][0])
    TensorOutputsPass()(model)
    assert "ConcatFromSequence" in {node.op_type for node in model.graph}
    FinishTensorIoPass()(model)
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    feeds = {"t": np.ones((sum(lengths), 8), np.float32), "l": np.array(lengths, np.int64)}
    rows, counted = session.run(None, feeds)
    assert (rows.dtype, rows.shape) == (np.float32, (sum(lengths), 8))
    assert (counted.dtype, counted.shape) == (np.int64, (len(lengths),))
    assert counted.tolist() == lengths


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "g (seq(float[H,W]) xs) => (seq(float[H,W]) ys) { ys = Identity (xs) }",
            "may differ along axes 0 and 1",
        ),
        (
            "g (float[2] a, float[2,2] b) => (seq(float[]) ys) { ys = SequenceConstruct (a, b) }",
            "unknown rank",
        ),
        (
            "g (float[2,N] a, float[2,M] b) => (seq(float[2,K]) ys) { ys = SequenceConstruct (a, b) }",
            "may differ along axis 1",
        ),
    ],
)
def test_refused_output(text: str, reason: str) -> None:
    model = parse(text)
    one = TensorOutputsPass()
    assert not one(model).modified
    assert reason in one.refused[0].reason
    assert not TensorOutputsPass(is_first=True)(parse(text)).modified


def test_the_record_in_the_metadata() -> None:
    io = TensorIo(
        {"a": PassedSequence("stacked", None), "b": PassedSequence("packed", (None, 3), "b.n")},
        {"c": PassedSequence("stacked", ("N", 2))},
    )
    model = parse("g (float[1] x) => (float[1] y) { y = Relu (x) }")
    assert not TensorIo.read(model)
    io.write(model)
    assert TensorIo.read(model) == io


@pytest.mark.parametrize(
    ("first", "second", "inputs", "assumed"),
    [
        ("float[N,M]", "float[N,M]", ["xs: float[xs_length,?,?]"], True),
        ("float[N,M]", "float[7]", ["xs: float[...]"], False),
        ("float[]", "float[]", ["xs: float[...]"], False),
        ("float", "float", ["xs: float[xs_length]"], True),
    ],
)
def test_bodies_tell_a_rank_that_a_sequence_does_not(
    first: str, second: str, inputs: list[str], assumed: bool
) -> None:
    maps = [
        f"{y} = SequenceMap (xs) <body = b{y} ({t} {y}e) => ({t} {y}o) {{ {y}o = Neg ({y}e) }}>"
        for y, t in (("y", first), ("z", second))
    ]
    model = parse(
        f"g (seq(float[]) xs) => (seq({first}) y, seq({second}) z) {{ {' '.join(maps)} }}"
    )
    one = TensorInputsPass(UNIFORM)
    one(model)
    assert described(model.graph.inputs) == inputs
    assert bool(one.io.assumptions) is assumed
