"""What is handed to the inference of ONNX, and what is told of its errors."""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import onnx.defs
import onnx_ir as ir
import pytest

from passes.errors import RewriteError
from passes.typing import (
    ValueType,
    type_values,
)
from passes.typing.protos import may_own
from tests.passes.typing.typed import HEADER, both, load, values


def test_external_data_is_not_read(tmp_path: pathlib.Path) -> None:
    model = load(
        f"{HEADER}g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Mul (x, w) }}"
    )
    absent = ir.ExternalTensor(
        "absent.bin", 0, 8, ir.DataType.FLOAT, shape=ir.Shape([2]), name="w", base_dir=tmp_path
    )
    model.graph.initializers["w"].const_value = absent
    typing = type_values(model)
    assert typing.dims(values(model)["y"]) == (2,)
    assert typing.static_dims(values(model)["w"]) == (2,)
    assert model.graph.initializers["w"].const_value is absent


def test_large_and_string_initializers_are_put_back() -> None:
    large = np.zeros((1000, 3), np.float32)
    words = np.array(["a", "b"], object)
    model = load(
        f"{HEADER}g (float[3] x) => (float[1000,3] y) {{ y = Add (x, w)  z = Identity (s) }}".replace(
            "{ y", '<float[1] w = {1}, string[1] s = {"q"}> { y'
        )
    )
    graph = model.graph
    tensors = {"w": ir.tensor(large, name="w"), "s": ir.StringTensor(words, name="s")}
    for name, tensor in tensors.items():
        graph.initializers[name].const_value = tensor
        graph.initializers[name].shape = ir.Shape(tensor.shape)
    typing = type_values(model)
    named = values(model)
    assert typing.dims(named["y"]) == (1000, 3)
    assert typing[named["z"]] == ValueType(ir.TensorType(ir.DataType.STRING), (2,))
    assert all(graph.initializers[name].const_value is tensor for name, tensor in tensors.items())


def test_shape_from_a_small_initializer_is_known() -> None:
    typings, named = both(
        f"{HEADER}g (float x) => (float[2,3] y) <int64[2] s = {{2, 3}}> {{ y = Expand (x, s) }}"
    )
    assert typings.proven.dims(named["y"]) == (2, 3)


def test_initializer_that_contradicts_its_declared_type() -> None:
    proto = onnx.parser.parse_model(
        f"{HEADER}g (float[2] x) => (float[2] y) <float[2] w = {{1, 2}}> {{ y = Add (x, w) }}"
    )
    proto.graph.value_info.append(
        onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [2, 2])
    )
    model = ir.from_proto(proto)
    model.graph.initializers["w"].shape = ir.Shape([2, 2])
    with pytest.raises(RewriteError, match="types that the model declares contradict each other"):
        type_values(model)


def test_a_result_whose_inference_failed_has_no_type() -> None:
    """ONNX's inference leaves a type without an element type behind, which no node could have."""
    model = load(
        f"""{HEADER}g (seq(float[N,3]) xs) => (ys) <int64[1] axes = {{-4}}> {{
          ys = SequenceMap (xs) <body = b (x) => (y) {{ y = Squeeze (x, axes) }}> }}"""
    )
    typing = type_values(model)
    assert typing.dtype(values(model)["ys"]) is None
    body = next(n for n in model.graph if n.op_type == "SequenceMap").attributes["body"]
    assert typing.dtype(body.as_graph().outputs[0]) is None


@pytest.mark.parametrize(
    ("bounds", "dims"),
    [
        ("{0}, {9223372036854775807}", ("N", 3)),
        ("{1}, {9223372036854775807}", None),
        ("{0}, {5}", None),
    ],
)
def test_a_slice_of_all_keeps_the_dimensions(bounds: str, dims: tuple[int | str, ...]) -> None:
    start, end = bounds.split(", ")
    model = load(
        f"""{HEADER}g (float[N, 3] x) => (float[M, 3] y) {{
            a = Constant <value = int64[1] {start}> ()  b = Constant <value = int64[1] {end}> ()
            zero = Constant <value = int64[1] {{0}}> ()  one = Constant <value = int64 {{1}}> ()
            axes = Identity (zero)  steps = Unsqueeze (one, zero)
            z = Slice (x, a, b, axes, steps)  y = Relu (z) }}"""
    )
    typing = type_values(model)
    found = typing.dims(values(model)["z"])
    assert found == dims if dims else found != ("N", 3)


