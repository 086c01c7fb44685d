"""Sequences of which enough is known become tensors, and nothing else changes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from passes.eliminate import EliminateSequencesPass
from passes.graph.graphs import all_nodes
from rewriter.backends import BackendError, open_session
from rewriter.model_files.model_facts import count_operators
from rewriter.proof.compare import compare
from tests.passes.invariants import apply
from tests.passes.sequence_chains import Chain

Feeds = Mapping[str, Any]


def text(
    body: str, inputs: str = "float[N,M] x", outputs: str = "float[] y", opset: int = 18
) -> str:
    return f'<ir_version: 8, opset_import: ["" : {opset}]>\nmain ({inputs}) => ({outputs}) {{\n{body}\n}}'


def eliminate(
    before: onnx.ModelProto, *, required: bool = False, keeps_cuts: bool = False
) -> onnx.ModelProto:
    """Run the pass, and check what holds of every model that it gives."""
    make = functools.partial(EliminateSequencesPass, required=required, keeps_cuts=keeps_cuts)
    return apply(before, make, valid=is_valid(before)).model


def is_valid(model: onnx.ModelProto) -> bool:
    """Whether the checker finds nothing wrong with a model, its shapes included."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def sequences(model: onnx.ModelProto) -> int:
    """Count the operators on sequences."""
    return count_operators(ir.from_proto(model)).sequences


def run(model: onnx.ModelProto, feeds: Feeds, backend: str) -> dict[str, Any] | None:
    """Run a model; None stands for an error."""
    try:
        return open_session(model, backend).run(feeds)
    except BackendError:
        return None


def prove(
    before: onnx.ModelProto,
    feeds: Feeds,
    *,
    after: onnx.ModelProto | None = None,
    defined: bool = True,
    ort: bool = True,
) -> onnx.ModelProto:
    """Assert that a model computes the same without its sequences, on both backends.

    Args:
        before: The model.
        feeds: Its inputs.
        after: The model after the pass, if it was run before.
        defined: Whether the model is expected to yield a result.
        ort: Whether onnxruntime is asked too.
    """
    after = eliminate(before) if after is None else after
    expected = run(before, feeds, "reference")
    assert (expected is not None) == defined
    if expected is None:
        return after
    for backend in ("reference", "onnxruntime") if ort else ("reference",):
        actual = run(after, feeds, backend)
        assert actual is not None, f"{backend}: an error after the pass"
        difference = compare(expected, actual)
        assert difference.equal, f"{backend}: {difference.message}"
    return after


def ranked(before: onnx.ModelProto, feeds: Feeds) -> tuple[onnx.ModelProto, bool]:
    """Declare the rank that each output turns out to have, and say whether there is one."""
    stacks = any(a.name == "new_axis" for node in before.graph.node for a in node.attribute)
    expected = run(before, feeds, "reference")
    for value in before.graph.output:
        rank = 2 + stacks if expected is None else np.ndim(expected[value.name])
        shape = value.type.tensor_type.shape
        shape.Clear()
        for i in range(rank):
            shape.dim.add().dim_param = f"{value.name}_{i}"
        value.type.tensor_type.shape.CopyFrom(shape)
    return before, expected is not None


def matrix(rows: int, columns: int, dtype: Any = np.float32) -> Any:
    numbers = np.arange(rows * columns).reshape(rows, columns)
    return numbers.astype(str).astype(object) if dtype is object else numbers.astype(dtype)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows_beside_another_element(rows: int) -> None:
    body = (
        "s = SplitToSequence (x) t = SequenceInsert (s, z) y = ConcatFromSequence <axis = 0> (t)"
    )
    before = onnx.parser.parse_model(
        text(body, f"float[{rows},3] x, float[2,3] z", "float[P,Q] y")
    )
    after = prove(before, {"x": matrix(rows, 3), "z": matrix(2, 3) + 50})
    assert sequences(after) == 0


@pytest.mark.parametrize(("rows", "left"), [(64, False), (65, True)])
def test_elements_that_are_listed_one_by_one_are_few(rows: int, left: bool) -> None:
    """A tensor of more than 64 rows is not cut into them to pick the one that a run names."""
    body = """s = SplitToSequence <keepdims = 0> (x) t = SequenceInsert (s, z)
        y = SequenceAt (t, k)"""
    before = onnx.parser.parse_model(
        text(body, f"float[{rows},3] x, float[3] z, int64 k", "float[P] y")
    )
    after = eliminate(before)
    assert (sequences(after) > 0) == left
    for position in (0, rows - 1, rows, -1):
        feeds = {"x": matrix(rows, 3), "z": matrix(1, 3)[0] + 50, "k": np.array(position)}
        prove(before, feeds, after=after)


@pytest.mark.parametrize("position", [-3, -1, 0, 2])
def test_one_of_three_slices_of_computed_sizes(position: int) -> None:
    body = f"""s = SplitToSequence (x, n) k = Constant <value_int = {position}> ()
        y = SequenceAt (s, k)"""
    before = onnx.parser.parse_model(text(body, "float[N,3] x, int64[3] n", "float[P,3] y"))
    after = prove(before, {"x": matrix(6, 3), "n": np.array([1, 3, 2])})
    assert sequences(after) == 0


