"""Types of results that ONNX's inference does not know: operators of ``ai.onnx.ml`` and others.

For inference only, such a node becomes a ``seqmap.types::Typed`` with an inference function of
ours. Where it cannot tell a type, the result has the one that the model declares, as before.

Sources: the specification of ``ai.onnx.ml`` and what onnxruntime 1.31 yields; onnxruntime's
documentation of its contributed operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from passes.typing.contracted import contracted
from passes.typing.kernel_sizes import resized_size, window_counts
from passes.typing.own_operators import NodeCall, register_operator

__all__ = [
    "DOMAIN",
    "VERSION",
    "has_shape_function",
    "stand_in_typed",
]

DOMAIN, VERSION = "seqmap.types", 1
_OP_TYPE, _NAME = "Typed", "seqmap_operator"
_FLOAT, _INT64, _STRING = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.STRING


def _like_first(call: NodeCall) -> None:
    """The type of the first input."""
    call.set(call.elem_type(), call.dims())


def _skipped(call: NodeCall) -> None:
    """A normalised sum and, as the fourth output, the sum itself, like the first input."""
    for output in (0, 3):
        call.set(call.elem_type(), call.dims(), output)


def _floats_like_first(call: NodeCall) -> None:
    """Floats in the shape of the input."""
    call.set(_FLOAT, call.dims())


def _count_rows(call: NodeCall) -> Any:
    """Return how many rows the input has; a vector is one row."""
    dims = call.dims()
    return 1 if dims is not None and len(dims) == 1 else _first(dims)


def _first(dims: Sequence[Any] | None) -> Any:
    """Return the first dimension; None of an unknown rank, or of none."""
    return dims[0] if dims else None


def _rows(call: NodeCall, elem_type: int, columns: Any, output: int = 0) -> None:
    """One row of so many columns for each row of the input."""
    call.set(elem_type, [_count_rows(call), columns], output)


def _linear_regressor(call: NodeCall) -> None:
    _rows(call, _FLOAT, call.number("targets", 1))


def _tree_regressor(call: NodeCall) -> None:
    found = call.attribute("n_targets")
    _rows(call, _FLOAT, None if found is None else int(found.i))


def _svm_regressor(call: NodeCall) -> None:
    _rows(call, _FLOAT, 1)


def _classifier(call: NodeCall) -> None:
    """Labels ``[N]`` and scores ``[N, E]``."""
    texts = call.attribute("classlabels_strings")
    kind = _STRING if texts is not None and texts.strings else _INT64
    call.set(kind, [_count_rows(call)])
    _rows(call, _FLOAT, None, 1)


def _feature_vectorizer(call: NodeCall) -> None:
    sizes = call.attribute("inputdimensions")
    _rows(call, _FLOAT, None if sizes is None else sum(sizes.ints))


def _distances(call: NodeCall) -> None:
    """``[M, N]`` of ``[M, C]`` and ``[N, C]``."""
    call.set(call.elem_type(), [_first(call.dims(0)), _first(call.dims(1))])


def _fused_product(call: NodeCall) -> None:
    """MatMul of matrices that may be transposed; batches that differ are unknown."""
    one, other = call.dims(0), call.dims(1)
    if one is None or other is None or len(one) < 2 or len(one) != len(other):
        call.set(call.elem_type(), None)
        return
    rows = one[-1] if call.number("transA", 0) else one[-2]
    columns = other[-2] if call.number("transB", 0) else other[-1]
    same = [a if a == b else None for a, b in zip(one[:-2], other[:-2], strict=True)]
    call.set(call.elem_type(), [*same, rows, columns])


def _cut(call: NodeCall) -> None:
    """Slice by bounds that are not known: the axes that it does not name stay as they are."""
    dims, axes = call.dims(), call.attribute("axes")
    if dims is not None:
        named = range(_first_axes(call, len(dims))) if axes is None else axes.ints
        cut = {axis % max(len(dims), 1) for axis in named}
        dims = [None if axis in cut else dim for axis, dim in enumerate(dims)]
    call.set(call.elem_type(), dims)


def _shaped(call: NodeCall) -> None:
    """A shape; each size is a number, that of an axis of a tensor, or not known."""
    made: list[Any] = []
    places = zip(call.numbers("tensors"), call.numbers("axes"), strict=True)
    for size, (tensor, axis) in zip(call.numbers("sizes"), places, strict=True):
        dims = call.dims(tensor) if tensor > 0 else None
        is_there = dims is not None and axis < len(dims)
        made.append(size if size >= 0 else dims[axis] if dims is not None and is_there else None)
    (elem_type,) = call.numbers("elem_types") or [call.elem_type()]
    call.set(elem_type, made)


def _sorted(call: NodeCall) -> None:
    """TopK of an unknown number: values and places, along all other axes as many as there are."""
    dims, axis = call.dims(), call.number("axis", -1)
    if dims is not None:
        dims = [None if at == axis % max(len(dims), 1) else d for at, d in enumerate(dims)]
    call.set(call.elem_type(), dims)
    call.set(_INT64, dims, 1)


def _pooled(call: NodeCall) -> None:
    """A pool that rounds up: no window begins behind the image, not even in what pads it."""
    dims, kernel = call.dims(), call.numbers("kernel_shape")
    if dims is not None:
        count = len(kernel)
        ones = [1] * count
        steps, dilations = call.numbers("strides") or ones, call.numbers("dilations") or ones
        pads = call.numbers("pads") or [0] * (2 * count)
        for i, size in enumerate(dims[-count:]):
            reach = dilations[i] * (kernel[i] - 1) + 1
            made: int | None = None
            if size.HasField("dim_value"):
                around = pads[i], pads[count + i]
                _, made = window_counts(size.dim_value, *around, reach, steps[i])
            dims[len(dims) - count + i] = made
    call.set(call.elem_type(), dims)
    call.set(_INT64, dims, 1)


def _resized(call: NodeCall) -> None:
    """A Resize by scales: a size is not known where floats and doubles disagree on it."""
    dims, given = call.dims() or [], call.attribute("scales")
    scales = [] if given is None else list(given.floats)
    axes = call.numbers("axes") or range(len(dims))
    if len(axes) != len(scales) or not all(-len(dims) <= axis < len(dims) for axis in axes):
        call.set(call.elem_type(), None)
        return
    for axis, scale in zip(axes, scales, strict=True):
        size = dims[axis]
        dims[axis] = resized_size(size.dim_value, scale) if size.HasField("dim_value") else None
    call.set(call.elem_type(), dims)


def _framed(call: NodeCall) -> None:
    """STFT: frames, frequencies and their two parts of each signal.

    ONNX's inference knows nothing of a signal of open length, and counts twice the frequencies
    where the node does not say that it leaves out the mirrored half.
    """
    dims, step, size = call.dims(), call.number("step", 0), call.number("size", -1)
    if dims is None or len(dims) < 2:
        call.set(call.elem_type(), None)
        return
    frames = None
    if step > 0 and 0 <= size <= dims[1].dim_value:
        frames = (dims[1].dim_value - size) // step + 1
    bins = size // 2 + 1 if call.number("onesided", 1) else size
    call.set(call.elem_type(), [dims[0], frames, bins if size >= 0 else None, 2])


def _first_axes(call: NodeCall, rank: int) -> int:
    """Return how many axes are cut that are not named: as many as there are bounds."""
    bounds = call.dims(1)
    return int(bounds[0].dim_value) if bounds and bounds[0].HasField("dim_value") else rank


def _counted(call: NodeCall) -> None:
    """The numbers from 0 to a dimension of the second input, of the type of the first."""
    dims, axis = call.dims(1), call.number("axis", 0)
    is_known = dims is not None and -len(dims) <= axis < len(dims)
    call.set(call.elem_type(), [dims[axis] if dims is not None and is_known else None])


_LIKE_FIRST = (
    "BiasGelu",
    "FastGelu",
    "Gelu",
    "Inverse",
    "QuickGelu",
    "RotaryEmbedding",
    "SimplifiedLayerNormalization",
)

_FUNCTIONS: Mapping[tuple[str, str], Callable[[NodeCall], None]] = {
    ("ai.onnx.ml", "Scaler"): _floats_like_first,
    ("ai.onnx.ml", "Normalizer"): _floats_like_first,
    ("ai.onnx.ml", "Imputer"): _like_first,
    ("ai.onnx.ml", "FeatureVectorizer"): _feature_vectorizer,
    ("ai.onnx.ml", "LinearRegressor"): _linear_regressor,
    ("ai.onnx.ml", "SVMRegressor"): _svm_regressor,
    ("ai.onnx.ml", "SVMClassifier"): _classifier,
    ("ai.onnx.ml", "TreeEnsembleRegressor"): _tree_regressor,
    ("ai.onnx.ml", "TreeEnsembleClassifier"): _classifier,
    (DOMAIN, "Contracted"): contracted,
    (DOMAIN, "Cut"): _cut,
    (DOMAIN, "Counted"): _counted,
    (DOMAIN, "Framed"): _framed,
    (DOMAIN, "Pooled"): _pooled,
    (DOMAIN, "Resized"): _resized,
    (DOMAIN, "Shaped"): _shaped,
    (DOMAIN, "Sorted"): _sorted,
    ("com.microsoft", "CDist"): _distances,
    ("com.microsoft", "FusedMatMul"): _fused_product,
    ("com.microsoft", "SkipLayerNormalization"): _skipped,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): _skipped,
    **{("com.microsoft", name): _like_first for name in _LIKE_FIRST},
}


def has_shape_function(node: onnx.NodeProto) -> bool:
    """Whether an operator has a shape function here."""
    return (node.domain, node.op_type) in _FUNCTIONS


def stand_in_typed(node: onnx.NodeProto) -> None:
    """Make a node one whose types are inferred by its shape function."""
    register_operator(_OP_TYPE, DOMAIN, VERSION, _attributes, _infer)
    name = onnx.helper.make_attribute(_NAME, [node.domain, node.op_type])
    node.attribute.append(name)
    node.domain, node.op_type = DOMAIN, _OP_TYPE


def _attributes(schema: Any) -> list[Any]:
    return [schema.Attribute(_NAME, schema.AttrType.STRINGS)]


def _infer(context: Any) -> None:
    domain, op_type = (text.decode() for text in context.get_attribute(_NAME).strings)
    _FUNCTIONS[domain, op_type](NodeCall(context))