@pytest.mark.parametrize(("axes", "dims"), [("0, 1", (None, None, 3)), ("-2", (4, None, 3))])
def test_a_slice_by_unknown_bounds_keeps_the_other_axes(
    axes: str, dims: tuple[int | None, ...]
) -> None:
    count = axes.count(",") + 1
    model = load(
        f"{HEADER}g (float[4,5,3] x, int64[{count}] s, int64[{count}] e) => (float[a,b,c] y) "
        f"{{ k = Constant <value_ints = [{axes}]> () z = Slice (x, s, e, k) y = Relu (z) }}"
    )
    found = type_values(model).dims(values(model)["z"])
    assert found is not None
    assert tuple(dim if isinstance(dim, int) else None for dim in found) == dims


@pytest.mark.parametrize(("axis", "dims"), [(-1, ("x.0", 4, None)), (0, (None, 4, 6))])
def test_axes_beside_those_of_a_top_k_are_known(
    axis: int, dims: tuple[int | str | None, ...]
) -> None:
    typings, named = both(
        f"{HEADER}g (float[N,4,6] x, int64[1] k) => (float[] y, int64[] i) "
        f"{{ y, i = TopK <axis = {axis}> (x, k) }}"
    )
    for name in ("y", "i"):
        found = list(typings.proven.dims(named[name]) or ())
        assert not isinstance(found[axis], int)
        found[axis] = None
        assert tuple(found) == dims
    assert typings.proven.dtype(named["i"]) == ir.DataType.INT64


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_no_window_of_a_pool_begins_behind_an_image(op_type: str) -> None:
    """In padded places windows begin at 0, 3, 6, 9 and 0, 4, 8: the last of each is padding."""
    typings, named = both(
        f"{HEADER}g (float[1,N,8,7] x) => (float[] y) {{ y = {op_type} <kernel_shape = [3, 2], "
        "strides = [3, 4], pads = [1, 1, 1, 0], ceil_mode = 1> (x) }"
    )
    dims = typings.proven.dims(named["y"]) or ()
    assert (len(dims), *dims[2:]) == (4, 3, 2)


def test_windows_of_a_pool_whose_last_reaches_beyond_an_image() -> None:
    typings, named = both(
        f"{HEADER}g (float[1,2,8,W] x) => (float[] y, int64[] i) {{ y, i = MaxPool "
        "<kernel_shape = [3, 2], strides = [2, 3], pads = [1, 1, 1, 0], ceil_mode = 1> (x) }"
    )
    for name in ("y", "i"):
        dims = typings.proven.dims(named[name]) or ()
        assert dims[:3] == (1, 2, 5)
        assert not isinstance(dims[3], int)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("s = Constant <value_floats = [0.5, 2.0]> () y = Resize (x, , s)", (5, 14)),
        ("s = Constant <value_floats = [0.7, 0.6]> () y = Resize (x, , s)", (None, 4)),
        ("s = Constant <value_floats = [1.3]> () y = Resize <axes = [-2]> (x, , s)", (None, 7)),
        ("s = Constant <value_floats = [1.4]> () y = Resize <axes = [1]> (x, , s)", (10, 9)),
    ],
)
def test_a_resize_by_scales_makes_as_many_places_as_runtimes_agree_on(
    nodes: str, expected: tuple[int | None, int]
) -> None:
    """10 times 0.7 is 6.9999998 in doubles, and 7 in the floats that onnxruntime computes in."""
    typings, named = both(f"{HEADER}g (float[10,7] x) => (float[] y) {{ {nodes} }}")
    found = typings.proven.dims(named["y"]) or ()
    assert tuple(dim if isinstance(dim, int) else None for dim in found) == expected


@pytest.mark.parametrize("where", ["the main graph", "a branch"])
def test_a_resize_to_sizes_ignores_empty_scales(where: str) -> None:
    """Exporters write both; of scales that stand outside of a branch inference sees no entries."""
    node = "y = Resize (x, e, e, s)"
    if where == "a branch":
        node = (
            f"z = If (c) <then_branch = t () => (float[] y) {{ {node} }}, "
            "else_branch = f () => (float[] n) { n = Neg (x) }>"
        )
    text = (
        f"{HEADER}g (bool c, float[1,N,4,4] x) => (float[] {node[0]}) "
        f"<float[0] e = {{}}, int64[4] s = {{1, 3, 8, 6}}> {{ {node} }}"
    )
    typings, named = both(text)
    assert typings.proven.dims(named["y"]) == (1, 3, 8, 6)


