"""Lists of the values that a Loop carries: ``for row in x: t = f(t, row); found.append(t)``."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.loops import model, read, same

FILL = """s2 = If (c) <then_branch = yes () => (float[4] v) { v = Identity (e) },
            else_branch = no () => (float[4] v2) { v2 = Identity (s) }>"""


def listed(body: str, appended: str = "s2", new_axis: int = 1, behind: str = "") -> str:
    """Return a graph whose Loop carries ``s`` and a list."""
    rank = 1 + new_axis
    return f"""g (float[N,4] x, float[4] b) => (float[{"K,4" if rank == 2 else "K"}] r, float[4] last) {{
        t = Constant <value = bool {{1}}> ()
        zero = Constant <value = int64 {{0}}> ()
        nothing = SequenceEmpty <dtype = 1> ()
        shape = Shape (x)
        n = Gather <axis = 0> (shape, zero)
        last, all = Loop (n, t, b, nothing) <body = step
            (int64 i, bool more, float[4] s, seq(float[4]) had)
            => (bool on, float[4] s2, seq(float[4]) has) {{
            on = Identity (more)
            e = Gather <axis = 0> (x, i)
            first = Gather <axis = 0> (e, zero)
            half = Constant <value = float {{0.5}}> ()
            c = Greater (first, half)
            {body}
            {behind}
            has = SequenceInsert (had, {appended})
        }}>
        r = ConcatFromSequence <axis = 0, new_axis = {new_axis}> (all)
    }}"""


def feed(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(count)
    return {
        "x": rng.standard_normal((count, 4)).astype(np.float32),
        "b": rng.standard_normal(4).astype(np.float32),
    }


BODIES = {
    "total": "s2 = Add (s, e)",
    "fill": FILL,
    "fill by Where": "s2 = Where (c, e, s)",
    "maximum": "s2 = Max (s, e)",
    "last": "s2 = Identity (e)",
}


@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("appended", ["s", "s2", "s3"])
@pytest.mark.parametrize("name", BODIES)
def test_a_list_of_carried_values_ends_without_a_loop(
    name: str, appended: str, new_axis: int
) -> None:
    behind = "s3 = Tanh (s2)" if appended == "s3" else ""
    before = model(listed(BODIES[name], appended, new_axis, behind))
    found = read(before)
    assert found.loops == 0, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *map(feed, (1, 2, 7, 40))) == 4


TWICE = {"total": ("Add", 2), "fill": ("If", 0), "fill by Where": ("Where", 0)}


@pytest.mark.parametrize("name", TWICE)
def test_what_is_appended_is_not_computed_twice(name: str) -> None:
    operator, most = TWICE[name]
    found = read(model(listed(BODIES[name])))
    assert found.operators[operator] == most
