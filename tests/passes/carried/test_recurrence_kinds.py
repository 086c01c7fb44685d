"""The reductions and fixed-order recurrences that LLVM's vectorizer knows, each as a small loop.

The names are those of ``RecurKind`` in LLVM's ``IVDescriptors.h``; a kind of several forms stands
here once for each.
"""

from __future__ import annotations

import numpy as np
import pytest

from passes.decisions import Verdict
from tests.passes.carried.carried import LENGTHS, feeds
from tests.passes.carried.test_carried import FLAGS, INTS, ROW, Case
from tests.passes.loops import model, prove, read, same

INT32, BYTES = "int32[4]", "uint8[4]"
K32 = "q = Cast <to = 6> (ke)"
C32 = "Cast <to = 6> (c)"


def _unsigned(op_type: str, dtype: str, to: int) -> Case:
    body = f"h = Abs (ke)  q = Cast <to = {to}> (h)  s2 = {op_type} (s, q)"
    name = {"Max": "carried maximum", "Min": "carried minimum"}[op_type]
    return Case(f"{dtype}[4]", body, f"Cast <to = {to}> (f)", name, opset=18)


def _bits(op_type: str, state: str, body: str, begin: str) -> Case:
    name = {"And": "carried bitwise and", "Or": "carried bitwise or", "Xor": "carried bitwise xor"}
    return Case(state, f"{body}  s2 = Bitwise{op_type} (s, q)", begin, name[op_type], opset=18)


