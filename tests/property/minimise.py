"""Makes a failing program small while it still fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from tests.property.bodies import Body
from tests.property.judge import Outcome, judge
from tests.property.pool import Array, Skip, Value
from tests.property.programs import Feed, Program, Result, Source

__all__ = ["minimise"]


MOST_ATTEMPTS = 150


def minimise(program: Program, outcome: Outcome) -> Program:
    """Return a smaller program that fails in the same way under the same strategy."""
    attempts = iter(range(MOST_ATTEMPTS))
    smaller: Program | None = program
    while smaller is not None:
        program = smaller
        candidates = (c for c, _ in zip(_candidates(program), attempts, strict=False))
        smaller = next((c for c in candidates if _fails(c, outcome)), None)
    return program


def _fails(program: Program, outcome: Outcome) -> bool:
    try:
        found = judge(program, outcome.strategy)
    except (Skip, ValueError, IndexError):
        return False
    return found.verdict == outcome.verdict and _kind(found) == _kind(outcome)


def _kind(outcome: Outcome) -> str:
    """Return what went wrong without names and numbers."""
    if outcome.verdict == "wrong":
        return ""
    words = outcome.detail.split("]: ")[-1]
    return "".join(c for c in words[:60] if c.isalpha() or c == " ")


def _candidates(program: Program) -> Iterator[Program]:
    """Yield programs that are smaller by one step, the largest steps first."""
    body = program.body
    if len(program.feeds) > 1:
        for feed in program.feeds:
            yield dataclasses.replace(program, feeds=(feed,))
    if program.first is not None:
        sources = {k: v for k, v in program.sources.items() if k != "x"}
        sources["y"] = Source("sequence")
        yield dataclasses.replace(program, first=None, sources=sources, options={})
    if len(program.results) > 1:
        for result in program.results:
            narrow = _with_outputs(program, body, (result.output,), (result,))
            yield narrow
    columns = _columns(body)
    yield from _cut_below(program, columns)
    yield from _cut_above(program, columns)
    if program.options:
        yield dataclasses.replace(program, options={})
    for name, source in program.sources.items():
        plainer = [Source(source.kind, source.axis), Source("rows"), Source("sequence")]
        for plain in plainer[plainer.index(source) + 1 if source in plainer else 0 :]:
            if source.kind != "map":
                yield dataclasses.replace(program, sources={**program.sources, name: plain})
    for result in program.results:
        if result.kind != "sequence":
            whole = Result(result.output, "sequence")
            yield dataclasses.replace(program, results=(whole,))
    for feed in program.feeds:
        for i in range(len(feed.samples)):
            fewer = Feed(feed.samples[:i] + feed.samples[i + 1 :])
            if all(s.kind != "construct" for s in program.sources.values()):
                yield dataclasses.replace(program, feeds=(fewer,))
    if program.typed:
        yield dataclasses.replace(program, typed=False)


def _columns(body: Body) -> dict[str, tuple[Array, ...]]:
    """Return all values of the nodes of a body, for each sample."""
    names = [o for n in body.nodes if n.op_type != "Constant" for o in n.output if o]
    found = {}
    for name in names:
        try:
            rows = body.results([name])
        except Skip:
            continue
        column = tuple(row[0] for row in rows)
        if all(isinstance(array, np.ndarray) for array in column):  # no sequence
            found[name] = column
    return found


def _with_outputs(
    program: Program, body: Body, outputs: tuple[str, ...], results: tuple[Result, ...]
) -> Program:
    smaller = dataclasses.replace(body, outputs=outputs).without_dead_parts()
    given = {v.name for v in smaller.mapped} | {"x"}
    sources = {k: v for k, v in program.sources.items() if k in given or v.kind == "map"}
    return dataclasses.replace(
        program, body=smaller, sources=sources, results=results, options=program.options
    )


def _cut_below(program: Program, columns: dict[str, tuple[Array, ...]]) -> Iterator[Program]:
    """Return an earlier value alone."""
    if len(columns) < 2:
        return
    for name in columns:
        yield _with_outputs(program, program.body, (name,), (Result(name, "sequence"),))


def _cut_above(program: Program, columns: dict[str, tuple[Array, ...]]) -> Iterator[Program]:
    """Read a value that was computed, as an element input or a shared one."""
    body = program.body
    for name, samples in columns.items():
        nodes = tuple(n for n in body.nodes if name not in n.output)
        if not nodes or name in body.outputs:
            continue
        same = all(np.array_equal(s, samples[0], equal_nan=s.dtype.kind == "f") for s in samples)
        if same:
            value = Value(name, samples, varies=False)
            changed = dataclasses.replace(body, nodes=nodes, captured=(*body.captured, value))
            sources = dict(program.sources)
        else:
            changed = dataclasses.replace(
                body, nodes=nodes, mapped=(*body.mapped, Value(name, samples))
            )
            sources = {**program.sources, name: Source("sequence")}
        if any(o for n in body.nodes if name in n.output for o in n.output if o in body.outputs):
            continue
        candidate = dataclasses.replace(program, body=changed, sources=sources)
        trimmed = _with_outputs(candidate, changed, body.outputs, program.results)
        yield trimmed
        others = tuple(v for v in trimmed.body.mapped if v.name == name)
        if others and len(trimmed.body.mapped) == 2 and program.first is None:
            alone = dataclasses.replace(trimmed.body, mapped=others)
            yield dataclasses.replace(
                trimmed, body=alone, sources={name: Source("sequence")}, options={}
            )
