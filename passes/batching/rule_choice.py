"""Chooses the rule of a node, by its operator and the layouts of its operands, and runs it.

A rule that takes no flat samples reads them stacked or packed. What it yields packed is stacked
where the samples are proven to be equally long.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, MutableMapping, Sequence

import onnx_ir as ir

from passes.batching import rules, table
from passes.batching.context import Context, Operand, Output, Rule
from passes.batching.flat import flat_rules
from passes.batching.flat.laying import packed_laid_out
from passes.batching.flat.moves import stacked_or_packed
from passes.batching.layouts import Batched, Layout, with_flat
from passes.batching.packed import rules as packed_rules
from passes.batching.packed.evening import evened
from passes.batching.promotion import Promotions
from passes.decisions import Code, Decline
from passes.graph.drafts import drafting
from passes.graph.graphs import captured_values, is_default_domain, is_operator, subgraphs
from passes.typing import ValueType

__all__ = ["RuleChoice", "choose_rule", "may_be_discrete", "run_rule", "widens"]

# They fill the table.
assert rules
assert packed_rules
assert flat_rules

_FLAGS = frozenset(
    [
        "allowzero",
        "ceil_mode",
        "count_include_pad",
        "exclusive",
        "keepdims",
        "largest",
        "noop_with_empty_axes",
        "reverse",
        "select_last_index",
        "transA",
        "transB",
        "upper",
    ]
)
"""Attributes that are flags, whatever the operator."""


@dataclasses.dataclass(frozen=True)
class RuleChoice:
    """The rule that batches one node.

    Attributes:
        rule: The rule.
        rounds: Whether what it yields may be rounded otherwise than sample by sample.
        is_discrete: Whether the operator may yield something else for what is rounded otherwise.
        takes_flat: Whether it reads flat operands as they are.
    """

    rule: Rule
    rounds: bool
    is_discrete: bool
    takes_flat: bool


def choose_rule(
    node: ir.Node,
    said: table.Row | table.Unsupported | None,
    operands: Sequence[Batched],
    promotions: Promotions,
    opset: int,
    *,
    takes_flat: bool,
) -> RuleChoice:
    """Return the rule for a node.

    Args:
        node: The node.
        said: What the table says of its operator.
        operands: What it reads, by its graphs too.
        promotions: Which per-sample operands will be stacked, and which packed.
        opset: Version of ONNX's operators.
        takes_flat: Whether packed operands may be read as flat ones of one axis.

    Raises:
        Decline: There is none for this operator, or none for such operands.
    """
    if said is None:
        if not is_default_domain(node):
            raise Decline(Code.NO_RULE, f"{node.domain}.{node.op_type} has no rule")
        raise Decline(Code.NO_RULE, f"{node.op_type} has no rule at opset {opset}")
    if isinstance(said, table.Unsupported):
        raise Decline(said.code, said.reason)
    for name in _FLAGS & node.attributes.keys():
        if node.attributes.get_int(name, 0) not in (0, 1):
            raise Decline(Code.NO_RULE, f"its {name} is neither 0 nor 1: runtimes do not agree")
    _check_bounds(node, operands)
    flat = _flat_row(node, operands, opset)
    is_packed = flat is None and any(x.is_packed for x in operands)
    laid = table.find_flat(node, opset) if takes_flat and is_packed else None
    try:
        ragged = _packed_row(node, operands, promotions, opset) if flat is None else flat
    except Decline:
        if laid is None:
            raise
        return RuleChoice(_laying(laid.rule), said.rounding or laid.rounding, said.discrete, True)
    rounds = said.rounding or table.may_round_inside(node, opset)
    rounds = rounds or any(one is not None and one.rounding for one in (ragged, laid))
    rule = said.rule if ragged is None else ragged.rule
    if laid is not None:
        rule = _or_laid(rule, laid.rule)
    return RuleChoice(rule, rounds, said.discrete, flat is not None)


def _check_bounds(node: ir.Node, operands: Sequence[Batched]) -> None:
    """Refuse a Slice by bounds that are no vectors: inference takes it, and no runtime runs it."""
    if not is_operator(node, "Slice"):
        return
    known = [bound.type.dims for bound in operands[1 : len(node.inputs)]]
    if any(dims is not None and len(dims) != 1 for dims in known):
        detail = "its bounds are no vectors: runtimes refuse it in the model as given"
        raise Decline(Code.NO_RULE, detail)


def may_be_discrete(node: ir.Node, opset: int, type_of: Callable[[ir.Value], ValueType]) -> bool:
    """Whether rounding of its operands may change a result by more than rounding: a Floor.

    Args:
        node: The node.
        opset: Version of ONNX's operators.
        type_of: Returns what is known of a value.
    """
    said = table.find(node, opset)
    if isinstance(said, table.Row) and widens(node, type_of):
        return False
    return not isinstance(said, table.Row) or said.discrete or any(subgraphs(node))


def widens(node: ir.Node, type_of: Callable[[ir.Value], ValueType]) -> bool:
    """Whether a node is a Cast of floats that rounds none of them."""
    if not is_operator(node, "Cast"):
        return False
    types = [type_of(v).type for v in (*node.inputs, *node.outputs) if v is not None]
    sizes = [_WIDTHS.get(one.dtype, 0) for one in types if one is not None]
    return len(sizes) == 2 and 0 < sizes[0] <= sizes[1]


_WIDTHS = {ir.DataType.FLOAT16: 16, ir.DataType.FLOAT: 32, ir.DataType.DOUBLE: 64}


def _flat_row(node: ir.Node, operands: Sequence[Batched], opset: int) -> table.RaggedRow | None:
    """Return the rule for flat operands, None where none is flat or all are simply read."""
    if not any(x.is_flat for x in operands):
        return None
    found = table.find_flat(node, opset)
    differs = any(x.differs or x.is_packed for x in operands)
    if found is not None and not found.stays_flat and not differs:
        return None
    if found is None and not all(map(_is_simple, operands)):
        raise Decline(Code.NO_RULE, "it has no rule for samples that differ along several axes")
    return found


def _or_laid(rule: Rule, flat: Rule) -> Rule:
    """Return a rule for packed operands that takes them as flat ones where it declines."""
    laid = _laying(flat)

    def either(
        ctx: Context, node: ir.Node, operands: Sequence[Operand]
    ) -> Sequence[Output | None]:
        try:
            with drafting() as draft:
                found = rule(ctx, node, operands)
                draft.keep_all()
        except Decline as decline:
            try:
                return laid(ctx, node, operands)
            except Decline:
                raise decline from None
        return found

    return either


def _laying(rule: Rule) -> Rule:
    """Return a rule for flat operands that takes packed ones as such."""

    def laid(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> Sequence[Output | None]:
        given = [packed_laid_out(ctx, x) if x is not None and x.is_packed else x for x in operands]
        return rule(ctx, node, given)

    return laid


def _is_simple(x: Batched) -> bool:
    """Whether a value is not flat, or can be read as a stacked or packed one."""
    return x.flat is None or x.flat.has_one_shape or x.flat.ragged_axis is not None


def _packed_row(
    node: ir.Node, operands: Sequence[Batched], promotions: Promotions, opset: int
) -> table.RaggedRow | None:
    """Return the rule for packed operands, None where none is packed."""
    if not any(_will_be_packed(x, promotions) for x in operands):
        return None
    found = table.find_packed(node, opset)
    if found is None:
        raise Decline(Code.NO_RULE, "it has no rule for samples of different length")
    if any(_ragged_axis(x, promotions) for x in operands) and not found.any_axis:
        raise Decline(Code.RAGGED, "its samples may differ in length behind the first axis")
    if any(x.beside for x in operands) and not found.two_axes:
        raise Decline(Code.RAGGED, "its samples differ in length along two axes")
    return found


def _will_be_packed(x: Batched, promotions: Promotions) -> bool:
    if x.flat is not None:
        return x.flat.ragged_axis is not None
    is_apart = x.layout is Layout.PER_SAMPLE
    return x.is_packed or (is_apart and promotions.is_packable(x.value))


def _ragged_axis(x: Batched, promotions: Promotions) -> int:
    if x.flat is not None:
        return x.flat.ragged_axis or 0
    return promotions.axis(x.value) if x.layout is Layout.PER_SAMPLE else x.axis


def run_rule(
    ctx: Context,
    chosen: RuleChoice,
    node: ir.Node,
    operands: Sequence[Operand],
    env: MutableMapping[ir.Value, Batched],
) -> list[Output | None]:
    """Record the batched form of a node and return its outputs.

    Args:
        ctx: The surroundings of the node.
        chosen: The rule.
        node: The node of the body.
        operands: What it reads.
        env: How the values of the body are held, which its graphs capture.

    Raises:
        Decline: The rule declines.
    """
    if chosen.takes_flat:
        outputs = chosen.rule(ctx, node, operands)
    else:
        given = with_flat(operands, functools.partial(stacked_or_packed, ctx))
        with _captures_read(ctx, node, env):
            outputs = chosen.rule(ctx, node, given)
    pairs = zip(node.outputs, outputs, strict=True)
    return [
        x if x is None or x.lengths is None else evened(ctx, x, _rank(ctx, value))
        for value, x in pairs
    ]


@contextlib.contextmanager
def _captures_read(
    ctx: Context, node: ir.Node, env: MutableMapping[ir.Value, Batched]
) -> Iterator[None]:
    """Let what the graphs of a node capture be stacked or packed where it is flat."""
    captured = {v for _, graph in subgraphs(node) for v in captured_values(graph)}
    flat = {v: x for v in captured if (x := env.get(v)) is not None and x.is_flat}
    env.update({v: stacked_or_packed(ctx, x) for v, x in flat.items()})
    try:
        yield
    finally:
        env.update(flat)


def _rank(ctx: Context, value: ir.Value) -> int | None:
    dims = ctx.type_of(value).dims
    return None if dims is None else len(dims)
