"""Random Loops that carry several values, each by one of the patterns, or by none."""

from __future__ import annotations

import random

from tests.passes.carried.carried import COUNT, INPUTS, SCALARS

__all__ = ["draw"]


_PATTERNS = range(52)
_RECURRENCES = (10, 11, 12)


class _Loop:
    """The carried values and the nodes of one iteration, as text."""

    def __init__(self, seed: int, recurrences: bool) -> None:
        self.rng = random.Random(seed)
        self.patterns = [at for at in _PATTERNS if recurrences or at not in _RECURRENCES]
        self.lines = [
            "e = Gather <axis = 0> (x, i)",
            "ke = Gather <axis = 0> (k, i)",
            "pe = Gather <axis = 0> (p, i)",
            "we = Gather <axis = 0> (w, i)",
            "fe = Greater (ke, c)",
        ]
        self.states: list[tuple[str, str]] = []
        self.collected: list[tuple[str, str]] = []
        self.rows = ["e", "we"]
        self.count = 0

    def add(self, operation: str) -> str:
        """Add a node and return its output."""
        self.count += 1
        self.lines.append(f"v{self.count} = {operation}")
        return f"v{self.count}"

    def row(self) -> str:
        """Return a row that was there, or is made of such."""
        one, other = self.rng.choice(self.rows), self.rng.choice(self.rows)
        form = self.rng.choice(["{0}", "Tanh ({0})", "Mul ({0}, {1})", "Sub ({0}, {1})"])
        return one if form == "{0}" else self.add(form.format(one, other))

    def carry(self, state: str, initial: str, following: str) -> None:
        """Add a carried value; ``following`` has ``{s}`` for it."""
        name = f"s{len(self.states)}"
        value = self.add(following.format(s=name))
        self.lines.append(f"{name}n = Identity ({value})")
        self.states.append((state, initial))
        if state == "float[4]" and self.rng.random() < 0.3:
            self.rows.append(self.rng.choice([name, value]))
        if state in ("float[4]", "int64[4]", "bool[4]") and self.rng.random() < 0.3:
            self.collected.append((state, self.rng.choice([name, value])))

    def carry_any(self) -> None:
        """Add a carried value of a random pattern."""
        rng, name = self.rng, f"s{len(self.states)}"
        join = rng.choice(["Add", "Sub", "Mul", "Max", "Min"])
        match rng.choice(self.patterns):
            case 0 | 1:
                row = self.row()
                self.carry("float[4]", "b", f"{join} ({{s}}, {row})")
            case 2:
                total = self.add(f"{join} ({name}, {self.row()})")
                self.carry("float[4]", "b", f"Where (pe, {total}, {{s}})")
            case 3:
                join = rng.choice(["Add", "Sub", "Mul", "Max", "Min"])
                self.carry("int64[4]", "c", f"{join} ({{s}}, ke)")
            case 4:
                join = rng.choice(["And", "Or", "Xor"])
                self.carry("bool[4]", "f", f"{join} (pe, {{s}})")
            case 5:
                row = self.add(f"Unsqueeze ({self.row()}, zero1)")
                self.carry("float[R,4]", "start", f"Concat <axis = 0> ({{s}}, {row})")
            case 6:
                at, row = self.add("Unsqueeze (i, zero1)"), self.row()
                self.carry("float[R,4]", "w", f"ScatterND ({{s}}, {at}, {row})")
            case 7:
                self.carry("float[4]", "b", f"Identity ({self.row()})")
            case 8:
                row = self.row()
                better = self.add(f"{rng.choice(['Greater', 'LessOrEqual'])} ({row}, {name})")
                self.carry("float[4]", "b", f"Where ({better}, {row}, {{s}})")
                at = self.add("Expand (i, four)")
                self.carry("int64[4]", "c", f"Where ({better}, {at}, {{s}})")
            case 9:
                self.carry("float[4]", "b", f"Where (pe, {self.row()}, {{s}})")
            case 10:
                total = self.add(f"Add ({name}, {self.row()})")
                self.carry("float[4]", "b", f"{rng.choice(['Tanh', 'Relu'])} ({total})")
            case 11 | 12:
                self.carry_recurrence()
            case 13:
                row = self.row()
                then = rng.choice(["Add ({s}, {row})", "Max ({row}, {s})", "Identity ({row})"])
                self.carry("float[4]", "b", self.in_branch(then, "float[4]", row))
            case 14:
                row, kind = self.row(), "float[R,4]"
                pair = rng.choice(["({s}, wide)", "(wide, {s})"])
                then = f"Concat <axis = 0> {pair}"
                self.carry(kind, "start", self.in_branch(then, kind, row, "Unsqueeze", ", zero1"))
            case 15:
                row = self.add(f"Unsqueeze ({self.row()}, zero1)")
                self.carry("float[R,4]", "start", f"Concat <axis = 0> ({row}, {{s}})")

            case 16:
                row = self.add(f"Unsqueeze ({self.row()}, zero1)")
                whole = self.add(f"Concat <axis = 0> ({name}, {row})")
                end = self.add("Constant <value = int64[1] {9223372036854775807}> ()")
                self.rows.append(self.add(f"ReduceMax <axes = [0], keepdims = 0> ({whole})"))
                self.carry("float[R,4]", "start", f"Slice ({whole}, one1, {end})")
            case 17:
                row = self.row()
                better = self.add(f"{rng.choice(['Greater', 'Less'])} ({row}, {name})")
                self.carry_weighed(better, "float[4]", "b", row)
                self.carry_weighed(better, "int64[4]", "c", self.add("Expand (i, four)"))
            case 18:
                total = f"{rng.choice(['Add', 'Sub', 'Max'])} ({name}, {self.row()})"
                self.carry_weighed("pe", "float[4]", "b", self.add(total))
            case 19:
                self.carry_weighed("pe", "float[4]", "b", self.row())
            case 20:
                kinds = rng.choice([["Add", "Sub"], ["Max"], ["Mul"], ["Min"], ["Add", "Mul"]])
                one, other = (
                    self.add(f"{rng.choice(kinds)} ({name}, {self.row()})") for _ in range(2)
                )
                self.carry("float[4]", "b", f"Where (pe, {one}, {other})")
            case 21:
                row, kinds = self.row(), rng.choice([["Add", "Sub"], ["Max"], ["Min", "Add"]])
                one, other = (f"{rng.choice(kinds)} ({{s}}, {v})" for v in ("{row}", row))
                form = self.in_branch(one, "float[4]", row)
                self.carry("float[4]", "b", form.replace("Identity ({s})", other))

            case 22:
                join, row, new = rng.choice(["Add", "Sub", "Max", "Mul"]), self.row(), self.row()
                total = self.add(f"{join} ({name}, {row})")
                pair = rng.choice([f"{new}, {total}", f"{total}, {new}"])
                self.carry("float[4]", "b", f"Where (pe, {pair})")
            case 23:
                kept = self.add(f"Where (fe, {rng.choice(['ke', 'c'])}, {name})")
                added = self.add(f"Add ({kept}, {rng.choice(['ke', 'one'])})")
                self.carry("int64[4]", "c", f"Where (pe, ke, {rng.choice([kept, added])})")

            case 24 | 25:
                self.carry_some_rows(self.place())
            case 26:
                self.carry_some_rows(self.place(), 'reduction = "add"')
            case 27:
                first = self.add(f"ScatterND ({name}, {self.place('i')}, {self.wide()})")
                second = self.place(rng.choice(["i", "i", "i", "ai"]))
                self.carry_some_rows(second, start=first)
            case 28:
                self.carry_replaced()
            case 29 | 30 | 31:
                self.carry_count()
            case 32 | 33 | 34 | 35:
                self.carry_own_rows()
            case 36 | 37 | 38:
                self.carry_keyed()
            case 39:
                self.carry_columns()
            case 40 | 41:
                total = name
                for _ in range(rng.randint(2, 3)):
                    total = self.add(f"{rng.choice(['Max', 'Min'])} ({total}, {self.row()})")
                self.carry("float[4]", "b", f"Identity ({total})")
            case 42 | 43:
                place, row = self.place(rng.choice(["i", "i", "i", "ai"])), self.wide()
                whole = self.add(f"ScatterND ({name}, {place}, {row})")
                self.carry("float[R,4]", "w", f"Identity ({whole})")
                self.read_all(name, whole)
            case 44 | 45:
                rows = rng.choice([self.wide(), f"{self.wide()}, {self.wide()}"])
                whole = self.add(f"Concat <axis = 0> ({name}, {rows})")
                self.carry("float[R,4]", "start", f"Identity ({whole})")
                self.read_all(name, whole)
            case 46 | 47 | 48:
                self.carry_own_ranges()
            case 49 | 50 | 51:
                self.carry_linear()

    def read_all(self, before: str, after: str) -> None:
        """Read all that was written so far, in front of a write or behind it."""
        read = self.rng.choice([before, after, after])
        form = self.rng.choice(["ReduceMax", "ReduceMin", "ReduceMean"])
        row = self.add(f"{form} <axes = [0], keepdims = 0> ({read})")
        self.rows.append(row)
        if self.rng.random() < 0.6:
            self.collected.append(("float[4]", row))

    def flag(self) -> str:
        """Return a condition of one element that may differ from iteration to iteration."""
        sums = self.add("ReduceMax <axes = [0], keepdims = 0> (we)")
        return self.add(f"Greater ({sums}, {self.rng.choice(['z', sums])})")

    def wide(self) -> str:
        """Return a matrix of one row."""
        return self.add(f"Unsqueeze ({self.row()}, zero1)")

    def place(self, number: str = "") -> str:
        """Return the place of a row of a matrix, as a ScatterND wants it."""
        number = number or self.rng.choice(["i", "i", "ai"])
        if number == "ai":
            number = self.add("Gather <axis = 0> (at, i)")
        column = self.add(f"Unsqueeze ({number}, zero1)")
        return self.add(f"Unsqueeze ({column}, one1)")

    def carry_some_rows(self, place: str, form: str = "", start: str = "") -> None:
        """Add a matrix of which some iterations write a row, and others perhaps another one."""
        rng, name, kind = self.rng, f"s{len(self.states)}", "float[R,4]"
        flag, one, other, n = self.flag(), self.wide(), self.wide(), self.count
        given, attribute = start or name, f"<{form}> " if form else ""
        graphs = [
            f"w{n} = Sin ({one})  u{n} = ScatterND {attribute}({given}, {place}, w{n})",
            f"k{n} = Identity ({given})",
        ]
        if rng.random() < 0.3:
            graphs[1] = f"k{n} = ScatterND {attribute}({given}, {place}, {other})"
        outputs = [f"u{n}", f"k{n}"]
        if rng.random() < 0.3:
            graphs, outputs = graphs[::-1], outputs[::-1]
        (then, left), (yes, no) = graphs, outputs
        self.lines.append(
            f"v{n}c = If ({flag}) < then_branch = yes () => ({kind} {yes}) {{ {then} }}, "
            f"else_branch = no () => ({kind} {no}) {{ {left} }}>"
        )
        self.carry(kind, "w", f"Identity (v{n}c)")

    def carry_own_rows(self) -> None:
        """Add a matrix of which each iteration changes its own row, or now and then another."""
        rng, name, kind = self.rng, f"s{len(self.states)}", "float[R,4]"
        place, before = self.place("i"), name
        for _ in range(rng.randint(1, 2)):
            number = rng.choice(["i"] * 8 + ["zero"])
            old = self.add(f"Gather <axis = 0> ({before}, {number})")
            self.rows.append(old)
            row = self.add(f"{rng.choice(['Tanh', 'Sin', 'Neg'])} ({self.row()})")
            self.rows.remove(old)
            new = self.add(f"{rng.choice(['Add', 'Mul', 'Max'])} ({old}, {row})")
            wide = self.add(f"Unsqueeze ({new}, zero1)")
            before = self.add(f"ScatterND ({before}, {place}, {wide})")
        if rng.random() < 0.6:
            flag, n = self.flag(), self.count
            self.lines.append(
                f"v{n}d = If ({flag}) < then_branch = yes () => ({kind} u{n}) "
                f"{{ u{n} = Identity ({before}) }}, else_branch = no () => ({kind} k{n}) "
                f"{{ r{n} = Gather <axis = 0> ({name}, i)  w{n} = Abs (r{n}) "
                f"q{n} = Unsqueeze (w{n}, zero1)  k{n} = ScatterND ({name}, {place}, q{n}) }}>"
            )
            before = f"v{n}d"
        self.carry(kind, "w", f"Identity ({before})")

    def carry_own_ranges(self) -> None:
        """Add a matrix; each iteration writes to some places of a row, or a column, of its own."""
        rng, name = self.rng, f"s{len(self.states)}"
        start, end = (self.add(f"Gather (ke, {at})") for at in ("zero1", "one1"))
        is_turned, number = rng.random() < 0.3, rng.choice(["i"] * 6 + ["zero"])
        whole = self.add(f"Shape ({name})")
        size = self.add(f"Gather ({whole}, {'zero' if is_turned else 'one'})")
        places = self.add(f"Range (zero, {size}, one)")
        some = self.add(f"Slice ({places}, {start}, {end}, zero1, one1)")
        columns = [self.add("Unsqueeze (i, zero1)"), some]
        columns = columns[::-1] if is_turned else columns
        columns[0] = self.add(f"Reshape ({columns[0]}, column)")
        grid = self.add(f"Shape ({self.add(f'Add ({columns[0]}, {columns[1]})')})")
        wide = [self.add(f"Expand ({one}, {grid})") for one in columns]
        listed = ", ".join([self.add(f"Unsqueeze ({one}, last)") for one in wide])
        row = self.add(f"Gather <axis = {int(is_turned)}> ({name}, {number})")
        if rng.random() < 0.2:
            self.rows.append(row)
        old = self.add(f"Slice ({row}, {start}, {end}, zero1)")
        value = self.row()
        value = self.add(
            rng.choice([f"Slice ({value}, {start}, {end}, zero1)", f"Gather ({value}, zero)"])
        )
        join = rng.choice(["Add", "Mul", "Max", "Sub", ""])
        new = self.add(f"{join} ({old}, {value})") if join else value
        new = self.add(f"Expand ({new}, {self.add(f'Shape ({old})')})")
        new = self.add(f"Reshape <allowzero = 1> ({new}, {grid})")
        index = self.add(f"Concat <axis = -1> ({listed})")
        kind, begin = ("float[4,N]", "turned") if is_turned else ("float[R,4]", "w")
        self.carry(kind, begin, f"ScatterND ({name}, {index}, {new})")

    def carry_keyed(self) -> None:
        """Add a matrix that each iteration reads, and writes to, where a number of the data says."""
        rng, name = self.rng, f"s{len(self.states)}"
        three = self.add(f"Constant <value = int64 {{{rng.choice([3, -3])}}}> ()")
        first = self.add("Gather <axis = 0> (ke, zero)")
        key = self.add(f"Mod ({first}, {three})")
        old = self.add(f"Gather <axis = 0> ({name}, {key})")
        if rng.random() < 0.7:
            self.rows.append(old)
        form = rng.choice(["Sin ({1})", "Add ({0}, {1})", "Sub ({0}, {1})", "Max ({0}, {1})"])
        row = self.add(form.format(old, rng.choice(["e", "we", self.row()])))
        wide = self.add(f"Unsqueeze ({row}, zero1)")
        new = self.add(f"ScatterND ({name}, {self.place(key)}, {wide})")
        if rng.random() < 0.5:
            self.rows.append(self.add(f"Gather <axis = 0> ({new}, {key})"))
        self.carry("float[3,4]", "start", f"Identity ({new})")

    def carry_columns(self) -> None:
        """Add a matrix of which each iteration changes the column of its number."""
        rng, name = self.rng, f"s{len(self.states)}"
        number = rng.choice(["i"] * 4 + ["zero"])
        old = self.add(f"Gather <axis = 1> ({name}, {number})")
        new = self.add(f"{rng.choice(['Add', 'Mul', 'Max'])} ({old}, {self.row()})")
        wide = self.add(f"Unsqueeze ({new}, one1)")
        places = self.add(f"Expand ({self.place('i')}, {self.add(f'Shape ({wide})')})")
        self.carry(
            "float[4,N]", "turned", f"ScatterElements <axis = 1> ({name}, {places}, {wide})"
        )

    def carry_replaced(self) -> None:
        """Add a matrix, a row of which each iteration replaces by a Concat of slices."""
        name, row = f"s{len(self.states)}", self.wide()
        start = self.add("Unsqueeze (i, zero1)")
        gap = self.rng.choice(["one1", "one1", "one1", "zero1"])
        end = self.add(f"Add ({start}, {gap})")
        far = self.add("Constant <value = int64[1] {9223372036854775807}> ()")
        front = self.add(f"Slice ({name}, zero1, {start}, zero1)")
        back = self.add(f"Slice ({name}, {end}, {far}, zero1)")
        initial = self.rng.choice(["start", "w"])
        self.carry("float[R,4]", initial, f"Concat <axis = 0> ({front}, {row}, {back})")

    def carry_count(self) -> None:
        """Add a buffer, and a count of the rows that some iterations write to it."""
        rng, at, kind = self.rng, len(self.states), "float[R,4]"
        flag, row, n = self.flag(), self.wide(), self.count
        grown, kept = rng.choice([("one", "zero")] * 4 + [("zero", "one"), ("one", "one")])
        then = f"""p{n} = Unsqueeze (s{at}, zero1)  q{n} = Unsqueeze (p{n}, one1)
                u{n} = ScatterND (s{at + 1}, q{n}, {row})  m{n} = Add (s{at}, {grown})"""
        left = f"k{n} = Identity (s{at + 1})  l{n} = Add (s{at}, {kept})"
        self.lines.append(
            f"v{n}a, v{n}b = If ({flag}) < "
            f"then_branch = yes () => (int64 m{n}, {kind} u{n}) {{ {then} }}, "
            f"else_branch = no () => (int64 l{n}, {kind} k{n}) {{ {left} }}>"
        )
        self.carry("int64", "zero", f"Identity (v{n}a)")
        self.carry(kind, "w", f"Identity (v{n}b)")

    def carry_weighed(self, flag: str, state: str, initial: str, value: str) -> None:
        """Add a value that is taken where a flag is set, by products with 0 and 1."""
        to, name = 1 if state.startswith("float") else 7, f"s{len(self.states)}"
        turned = self.add(f"Not ({flag})")
        weights = [self.add(f"Cast <to = {to}> ({v})") for v in (flag, turned)]
        taken = self.add(f"Mul ({weights[0]}, {value})")
        kept = self.add(f"Mul ({name}, {weights[1]})")
        self.carry(state, initial, f"Add ({taken}, {kept})")

    def carry_linear(self) -> None:
        """Add a value that is multiplied by a factor, and gains a term, in each iteration."""
        rng, name = self.rng, f"s{len(self.states)}"
        if rng.random() < 0.2:
            scaled = self.add(f"Mul ({rng.choice(['ke', 'c'])}, {name})")
            self.carry("int64[4]", "c", f"{rng.choice(['Add', 'Sub'])} ({scaled}, ke)")
            return
        row = self.row()
        number = f"Constant <value = float {{{rng.choice([0.9, -0.7, 1.0])}}}> ()"
        factor = self.add(rng.choice([number, "Cast <to = 1> (pe)", f"Sin ({row})"]))
        if rng.random() < 0.2:
            factor = row  # which may be larger than 1
        forms = ["Add ({1}, {0})", "Sub ({0}, {1})", "Sub ({1}, {0})", "average"]
        form, term = rng.choice(forms), self.row()
        if form == "average":
            scaled = self.add(f"Mul ({factor}, {self.add(f'Sub ({term}, {name})')})")
            line = self.add(f"Add ({name}, {scaled})")
        else:
            line = self.add(form.format(self.add(f"Mul ({name}, {factor})"), term))
        chosen = ["Identity ({0})", "Where (pe, {0}, {1})", "Where (pe, {2}, {0})"]
        self.carry("float[4]", "b", rng.choice(chosen).format(line, name, term))

    def carry_recurrence(self) -> None:
        """Add a recurrence between two projections."""
        rng, value = self.rng, self.row()
        for _ in range(rng.randint(1, 4)):
            value = self.add(f"{rng.choice(['Sin', 'Exp', 'Sigmoid', 'Abs'])} ({value})")
        name = f"s{len(self.states)}"
        total = self.add(f"{rng.choice(['Add', 'Mul', 'Sub'])} ({name}, {value})")
        self.carry("float[4]", "b", f"{rng.choice(['Tanh', 'Sin', 'Cos'])} ({total})")
        self.rows.append(rng.choice([name, f"{name}n"]))
        behind = self.rows[-1]
        for _ in range(rng.randint(0, 4)):
            behind = self.add(f"{rng.choice(['Sin', 'Relu', 'Sigmoid', 'Neg'])} ({behind})")
        if rng.random() < 0.6:
            self.collected.append(("float[4]", behind))

    def in_branch(
        self, then: str, kind: str, row: str, before: str = "Sin", more: str = ""
    ) -> str:
        """Return an If that computes the next value in a branch, or keeps the value."""
        flag = self.add("ReduceMax <axes = [0], keepdims = 0> (we)")
        larger = self.add(f"Greater ({flag}, {self.rng.choice(['z', flag])})")
        n = self.count
        taken = then.format(s="{s}", row=f"w{n}").replace("wide", f"w{n}")
        graphs = [f"w{n} = {before} ({row}{more})  u{n} = {taken}", f"k{n} = Identity ({{s}})"]
        outputs = [f"u{n}", f"k{n}"]
        if self.rng.random() < 0.3:
            graphs, outputs = graphs[::-1], outputs[::-1]
        one, other = graphs
        return (
            f"If ({larger}) < then_branch = yes () => ({kind} {outputs[0]}) {{{{ {one} }}}}, "
            f"else_branch = no () => ({kind} {outputs[1]}) {{{{ {other} }}}}>"
        )


