"""Integers written as nodes."""

from __future__ import annotations

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.numbers.integers import (
    Atom,
    Dim,
    Entry,
    Greatest,
    IterationNumber,
    Least,
    Length,
    Linear,
    Quotient,
    Scalar,
    StateSymbol,
)

__all__ = ["is_writable", "write_number"]


def is_writable(number: Linear) -> bool:
    """Whether a number is the same in all iterations."""
    return not any(isinstance(atom, IterationNumber | StateSymbol) for atom in number.atoms())


def write_number(builder: Builder, number: Linear) -> ir.Value:
    """Record a number that is the same in all iterations as an int64 vector ``[1]``."""
    terms = sorted(number.terms, key=lambda term: (-term[1], describe(term[0])))
    written = ((_write_atom(builder, atom), count) for atom, count in terms)
    return builder.weighted_sum(written, number.constant)


def _write_atom(builder: Builder, atom: Atom) -> ir.Value:
    match atom:
        case Dim(_, tensor, axis):
            return builder.dimension(tensor, axis)
        case Length(sequence):
            length = builder.op("SequenceLength", [sequence])
            return builder.op("Reshape", [length, builder.ints(1)])
        case Scalar(value):
            whole = builder.op("Cast", [value], {"to": int(ir.DataType.INT64)})
            return builder.op("Reshape", [whole, builder.ints(1)])
        case Entry(vector, position):
            where = write_number(builder, position)
            found = builder.op("Gather", [vector, where], {"axis": 0})
            return builder.op("Cast", [found], {"to": int(ir.DataType.INT64)})
        case Least(members) | Greatest(members):
            op_type = "Min" if isinstance(atom, Least) else "Max"
            ordered = sorted(members, key=describe)
            return builder.op(op_type, [write_number(builder, m) for m in ordered])
        case Quotient(number, step):
            whole = write_number(builder, number + (step - 1))
            return builder.op("Div", [whole, builder.ints(step)])
        case IterationNumber() | StateSymbol():
            raise ValueError(f"{describe(atom)} differs from iteration to iteration")


def describe(item: Atom | Linear) -> str:
    """Return a text that is the same in every run: the order of sets of values is not."""
    match item:
        case Linear(constant, terms):
            parts = sorted(f"{count}*{describe(atom)}" for atom, count in terms)
            return " + ".join([*parts, str(constant)])
        case Dim(_, tensor, axis):
            return f"dimension {axis} of {tensor.name}"
        case Length(value) | Scalar(value) | StateSymbol(value):
            return f"{type(item).__name__} {value.name}"
        case Entry(vector, position):
            return f"{vector.name}[{describe(position)}]"
        case Least(members) | Greatest(members):
            return f"{type(item).__name__} of {', '.join(sorted(map(describe, members)))}"
        case Quotient(number, step):
            return f"parts of {step} of {describe(number)}"
        case IterationNumber():
            return "iteration"
