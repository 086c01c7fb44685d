"""Products of samples that differ along several axes: padded with zeros, multiplied, cut again.

Matrices ``[2, 3]`` and ``[1, 4]`` by ``[3, 5]`` and ``[4, 5]`` are padded to ``[2, 2, 4]`` and
``[2, 4, 5]``. Of the product ``[2, 2, 5]`` ten and five numbers are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from passes.batching.context import Context, Operand, Output
from passes.batching.flat.families.masked import cut_to, lengths_of, masked
from passes.batching.flat.families.row_by_row import matrix_rows
from passes.batching.flat.laying import packed_laid_out
from passes.batching.flat.moves import stacked_rule
from passes.batching.layouts import Batched
from passes.batching.lengths import Lengths
from passes.decisions import Code, Decline
from passes.graph.equations import lettered

__all__ = ["einsum", "product"]


def product(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """MatMul: of each row by a shared matrix, or of matrices of several sizes."""
    a, b = (ctx.operand(operands, index) for index in (0, 1))
    keeps_rows = a.is_flat and b.is_shared and b.rank in (1, 2)
    if keeps_rows and a.flat is not None and not a.flat.is_ragged(a.rank - 1):
        return matrix_rows(ctx, node, operands)
    if a.rank < 2 or b.rank < 2:
        raise Decline(Code.RAGGED, "one side is a vector beside several axes that differ")
    rank = max(a.rank, b.rank)
    batch = [chr(ord("A") + axis) for axis in range(rank - 2)]
    left = [*batch[rank - a.rank :], "m", "k"]
    right = [*batch[rank - b.rank :], "k", "n"]
    return _summed(ctx, node, [a, b], [left, right], [*batch, "m", "n"])


def einsum(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output]:
    """Einsum: what is summed over is padded with zeros."""
    present = [ctx.operand(operands, index) for index in range(len(operands))]
    found = lettered(node.attributes.get_string("equation", ""), [x.rank for x in present])
    if found is None:
        raise Decline(Code.NO_RULE, "its equation has another rank than its operands")
    terms, result = found
    if any(len(set(term)) < len(term) for term in terms):
        raise Decline(Code.NO_RULE, "its equation has a letter twice in a term")
    return _summed(ctx, node, present, terms, result)


def _summed(
    ctx: Context,
    node: ir.Node,
    operands: Sequence[Batched],
    terms: Sequence[Sequence[str]],
    result: Sequence[str],
) -> Sequence[Output]:
    """Sum products of samples over named axes.

    Args:
        ctx: The context.
        node: The node.
        operands: Its operands.
        terms: The names of the axes of each.
        result: The names of the axes of its result.

    Raises:
        Decline: Samples are not proven to fit.
    """
    laid = [packed_laid_out(ctx, x) if x.is_packed else x for x in operands]
    sizes = _sizes(ctx, laid, terms)
    given = [x if x.flat is None else masked(ctx, x) for x in laid]
    (made,) = stacked_rule(ctx, node, given)
    cut = {axis: sizes[name] for axis, name in enumerate(result) if name in sizes}
    return [cut_to(ctx, made.value, laid[0], len(result), cut)]


def _sizes(
    ctx: Context, operands: Sequence[Batched], terms: Sequence[Sequence[str]]
) -> dict[str, Lengths]:
    """Return the sizes of the axes along which samples differ, by their names.

    Raises:
        Decline: An axis of one name is not proven to have one size.
    """
    found: dict[str, Lengths] = {}
    for x, names in zip(operands, terms, strict=True):
        if x.differs:
            for axis, lengths in lengths_of(ctx, x).items():
                known = found.setdefault(names[axis], lengths)
                if not known.equal(lengths):
                    raise Decline(Code.RAGGED, "its operands are not proven to fit")
    for x, names in zip(operands, terms, strict=True):
        ragged = lengths_of(ctx, x) if x.differs else {}
        if any(name in found and axis not in ragged for axis, name in enumerate(names)):
            raise Decline(Code.RAGGED, "its operands are not proven to fit")
    return found