def draw(seed: int, patterns: int | None = None, recurrences: bool = True) -> str:
    """Return a graph with one Loop; it may hold a recurrence, unless told not to."""
    loop = _Loop(seed, recurrences)
    for _ in range(patterns or loop.rng.randint(1, 4)):
        loop.carry_any()
    for at, (_, value) in enumerate(loop.collected):
        loop.lines.append(f"y{at} = Identity ({value})")
    if loop.rng.random() < 0.6:
        loop.lines.append(f"y{len(loop.collected)} = Identity ({loop.row()})")
        loop.collected.append(("float[4]", ""))
    states = list(enumerate(loop.states))
    inner = ", ".join(f"{state} s{at}" for at, (state, _) in states)
    after = ", ".join(f"{state} s{at}n" for at, (state, _) in states)
    after += "".join(f", {state} y{at}" for at, (state, _) in enumerate(loop.collected))
    outputs = [f"{state.replace('R', f'R{at}')} r{at}" for at, (state, _) in states]
    outputs += [
        f"{state.replace('[', '[T,')} ys{at}" for at, (state, _) in enumerate(loop.collected)
    ]
    names = ", ".join(output.split()[1] for output in outputs)
    first = ", ".join(initial for _, (_, initial) in states)
    text = "\n            ".join(loop.lines)
    return f"""g ({INPUTS}) => ({", ".join(outputs)}) {{ {SCALARS} {COUNT}
        four = Constant <value = int64[1] {{4}}> ()
        last = Constant <value = int64[1] {{-1}}> ()
        column = Constant <value = int64[2] {{-1, 1}}> ()
        turned = Transpose (w)
        {names} = Loop (n, t, {first}) <body = step (int64 i, bool cond, {inner})
            => (bool go, {after}) {{
            {text}
            go = Identity (cond)
        }}>
    }}"""
