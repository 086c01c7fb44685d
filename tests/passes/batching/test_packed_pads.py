"""Pad of samples that differ in length, to one length and to lengths of their own."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir
import pytest

from tests.passes.batching.harness import Operand, constant, mapped, run_model, shared
from tests.passes.batching.ragged import (
    RaggedCase,
    feeds_of,
    fused,
    prove_ragged,
    ragged,
    reasons_of,
    wanted,
)

LENGTHS = {"some none": (2, 0, 3), "equal": (3, 3, 3), "one long": (1, 9, 2), "none": (0, 0, 0)}
SOME = {"some": (2, 1, 3), "equal": (3, 3, 3), "one long": (1, 9, 2)}
LONG = shared(np.array(9))
TO_LENGTH = """
  n = Shape<start = 0, end = 1>(x) length = Reshape(L, one) rest = Sub(length, n)
"""
BEHIND = TO_LENGTH + "none = Sub(n, n) p = Concat<axis = 0>(none, none, rest, none)"
ONE = constant(np.array([1]))
FILL = constant(np.float32(-1.5))


def to_length(
    name: str,
    nodes: str,
    rest: tuple[int, ...] = (4,),
    lengths: tuple[int, ...] = LENGTHS["some none"],
    opset: int = 18,
    **operands: Operand,
) -> RaggedCase:
    given = {"x": ragged(*rest, lengths=lengths), "L": LONG, "one": ONE, **operands}
    return RaggedCase(name, nodes, given, opset=opset, rtol=0, atol=0)


ROUND = (
    TO_LENGTH
    + """
  two = Constant<value_ints = [2]>() first = Div(rest, two) second = Sub(rest, first)
  p = Concat<axis = 0>(first, zero, second, zero) y = Pad(x, p)
"""
)
FROM_TORCH = """
  s = Shape(x) zero = Constant<value_int = 0>() n = Gather<axis = 0>(s, zero)
  length = Sub(L, n) rest = Unsqueeze(length, none)
  none = Constant<value_ints = [0]>()
  amounts = Concat<axis = 0>(none, none, none, rest)
  two = Constant<value_ints = [2]>() rank = Size(s) double = Mul(rank, two)
  known = Shape(amounts) missing = Sub(double, known) filler = ConstantOfShape(missing)
  pairs = Concat<axis = 0>(amounts, filler) square = Constant<value_ints = [-1, 2]>()
  table = Reshape(pairs, square) start = Constant<value_ints = [-1]>()
  end = Constant<value_ints = [-9223372036854775807]>()
  turned = Slice(table, start, end, none, start) columns = Transpose<perm = [1, 0]>(turned)
  flat = Reshape(columns, start) p = Cast<to = 7>(flat)