@pytest.mark.parametrize("attributes", ["", ", keepdims = 0"])
def test_what_is_cut_and_joined_again_is_the_tensor_itself(attributes: str) -> None:
    """Its rank need not be known."""
    read = ", new_axis = 1" if attributes else ""
    body = f"s = SplitToSequence <axis = 0{attributes}> (x) y = ConcatFromSequence <axis = 0{read}> (s)"
    after = prove(onnx.parser.parse_model(text(body, "float[] x")), {"x": matrix(2, 3)})
    assert [node.op_type for node in after.graph.node] == ["Identity"]


def test_one_part_without_a_row_is_that_part() -> None:
    body = """k = Constant <value = int64[1] {0}> () s = SplitToSequence (x, k)
        y = ConcatFromSequence <axis = 0> (s)"""
    before = onnx.parser.parse_model(text(body, "float[0,3] x", "float[P,Q] y"))
    assert sequences(prove(before, {"x": matrix(0, 3)})) == 0


CUTS = {
    "rows": ("", ""),
    "rows without keepdims": ("", ", keepdims = 0"),
    "chunks": ("n = Constant <value_int = 2> ()", ""),
    "lengths": ("n = Constant <value_ints = [2, 0, 2]> ()", ""),
    "lengths of a computed constant": (
        "a = Constant <value_ints = [1]> () b = Constant <value_ints = [3]> () "
        "n = Concat <axis = 0> (a, b)",
        "",
    ),
}
READS = {
    "at 1": "k = Constant <value_int = 1> () y = SequenceAt (s, k)",
    "at -1": "k = Constant <value_int = -1> () y = SequenceAt (s, k)",
    "at -4": "k = Constant <value_int = -4> () y = SequenceAt (s, k)",
    "length": "y = SequenceLength (s)",
    "concat 0": "y = ConcatFromSequence <axis = 0> (s)",
    "concat 1": "y = ConcatFromSequence <axis = 1> (s)",
    "concat -1": "y = ConcatFromSequence <axis = -1> (s)",
    "stack 0": "y = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
    "stack 1": "y = ConcatFromSequence <axis = 1, new_axis = 1> (s)",
    "stack -1": "y = ConcatFromSequence <axis = -1, new_axis = 1> (s)",
}


def cut_and_read(cut: str, axis: int, read: str, dims: str) -> onnx.ModelProto:
    setup, attributes = CUTS[cut]
    inputs = "x, n" if setup else "x"
    body = f"{setup} s = SplitToSequence <axis = {axis}{attributes}> ({inputs}) {READS[read]}"
    output = "int64 y" if read == "length" else "float[] y"
    return onnx.parser.parse_model(text(body, f"float[{dims}] x", output))


@pytest.mark.parametrize("dims", ["4,4", "N,M"])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("cut", CUTS)
def test_a_tensor_that_is_cut_is_read(cut: str, axis: int, read: str, dims: str) -> None:
    before = cut_and_read(cut, axis, read, dims)
    feeds = {"x": matrix(4, 4)}
    before, defined = ranked(before, feeds)
    after = prove(before, feeds, defined=defined)
    if not defined:
        assert sequences(after) or run(after, feeds, "onnxruntime") is None
    elif (
        dims == "4,4"
        or ("concat" in read and cut == "rows")
        or ("stack" in read and "without" in cut)
    ):
        assert sequences(after) == 0


