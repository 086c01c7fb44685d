"""Tile by a number of each sample, and of samples that differ in length."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter.backends import BackendError, open_session
from tests.passes.batching.harness import constant
from tests.passes.batching.ragged import RaggedCase, prove_ragged, ragged
from tests.passes.loops import model, read

LOOP = """g (float[N,{dims}] x, int64[N] n, float[{dims}] w) => (float[M,{row}] y) {{
    t = Constant <value = bool {{1}}> ()
    count = Size (n)
    sizes = Constant <value = int64[{rank}] {{{none}}}> ()
    begin = ConstantOfShape (sizes)
    y = Loop (count, t, begin) <body = step (int64 i, bool c, float[P,{row}] a)
        => (bool d, float[Q,{row}] a2) {{
        zero = Constant <value = int64[1] {{0}}> ()
        one = Constant <value = int64[1] {{1}}> ()
        two = Constant <value = int64[1] {{2}}> ()
        place = Unsqueeze (i, zero)
        k = Gather (n, place)
        row = Gather (x, i)
        {nodes}
        a2 = Concat <axis = 0> (a, r)
        d = Identity (c)
    }}>
}}"""
CASES = {
    "a row": (
        "4",
        "4",
        "u = Unsqueeze (row, zero)  s = Concat <axis = 0> (k, one)  r = Tile (u, s)",
    ),
    "rows": ("3,4", "4", "s = Concat <axis = 0> (k, one)  r = Tile (row, s)"),
    "rows of an open number": ("T,4", "4", "s = Concat <axis = 0> (k, one)  r = Tile (row, s)"),
    "the other axis alike": ("3,2", "4", "s = Concat <axis = 0> (k, two)  r = Tile (row, s)"),
    "columns": (
        "4,3",
        "4",
        "s = Concat <axis = 0> (one, k)  m = Tile (row, s)  r = Transpose <perm = [1, 0]> (m)",
    ),
    "shared rows": ("3,4", "4", "s = Concat <axis = 0> (k, one)  r = Tile (w, s)"),
    "once more": (
        "3,4",
        "4",
        "m = Add (k, one)  s = Concat <axis = 0> (m, one)  r = Tile (row, s)",
    ),
}


def graph(name: str) -> str:
    dims, row, nodes = CASES[name]
    return LOOP.format(dims=dims, row=row, nodes=nodes, rank=2, none=f"0, {row}")


def feed(name: str, *numbers: int) -> dict[str, np.ndarray]:
    shape = tuple(int(n) if n != "T" else 3 for n in CASES[name][0].split(","))
    x = np.arange(len(numbers) * np.prod(shape), dtype=np.float32)
    x = x.reshape(len(numbers), *shape)
    return {"x": x, "n": np.array(numbers, np.int64), "w": np.ones(shape, np.float32)}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_a_number_of_each_sample(name: str) -> None:
    before = model(graph(name))
    found = read(before)
    assert found.loops == 0
    for numbers in ((), (2,), (0, 3, 1), (0, 0)):
        fed = feed(name, *numbers)
        expected, made = (open_session(one).run(fed) for one in (before, found.model))
        np.testing.assert_array_equal(made["y"], expected["y"])


def test_samples_of_no_rows_have_none_however_often_they_are_repeated() -> None:
    before = model(graph("rows of an open number"))
    fed = {"x": np.zeros((2, 0, 4)), "n": np.array([2, 3]), "w": np.zeros((0, 4))}
    fed = {name: one.astype(np.int64 if name == "n" else np.float32) for name, one in fed.items()}
    expected, made = (open_session(one).run(fed) for one in (before, read(before).model))
    np.testing.assert_array_equal(made["y"], expected["y"])


def test_a_negative_number_is_an_error_as_it_was() -> None:
    before = model(graph("rows"))
    for one in (before, read(before).model):
        with pytest.raises(BackendError):
            open_session(one).run(feed("rows", 1, -1))


def test_two_axes_with_numbers_of_each_sample_keep_the_loop() -> None:
    dims, row, nodes = "3,4", "4", "s = Concat <axis = 0> (k, k)  m = Tile (row, s)"
    nodes += "  v = ReduceSum <keepdims = 1> (m)  r = Expand (v, s4)"
    nodes = "s4 = Constant <value = int64[2] {1, 4}> ()  " + nodes
    found = read(model(LOOP.format(dims=dims, row=row, nodes=nodes, rank=2, none="0, 4")))
    assert found.loops == 1


X = ragged(2, lengths=(3, 1, 0, 2))
RAGGED = [
    RaggedCase("twice", "y = Tile(x, s)", {"x": X, "s": constant(np.array([2, 1]))}),
    RaggedCase("no times", "y = Tile(x, s)", {"x": X, "s": constant(np.array([0, 1]))}),
    RaggedCase("both axes", "y = Tile(x, s)", {"x": X, "s": constant(np.array([3, 2]))}),
    RaggedCase(
        "as often as it is long",
        "n = Shape<end = 1>(x) s = Concat<axis = 0>(n, one) y = Tile(x, s)",
        {"x": X, "one": constant(np.array([1]))},
    ),
    RaggedCase(
        "columns",
        "t = Transpose(x) y = Tile(t, s)",
        {"x": X, "s": constant(np.array([1, 2]))},
    ),
]


@pytest.mark.parametrize("batch", [0, 1, 4])
@pytest.mark.parametrize("case", RAGGED, ids=str)
def test_samples_that_differ_in_length(case: RaggedCase, batch: int) -> None:
    prove_ragged(case, batch)
