"""TopK along the axis in which samples differ in length."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from rewriter.backends import BackendError, open_session
from tests.passes.batching.harness import Operand, constant, run_model
from tests.passes.batching.ragged import (
    RaggedCase,
    feeds_of,
    fused,
    prove_ragged,
    ragged,
    wanted,
)
from tests.passes.loops import model, read

SORT = "s = Shape(x) n = Gather<axis = 0>(s, a) y, i = TopK<axis = 0{more}>(x, n)"
FIRST = constant(np.array([0]))
TIES = Operand(
    "ragged",
    tuple(np.array(one, np.float32) for one in ([1, 1], [], [-np.inf, 2, -np.inf, np.inf])),
)


def case(name: str, nodes: str, x: Operand, **others: Operand) -> RaggedCase:
    return RaggedCase(name, nodes, {"x": x, **others}, ("y", "i"), loops=1)


CASES = [
    case("sorted", SORT.format(more=""), ragged(4), a=FIRST),
    case("sorted upwards", SORT.format(more=", largest = 0"), ragged(), a=FIRST),
    case("ties and infinities", SORT.format(more=""), TIES, a=FIRST),
    case("ties upwards", SORT.format(more=", largest = 0"), TIES, a=FIRST),
    case("whole numbers", SORT.format(more=""), ragged(dtype=np.int64), a=FIRST),
    case(
        "the best few, or all",
        "s = Shape(x) n = Gather<axis = 0>(s, a) m = Min(n, k) y, i = TopK<axis = 0>(x, m)",
        ragged(3, lengths=(4, 1, 0, 2)),
        a=FIRST,
        k=constant(np.array([2])),
    ),
    case(
        "as many of each, in columns",
        "t = Transpose(x) y, i = TopK<axis = 1>(t, k)",
        ragged(2, lengths=(4, 2, 3)),
        k=constant(np.array([2])),
    ),
    case(
        "as many of each",
        "y, i = TopK<axis = 0, largest = 0>(x, k)",
        ragged(2, lengths=(4, 2, 3)),
        k=constant(np.array([2])),
    ),
    case(
        "along the second axis",
        "t = Transpose(x) s = Shape<start = 1>(t) y, i = TopK<axis = 1>(t, s)",
        ragged(4),
    ),
    case(
        "in the middle",
        "t = Transpose(x) u = Unsqueeze(t, a) v = Concat<axis = 2>(u, u) "
        "s = Shape<start = 1, end = 2>(t) y, i = TopK<axis = 1, largest = 0>(v, s)",
        ragged(4),
        a=constant(np.array([2])),
    ),
    case(
        "as many along the second axis",
        "t = Transpose(x) y, i = TopK(t, k)",
        ragged(3, lengths=(4, 2, 3)),
        k=constant(np.array([2])),
    ),
    case(
        "the nearest of each row",
        "t = Transpose(x) d = MatMul(x, t) y, i = TopK(d, k)",
        ragged(3, lengths=(4, 2, 3)),
        k=constant(np.array([2])),
    ),
    case(
        "the farthest of each row",
        "t = Transpose(x) d = MatMul(x, t) y, i = TopK<largest = 0>(d, k)",
        ragged(3, lengths=(2, 5, 3)),
        k=constant(np.array([1])),
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_equals_the_body_run_alone(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)


@pytest.mark.parametrize("nodes", ["y, i = TopK<axis = 0>(x, k)", CASES[-1].nodes])
def test_a_sample_with_too_few_is_an_error(nodes: str) -> None:
    count = constant(np.array([2]))
    made = case("", nodes, ragged(3, lengths=(4, 2, 3)), k=count)
    model, _ = fused(made, wanted(made, 3))
    short = case("", nodes, ragged(3, lengths=(4, 1, 3)), k=count)
    with pytest.raises(Exception, match=r"(?i)reshape|k argument"):
        run_model(ir.to_proto(model), feeds_of(short, 3))


OWN = """g ({kind}[N,{dims}] x, int64[N] k) => ({kind}[N,?,?] rs, int64[N,?,?] ps) {{
    t = Constant <value = bool {{1}}> ()
    count = Size (k)
    rs, ps = Loop (count, t) <body = step (int64 i, bool c)
        => (bool d, {kind}[?,?] r, int64[?,?] p) {{
        zero = Constant <value = int64[1] {{0}}> ()
        along = Constant <value = int64[1] {{{axis}}}> ()
        place = Unsqueeze (i, zero)
        own = Gather (k, place)
        row = Gather (x, i)
        best, places = TopK <axis = {axis}, largest = {largest}> (row, own)
        r = ReduceSum <keepdims = 1> (best, along)
        p = ReduceSum <keepdims = 1> (places, along)
        d = Identity (c)
    }}>
}}"""


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["float", "int64", "int32"])
@pytest.mark.parametrize(("axis", "largest"), [(0, 1), (1, 1), (-1, 0), (-2, 0)])
def test_a_number_of_each_sample_of_one_shape(kind: str, axis: int, largest: int) -> None:
    dims = "5,2" if axis in {0, -2} else "2,5"
    before = model(OWN.format(kind=kind, dims=dims, axis=axis, largest=largest))
    found = read(before)
    assert found.loops == 0
    dtype = {"float": np.float32, "int64": np.int64, "int32": np.int32}[kind]
    shape = tuple(int(n) for n in dims.split(","))
    x = np.random.default_rng(3).integers(0, 4, (4, *shape)).astype(dtype)
    for numbers in ([2], [5, 0, 1, 3], [0, 0]):
        feed = {"x": x[: len(numbers)], "k": np.array(numbers, np.int64)}
        expected, made = (open_session(one).run(feed) for one in (before, found.model))
        for name, value in expected.items():
            np.testing.assert_array_equal(made[name], value)


@pytest.mark.parametrize("number", [6, -1, 2**20])
def test_a_number_of_one_sample_that_it_does_not_have_is_an_error(number: int) -> None:
    before = model(OWN.format(kind="float", dims="5,2", axis=0, largest=1))
    feed = {"x": np.ones((2, 5, 2), np.float32), "k": np.array([2, number], np.int64)}
    for one in (before, read(before).model):
        with pytest.raises(BackendError):
            open_session(one).run(feed)
