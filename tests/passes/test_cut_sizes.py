"""Sizes by which a tensor is cut into samples: a wrong one is an error, as in SplitToSequence."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from passes.expand import ExpandSequenceMapPass
from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_graphs
from passes.graph.names import make_names_unique

SIZES = {
    "too few rows": [2, 3, 1],
    "too many rows": [2, 3, 3],
    "a negative one, in sum right": [2, -1, 6],
    "a negative one, without sign right": [2, -1, 4],
    "a negative one in front": [-2, 3, 6],
    "no rows": [0, 0, 0],
    "no samples": [],
}


def model(body: str, sizes: str = "n") -> str:
    given = ", int64[B] n" if sizes == "n" else ""
    return f"""<ir_version: 10, opset_import: ["": 18]>
      g (float[T,2] x{given}) => (seq(float[N,2]) y) <int64[3] c = {{2, 3, 2}}, int64[1] zero = {{0}}> {{
        s = SplitToSequence<axis = 0>(x, {sizes})
        y = SequenceMap(s) <body = b (float[N,2] v) => (float[M,2] r) {{ {body} }}> }}"""


def run(text: str, sizes: list[int], passes: list[ir.passes.PassBase]) -> list[np.ndarray]:
    built = ir.from_proto(onnx.parser.parse_model(text))
    for one in passes:
        one(built)
    make_names_unique(built)
    session = onnxruntime.InferenceSession(ir.to_proto(built).SerializeToString())
    rows = np.arange(14, dtype=np.float32).reshape(7, 2)
    feeds = {"x": rows, "n": np.array(sizes, np.int64)}
    return session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})[0]


FORMS = {
    "expanded": [ExpandSequenceMapPass],
    "fused": [FuseSequenceMapPass, ExpandSequenceMapPass],
}
BODIES = {
    "a softmax over rows": "r = Softmax<axis = 0>(v)",
    "one row": "r = Gather(v, zero)",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_sizes_that_add_up(form: str, body: str) -> None:
    got = run(model(body), [2, 3, 2], [p() for p in FORMS[form]])
    assert [len(x) for x in got] in ([2, 3, 2], [1, 1, 1])


@pytest.mark.quick
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_sizes_that_do_not_are_an_error(form: str, body: str, sizes: list[int]) -> None:
    with pytest.raises(Exception, match="Non-zero status code"):
        run(model(body), sizes, [p() for p in FORMS[form]])


def test_constant_sizes_of_a_known_axis_are_not_asked_again() -> None:
    built = ir.from_proto(
        onnx.parser.parse_model(model(BODIES["one row"], "c").replace("[T,", "[7,"))
    )
    FuseSequenceMapPass()(built)
    assert not any(n.op_type == "Abs" for g in all_graphs(built) for n in g)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("sizes", "refused_by"),
    [
        ("2, 3, 1", "[Ss]plit|[Rr]eshape"),
        ("2, 3, 3", "[Ss]plit|[Rr]eshape"),
        ("9, -1, -1", "[Ss]plit|[Rr]eshape|ConstantOfShape"),
    ],
)
def test_constant_sizes_that_do_not_fit_are_an_error(
    sizes: str, refused_by: str, form: str
) -> None:
    """Sizes below 0 may add up, and no tensor has them."""
    text = model(BODIES["a softmax over rows"], "c").replace("float[T,2]", "float[7,2]")
    with pytest.raises(Exception, match=refused_by):
        run(text.replace("{2, 3, 2}", f"{{{sizes}}}"), [], [p() for p in FORMS[form]])


def repeated(size: int) -> str:
    """Return a map over slices that all have one size, as many as ``n`` has numbers."""
    made = f"k = Shape (n) c2 = ConstantOfShape <value = int64[1] {{{size}}}> (k) s ="
    return (
        model(BODIES["a softmax over rows"], "c2")
        .replace("float[T,2] x", "float[T,2] x, int64[B] n")
        .replace("s =", made, 1)
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("size", "count"), [(1, 7), (7, 1)])
def test_slices_of_one_size_are_read_as_rows(form: str, size: int, count: int) -> None:
    built = ir.from_proto(onnx.parser.parse_model(repeated(size)))
    for one in FORMS[form]:
        one()(built)
    assert not any(n.op_type in ("Abs", "CumSum") for g in all_graphs(built) for n in g)
    got = run(repeated(size), [0] * count, [p() for p in FORMS[form]])
    rows = np.arange(14, dtype=np.float32).reshape(count, size, 2)
    exp = np.exp(rows - rows.max(axis=1, keepdims=True))
    np.testing.assert_allclose(np.stack(got), exp / exp.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("size", "count"), [(1, 6), (2, 3), (2, 4), (0, 3), (-7, 1), (-1, 3)])
def test_slices_of_one_size_that_do_not_fit_are_an_error(form: str, size: int, count: int) -> None:
    with pytest.raises(Exception, match="Non-zero status code"):
        run(repeated(size), [0] * count, [p() for p in FORMS[form]])