@pytest.mark.parametrize(
    ("shapes", "equation", "expected"),
    [
        ("1,3|2,N,4", "...a,b...d->...dba", ("z.1", 4, 2, 3)),
        ("1,3|5,3", "ba,ba->ba", (5, 3)),
        ("1,3|N,3", "ba,ba->ba", ("z.0", 3)),
        ("1,3|N,3", "ba,ba", ()),
        ("N,3|1,3", "...a,...a->...a", ("x.0", 3)),
        ("N,3|M,3", "...a,...a->...a", (None, 3)),
        ("N,3|5,3", "ba,ba->ba", (5, 3)),
        ("1,3|1,3", "ba,ba->ab", (3, 1)),
    ],
)
def test_an_axis_of_size_1_of_an_einsum_is_spread(
    shapes: str, equation: str, expected: tuple[int | str | None, ...]
) -> None:
    """ONNX's inference takes the first size that it meets."""
    one, other = shapes.split("|")
    typings, named = both(
        f"{HEADER}g (float[{one}] x, float[{other}] z) => (float[] y) "
        f'{{ y = Einsum <equation = "{equation}"> (x, z) }}'
    )
    told = {*(typings.proven.dims(named["x"]) or ()), *(typings.proven.dims(named["z"]) or ())}
    found = typings.proven.dims(named["y"])
    assert found is not None
    assert tuple(dim if dim in told else None for dim in found) == expected


_FRAMED = "<float[8] w = {1, 2, 3, 4, 4, 3, 2, 1}>"


@pytest.mark.parametrize(
    ("signal", "nodes", "expected"),
    [
        ("N, S", "y = STFT (x, s, w)", (None, None, 5, 2)),
        ("N, S, 1", "y = STFT (x, s, w)", (None, None, 5, 2)),
        ("2, 20", "y = STFT <onesided = 0> (x, s, w)", (2, 5, 8, 2)),
        ("1, 8", "y = STFT (x, s, w)", (1, 1, 5, 2)),
        ("1, 7", "y = STFT (x, s, w)", (1, None, 5, 2)),
        ("N, S", "n = Constant <value_int = 64> () y = STFT (x, s, , n)", (None, None, 33, 2)),
        (
            "N, S",
            "n = Constant <value_int = 64> () h = HannWindow (n) y = STFT (x, s, h)",
            (None, None, 33, 2),
        ),
        ("N, S", "y = STFT (x, s, v)", (None, None, None, 2)),
        ("2, 20", "y = STFT (x, t, w)", (2, None, 5, 2)),
    ],
)
def test_frames_and_frequencies_of_a_signal_are_known(
    signal: str, nodes: str, expected: tuple[int | None, ...]
) -> None:
    """ONNX's inference counts both halves of the frequencies, and knows no open length."""
    typing, named = both(
        f"{HEADER}g (float[{signal}] x, float[K] v, int64 t) => (float[A, B, C, D] y) {_FRAMED} "
        f"{{ s = Constant <value_int = 3> () {nodes} }}"
    )
    dims = typing.proven.dims(named["y"])
    assert dims is not None
    assert tuple(dim if isinstance(dim, int) else None for dim in dims) == expected


def test_a_dimension_that_would_be_negative_is_not_known() -> None:
    model = load(
        f"""{HEADER}g (float[2,3] x) => (float[R,C] y) <int64[4] k = {{-5, 0, 0, 1}}> {{
          p = Pad (x, k) y = Identity (p) }}"""
    )
    assert type_values(model, proven=True).dims(values(model)["p"]) == (None, 4)


def test_which_operators_have_graphs() -> None:
    kinds = (onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS)
    for schema in onnx.defs.get_all_schemas_with_history():
        if any(attribute.type in kinds for attribute in schema.attributes.values()):
            node = onnx.NodeProto(op_type=schema.name, domain=schema.domain)
            assert may_own(node), schema.name
    assert may_own(onnx.NodeProto(op_type="Add", domain="my.domain"))
    assert not may_own(onnx.NodeProto(op_type="Add", domain="ai.onnx"))