@pytest.mark.parametrize("shape", ["", "[1]"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_position_that_is_fed(keepdims: int, shape: str) -> None:
    before = onnx.parser.parse_model(
        text(
            f"s = SplitToSequence <keepdims = {keepdims}> (x) y = SequenceAt (s, k)",
            f"float[N,M] x, int64{shape} k",
            "float[A,M] y" if keepdims else "float[M] y",
        )
    )
    position = np.array([2] if shape else 2)
    after = prove(before, {"x": matrix(4, 3), "k": position})
    assert sequences(after) == 0


def test_sizes_that_do_not_fit_are_still_an_error() -> None:
    for read in ("at 1", "concat 0", "concat 1"):
        before, _ = ranked(cut_and_read("lengths", 0, read, "N,4"), {"x": matrix(4, 4)})
        after = eliminate(before)
        # The Split of onnx.reference takes sizes that do not add up.
        assert run(after, {"x": matrix(5, 4)}, "onnxruntime") is None, read


# name: nodes; inputs beside `x`; whether no sequence is left
COMPUTED: dict[str, tuple[str, dict[str, Any], bool]] = {
    "row": (
        "s = SplitToSequence (x) y = SequenceAt (s, k)",
        {"k": np.array(-1, np.int64)},
        True,
    ),
    "row by int32": (
        "s = SplitToSequence <keepdims = 0> (x) y = SequenceAt (s, k)",
        {"k": np.array(2, np.int32)},
        True,
    ),
    "row by a position of rank 1": (
        "s = SplitToSequence <keepdims = 0> (x) y = SequenceAt (s, k)",
        {"k": np.array([2], np.int64)},
        True,
    ),
    "chunk": (
        "s = SplitToSequence <axis = 1> (x, n) y = SequenceAt (s, k)",
        {"n": np.array(3, np.int64), "k": np.array(1, np.int64)},
        True,
    ),
    "last chunk": (
        "s = SplitToSequence <axis = -1> (x, n) y = SequenceAt (s, k)",
        {"n": np.array(3, np.int32), "k": np.array(-1, np.int32)},
        True,
    ),
    "number of chunks": (
        "s = SplitToSequence <axis = 1> (x, n) y = SequenceLength (s)",
        {"n": np.array(3, np.int64)},
        True,
    ),
    "all chunks": (
        "s = SplitToSequence <axis = 1> (x, n) y = ConcatFromSequence <axis = 1> (s)",
        {"n": np.array(3, np.int64)},
        True,
    ),
    "piece of given length": (
        "s = SplitToSequence <axis = 0> (x, n) y = SequenceAt (s, k)",
        {"n": np.array([1, 0, 3], np.int64), "k": np.array(2, np.int64)},
        True,
    ),
    "number of lengths": (
        "s = SplitToSequence <axis = 0> (x, n) y = SequenceLength (s)",
        {"n": np.array([1, 0, 3], np.int64)},
        True,
    ),
    "all pieces": (
        "s = SplitToSequence <axis = -2> (x, n) y = ConcatFromSequence <axis = 0> (s)",
        {"n": np.array([1, 0, 3], np.int64)},
        True,
    ),
    "pieces of computed lengths beside each other": (
        "s = SplitToSequence <axis = 0> (x, n) y = ConcatFromSequence <axis = 1> (s)",
        {"n": np.array([2, 2], np.int64)},
        True,
    ),
    "one of some tensors": (
        "s = SequenceConstruct (x, z, x) y = SequenceAt (s, k)",
        {"z": matrix(4, 5) + 100, "k": np.array(-2, np.int64)},
        True,
    ),
    "one of tensors of unknown shape": (
        "u = Relu (x) m = Not (b) c = Compress <axis = 0> (x, b) "
        "s = SequenceConstruct (x, c) y = SequenceAt (s, k)",
        {"b": np.array([True, False, True, True]), "k": np.array(1, np.int64)},
        False,
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("is_static", [True, False])
@pytest.mark.parametrize("case", COMPUTED)
def test_sizes_and_positions_may_be_computed(case: str, *, is_static: bool) -> None:
    nodes, others, is_free = COMPUTED[case]
    feeds = {"x": matrix(4, 5), **others}
    kinds = {"f": "float", "i": "int64", "b": "bool"}
    declared = []
    for name, value in feeds.items():
        kind = "int32" if value.dtype == np.int32 else kinds[value.dtype.kind]
        is_known = is_static or name in ("n", "k")
        dims = [str(d) if is_known else f"{name}{i}" for i, d in enumerate(value.shape)]
        declared.append(f"{kind}{[*dims] if dims else ''} {name}".replace("'", ""))
    output = "int64 y" if "SequenceLength" in nodes else "float[] y"
    before, _ = ranked(onnx.parser.parse_model(text(nodes, ", ".join(declared), output)), feeds)
    after = prove(before, feeds)
    if is_free and (is_static or case != "one of some tensors"):
        assert sequences(after) == 0
    for wrong in (7, -9):
        if "k" in feeds:
            bad = {**feeds, "k": np.full_like(feeds["k"], wrong)}
            assert run(after, bad, "onnxruntime") is None
            assert run(after, bad, "reference") is None


# name: inputs, outputs, nodes, feeds; no sequence is left of any
CHAINS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "elements put in, in front and at the end": (
        "float[N,M] x, float[K,M] z",
        "float[P,M] y, int64 n",
        "zero = Constant <value_int = 0> () e = SequenceEmpty () a = SequenceInsert (e, x) "
        "i = Identity (a) b = SequenceInsert (i, z, zero) c = SequenceInsert (b, x) "
        "y = ConcatFromSequence <axis = 0> (c) n = SequenceLength (c)",
        {"x": matrix(2, 3), "z": matrix(1, 3) + 50},
    ),
    "elements taken out of a cut tensor": (
        "float[4,M] x",
        "float[P,M] y, int64 n",
        "one = Constant <value_int = 1> () s = SplitToSequence (x) a = SequenceErase (s, one) "
        "b = SequenceErase (a) y = ConcatFromSequence <axis = 0> (b) n = SequenceLength (b)",
        {"x": matrix(4, 3)},
    ),
    "a tensor put behind a cut tensor": (
        "float[N,4] x, float[1,4] z",
        "float[P,4] y, int64 n, float[A,4] last",
        "k = Constant <value_int = -1> () s = SplitToSequence (x) t = SequenceInsert (s, z) "
        "y = ConcatFromSequence <axis = 0> (t) n = SequenceLength (t) last = SequenceAt (t, k)",
        {"x": matrix(3, 4), "z": matrix(1, 4) + 50},
    ),
    "strings": (
        "string[N,M] x, int64 k",
        "string[M] y, string[M,N] z",
        "s = SplitToSequence <keepdims = 0> (x) y = SequenceAt (s, k) "
        "z = ConcatFromSequence <axis = 1, new_axis = 1> (s)",
        {"x": matrix(3, 4, object), "k": np.array(-1, np.int64)},
    ),
    "read in a branch": (
        "float[N,M] x, bool c",
        "float[M] y",
        "k = Constant <value_int = 1> () s = SplitToSequence <keepdims = 0> (x) "
        "y = If (c) <then_branch = t () => (a) { a = SequenceAt (s, k) }, else_branch = f () => "
        "(b) { l = SequenceLength (s) i = Sub (l, k) b = SequenceAt (s, i) }>",
        {"x": matrix(3, 4), "c": np.array(False)},
    ),
    "read in a loop": (
        "float[N,M] x",
        "float[B,M] y",
        's = SplitToSequence <keepdims = 0> (x) n = SequenceLength (s) y = Loop (n, "") '
        "<body = b (int64 i, bool c) => (bool d, float[M] o) { d = Identity (c) "
        "e = SequenceAt (s, i) o = Neg (e) }>",
        {"x": matrix(3, 4)},
    ),
    "branches that yield as many tensors": (
        "float[N,M] x, float[K,M] z, bool c",
        "float[P,M] y, int64 n",
        "s = If (c) <then_branch = t () => (seq(float[]) a) { a = SequenceConstruct (x, z) }, "
        "else_branch = f () => (seq(float[]) b) { u = Neg (z) b = SequenceConstruct (u, u) }> "
        "y = ConcatFromSequence <axis = 0> (s) n = SequenceLength (s)",
        {"x": matrix(3, 4), "z": matrix(1, 4), "c": np.array(False)},
    ),
    "branches that cut alike, one in the other": (
        "float[N,M] x, float[K,M] z, bool c",
        "float[M] y, float[P,M] w",
        "k = Constant <value_int = 0> () "
        "s = If (c) <then_branch = t () => (seq(float[]) a) { a = If (c) <then_branch = t2 () => "
        "(seq(float[]) a1) { u1 = Neg (x) a1 = SplitToSequence <keepdims = 0> (u1) }, "
        "else_branch = f2 () => (seq(float[]) a2) { a2 = SplitToSequence <keepdims = 0> (z) }> }, "
        "else_branch = f () => (seq(float[]) b) { b = SplitToSequence <keepdims = 0> (z) }> "
        "y = SequenceAt (s, k) w = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
        {"x": matrix(3, 4), "z": matrix(1, 4), "c": np.array(True)},
    ),
    "branches that yield nothing but beginnings": (
        "float[N,M] x, bool c",
        "float[N,M] y",
        "s, v = If (c) <then_branch = t () => (seq(float[]) a, float[N,M] a1) "
        "{ a = SequenceEmpty () a1 = Neg (x) }, else_branch = f () => (seq(float[]) b, "
        "float[N,M] b1) { b = SequenceEmpty () b1 = Identity (x) }> "
        "u = SequenceInsert (s, v) y = ConcatFromSequence <axis = 0> (u)",
        {"x": matrix(3, 4), "c": np.array(True)},
    ),
    "a recurrence that keeps its states": (
        "float[N,M] x, float[M] h0",
        "float[M] h, float[B,M] y, int64 n",
        "e = SequenceEmpty () l = Shape <end = 1> (x) k = Squeeze (l) "
        'h, s = Loop (k, "", h0, e) <body = b (int64 i, bool c, float[M] g, seq(float[]) t) => '
        "(bool d, float[M] g2, seq(float[]) t2) { d = Identity (c) r = Gather <axis = 0> (x, i) "
        "q = Add (g, r) g2 = Tanh (q) t1 = SequenceInsert (t, g2) t2 = Identity (t1) }> "
        "y = ConcatFromSequence <axis = 0, new_axis = 1> (s) "
        "u = Shape <end = 1> (y) n = Squeeze (u)",
        {"x": matrix(3, 4) / 10, "h0": matrix(1, 4)[0]},
    ),
    "a loop that appends to what there is": (
        "float[N,4] x, float[1,4] z",
        "float[P,4] y, int64 n",
        "l = Shape <end = 1> (x) k = Squeeze (l) s = SequenceConstruct (z) zero = Constant "
        '<value_ints = [0]> () t = Loop (k, "", s) <body = b (int64 i, bool c, seq(float[]) u) => '
        "(bool d, seq(float[]) w) { d = Identity (c) r = Gather <axis = 0> (x, i) "
        "q = Unsqueeze (r, zero) w = SequenceInsert (u, q) }> "
        "y = ConcatFromSequence <axis = 0> (t) n = SequenceLength (t)",
        {"x": matrix(3, 4), "z": matrix(1, 4) + 50},
    ),
    "one of the small numbers that a loop appends": (
        "float[N] x, int64 at",
        "uint8 y, int64 n",
        "e = SequenceEmpty <dtype = 2> () l = Shape (x) k = Squeeze (l) "
        's = Loop (k, "", e) <body = b (int64 i, bool c, seq(uint8[]) u) => (bool d, seq(uint8[]) w) '
        "{ d = Identity (c) r = Gather (x, i) f = Cast <to = 2> (r) w = SequenceInsert (u, f) }> "
        "y = SequenceAt (s, at) n = SequenceLength (s)",
        {"x": matrix(1, 4)[0], "at": np.array(2)},
    ),
    "a loop that carries and never changes": (
        "float[N,M] x, float[M] h0",
        "float[M] h, float[N,M] y",
        's = SplitToSequence <keepdims = 0> (x) k = SequenceLength (s) h, t = Loop (k, "", h0, s) '
        "<body = b (int64 i, bool c, float[M] g, seq(float[]) u) => (bool d, float[M] g2, "
        "seq(float[]) w) { d = Identity (c) r = SequenceAt (u, i) g2 = Add (g, r) "
        "w = Identity (u) }> y = ConcatFromSequence <axis = 0, new_axis = 1> (t)",
        {"x": matrix(3, 4), "h0": matrix(1, 4)[0]},
    ),
}


@pytest.mark.parametrize("case", CHAINS)
def test_no_sequence_is_left(case: str) -> None:
    inputs, outputs, nodes, feeds = CHAINS[case]
    before = onnx.parser.parse_model(text(nodes, inputs, outputs))
    onnx.checker.check_model(before, full_check=True)
    assert sequences(prove(before, feeds)) == 0
    if "c" in feeds:
        prove(before, {**feeds, "c": ~feeds["c"]})


@pytest.mark.parametrize("samples", [0, 1, 3])
@pytest.mark.parametrize(
    "case", ["read in a loop", "a recurrence that keeps its states", "strings"]
)
def test_any_number_of_elements(case: str, samples: int) -> None:
    inputs, outputs, nodes, feeds = CHAINS[case]
    before = onnx.parser.parse_model(text(nodes, inputs, outputs))
    feeds = {**feeds, "x": feeds["x"][:samples]}
    prove(before, feeds, defined=samples > 0 or case == "read in a loop")


def test_nothing_from_a_loop_of_unknown_shapes_is_joined_as_rows() -> None:
    before = onnx.parser.parse_model(
        text(
            "l = Shape <end = 1> (x) k = Squeeze (l) e = SequenceEmpty () one = Constant "
            '<value_ints = [1]> () zero = Constant <value_ints = [0]> () s = Loop (k, "", e) '
            "<body = b (int64 i, bool c, seq(float[]) t) => (bool d, seq(float[]) t2) { "
            "d = Identity (c) j = Unsqueeze (i, zero) a = Slice (x, zero, j) "
            "t2 = SequenceInsert (t, a) }> y = ConcatFromSequence <axis = 0> (s)",
            "float[N,M] x",
            "float[P,M] y",
        )
    )
    after = prove(before, {"x": matrix(4, 3)})
    assert sequences(after) == 3


@pytest.mark.parametrize(
    ("axis", "left"), [(0, False), (1, True), (-1, True)], ids=["in front", "behind", "last"]
)
@pytest.mark.parametrize(
    ("declared", "element"),
    [
        ("float[]", "a = Add (x, j)"),
        ("float[M]", "a = Add (x, j)"),
        ("float[M]", "b = Add (x, j) a = Compress (b, f)"),
    ],
    ids=["unknown rank", "one size", "unknown size"],
)
def test_what_a_loop_appends_is_stacked_where_its_axes_are_known(
    declared: str, element: str, axis: int, left: bool
) -> None:
    """Elements of unknown rank have one place for a new axis: in front."""
    before = onnx.parser.parse_model(
        text(
            'e = SequenceEmpty () s = Loop (k, "", e) <body = b (int64 i, bool c, seq(float[]) t) '
            "=> (bool d, seq(float[]) t2) { d = Identity (c) j = Cast <to = 1> (i) "
            f"{element} t2 = SequenceInsert (t, a) }}> "
            f"y = ConcatFromSequence <axis = {axis}, new_axis = 1> (s)",
            f"{declared} x, int64 k, bool[M] f",
        )
    )
    feeds = {"x": matrix(1, 4)[0], "k": np.array(3), "f": np.array([True, False, True, True])}
    assert (sequences(prove(before, feeds)) > 0) == (left and declared == "float[]")


@pytest.mark.parametrize(
    "read",
    [
        "y = SequenceAt (s, one)",
        "n = SequenceLength (s) y = Cast <to = 2> (n)",
        "z = ConcatFromSequence <axis = 0, new_axis = 1> (s) y = Gather (z, one)",
    ],
    ids=["one of them", "their number", "stacked"],
)
def test_bytes_that_a_loop_appends(read: str) -> None:
    """onnxruntime cuts no bytes, so that no sequence may have to be made of them again."""
    before = onnx.parser.parse_model(
        text(
            "one = Constant <value = int64 {1}> () e = SequenceEmpty <dtype = 2> () "
            's = Loop (k, "", e) <body = b (int64 i, bool c, seq(uint8[]) t) '
            "=> (bool d, seq(uint8[]) t2) { d = Identity (c) a = Cast <to = 2> (i) "
            f"t2 = SequenceInsert (t, a) }}> {read}",
            "int64 k",
            "uint8 y",
        )
    )
    assert sequences(prove(before, {"k": np.array(3)})) == 0


RAGGED_LOOP = (
    "l = Shape <end = 1> (x) k = Squeeze (l) one = Constant <value_ints = [1]> () "
    "zero = Constant <value_ints = [0]> () shape = Constant <value_ints = [-1, 3]> () {first} "
    's = Loop (k, "", e) <body = b (int64 i, bool c, seq(float[]) t) => (bool d, seq(float[]) t2) '
    "{{ d = Identity (c) j = Unsqueeze (i, zero) m = Slice (x, zero, j) a = Reshape (m, shape) "
    "t2 = SequenceInsert (t, a) }}> {read}"
)
# name: what the loop begins with, what is read, whether that leaves no sequence
RAGGED_LOOPS = {
    "from nothing": ("e = SequenceEmpty ()", "y = ConcatFromSequence <axis = 0> (s)", True),
    "from a tensor": ("e = SequenceConstruct (z)", "y = ConcatFromSequence <axis = -2> (s)", True),
    "from any number of rows": (
        "e = SplitToSequence (z)",
        "y = ConcatFromSequence <axis = 0> (s)",
        False,
    ),
    "joined twice": (
        "e = SequenceConstruct (z)",
        "u = ConcatFromSequence <axis = 0> (s) v = ConcatFromSequence <axis = 0> (s) "
        "y = Add (u, v)",
        True,
    ),
    "also counted": (
        "e = SequenceConstruct (z)",
        "n = SequenceLength (s) f = Cast <to = 1> (n) u = ConcatFromSequence <axis = 0> (s) "
        "y = Mul (u, f)",
        False,
    ),
}


@pytest.mark.parametrize("case", RAGGED_LOOPS)
def test_a_loop_may_carry_what_is_joined_where_no_sequence_is_allowed(case: str) -> None:
    first, read, is_free = RAGGED_LOOPS[case]
    nodes = RAGGED_LOOP.format(first=first, read=read)
    before = onnx.parser.parse_model(text(nodes, "float[N,3] x, float[K,3] z", "float[P,3] y"))
    feeds = {"x": matrix(4, 3), "z": matrix(1, 3) + 50}
    assert sequences(prove(before, feeds)) == sequences(before)
    after = eliminate(before, required=True)
    assert (sequences(after) == 0) == is_free
    grown = ir.from_proto(before)
    one = EliminateSequencesPass(required=True)
    one(grown)
    assert len(one.warnings) == is_free
    assert all("in quadratic time" in warning for warning in one.warnings)
    for rows in (4, 1, 0):
        is_defined = rows > 0 or case != "from nothing"
        prove(before, {**feeds, "x": matrix(rows, 3)}, after=after, defined=is_defined)


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize(
    "nodes",
    [
        "s = SplitToSequence <axis = 1> (x) k = Constant <value = int64 {-1}> () "
        "y = SequenceAt (s, k)",
        "s = SplitToSequence <keepdims = 0> (x) y = ConcatFromSequence <axis = 1, new_axis = 1> (s)",
        "s = SequenceConstruct (x, x) y = ConcatFromSequence <axis = -1, new_axis = 1> (s)",
        "n = Constant <value = int64[3] {1, 0, 3}> () s = SplitToSequence (x, n) "
        "k = Constant <value = int64 {2}> () y = SequenceAt (s, k)",
    ],
)
def test_older_opsets(opset: int, nodes: str) -> None:
    feeds = {"x": matrix(4, 3)}
    before, _ = ranked(onnx.parser.parse_model(text(nodes, opset=opset)), feeds)
    assert sequences(prove(before, feeds)) == 0


def test_functions_that_hold_sequences() -> None:
    before = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18, "f" : 1]>\n'
        "main (float[N,M] x) => (float[M,N] y) { y = f.turn (x) }\n"
        '<domain: "f", opset_import: ["" : 18]> turn (a) => (b) { '
        "s = SplitToSequence <keepdims = 0> (a) "
        "b = ConcatFromSequence <axis = 1, new_axis = 1> (s) }"
    )
    after = prove(before, {"x": matrix(3, 4)})
    assert [node.op_type for node in after.graph.node] == ["Transpose"]


NEAR_APPENDS = {
    "it appends, and copies": ("a = SequenceInsert (u, q) w = Identity (a) w2 = Identity (v)", 0),
    "it counts what it has appended": (
        "w = SequenceInsert (u, q) p = SequenceLength (w) r2 = Cast <to = 1> (p) "
        "q2 = Mul (q, r2) w2 = SequenceInsert (v, q2)",
        1,
    ),
    "it hands on twice what it appended": ("w = SequenceInsert (u, q) w2 = Identity (w)", 2),
    "it appends to what it has appended": (
        "w = SequenceInsert (u, q) w2 = SequenceInsert (w, q)",
        2,
    ),
    "it appends to both": (
        "w = SequenceInsert (u, q) q2 = Neg (q) w2 = SequenceInsert (u, q2)",
        2,
    ),
    "it swaps": ("w = SequenceInsert (v, q) w2 = Identity (u)", 2),
    "it appends twice": (
        "a = SequenceInsert (u, q) w = SequenceInsert (a, q) w2 = Identity (v)",
        1,
    ),
    "it inserts in front": ("w = SequenceInsert (u, q, i) w2 = Identity (v)", 1),
    "it erases": ("a = SequenceInsert (u, q) w = SequenceErase (a) w2 = Identity (v)", 1),
}


@pytest.mark.quick
@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("case", NEAR_APPENDS)
def test_what_a_loop_does_beside_appending(case: str, rows: int) -> None:
    body, carried = NEAR_APPENDS[case]
    nodes = (
        "l = Shape <end = 1> (x) k = Squeeze (l) s = SequenceConstruct (z) zero = Constant "
        '<value_ints = [0]> () t, o = Loop (k, "", s, s) <body = b (int64 i, bool c, '
        "seq(float[]) u, seq(float[]) v) => (bool d, seq(float[]) w, seq(float[]) w2) { "
        "d = Identity (c) r = Gather <axis = 0> (x, i) q = Unsqueeze (r, zero) "
        f"{body} }}> y = ConcatFromSequence <axis = 0> (t) m = ConcatFromSequence <axis = 0> (o)"
    )
    before = onnx.parser.parse_model(
        text(nodes, "float[N,4] x, float[1,4] z", "float[P,4] y, float[Q,4] m")
    )
    after = prove(before, {"x": matrix(rows, 4), "z": matrix(1, 4) + 50})
    (loop,) = (node for node in all_nodes(ir.from_proto(after)) if node.op_type == "Loop")
    states = [value.type for value in loop.attributes["body"].as_graph().inputs[2:]]
    assert len(states) == carried


# name: inputs, outputs, nodes
KEPT = {
    "an input": ("seq(float[N]) s, int64 k", "float[M] y", "y = SequenceAt (s, k)"),
    "an output": ("float[N,M] x", "seq(float[A,M]) s", "s = SplitToSequence (x)"),
    "a position out of range": (
        "float[3,M] x",
        "float[A,M] y",
        "k = Constant <value_int = 3> () s = SplitToSequence (x) y = SequenceAt (s, k)",
    ),
    "nothing to join": (
        "float[3,M] x",
        "float[A] y",
        "s = SequenceEmpty () y = ConcatFromSequence <axis = 0> (s)",
    ),
    "branches of different lengths": (
        "float[N,M] x, bool c",
        "int64 n",
        "s = If (c) <then_branch = t () => (a) { a = SequenceConstruct (x, x) }, "
        "else_branch = f () => (b) { b = SequenceConstruct (x) }> n = SequenceLength (s)",
    ),
    **{
        f"branches of which one cuts {name}": (
            "float[N,N] x, bool c",
            "float[] y",
            "k = Constant <value_int = 2> () s = If (c) <then_branch = t () => (a) "
            "{ a = SplitToSequence <keepdims = KEEPS> (x) }, else_branch = f () => (b) "
            f"{{ b = SplitToSequence {cut} }}> y = SequenceAt (s, k)".replace("KEEPS", keeps),
        )
        for name, keeps, cut in (
            ("along another axis", "0", "<axis = 1, keepdims = 0> (x)"),
            ("and keeps the axis", "0", "(x)"),
            ("by sizes", "1", "(x, k)"),
        )
    },
    "a loop that appends now and then": (
        "float[N,M] x, bool c0",
        "int64 n",
        'k = Constant <value_int = 3> () e = SequenceEmpty () s = Loop (k, "", e) <body = b '
        "(int64 i, bool c, seq(float[]) t) => (bool d, seq(float[]) t2) { d = Identity (c) "
        "t2 = If (c0) <then_branch = g () => (a) { a = SequenceInsert (t, x) }, else_branch = h "
        "() => (o) { o = Identity (t) }> }> n = SequenceLength (s)",
    ),
    "a loop that reads what it appends to": (
        "float[N,M] x",
        "int64 n",
        'k = Constant <value_int = 3> () e = SequenceEmpty () s, n = Loop (k, "", e, k) <body = b '
        "(int64 i, bool c, seq(float[]) t, int64 m) => (bool d, seq(float[]) t2, int64 m2) "
        "{ d = Identity (c) t2 = SequenceInsert (t, x) m2 = SequenceLength (t) }>",
    ),
    **{
        f"{name} of another domain": ("float[N,M] x, seq(float[N,M]) t", "float[A,M] y", nodes)
        for name, nodes in (
            ("a join", "s = SplitToSequence (x) y = other.ConcatFromSequence <axis = 0> (s)"),
            ("a cut", "s = other.SplitToSequence (x) y = ConcatFromSequence <axis = 0> (s)"),
            (
                "a copy",
                "s = SplitToSequence (x) u = other.Identity (s) y = ConcatFromSequence <axis = 0> (u)",
            ),
        )
    },
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_not_known_stays(case: str) -> None:
    inputs, outputs, nodes = KEPT[case]
    before = onnx.parser.parse_model(text(nodes, inputs, outputs))
    after = eliminate(before)
    assert sequences(after) == sequences(before)


def test_what_nothing_reads_is_removed() -> None:
    nodes = "s = SplitToSequence (x) t = SequenceInsert (s, x) y = Neg (x)"
    after = eliminate(onnx.parser.parse_model(text(nodes, outputs="float[N,M] y")))
    assert [node.op_type for node in after.graph.node] == ["Neg"]


@pytest.mark.parametrize(
    "first",
    [
        0,
        pytest.param(25, marks=pytest.mark.long),
        *(pytest.param(seed, marks=pytest.mark.full) for seed in range(50, 300, 25)),
    ],
)
def test_random_chains(first: int) -> None:
    for seed in range(first, first + 25):
        chain = Chain(seed)
        try:
            prove(chain.model, chain.feeds)
            prove(chain.model, chain.feeds, after=eliminate(chain.model, required=True))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_loop_without_states_has_a_condition() -> None:
    """An input that is left out at the end is no input, and a Loop has two."""
    before = onnx.parser.parse_model(
        text(
            'k = Constant <value_int = 2> () e = SequenceEmpty () s = Loop (k, "", e) <body = b '
            "(int64 i, bool c, seq(float[]) t) => (bool d, seq(float[]) t2) { d = Identity (c) "
            "r = Relu (x) t2 = SequenceInsert (t, r) }> y = ConcatFromSequence <axis = 0> (s)",
            outputs="float[P,Q] y",
        )
    )
    after = prove(before, {"x": np.ones((2, 3), np.float32)})
    (loop,) = [node for node in after.graph.node if node.op_type == "Loop"]
    assert len(loop.input) == 2
    assert loop.input[1]


LOOPED = {
    "sizes one by one": ("s = SplitToSequence (x, n)", "e = SequenceAt (s, i)", True),
    "one size": (
        "k = Constant <value_int = 2> () s = SplitToSequence (x, k)",
        "e = SequenceAt (s, i)",
        True,
    ),
    "no sizes": ("s = SplitToSequence (x)", "e = SequenceAt (s, i)", False),
    "passed on": ("t = SplitToSequence (x, n) s = Identity (t)", "e = SequenceAt (s, i)", True),
    "in a branch of the loop": (
        "s = SplitToSequence (x, n)",
        "f = Constant <value = bool {1}> () "
        "e = If (f) <then_branch = yes () => (p) { p = SequenceAt (s, i) }, "
        "else_branch = no () => (q) { q = Neg (x) }>",
        True,
    ),
    "a constant position": (
        "n2 = Constant <value_ints = [1, 2]> () s = SplitToSequence (x, n2)",
        "one = Constant <value_int = 1> () e = SequenceAt (s, one)",
        False,
    ),
    "cut in the loop": ("z = Neg (x)", "s = SplitToSequence (x, n) e = SequenceAt (s, i)", False),
}


@pytest.mark.parametrize("case", LOOPED)
def test_slices_that_a_loop_goes_through_stay_a_sequence(case: str) -> None:
    front, read, stays = LOOPED[case]
    before = onnx.parser.parse_model(
        text(
            f"{front} two = Constant <value_int = 2> () begin = Constant <value_float = 0.0> () "
            'y = Loop (two, "", begin) <body = b (int64 i, bool c, float u) => (bool d, float v) '
            f"{{ d = Identity (c) {read} r = ReduceSum <keepdims = 0> (e) v = Add (u, r) }}>",
            "float[3,2] x, int64[2] n",
            "float y",
        )
    )
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(3, 2), "n": np.array([1, 2])}
    kept = eliminate(before, keeps_cuts=True)
    assert bool(sequences(kept)) is stays
    prove(before, feeds, after=kept)
    for required in (False, True):
        after = eliminate(before, required=required, keeps_cuts=required)
        assert not sequences(after)
        prove(before, feeds, after=after)


JOINED = "y = ConcatFromSequence <axis = 0, new_axis = 1> (s)"
FALSE = {
    "the last is read": "a = SequenceAt (q, minus) y = Unsqueeze (a, zero1)",
    "the second is read from the end": "a = SequenceAt (q, minus2) y = Unsqueeze (a, zero1)",
    "one more in front of the last": "s = SequenceInsert (q, e, minus) " + JOINED,
    "one more behind the last": "s = SequenceInsert (q, e) " + JOINED,
    "all but the last": "s = SequenceErase (q, minus) " + JOINED,
    "all but the first": "s = SequenceErase (q, zero) " + JOINED,
    "the last of what is left": "s = SequenceErase (q, minus) a = SequenceAt (s, minus) "
    "y = Unsqueeze (a, zero1)",
    "how many": "l = SequenceLength (q) c = Cast <to = 1> (l) o = Constant <value_ints = [1, 1]> () "
    "y = Reshape (c, o)",
}


@pytest.mark.quick
@pytest.mark.parametrize("name", FALSE)
def test_a_number_that_is_declared_is_not_believed(name: str) -> None:
    """The tensor is declared to have three rows, and has two or four."""
    before = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[N] x, int64[2] t, float[K] e) => (float[P,Q] y) <float[3,L] v> {{
            zero = Constant <value_int = 0> () zero1 = Constant <value_ints = [0]> ()
            minus = Constant <value_int = -1> () minus2 = Constant <value_int = -2> ()
            v = Reshape (x, t) q = SplitToSequence <axis = 0, keepdims = 0> (v) {FALSE[name]} }}""")
    after = eliminate(before)
    for rows in (2, 4):
        feeds = {
            "x": np.arange(2 * rows, dtype=np.float32),
            "t": np.array([rows, 2]),
            "e": np.full(2, 9, np.float32),
        }
        one, other = (run(model, feeds, "reference") for model in (before, after))
        assert one is not None
        assert other is not None
        assert compare(one, other).equal
