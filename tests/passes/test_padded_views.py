"""The boundary form of padded samples, and sequences that come close to it."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from passes.padded_views import read_padded

pytestmark = pytest.mark.quick

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[B,H,W,3] padded, int64[B,2] sizes) => (seq(float[?,?,3]) ys)
  <int64[2] zeros = {0, 0}, int64[2] axes = {0, 1}, int64[2] ones = {0, 1}, int64[2] turned = {1, 0},
   int64[2] back = {-4, -3}, int64[2] far = {2, 3}, int64[0] none = {}, int64[2] apart = {0, 2}> {
    pieces = SplitToSequence <axis = 0, keepdims = 0> (padded)
    tables = SplitToSequence <axis = 0, keepdims = 0> (sizes)
    ys = SequenceMap (pieces, tables) <body = element (float[H,W,3] piece, int64[2] size)
        => (float[?,?,3] part) { part = Slice (piece, zeros, size, axes) }> }"""
KEPT = {
    "as it is written": (),
    "channels in front": (
        ("[B,H,W,3]", "[B,3,H,W]"),
        ("int64[2] axes = {0, 1}", "int64[2] axes = {1, 2}"),
    ),
    "no other axis": (("[B,H,W,3]", "[B,H,W]"), ("[H,W,3]", "[H,W]"), ("[?,?,3]", "[?,?]")),
}
OTHER = {
    "not from the start": (("zeros, size", "ones, size"),),
    "axes in turn": (("size, axes", "size, turned"),),
    "axes apart": (("size, axes", "size, apart"),),
    "axes from the back": (("size, axes", "size, back"),),
    "axes beyond the last": (("size, axes", "size, far"),),
    "no axes": (("zeros, size, axes", "none, size, none"),),
    "axes that are not told": (("size, axes)", "size)"),),
    "another tensor": (("Slice (piece, zeros", "Slice (padded, zeros"),),
    "up to another size": (("zeros, size, axes", "zeros, ones, axes"),),
    "in steps": (("size, axes)", "size, axes, ones)"),),
    "any number of sizes": (("int64[B,2] sizes", "int64[B,K] sizes"),),
    "one size more": (("int64[B,2] sizes", "int64[B,3] sizes"),),
    "an axis of sizes more": (("int64[B,2] sizes", "int64[B,2,1] sizes"),),
    "sizes of any rank": (("int64[B,2] sizes", "int64[] sizes"),),
    "any number beside them": (("float[B,H,W,3] padded", "float[B,H,W,C] padded"),),
    "a tensor of any rank": (("float[B,H,W,3] padded", "float[] padded"),),
    "a tensor that is computed": (
        ("pieces = SplitToSequence <axis = 0, keepdims = 0> (padded)",
         "q = Neg (padded) pieces = SplitToSequence <axis = 0, keepdims = 0> (q)"),
    ),
    "rows that keep their axis": (("keepdims = 0> (padded)", "keepdims = 1> (padded)"),),
    "rows along another axis": (("axis = 0, keepdims = 0> (padded)", "axis = 1, keepdims = 0> (padded)"),),
    "sizes that keep their axis": (("keepdims = 0> (sizes)", "keepdims = 1> (sizes)"),),
    "several rows in an element": (("keepdims = 0> (padded)", "keepdims = 0> (padded, apart)"),),
    "several rows of sizes": (("keepdims = 0> (sizes)", "keepdims = 0> (sizes, apart)"),),
    "what is made of the part": (
        ("part = Slice (piece, zeros, size, axes)",
         "cut = Slice (piece, zeros, size, axes) part = Neg (cut)"),
    ),
}  # fmt: skip


def found(changes: tuple[tuple[str, str], ...]) -> tuple[str | None, str | None, range] | None:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    views = read_padded(ir.from_onnx_text(text).graph.outputs[0])
    return None if views is None else (views[0].name, views[1].name, views[2])


@pytest.mark.parametrize("name", KEPT)
def test_what_is_read(name: str) -> None:
    span = range(1, 3) if name == "channels in front" else range(2)
    assert found(KEPT[name]) == ("padded", "sizes", span)


@pytest.mark.parametrize("name", OTHER)
def test_what_is_something_else(name: str) -> None:
    assert found(OTHER[name]) is None
