"""Finds the nodes that cannot fail at run time, for any operand values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import onnx_ir as ir

from passes.batching import table
from passes.batching.scale_fits import QUANTIZING, scale_fits
from passes.graph.graphs import constant_value, is_default_domain, subgraphs
from passes.graph.made import (
    made_by,
    only_number,
    operand,
    operands,
    optional_operand,
    skip_identities,
)
from passes.graph.passed_lengths import checks_passed_lengths
from passes.numbers.folding import Folder
from passes.numbers.integers import Atom, Dim, Greatest, Least, Length, Linear
from passes.typing import Typing, ValueType

__all__ = ["FARTHEST", "OF_SOMETHING", "cannot_fail", "is_dimension", "is_near", "is_total"]

FARTHEST = 1 << 20
"""How far from 0 a Range may begin that runs without need: from farther on it takes megabytes."""

_BY_SHAPE = frozenset({"ConstantOfShape", "MatMul", "Reshape", "Split", "Squeeze", "Tile"})
"""Operators that inference checks whole once it knows all dimensions."""


_MOST_TIMES = 2
"""So often a dimension may count in a number that is near."""

_MOST = 1 << 28
"""How many numbers a result may hold that is made without need: more may find no memory."""

_SUMS = frozenset({"ReduceL1", "ReduceL2", "ReduceProd", "ReduceSum", "ReduceSumSquare"})
"""Reductions that have a result for no numbers, too."""

OF_SOMETHING = frozenset(
    {"ArgMax", "ArgMin", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"}
)
"""Reductions that have no result for no numbers."""

_BY_FLOATS = frozenset({"Div", "Mod", "Pow"})
"""Operators that yield inf or NaN for floats where they may fail for integers."""


def is_total(node: ir.Node, opset: int, type_of: Callable[[ir.Value], ValueType]) -> bool:
    """Whether a node yields a result for all operand values of fitting shapes.

    Args:
        node: The node.
        opset: Version of ONNX's operators.
        type_of: Tells what is known of a value.
    """
    row = table.find(node, opset)
    if isinstance(row, table.Row) and row.total:
        return True
    if not is_default_domain(node) or not node.inputs or node.inputs[0] is None:
        return False
    first = type_of(node.inputs[0])
    dtype = None if first.type is None else first.type.dtype
    ranked = first.dims is not None
    if dtype is None:
        return False
    if node.op_type == "Slice":
        return ranked and _cuts_forwards(node)
    if node.op_type in _SUMS:
        axes = optional_operand(node, 1)
        return ranked and (axes is None or constant_value(axes) is not None)
    if node.op_type in ("Cast", "CastLike"):
        return dtype != ir.DataType.STRING
    if node.op_type in _BY_FLOATS:
        return dtype.is_floating_point() or _divides_by_constant(node)
    return False


def _cuts_forwards(node: ir.Node) -> bool:
    """Whether a Slice has constant axes and steps other than 0: bounds may be anything."""
    axes, steps = (constant_value(v) for v in (*node.inputs[3:5], None, None)[:2])
    has_axes, has_steps = (v is not None for v in (*node.inputs[3:5], None, None)[:2])
    if len(node.inputs) < 3 or (has_axes and axes is None) or (has_steps and steps is None):
        return False
    return steps is None or bool((steps != 0).all())


def _divides_by_constant(node: ir.Node) -> bool:
    """Whether the divisor is a constant whose numbers cannot fail (the least one by -1 can)."""
    divisor = constant_value(skip_identities(operand(node, 1)))
    return node.op_type != "Pow" and divisor is not None and bool((divisor > 0).all())


def cannot_fail(node: ir.Node, typing: Typing) -> bool:
    """Whether a node may run where it would not have run, because it cannot fail there.

    Args:
        node: A node with shared operands.
        typing: The proven typing.
    """
    if not is_default_domain(node):
        return False
    if is_total(node, 1 << 20, typing.__getitem__) or checks_passed_lengths(node):
        return True
    if node.op_type == "If":
        return _is_one_flag(node, typing) and all(
            cannot_fail(inner, typing) for _, graph in subgraphs(node) for inner in graph
        )
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    if node.op_type == "Slice":  # which inference checks whole once it knows the ranks
        return all(typing.rank(v) is not None for v in values)
    static = all(typing.static_dims(v) is not None for v in values)
    if node.op_type in _BY_SHAPE and static:
        return all(math.prod(typing.static_dims(v) or ()) <= _MOST for v in node.outputs)
    if node.op_type in OF_SOMETHING and static:
        return 0 not in (typing.static_dims(operand(node, 0)) or ())
    if node.op_type == "ConstantOfShape":
        return is_dimension(operand(node, 0)) or _counts_few(operand(node, 0), typing)
    if node.op_type == "Expand":
        return _expands(node, typing)
    if node.op_type == "Gather" and static:
        return _is_in_range(node, typing)
    if node.op_type == "CumSum":
        axis, rank = constant_value(node.inputs[1]), typing.rank(node.outputs[0])
        return axis is not None and rank is not None and -rank <= int(axis) < rank
    if node.op_type in QUANTIZING:
        return scale_fits(node, typing)
    if node.op_type == "ReverseSequence":
        return _reverses_whole_axis(node, typing)
    return node.op_type == "Range" and _counts_dimension(node, typing)


_KEEPS_NUMBERS = frozenset({"Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"})


def _counts_dimension(node: ir.Node, typing: Typing) -> bool:
    """Whether a Range goes from a constant to a dimension, both near, in constant steps."""
    start, limit, step = operands(node)
    if typing.dtype(limit) not in (ir.DataType.INT32, ir.DataType.INT64):
        return False
    given, by = only_number(start), only_number(step)
    if given is None or not by:
        return False
    return abs(given) <= FARTHEST and (is_dimension(limit) or is_near(limit, typing))


def is_near(value: ir.Value, typing: Typing) -> bool:
    """Whether a number is not much farther from 0 than dimensions are, like ``max(n - 1, 0)``."""
    number = Folder(typing).number(value)
    return number is not None and _has_near_parts(number)


def _has_near_parts(number: Linear) -> bool:
    parts = [(_inner(atom), count) for atom, count in number.terms]
    return abs(number.constant) <= FARTHEST and all(
        abs(count) <= _MOST_TIMES and inner is not None and all(map(_has_near_parts, inner))
        for inner, count in parts
    )


def _inner(atom: Atom) -> Iterable[Linear] | None:
    """Return the numbers that an atom is found by, None for one that may be any number."""
    if isinstance(atom, Dim | Length):
        return ()
    return atom.members if isinstance(atom, Least | Greatest) else None


def _counts_few(shape: ir.Value, typing: Typing) -> bool:
    """Whether all numbers of a shape are known, and neither less than 0 nor large together.

    Inference tells no dimension of 0: PyTorch fills the amounts of a Pad with so many zeros.
    """
    sizes = Folder(typing).value(shape)
    return sizes is not None and bool((sizes >= 0).all()) and math.prod(sizes.tolist()) <= FARTHEST


def _expands(node: ir.Node, typing: Typing) -> bool:
    """Whether a tensor broadcasts to constants and dimensions that a shape is joined from."""
    filled, shape = operands(node)
    if _is_one_number(filled, typing) and is_dimension(shape):
        return True
    known = Folder(typing).value(shape)
    is_shape = known is not None and bool((known >= 0).all())
    if known is not None and math.prod(known.tolist()) > _MOST:
        return False
    dims = typing.dims(filled)
    entries = known.tolist() if known is not None and is_shape else _entries(shape, typing)
    if dims is None or entries is None:
        return False
    pairs = zip(reversed(dims), reversed(entries), strict=False)
    return all(own == 1 or asked == 1 or (asked and own == asked) for own, asked in pairs)


def _is_one_number(value: ir.Value, typing: Typing) -> bool:
    dims = typing.static_dims(value)
    return dims is not None and set(dims) <= {1}


def _entries(shape: ir.Value, typing: Typing) -> list[int | None] | None:
    """Return the constants of a shape, None for its dimensions; None if it holds anything else."""
    joined = made_by(shape, "Concat")
    found: list[int | None] = []
    for part in [shape] if joined is None else operands(joined):
        constant, dims = constant_value(part), typing.static_dims(part)
        if constant is not None and (constant >= 0).all():
            found += constant.reshape(-1).tolist()
        elif dims is not None and is_dimension(part):
            found += [None] * math.prod(dims)
        else:
            return None
    return found


def is_dimension(value: ir.Value) -> bool:
    """Whether a value is dimensions of one tensor."""
    while (node := value.producer()) is not None:
        if not is_default_domain(node):
            return False
        if node.op_type == "Shape":
            return True
        to = node.attributes.get_int("to", 0)
        is_integer = node.op_type == "Cast" and to in (ir.DataType.INT32, ir.DataType.INT64)
        if node.op_type not in _KEEPS_NUMBERS and not is_integer:
            return False
        value = operand(node, 0)
    return False


def _reverses_whole_axis(node: ir.Node, typing: Typing) -> bool:
    """Whether a ReverseSequence reverses all of an axis: TensorFlow's exporter flips by one."""
    data, lengths = operands(node)
    folder, made = Folder(typing), made_by(lengths, "Expand")
    if made is None:
        numbers = folder.of(lengths) or ()
        count: Linear | None = Linear(len(numbers))
    else:
        number, count = map(folder.number, operands(made))
        numbers = () if number is None else (number,)
    time, batch = (node.attributes.get_int(k, d) for k, d in (("time_axis", 0), ("batch_axis", 1)))
    if not numbers or count is None:
        return False
    is_whole = all(folder.is_dimension(number, data, time) for number in numbers)
    return is_whole and folder.is_dimension(count, data, batch)


def _is_one_flag(node: ir.Node, typing: Typing) -> bool:
    return typing.static_dims(operand(node, 0)) in ((), (1,))


def _is_in_range(node: ir.Node, typing: Typing) -> bool:
    data, indices = operands(node)
    positions, dims = constant_value(indices), typing.static_dims(data)
    if positions is None or not dims:
        return False
    size = dims[node.attributes.get_int("axis", 0)]
    return bool((positions >= -size).all() and (positions < size).all())
