"""Random Loops that carry lists: what iterations set, take out, add and read, at any places."""

from __future__ import annotations

import random

__all__ = ["draw"]


class _Loop:
    """The nodes of one iteration, as text, and the rows that are known there."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.rows = ["e", "v"]
        self.read: list[str] = []
        self.count = 0

    def add(self, operation: str) -> str:
        """Add a node and return its output."""
        self.count += 1
        self.lines.append(f"u{self.count} = {operation}")
        return f"u{self.count}"

    def number(self, number: int) -> str:
        """Add a number and return it."""
        return self.add(f"Constant <value = int64 {{{number}}}> ()")

    def row(self) -> str:
        """Return a row that was there or is computed; seldom one that was read of a list."""
        known = self.read if self.read and self.rng.random() < 0.1 else self.rows
        form = self.rng.choice(["{0}", "{0}", "Sub ({0}, v)", "Max ({0}, e)"])
        return known[-1] if form == "{0}" else self.add(form.format(self.rng.choice(known)))

    def place(self, count: int) -> str:
        """Return a place of a list of so many elements."""
        if self.rng.random() < 0.6:
            return self.number(self.rng.randrange(-count, count))
        grown = self.add(f"Add (i, {self.number(self.rng.randrange(3))})")
        return self.add(f"Mod ({grown}, {self.number(self.rng.randint(1, count))})")

    def change(self, list_: str, count: int) -> str:
        """Add what leaves a list of so many elements as long as it was; return the new one."""
        match self.rng.randrange(6):
            case 0 | 1:
                at = self.place(count) if self.rng.random() < 0.7 else self.number(count - 1)
                less = self.add(f"SequenceErase ({list_}, {at})")
                return self.add(f"SequenceInsert ({less}, {self.row()}, {at})")
            case 2:
                more = self.add(f"SequenceInsert ({list_}, {self.row()})")
                return self.add(f"SequenceErase ({more}, {self.number(0)})")
            case 3:
                less = self.add(f"SequenceErase ({list_})")
                return self.add(f"SequenceInsert ({less}, {self.row()}, {self.number(0)})")
            case 4 if count < 5:
                places = [self.number(self.rng.randrange(count)) for _ in range(count)]
                parts = [self.add(f"SequenceAt ({list_}, {at})") for at in places]
                parts[self.rng.randrange(count)] = self.row()
                return self.add(f"SequenceConstruct ({', '.join(parts)})")
            case 5 if self.rng.random() < 0.2:
                return self.add(f"SequenceInsert ({list_}, {self.row()})")
        return list_

    def look(self, list_: str, count: int) -> None:
        """Read something of a list."""
        match self.rng.randrange(4):
            case 0 | 1:
                self.read.append(self.add(f"SequenceAt ({list_}, {self.place(count)})"))
            case 2:
                axis = self.rng.choice([0, 1, -1])
                whole = f"ConcatFromSequence <axis = {axis}, new_axis = 1> ({list_})"
                how = self.rng.choice(["ReduceMax", "ReduceMean"])
                whole = self.add(whole)
                along = 0 if axis == 0 else 1
                self.read.append(self.add(f"{how} <axes = [{along}], keepdims = 0> ({whole})"))
            case 3:
                whole = self.add(f"ConcatFromSequence <axis = 0> ({list_})")
                parts = self.add(f"Reshape ({whole}, rows)")
                self.read.append(self.add(f"ReduceMin <axes = [0], keepdims = 0> ({parts})"))


def draw(seed: int) -> str:
    """Return a graph with one Loop that carries one or two lists."""
    loop = _Loop(seed)
    states, inits = [], []
    for at in range(loop.rng.randint(1, 2)):
        count = loop.rng.choice([1, 2, 3, 4, 18])
        elements = [loop.rng.choice(["b", "b2"]) for _ in range(count)]
        inits.append(f"l{at}0 = SequenceConstruct ({', '.join(elements)})")
        list_ = f"l{at}"
        for _ in range(loop.rng.randint(1, 4)):
            if loop.rng.random() < 0.5:
                list_ = loop.change(list_, count)
            else:
                loop.look(list_, count)
        loop.lines.append(f"l{at}n = Identity ({list_})")
        states.append(at)
    y = loop.add(f"Add ({loop.rng.choice(loop.read or loop.rows)}, e)")
    kinds = "".join(f", seq(float[4]) l{at}" for at in states)
    nexts = "".join(f", seq(float[4]) l{at}n" for at in states)
    ends = "  ".join(
        f"r{at} = ConcatFromSequence <axis = 0, new_axis = 1> (l{at}z)" for at in states
    )
    outputs = "".join(f", float[P{at},4] r{at}" for at in states)
    lines, starts = "\n            ".join(loop.lines), "\n        ".join(inits)
    return f"""g (float[N,4] x, float[4] b) => (float[N,4] ys{outputs}) {{
        t = Constant <value = bool {{1}}> ()  rows = Constant <value = int64[2] {{-1, 4}}> ()
        b2 = Neg (b)
        {starts}
        n = Shape <start = 0, end = 1> (x)  count = Squeeze (n)
        {", ".join(f"l{at}z" for at in states)}, ys = Loop (count, t, {", ".join(f"l{at}0" for at in states)})
            <body = step (int64 i, bool more{kinds}) => (bool on{nexts}, float[4] y) {{
            on = Identity (more)  e = Gather <axis = 0> (x, i)  v = Tanh (e)
            {lines}
            y = Identity ({y})
        }}>
        {ends}
    }}"""
