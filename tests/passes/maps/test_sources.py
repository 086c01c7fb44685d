"""What the kinds of sources say of the number and the shapes of their samples."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import rewriter
from passes.errors import RewriteError
from passes.graph.builder import Builder
from passes.graph.names import make_names_unique
from passes.maps.element_source import ElementSource
from passes.maps.index_source import IndexSource
from passes.maps.sequence_source import sequence_source
from passes.typing import Typing, type_values

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[6,4] x, float[N,4] y, seq(float[2]) s, float[2] a, float[3] b, int64[K] open,
   int64 number, int64 other, float[] w)
  => (seq(float[4]) rows, seq(float[4]) more, seq(float[2,4]) even, seq(float[P,4]) uneven,
      seq(float[P,4]) sizes, seq(float[P,4]) unknown, seq(float[2]) alike, seq(float[Q]) differ,
      seq(float[2]) given, seq(float[P,4]) whole,
      seq(float[2,4]) pairs, seq(float[P,4]) open_size, seq(float[P,4]) open_rows,
      seq(float[P,4]) again, seq(float[P,4]) other_size, seq(float[P,4]) as_many,
      seq(float[P,4]) in_fours,
      seq(float[]) anything, seq(float[6,4]) beyond) {
  two = Constant <value = int64 {2}> ()
  two_too = Constant <value = int64 {2}> ()
  four = Constant <value = int64 {4}> ()
  parts = Constant <value = int64[3] {1, 2, 3}> ()
  six = Constant <value = int64 {6}> ()
  nine = Constant <value = int64 {9}> ()
  twos = Constant <value = int64[3] {2, 2, 2}> ()
  whole = SplitToSequence <axis = 0> (x, six)
  beyond = SplitToSequence <axis = 0> (x, nine)
  pairs = SplitToSequence <axis = 0> (x, twos)
  open_size = SplitToSequence <axis = 0> (x, number)
  again = SplitToSequence <axis = 0> (x, number)
  other_size = SplitToSequence <axis = 0> (x, other)
  open_rows = SplitToSequence <axis = 0> (y, two)
  as_many = SplitToSequence <axis = 0> (y, two_too)
  in_fours = SplitToSequence <axis = 0> (y, four)
  anything = SplitToSequence <axis = 0> (w, two)
  rows = SplitToSequence <axis = 0, keepdims = 0> (x)
  more = SplitToSequence <axis = 0, keepdims = 0> (y)
  even = SplitToSequence <axis = 0> (x, two)
  uneven = SplitToSequence <axis = -2> (x, four)
  sizes = SplitToSequence <axis = 0> (x, parts)
  unknown = SplitToSequence <axis = 0> (x, open)
  alike = SequenceConstruct (a, a)
  differ = SequenceConstruct (a, b)
  given = Identity (s)
}"""

CASES = {
    # name: kind of read, number of samples, one shape, differ, shape of a sample
    "rows": ("row", 6, True, False, (4,)),
    "more": ("row", None, True, False, (4,)),
    "even": ("slice", 3, True, False, (2, 4)),
    "uneven": ("slice", 2, False, True, (None, 4)),
    "sizes": ("slice", 3, False, True, (None, 4)),
    "unknown": ("slice", None, False, False, (None, 4)),
    "alike": ("element", 2, True, False, (2,)),
    "differ": ("element", 2, False, True, None),
    "given": ("element", None, False, False, None),
    "whole": ("slice", 1, True, False, (6, 4)),
    "beyond": ("slice", 1, False, False, (None, 4)),
    "pairs": ("slice", 3, True, False, (2, 4)),
    "open_size": ("slice", None, False, False, (None, 4)),
    "again": ("slice", None, False, False, (None, 4)),
    "other_size": ("slice", None, False, False, (None, 4)),
    "as_many": ("slice", None, False, False, (None, 4)),
    "in_fours": ("slice", None, False, False, (None, 4)),
    "open_rows": ("slice", None, False, False, (None, 4)),
    "anything": ("slice", None, False, False, None),
}


def sources() -> dict[str, tuple[ElementSource, object]]:
    model = ir.from_proto(onnx.parser.parse_model(TEXT))
    typing = type_values(model, proven=True)
    return {v.name or "": (sequence_source(v, typing), typing) for v in model.graph.outputs}


