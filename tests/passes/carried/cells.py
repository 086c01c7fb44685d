"""Loops around recurrent cells, in the forms in which exporters write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["DIALECTS", "cell_feeds", "cell_loop"]

INPUTS, STATE = 3, 4
GATES = {"rnn": 1, "gru": 3, "lstm": 4}

_WEIGHTS = {
    **dict.fromkeys(("wi", "wf", "wo", "wg"), (INPUTS, STATE)),
    **dict.fromkeys(("ri", "rf", "ro", "rg"), (STATE, STATE)),
    **dict.fromkeys(("bi", "bf", "bo", "bg", "di", "df", "do", "dg"), (STATE,)),
    "w3": (INPUTS, 3 * STATE),
    "r3": (STATE, 3 * STATE),
    "b3": (3 * STATE,),
    "d3": (3 * STATE,),
    "t3": (3 * STATE, INPUTS),
    "u3": (3 * STATE, STATE),
    "w4": (INPUTS, 4 * STATE),
    "r4": (STATE, 4 * STATE),
    "b4": (4 * STATE,),
    "k4": (INPUTS + STATE, 4 * STATE),
    "k2": (INPUTS + STATE, 2 * STATE),
    "kn": (INPUTS + STATE, STATE),
    "b2": (2 * STATE,),
    "wy": (STATE, 2),
    **{f"w_{kind}": (1, gates * STATE, INPUTS) for kind, gates in GATES.items()},
    **{f"r_{kind}": (1, gates * STATE, STATE) for kind, gates in GATES.items()},
    **{f"b_{kind}": (1, 2 * gates * STATE) for kind, gates in GATES.items()},
}
_CONSTANTS = """
    t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    zero1 = Constant <value = int64[1] {0}> ()
    last1 = Constant <value = int64[1] {-1}> ()
    one1 = Constant <value = int64[1] {1}> ()
    two1 = Constant <value = int64[1] {2}> ()
    four1 = Constant <value = int64[1] {4}> ()
    eight1 = Constant <value = int64[1] {8}> ()
    far1 = Constant <value = int64[1] {9223372036854775807}> ()
    axes2 = Constant <value = int64[2] {0, 1}> ()
    from0 = Constant <value = int64[2] {0, 0}> ()
    from4 = Constant <value = int64[2] {0, 4}> ()
    from8 = Constant <value = int64[2] {0, 8}> ()
    to4 = Constant <value = int64[2] {2147483647, 4}> ()
    to8 = Constant <value = int64[2] {2147483647, 8}> ()
    to12 = Constant <value = int64[2] {2147483647, 2147483647}> ()
    unit = Constant <value = float {1}> ()
    half = Constant <value = float {0.5}> ()
    tenth = Constant <value = float {0.1}> ()
    whole = Shape (x)
    n = Gather <axis = 0> (whole, zero)
    above = Sub (n, one)
"""
DIALECTS = ("counted", "while", "scan", "reversed", "backward", "listed", "behind")


def cell_loop(
    dialect: str,
    body: str,
    *,
    states: Sequence[str] = ("h",),
    lead: str = "B,",
    row: str = "B,",
    prepare: str = "",
    start: str = "",
    y: str = "y = Identity (h2)",
    wide: int = STATE,
    inputs: str = "",
) -> str:
    """Return a graph whose Loop runs a cell: ``h2`` of ``h`` and the row ``x_i``.

    Args:
        dialect: How the loop is written.
        body: Computes ``h2``, of an LSTM ``c2`` too.
        states: What is carried.
        lead: The dimensions of a state in front of its last one.
        row: The same of a row of ``x``.
        prepare: Further nodes in front of the loop.
        start: What every state begins with; an input of the graph each by default.
        y: Computes what is collected.
        wide: How wide that is.
        inputs: Further inputs of the graph.
    """
    weights = ", ".join(
        f"float[{','.join(map(str, dims))}] {name}" for name, dims in _WEIGHTS.items()
    )
    starts = ", ".join(f"float[{lead}{STATE}] {s}0" for s in states)
    inner = ", ".join(f"float[{lead}{STATE}] {s}" for s in states)
    after = ", ".join(f"float[{lead}{STATE}] {s}2" for s in states)
    given = ", ".join(start or f"{s}0" for s in states)
    ends = ", ".join(f"{s}_last" for s in states)
    types = ", ".join(f"float[{lead}{STATE}] {s}_last" for s in states)
    work = f"{body}\n{y}"
    if dialect in ("scan", "backward"):
        backward = ", scan_input_directions = [1]" if dialect == "backward" else ""
        text = f"""{ends}, ys = Scan <body = step ({inner}, float[{row}{INPUTS}] xi)
            => ({after}, float[{lead}{wide}] y) {{ {work} }},
            num_scan_inputs = 1{backward}> ({given}, x)"""
    elif dialect in ("listed", "behind"):
        begin = "SequenceEmpty <dtype = 1> ()"
        if dialect == "behind":
            begin = f"SequenceConstruct ({given.split(',')[0]})"
        text = f"""empty = {begin}
            {ends}, list = Loop (n, t, {given}, empty) <
            body = step (int64 number, bool on, {inner}, seq(float[{lead}{wide}]) l)
            => (bool go, {after}, seq(float[{lead}{wide}]) l2) {{
            xi = Gather <axis = 0> (x, number)
            {work}
            go = Identity (on)
            l2 = SequenceInsert (l, y) }}>
            ys = ConcatFromSequence <axis = 0, new_axis = 1> (list)"""
    elif dialect == "while":
        text = f"""more = Less (zero, n)
            last, {ends}, ys = Loop (, more, zero, {given}) <
            body = step (int64 trip, bool on, int64 number, {inner})
            => (bool go, int64 number2, {after}, float[{lead}{wide}] y) {{
            xi = Gather <axis = 0> (x, number)
            {work}
            number2 = Add (number, one)
            go = Less (number2, n) }}>"""
    else:
        place = "at = Sub (above, number)" if dialect == "reversed" else "at = Identity (number)"
        text = f"""{ends}, ys = Loop (n, t, {given}) <body = step (int64 number, bool on, {inner})
            => (bool go, {after}, float[{lead}{wide}] y) {{
            {place}
            xi = Gather <axis = 0> (x, at)
            {work}
            go = Identity (on) }}>"""
    more = f", {inputs}" if inputs else ""
    return f"""g (float[N,{row}{INPUTS}] x, {starts}, {weights}{more})
        => ({types}, float[M,{lead}{wide}] ys) {{ {_CONSTANTS} {prepare} {text} }}"""


def cell_feeds(
    length: int,
    batch: int | None = 2,
    *,
    states: Sequence[str] = ("h",),
    lead: tuple[int, ...] | None = None,
    row: tuple[int, ...] | None = None,
) -> Mapping[str, np.ndarray]:
    """Make the inputs for a number of iterations and rows."""
    rng = np.random.default_rng((length, batch or 0))
    plain = () if batch is None else (batch,)
    shapes = {"x": (length, *(plain if row is None else row), INPUTS)}
    shapes |= {f"{s}0": (*(plain if lead is None else lead), STATE) for s in states}
    shapes |= _WEIGHTS
    return {name: rng.standard_normal(dims).astype(np.float32) for name, dims in shapes.items()}
