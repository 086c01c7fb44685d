"""The table's rules for flat operands, by family; what has none here stays per-sample."""

from __future__ import annotations

import functools

from passes.batching.families.branches import branch
from passes.batching.families.elementwise import in_inference
from passes.batching.flat.families import (
    arranging,
    beside,
    cutting,
    entries,
    lines,
    lookups,
    masked,
    normalizing,
    products,
    reducing,
    regridding,
    repeating,
    row_by_row,
    windowed,
    windows,
)
from passes.batching.flat.families.elements import gather_elements, scatter_elements, unique
from passes.batching.flat.families.grid_sample import grid_sample
from passes.batching.flat.families.joining import concat
from passes.batching.flat.families.regions import regions_of_images
from passes.batching.flat.families.reversing import reverse_sequence
from passes.batching.flat.families.splitting import split
from passes.batching.flat.resizing.resize import resize
from passes.batching.packed.rules import BROADCASTING, UNARY
from passes.batching.table import register_flat

# What need not read samples of one shape off their rows.
_keep = functools.partial(register_flat, stays_flat=True)
_keep(UNARY, row_by_row.broadcasting)
_keep(BROADCASTING, row_by_row.broadcasting)
_keep("Clip", row_by_row.clip, since=11)
_keep("Dropout", in_inference(row_by_row.broadcasting), since=7)
_keep("PRelu", row_by_row.broadcasting)
_keep("Shape", arranging.shape)
_keep("Size", arranging.size)
_keep("Transpose", arranging.transpose)
_keep("Unsqueeze", arranging.unsqueeze)
_keep("Squeeze", arranging.squeeze)
_keep("Tile", repeating.tile, since=6)
_keep("Reshape", regridding.reshape, since=5)
_keep("Split", split, since=13)
_keep("If", branch, since=16)
_keep("Resize", resize, since=11)
_keep("CenterCropPad", windows.center_crop_pad, since=18)
_keep("Pad", windows.pad, since=11)
_keep("Slice", cutting.slice_, since=10)
_keep("RoiAlign", regions_of_images, rounding=True, since=10)

register_flat("MatMul", products.product)
register_flat("Einsum", products.einsum)
register_flat("Concat", concat)
register_flat("EyeLike", arranging.eye_like)
register_flat("Expand", repeating.expand)
register_flat("DepthToSpace SpaceToDepth", repeating.blocks)
register_flat("Flatten", regridding.flatten)
register_flat(
    "ReduceMax ReduceMin ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp ReduceSumSquare",
    reducing.reduction,
)

# Along an axis of each row.
register_flat("Softmax LogSoftmax", lines.softmax, rounding=True, since=13)
register_flat("Hardmax", lines.softmax, since=13)
register_flat("LpNormalization", beside.along(-1))
register_flat("TopK", lines.top_k)
register_flat("ArgMax ArgMin", lines.position_of_best)
register_flat("LayerNormalization RMSNormalization", beside.trailing)
register_flat("Gather", lookups.gather)
register_flat("NonZero", entries.non_zero, since=16)
_keep("GatherND", entries.gather_nd, since=12)
_keep("ScatterND", entries.scatter_nd, since=12)
_keep("GatherElements", gather_elements, since=11)
_keep("ScatterElements", scatter_elements, since=11)
register_flat("Unique", unique, since=16)
register_flat("OneHot", lookups.one_hot)
register_flat("QuantizeLinear DequantizeLinear", lookups.quantization)
register_flat("DynamicQuantizeLinear", lookups.dynamic_quantization)

register_flat("GlobalAveragePool GlobalLpPool GlobalMaxPool", reducing.global_pool, rounding=True)
register_flat("BatchNormalization", normalizing.batch_normalization, rounding=True, since=15)
register_flat("InstanceNormalization", normalizing.instance_normalization)
register_flat("GroupNormalization", normalizing.group_normalization, since=18)
register_flat("MeanVarianceNormalization", normalizing.mean_variance, since=9)

# Images padded to the largest.
register_flat("CumSum Trilu LRN", masked.as_largest)
register_flat("ConvTranspose", windowed.transposed)
register_flat("Conv", windowed.convolution)
register_flat("MaxPool AveragePool LpPool", windowed.pool, rounding=True, since=11)

register_flat("GridSample", grid_sample, rounding=True, since=16)
register_flat("ReverseSequence", reverse_sequence, since=10)