@pytest.mark.quick
@pytest.mark.parametrize("name", CASES)
def test_what_a_source_says(name: str) -> None:
    source, typing = sources()[name]
    kind, number, has_one_shape, differs, dims = CASES[name]
    assert source.read_kind == kind
    assert source.number(typing) == number
    assert source.has_one_shape(typing) == has_one_shape
    assert source.differs(typing) == differs
    if dims is not None:
        assert source.element_type(typing).dims == dims


def test_lengths_are_equal_where_the_keys_are() -> None:
    keys = {name: source.length_key(typing) for name, (source, typing) in sources().items()}
    pairs = {(a, b) for a in keys for b in keys if a < b and keys[a] == keys[b]}
    assert pairs == {
        ("even", "sizes"),
        ("even", "pairs"),
        ("pairs", "sizes"),
        ("beyond", "whole"),
        ("alike", "uneven"),
        ("alike", "differ"),
        ("differ", "uneven"),
        ("again", "open_size"),
        ("as_many", "open_rows"),
    }


def test_a_number_counts_as_what_it_is_like() -> None:
    source, typing = sources()["rows"]
    own = IndexSource(lambda builder: builder.ints(6), like=source)
    assert own.counted is source
    assert own.length_key(typing) == source.length_key(typing) == 6
    assert own.given_count is None
    assert own.as_rows(typing).like is source
    assert IndexSource(lambda _: source.values[0]).given_count is source.values[0]


@pytest.mark.parametrize(("known", "written"), [(3, ["Constant"]), (10_000, None)])
def test_few_known_numbers_are_a_constant(known: int, written: list[str] | None) -> None:
    builder = Builder("")
    stack = IndexSource(lambda inner: inner.ints(known), known=known).stack
    stack(builder, 0, Typing(frozenset()))
    made = [node.op_type for node in builder.nodes]
    assert made == (written or made) and ("Range" in made) == (written is None)


def test_values_that_are_replaced() -> None:
    for source, _ in sources().values():
        now = {value: Builder("").ints(0) for value in source.values}
        assert source.moved(now).values == tuple(now.values())
        assert source.moved({}) == source


@pytest.mark.parametrize("size", [0, -2])
def test_slices_of_no_rows_are_an_error(size: int) -> None:
    model = ir.from_onnx_text(f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[6,4] x) => (seq(float[P,4]) y) <int64 size = {{{size}}}>
    {{ y = SplitToSequence <axis = 0> (x, size) }}""")
    typing = type_values(model, proven=True)
    source = sequence_source(model.graph.outputs[0], typing)
    with pytest.raises(RewriteError, match=f"'x' is cut into slices of {size} rows"):
        source.length_key(typing)


@pytest.mark.quick
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("anything", "given")])
def test_the_number_that_is_recorded_is_that_of_the_elements(name: str) -> None:
    model = ir.from_proto(onnx.parser.parse_model(TEXT))
    typing = type_values(model, proven=True)
    (sequence,) = (v for v in model.graph.outputs if v.name == name)
    source, builder = sequence_source(sequence, typing), Builder.at(model.graph[-1])
    length = builder.op("SequenceLength", [sequence])
    found = [source.count(builder, None), source.count(builder, typing)]
    found += [source.scalar_count(builder, typing), length]
    for at, value in enumerate(found):
        value.name = f"count{at}"
        value.type = ir.TensorType(ir.DataType.INT64)
    model.graph.extend(builder.nodes)
    model.graph.outputs[:] = found
    make_names_unique(model)
    rows, sizes = np.zeros((6, 4), np.float32), np.array([4, 2], np.int64)
    feeds = {"x": rows, "y": rows, "a": rows[:2, 0], "b": rows[:3, 0], "open": sizes}
    feeds |= {"number": np.array(4, np.int64), "other": np.array(5, np.int64)}
    feeds |= {"s": [rows[:2, 0]], "w": rows}
    vector, even, scalar, wanted = rewriter.run(model, feeds).values()
    assert vector.tolist() == even.tolist() == [wanted]
    assert scalar.shape == () and scalar == wanted