COMPARED = "l = {} (e, s)  s2 = Where (l, e, s)"
WITHOUT_NAN = "l = IsNaN (e)  u = {} (s, e)  s2 = Where (l, s, u)"
NUMBERS = "l = IsNaN (e)  m = IsNaN (s)  u = {} (s, e)  v = Where (m, e, u)  s2 = Where (l, s, v)"
COMPARED_NUMBERS = "l = IsNaN (e)  m = {} (s, e)  o = Or (m, l)  s2 = Where (o, s, e)"
LARGER = "h = ReduceMax <axes = [0], keepdims = 0> (e)  l = Greater (h, z)"
KINDS = {
    "Add": Case(INTS, "s2 = Add (s, ke)", "c", "carried sum"),
    "Add_32": Case(INT32, f"{K32}  s2 = Add (q, s)", C32, "carried sum"),
    "AddChain": Case(
        INTS, "u = Mul (ke, ke)  v = Add (s, u)  s2 = Add (v, ke)", "c", "carried sum"
    ),
    "Sub": Case(INTS, "s2 = Sub (s, ke)", "c", "carried sum"),
    "SubChain": Case(
        INTS, "u = Mul (ke, ke)  v = Sub (s, u)  s2 = Sub (v, ke)", "c", "carried sum"
    ),
    "AddChainWithSubs": Case(
        INTS, "u = Mul (ke, ke)  v = Sub (s, u)  s2 = Add (v, ke)", "c", "carried sum"
    ),
    "Mul": Case(INTS, "s2 = Mul (s, ke)", "c", "carried product"),
    "Mul_32": Case(INT32, f"{K32}  s2 = Mul (s, q)", C32, "carried product"),
    "And": _bits("And", INTS, "q = Identity (ke)", "c"),
    "Or": _bits("Or", INT32, K32, C32),
    "Xor": _bits("Xor", BYTES, "q = Cast <to = 2> (ke)", "Cast <to = 2> (f)"),
    "And_flags": Case(FLAGS, "s2 = And (s, pe)", "f", "carried conjunction"),
    "Or_flags": Case(FLAGS, "s2 = Or (s, pe)", "f", "carried disjunction"),
    "And_where": Case(
        BYTES,
        "q = Cast <to = 2> (ke)  u = BitwiseAnd (s, q)  s2 = Where (pe, u, s)",
        "Cast <to = 2> (c)",
        "carried bitwise and under a condition",
        opset=18,
    ),
    "Or_collected": Case(
        INTS, "s2 = BitwiseOr (s, ke)  y = Neg (s)", "c", "carried bitwise or", INTS, opset=18
    ),
    "Xor_flags": Case(FLAGS, "s2 = Xor (s, pe)", "f", "carried parity"),
    "SMin": Case(INTS, "s2 = Min (s, ke)", "c", "carried minimum"),
    "SMax": Case(INT32, f"{K32}  s2 = Max (s, q)", C32, "carried maximum"),
    "SMin_compared": Case(INTS, "l = Less (ke, s)  s2 = Where (l, ke, s)", "c", "best so far"),
    "UMin_8": _unsigned("Min", "uint8", 2),
    "UMax_8": _unsigned("Max", "uint8", 2),
    "UMin_32": _unsigned("Min", "uint32", 12),
    "UMax_32": _unsigned("Max", "uint32", 12),
    "UMin_64": _unsigned("Min", "uint64", 13),
    "UMax_64": _unsigned("Max", "uint64", 13),
    "FAdd": Case(ROW, "s2 = Add (s, e)", "b", "carried sum"),
    "FAdd_double": Case(
        "double[4]", "q = Cast <to = 11> (e)  s2 = Add (s, q)", "Cast <to = 11> (b)", "carried sum"
    ),
    "FSub": Case(ROW, "s2 = Sub (s, e)", "b", "carried sum"),
    "FAddChainWithSubs": Case(
        ROW, "u = Mul (e, e)  v = Sub (s, u)  s2 = Add (v, e)", "b", "carried sum"
    ),
    "FMul": Case(ROW, "s2 = Mul (s, e)", "b", "carried product"),
    "FMul_double": Case(
        "double[4]",
        "q = Cast <to = 11> (e)  s2 = Mul (s, q)",
        "Cast <to = 11> (b)",
        "carried product",
    ),
    "FMin": Case(ROW, COMPARED.format("Less"), "b", "best so far"),
    "FMax": Case(ROW, COMPARED.format("Greater"), "b", "best so far"),
    "FMinNum": Case(ROW, WITHOUT_NAN.format("Min"), "b", "carried minimum under a condition"),
    "FMaxNum": Case(ROW, WITHOUT_NAN.format("Max"), "b", "carried maximum under a condition"),
    "FMinimumNum": Case(ROW, NUMBERS.format("Min"), "b", "carried extreme of numbers"),
    "FMaximumNum": Case(ROW, NUMBERS.format("Max"), "b", "carried extreme of numbers"),
    "FMinimumNum_asked_in_two_ways": Case(
        ROW,
        "h = IsNaN (e)  q = Equal (e, e)  o = Not (q)  l = Or (h, o)  m = IsNaN (s)"
        "  u = Min (s, e)  v = Where (m, e, u)  s2 = Where (l, s, v)",
        "b",
        "carried extreme of numbers",
    ),
    "FMinimumNum_compared": Case(ROW, COMPARED_NUMBERS.format("Less"), "b", "carried extreme"),
    "FMaximumNum_compared": Case(ROW, COMPARED_NUMBERS.format("Greater"), "b", "carried extreme"),
    "FMaximumNum_double": Case(
        "double[4]",
        "q = Cast <to = 11> (e)  l = Equal (q, q)  m = Not (l)  o = GreaterOrEqual (s, q)  "
        "h = Or (o, m)  s2 = Where (h, s, q)",
        "Cast <to = 11> (b)",
        "carried extreme",
    ),
    "FMinimum": Case(ROW, "s2 = Min (s, e)", "b", "carried minimum"),
    "FMaximum": Case(ROW, "s2 = Max (s, e)", "b", "carried maximum"),
    "FMinimum_double": Case(
        "double[4]",
        "q = Cast <to = 11> (e)  s2 = Min (s, q)",
        "Cast <to = 11> (b)",
        "carried minimum",
    ),
    "FMulAdd": Case(ROW, "u = Mul (e, b)  s2 = Add (u, s)", "b", "carried sum"),
    "AnyOf": Case(ROW, f"{LARGER}  s2 = Where (l, b, s)", "start0", "last value where"),
    "AnyOf_each": Case(INTS, "s2 = Where (pe, c, s)", "Neg (c)", "last value where"),
    "FindIV_last": Case(
        "int64", f"{LARGER}  s2 = Where (l, i, s)", "Neg (one)", "last value where", scans=False
    ),
    "FindIV_first": Case(
        "int64",
        f"{LARGER}  q = Equal (s, below)  a = And (l, q)  s2 = Where (a, i, s)",
        "Neg (one)",
        "first iteration where",
        scans=False,
    ),
    "FindLast": Case(INTS, f"{LARGER}  s2 = Where (l, ke, s)", "c", "last value where"),
    "FFindLast": Case(ROW, f"{LARGER}  s2 = Where (l, e, s)", "b", "last value where"),
    "FixedOrderRecurrence": Case(
        ROW, "s2 = Tanh (e)  y = Add (s, e)", "b", "carried last value", collected=ROW
    ),
    "FixedOrderRecurrence_integers": Case(
        INTS, "s2 = Neg (ke)  y = Sub (ke, s)", "c", "carried last value", collected=INTS
    ),
}


