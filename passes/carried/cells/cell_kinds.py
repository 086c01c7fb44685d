"""Recognises what a recurrent operator computes: RNN, GRU or LSTM.

=====  ==========================================================================================
RNN    ``h = f(x @ w + h @ r + b)``
GRU    ``h = z * h + (1 - z) * n`` with ``n = g(x @ w + b + q * (h @ r + d))``, or
       ``n = g(x @ w + b + (q * h) @ r)``; ``z`` and ``q`` are such as the ``h`` of an RNN
LSTM   ``c = f * c + i * g`` and ``h = o * tanh(c)``; or ``c = (1 - i) * c + i * g``; the gates
       ``i`` and ``f`` may read ``p * c`` of the ``c`` before the step, ``o`` of that behind it
=====  ==========================================================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import onnx_ir as ir

from passes.carried.cells.cell_sums import (
    Bias,
    Factor,
    Gate,
    MatrixProduct,
    NotACellError,
    Sum,
    Weight,
)
from passes.carried.cells.cell_weights import Affine

__all__ = ["CellKind", "kind_of_one", "kind_of_two"]

_T = TypeVar("_T")
Products = Mapping[frozenset[Factor], float]


@dataclasses.dataclass(frozen=True)
class CellKind:
    """A recurrent operator.

    Attributes:
        op_type: The operator.
        gates: What its gates are computed of, in its order.
        attributes: Its attributes, beside ``hidden_size``.
        weights: ``W``, ``R`` and ``B`` where the body has them as they are, and no gates.
        node: The operator of one step that the body has then.
    """

    op_type: str
    gates: Sequence[Affine]
    attributes: Mapping[str, Any]
    weights: tuple[ir.Value | None, ...] = ()
    node: ir.Node | None = None


def kind_of_one(h: ir.Value, total: Sum) -> CellKind:
    """Return the operator that has one state.

    Args:
        h: The state at the start of an iteration.
        total: The same at its end.

    Raises:
        NotACellError: There is none.
    """
    products = total.as_dict()
    if len(products) == 1:
        gate = _one_of(_gates(_only(products)))
        return CellKind("RNN", [_affine(gate.total, h)], {"activations": [gate.op_type]})
    update, is_turned, candidate = _mixed(products, h)
    reset, new, is_behind = _candidate(candidate.total, h)
    if reset.op_type != update.op_type:
        raise NotACellError
    gates = [_turned(update, h) if is_turned else _affine(update.total, h)]
    gates += [_affine(reset.total, h), new]
    attributes: dict[str, Any] = {
        "activations": [update.op_type, candidate.op_type],
        "linear_before_reset": int(is_behind),
    }
    return CellKind("GRU", gates, attributes)


def kind_of_two(h: ir.Value, c: ir.Value, given: Sum, kept: Sum) -> CellKind:
    """Return the operator that has two states: LSTM.

    Args:
        h: The state that is shown, at the start of an iteration.
        c: The state that is kept.
        given: What is shown at the end.
        kept: What is kept at the end.

    Raises:
        NotACellError: It is something else.
    """
    shown, output = _pair(_gates(_only(given.as_dict())), lambda one, _: one.total == kept)
    products = kept.as_dict()
    rest = {factors: n for factors, n in products.items() if c not in factors}
    mine = {factors - {c}: n for factors, n in products.items() if c in factors}
    added = _gates(_only(rest))
    if len(mine) == 1:
        forget = _one_of(_gates(_only(mine)))
        entry, new = _pair(added, lambda one, other: one.op_type == forget.op_type)
        forgets = _affine(forget.total, h, c)
    else:
        entry, new = _pair(added, lambda one, _: mine == _one_less(one))
        forget, forgets = entry, _turned(entry, h, c)
    if not entry.op_type == output.op_type == forget.op_type:
        raise NotACellError
    gates = [_affine(entry.total, h, c), _output(output.total, h, kept)]
    gates += [forgets, _affine(new.total, h)]
    attributes = {"activations": [entry.op_type, new.op_type, shown.op_type]}
    return CellKind("LSTM", gates, attributes)


def _only(products: Products) -> frozenset[Factor]:
    """Return the factors of the only product, which no number stands in front of."""
    if list(products.values()) != [1.0]:
        raise NotACellError
    return next(iter(products))


def _gates(factors: frozenset[Factor]) -> list[Gate]:
    """Return the factors of a product of gates."""
    gates = [one for one in factors if isinstance(one, Gate)]
    if not gates or len(gates) != len(factors):
        raise NotACellError
    return gates


def _pair(gates: Sequence[Gate], is_first: Callable[[Gate, Gate], bool]) -> tuple[Gate, Gate]:
    """Return two gates in the only order that is right."""
    if len(gates) != 2:
        raise NotACellError
    one, other = gates
    return _one_of([pair for pair in ((one, other), (other, one)) if is_first(*pair)])


def _one_less(gate: Gate) -> Products:
    """Return ``1 - gate``."""
    return {frozenset(): 1.0, frozenset([gate]): -1.0}


def _mixed(products: Products, h: ir.Value) -> tuple[Gate, bool, Gate]:
    """Return the gate by which a state and a candidate are mixed, and the candidate.

    Beside the gate stands whether it is that of the candidate, and not of the state.
    """
    mine = {factors - {h}: n for factors, n in products.items() if h in factors}
    rest = {factors: n for factors, n in products.items() if h not in factors}
    update = _one_of(_gates(frozenset[Factor]().union(*mine)))
    new = _one_of(_gates(frozenset[Factor]().union(*rest) - {update}))
    both, alone = frozenset([new, update]), frozenset([new])
    if mine == {frozenset([update]): 1.0} and rest == {alone: 1.0, both: -1.0}:
        return update, False, new
    if mine == _one_less(update) and rest == {both: 1.0}:
        return update, True, new
    raise NotACellError


def _candidate(total: Sum, h: ir.Value) -> tuple[Gate, Affine, bool]:
    """Return the gate that resets the state, the candidate, and where the gate is applied.

    Behind the product with the state (True), or before it.
    """
    products = total.as_dict()
    behind = {f for factors in products for f in factors if isinstance(f, Gate)}
    if not behind:
        operands = {
            f.operand for factors in products for f in factors if isinstance(f, MatrixProduct)
        }
        state = _one_of([one for one in operands if isinstance(one, Sum)])
        factors = _only(state.as_dict())
        reset = _one_of(_gates(factors - {h}))
        if h not in factors:
            raise NotACellError
        return reset, _affine(total, state), False
    reset = _one_of(list(behind))
    given = {factors: n for factors, n in products.items() if reset not in factors}
    gated = {factors - {reset}: n for factors, n in products.items() if reset in factors}
    own, beside = _affine(Sum(frozenset(gated.items())), h), _affine(Sum(frozenset(given.items())))
    if own.rows or not own.hidden:
        raise NotACellError
    return reset, Affine(beside.rows, own.hidden, beside.bias, own.bias), True


def _one_of(found: Sequence[_T]) -> _T:
    """Return the only one."""
    if len(found) != 1:
        raise NotACellError
    return found[0]


def _output(total: Sum, h: ir.Value, kept: Sum) -> Affine:
    """Return the output gate of an LSTM, which reads the kept state at the end of the step."""
    products = total.as_dict()
    peephole: list[tuple[Bias, float]] = []
    read = {f for factors in products if len(factors) > 1 for f in factors if isinstance(f, Bias)}
    for bias in read:
        terms = {factors | {bias}: n for factors, n in kept.parts}
        first, number = next(iter(terms.items()))
        share = products.get(first, 0.0) / number
        if any(products.pop(factors, None) != share * n for factors, n in terms.items()):
            raise NotACellError
        peephole.append((bias, share))
    peephole.sort(key=_place)
    affine = _affine(Sum(frozenset(products.items())), h)
    return dataclasses.replace(affine, peephole=tuple(peephole))


def _turned(gate: Gate, h: ir.Value, c: ir.Value | None = None) -> Affine:
    """Return what ``1 - sigmoid(x)`` is the sigmoid of: ``-x``."""
    if gate.op_type != "Sigmoid":
        raise NotACellError
    return _affine(gate.total, h, c).turned()


def _affine(
    total: Sum, state: ir.Value | Sum | None = None, kept: ir.Value | None = None
) -> Affine:
    """Return a sum as products with matrices.

    Args:
        total: The sum.
        state: What is multiplied by the matrices of the state.
        kept: The kept state of an LSTM, which vectors may be multiplied by.
    """
    hidden = Sum.of(state) if isinstance(state, ir.Value) else state
    rows: list[tuple[ir.Value, Weight, float]] = []
    own: list[tuple[Weight, float]] = []
    biases: list[tuple[Bias | None, float]] = []
    peephole: list[tuple[Bias, float]] = []
    for factors, number in total.parts:
        if kept in factors:
            vector = _one_of(list(factors - {kept}))
            if not isinstance(vector, Bias):
                raise NotACellError
            peephole.append((vector, number))
            continue
        factor = next(iter(factors), None)
        if len(factors) > 1:
            raise NotACellError
        if factor is None or isinstance(factor, Bias):
            biases.append((factor, number))
        elif not isinstance(factor, MatrixProduct):
            raise NotACellError
        elif factor.operand == hidden:
            own.append((factor.weight, number))
        elif isinstance(factor.operand, ir.Value):
            rows.append((factor.operand, factor.weight, number))
        else:
            raise NotACellError
    for parts in (rows, own, biases, peephole):
        parts.sort(key=_place)
    return Affine(tuple(rows), tuple(own), tuple(biases), peephole=tuple(peephole))


def _place(part: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what parts of a gate are sorted by: the name of a weight, and which part it is."""
    weight = part[-2]
    name = "" if weight is None else str(weight.value.name)
    return (name, getattr(weight, "rows", ()), getattr(weight, "columns", ()), part[-1])