"""
FROM_TORCH = FROM_TORCH.replace(
    "  length = Sub(L, n) rest = Unsqueeze(length, none)\n  none = Constant<value_ints = [0]>()\n",
    "  none = Constant<value_ints = [0]>()\n  length = Sub(L, n) rest = Unsqueeze(length, none)\n",
)

TO_ONE_LENGTH = [
    *(
        to_length(f"behind, {name}", BEHIND + "y = Pad(x, p)", lengths=lengths)
        for name, lengths in LENGTHS.items()
    ),
    *(
        to_length(
            f"in front, {name}",
            TO_LENGTH + "none = Sub(n, n) p = Concat<axis = 0>(rest, none) y = Pad(x, p, v)",
            (),
            lengths,
            v=FILL,
        )
        for name, lengths in LENGTHS.items()
    ),
    *(
        to_length(
            f"{mode} {side}, {name}",
            TO_LENGTH + f"none = Sub(n, n) p = Concat<axis = 0>({amounts}, none) "
            f'y = Pad<mode = "{mode}">(x, p)',
            lengths=lengths,
            opset=19,
        )
        for mode in ("edge", "wrap")
        for side, amounts in (("in front", "rest, none, none"), ("behind", "none, none, rest"))
        for name, lengths in SOME.items()
    ),
    *(
        dataclasses.replace(
            to_length(
                f"reflect {side}",
                TO_LENGTH + f"none = Sub(n, n) p = Concat<axis = 0>({amounts}) "
                'y = Pad<mode = "reflect">(x, p)',
                (),
                (5, 7, 9),
            )
        )
        for side, amounts in (("in front", "rest, none"), ("behind", "none, rest"))
    ),
    to_length("on both sides", ROUND, zero=constant(np.array([0]))),
    to_length("as PyTorch writes it", FROM_TORCH + "y = Pad(x, p)"),
    to_length("as PyTorch writes it, a given value", FROM_TORCH + "y = Pad(x, p, v)", v=FILL),
    to_length("a value of run time", BEHIND + "y = Pad(x, p, v)", v=shared(np.float32(7))),
    to_length("a value of each sample", BEHIND + "y = Pad(x, p, v)", v=mapped(())),
    to_length(
        "a value of each sample behind a transposed axis",
        "t = Transpose<perm = [1, 0, 2]>(x)" + TO_LENGTH + "none = Sub(n, n) "
        "p = Concat<axis = 0>(none, rest, none, none, none, none) "
        "q = Slice(p, begin, end) a = Concat<axis = 0>(none, none) "
        "b = Concat<axis = 0>(none, rest, none, none, rest, none) "
        "c = Concat<axis = 0>(none, none, none, none, rest, none) y = Pad(t, c, v)",
        (4, 2),
        v=mapped(()),
        begin=constant(np.array([0])),
        end=constant(np.array([1])),
    ),
    to_length(
        "the last axis",
        "t = Transpose(x)"
        + TO_LENGTH
        + "p = Concat<axis = 0>(zero, zero, zero, rest) y = Pad(t, p, v)",
        v=FILL,
        zero=constant(np.array([0])),
    ),
    to_length(
        "the axis of different lengths and another",
        TO_LENGTH + "p = Concat<axis = 0>(zero, one, rest, two) y = Pad(x, p, v)",
        v=FILL,
        zero=constant(np.array([0])),
        two=constant(np.array([2])),
    ),
    to_length(
        "given axes",
        TO_LENGTH + "none = Sub(n, n) p = Concat<axis = 0>(none, rest) y = Pad(x, p, v, a)",
        v=FILL,
        a=constant(np.array([-2])),
    ),
    to_length(
        "integers",
        BEHIND + "i = Cast<to = 7>(x) y = Pad(i, p, v)",
        v=constant(np.array(-100)),
    ),
    to_length(
        "flags", BEHIND + "f = Greater(x, zero) y = Pad(f, p)", zero=constant(np.float32(0))
    ),
    to_length("doubles", BEHIND + "f = Cast<to = 11>(x) y = Pad(f, p)"),
    to_length("opset 17", BEHIND + "y = Pad(x, p)", opset=17),
    RaggedCase(
        "longer samples are cut",
        BEHIND + "y = Pad(x, p)",
        {"x": ragged(4, lengths=(2, 7, 3)), "L": shared(np.array(3)), "one": ONE},
        rtol=0,
        atol=0,
    ),
    RaggedCase(
        "truncated, then padded",
        "length = Reshape(L, one) d = Slice(x, zero, length, zero) "
        "n = Shape<start = 0, end = 1>(d) rest = Sub(length, n) none = Sub(n, n) "
        "p = Concat<axis = 0>(none, none, rest, none) y = Pad(d, p)",
        {
            "x": ragged(4, lengths=(2, 7, 0)),
            "L": shared(np.array(3)),
            "one": ONE,
            "zero": constant(np.array([0])),
        },
        rtol=0,
        atol=0,
    ),
    RaggedCase(
        "to a constant length",
        "n = Shape<start = 0, end = 1>(x) rest = Sub(c, n) p = Concat<axis = 0>(z, rest) "
        "y = Pad(x, p)",
        {"x": ragged(), "c": constant(np.array([8])), "z": constant(np.array([0]))},
    ),
    RaggedCase(
        "to the length of another value",
        "m = Shape(w) n = Shape(x) rest = Sub(m, n) none = Sub(n, n) "
        "p = Concat<axis = 0>(none, rest) q = Pad(x, p) y = Add(q, w)",
        {"x": ragged(), "w": shared(np.arange(5, dtype=np.float32))},
    ),
    RaggedCase(
        "to the length of a stacked value",
        "m = Shape(w) n = Shape(x) rest = Sub(m, n) none = Sub(n, n) "
        "p = Concat<axis = 0>(none, rest) q = Pad(x, p) y = Add(q, w)",
        {"x": ragged(), "w": mapped((5,))},
    ),
]

TO_OWN_LENGTHS = [
    *(
        RaggedCase(
            f"{mode} by constants",
            f'y = Pad<mode = "{mode}">(x, p)',
            {"x": ragged(3, lengths=(3, 4, 5)), "p": constant(np.array([2, 0, 1, 0]))},
            opset=19,
            rtol=0,
            atol=0,
        )
        for mode in ("constant", "edge", "reflect", "wrap")
    ),
    RaggedCase(
        "zeros around none", "y = Pad(x, p)", {"x": ragged(), "p": constant(np.array([1, 2]))}
    ),
    *(
        RaggedCase(
            f"{mode} by {begin} in front and {end} behind",
            f'y = Pad<mode = "{mode}">(x, p)',
            {"x": ragged(lengths=(4, 5, 6)), "p": constant(np.array([begin, end]))},
            opset=19,
            rtol=0,
            atol=0,
        )
        for mode in ("constant", "edge", "reflect", "wrap")
        for begin, end in ((-1, 0), (-2, 1), (1, -2), (-1, -1))
    ),
    RaggedCase(
        "by a number of each sample",
        "z = Sub(p, p) q = Concat<axis = 0>(z, p) y = Pad(x, q, v)",
        {"x": ragged(), "p": mapped([1], [0], [2]), "v": mapped(())},
    ),
    RaggedCase(
        "by numbers of each sample",
        "y = Pad(x, p)",
        {"x": ragged(), "p": mapped([1, 0], [0, 2], [3, 1])},
    ),
    RaggedCase(
        "by numbers of run time",
        "y = Pad(x, p, v)",
        {"x": ragged(3), "p": shared(np.array([1, 0, 2, 1])), "v": FILL},
    ),
    RaggedCase(
        "other axes alone",
        "y = Pad(x, p, v)",
        {"x": ragged(3), "p": constant(np.array([0, 1, 0, 2])), "v": FILL},
    ),
    *(
        RaggedCase(
            f"{mode} of other axes alone",
            f'y = Pad<mode = "{mode}">(x, p)',
            {"x": ragged(3), "p": constant(np.array([0, 2, 0, 1]))},
            opset=19,
            rtol=0,
            atol=0,
        )
        for mode in ("edge", "reflect")
    ),
    *(
        RaggedCase(
            f"{mode} of both axes",
            f'y = Pad<mode = "{mode}">(x, p)',
            {"x": ragged(3, lengths=(3, 4, 5)), "p": constant(np.array([1, 2, 2, 1]))},
            opset=19,
            rtol=0,
            atol=0,
        )
        for mode in ("edge", "reflect")
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", [*TO_ONE_LENGTH, *TO_OWN_LENGTHS], ids=str)
def test_rule_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


POISON = Operand(
    "ragged",
    tuple(
        np.array(numbers, np.float32)
        for numbers in ([np.nan, np.inf], [1, 2, 3], [-np.inf, np.nan, np.nan, 0])
    ),
)


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(BEHIND.replace("none, none, rest, none", "none, rest") + text, id=text)
        for text in ("y = Pad(x, p)", 'y = Pad<mode = "edge">(x, p)')
    ],
)
def test_samples_stay_apart(nodes: str) -> None:
    case = RaggedCase("", nodes, {"x": POISON, "L": LONG, "one": ONE}, rtol=0, atol=0)
    prove_ragged(case, 3)


FAILING = {
    "edge of nothing": (BEHIND + 'y = Pad<mode = "edge">(x, p)', (2, 0, 3), 9),
    "wrap of nothing": (BEHIND + 'y = Pad<mode = "wrap">(x, p)', (2, 0, 3), 9),
    "reflected too far": (BEHIND + 'y = Pad<mode = "reflect">(x, p)', (2, 4, 3), 6),
    "to less than nothing": (BEHIND + "y = Pad(x, p)", (2, 4, 3), -1),
    "cut by more than there is": (
        "p = Constant<value_ints = [-1, 0, -2, 0]>() y = Pad(x, p)",
        (3, 2, 4),
        1,
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_alone_fails(name: str) -> None:
    nodes, lengths, length = FAILING[name]
    sound = ragged(4, lengths=(5, 6, 7))
    operands = {"x": sound, "L": shared(np.array(7)), "one": ONE}
    if "L" not in nodes.replace("Less", ""):
        operands = {"x": sound}
    made = RaggedCase(name, nodes, operands, opset=19)
    model, _ = fused(made, wanted(made, 3))
    bad = {**operands, "x": ragged(4, lengths=lengths)}
    if "L" in bad:
        bad["L"] = shared(np.array(length))
    feeds = feeds_of(dataclasses.replace(made, operands=bad), 3)
    with pytest.raises(Exception, match="Reshape"):
        run_model(ir.to_proto(model), feeds)


DECLINED = {
    "amounts that nothing tells": (
        "q = Mul(p, p) y = Pad(x, q)",
        {"x": ragged(4), "p": mapped([0, 0, 1, 0], [0, 0, 2, 0], [0, 0, 0, 0])},
    ),
    "a second axis of different lengths": (
        "n = Shape<start = 0, end = 1>(x) none = Sub(n, n) p = Concat<axis = 0>(none, none, none, n) "
        "y = Pad(x, p)",
        {"x": ragged(4)},
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_could_go_wrong_stays_per_sample(name: str) -> None:
    nodes, operands = DECLINED[name]
    assert ("Pad", "ragged") in reasons_of(RaggedCase(name, nodes, operands))


def test_rows_that_wrap_stay_per_sample() -> None:
    pads = constant(np.array([0, 2, 0, 1]))
    case = RaggedCase("", 'y = Pad<mode = "wrap">(x, p)', {"x": ragged(3), "p": pads}, opset=19)
    assert ("Pad", "ragged") in reasons_of(case)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_a_target_without_loops_and_conditions_gets_it(batch: int) -> None:
    prove_ragged(TO_ONE_LENGTH[0], batch, lacks=("Loop", "If", "Scan"))