def _text(case: Case, dialect: str) -> str:
    names = "below = Constant <value = int64 {-1}> ()  start0 = Gather <axis = 0> (start, zero)"
    return case.text(dialect).replace("wide = ", f"{names}  wide = ")


def _cases() -> list[tuple[str, str]]:
    return [
        (n, d) for n, c in KINDS.items() for d in ("counted", "scan") if c.scans or d != "scan"
    ]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "dialect"), _cases())
def test_a_kind_ends_without_a_loop(name: str, dialect: str) -> None:
    case = KINDS[name]
    lengths = [n for n in LENGTHS if n or dialect != "scan"]
    found = prove(_text(case, dialect), *map(feeds, lengths), opset=case.opset)
    (decision,) = found.decisions
    assert decision.verdict is Verdict.FUSED
    assert any(note.startswith(case.name) for note in decision.notes), decision.notes


SPOILT = [np.nan, np.inf, -np.inf]
FLOATS = [name for name, case in KINDS.items() if case.state == ROW]


@pytest.mark.parametrize("name", FLOATS)
def test_a_nan_or_an_infinity_spoils_what_it_spoils_in_the_loop(name: str) -> None:
    rng = np.random.default_rng(2)
    many = []
    for length in (1, 2, 7) * 6:
        one = dict(feeds(length))
        for key in ("x", "b"):
            is_spoilt = rng.random(one[key].shape) < 0.2
            spoilt = rng.choice(SPOILT, one[key].shape)
            one[key] = np.where(is_spoilt, spoilt, one[key]).astype(np.float32)
        many.append(one)
    prove(_text(KINDS[name], "counted"), *many)


NEAR = {
    "FMulAdd_of_a_square": (ROW, "u = Mul (s, s)  s2 = Add (u, b)", "b", "Add"),
    "And_then_Or": (INTS, "u = BitwiseAnd (s, ke)  s2 = BitwiseOr (u, c)", "c", "BitwiseOr"),
    "Xor_of_its_complement": (INTS, "u = BitwiseNot (s)  s2 = BitwiseXor (u, ke)", "c", "Bitw"),
    "FMinimumNum_that_keeps_the_new_nan": (
        ROW,
        "m = IsNaN (s)  u = Less (s, e)  o = Not (m)  h = And (u, o)  s2 = Where (h, s, e)",
        "b",
        "Where",
    ),
    "FMin_of_the_magnitude": (ROW, "u = Abs (s)  s2 = Min (u, e)", "b", "Min"),
    "AnyOf_that_toggles": (INTS, "u = Neg (s)  s2 = Where (pe, u, s)", "c", "Where"),
    "Add_then_shift": (
        "uint32[4]",
        'h = Cast <to = 12> (f)  u = BitShift <direction = "LEFT"> (s, h)  s2 = Max (u, h)',
        "Cast <to = 12> (c)",
        "Max",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", NEAR)
def test_what_is_close_to_a_kind_stays_a_loop(name: str) -> None:
    state, body, begin, op_type = NEAR[name]
    case = Case(state, body, begin, "", opset=18)
    before = model(_text(case, "counted"), case.opset)
    found = read(before)
    assert found.loops == 1
    assert found.codes == ["recurrence"], found.details
    (reason,) = found.decisions[0].reasons
    assert reason.op_type.startswith(op_type)
    assert same(before, found.model, *map(feeds, LENGTHS)) == len(LENGTHS)
