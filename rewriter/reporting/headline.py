"""The first line of a report: what the model was, what it is now, and what proves it."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["headline", "told_counts", "told_failing", "told_held"]

_LOOPS = ("SequenceMap", "Loop", "Scan")

Record = Mapping[str, Any]


def headline(record: Record) -> str:
    """Return one sentence about a rewrite.

    Args:
        record: A report as plain values, see `rewriter.reporting.report.Report.to_dict`.
    """
    parts = [_was(record), _is(record), _proof(record)]
    return "; ".join(filter(None, parts))


def _was(record: Record) -> str:
    given = record["given"]["loading"]
    if given and given["outcome"] == "refused":
        return f"refused by {given['runtime']}"
    return f"holds {told_held(record['operators']['before']) or 'no map, no loop, no sequence'}"


def _is(record: Record) -> str:
    if not record["reached"]:
        wanted = " and ".join([f"target {record['target']}", *record["require"]])
        return f"{wanted} not reached"
    if record["nothing_to_do"]:
        return "nothing to do"
    loading = record["loading"]
    if loading is None:
        return f"rewritten: {_became(record)}"
    return f"now {'loads, ' * _loads_only_now(record)}{_became(record)}"


def _loads_only_now(record: Record) -> bool:
    given, loading = record["given"]["loading"], record["loading"]
    loaded_before = given is not None and given["outcome"] == "loaded"
    return loading["outcome"] == "loaded" and not loaded_before


def _became(record: Record) -> str:
    """Return what the maps became; what is left where all maps were kept, or no loop is left."""
    left = told_counts(record["operators"]["after"])
    maps = record["maps"]
    if not record["operators"]["after"]["loops"]:
        return left
    if all(one["verdict"] == "kept" for one in maps):
        return f"still {left}"
    told = _forms(maps)
    return told if {one["verdict"] for one in maps} - _LOOP_FREE else f"{told}, {left}"


def _forms(maps: Sequence[Record]) -> str:
    """Say what each of some maps became, those of one form together."""
    counts = collections.Counter(map(_form, maps))
    if len(maps) == 1:
        return next(iter(counts))
    told = [f"{count} {form}" for form, count in counts.items()]
    first, *others = counts
    of_all = f" of {len(maps)}" if others else ""
    return ", ".join([f"{counts[first]}{of_all} maps {first}", *told[1:]])


def _form(entry: Record) -> str:
    """Say what became of one map, and from how many samples on it is batched."""
    if entry["few"] and entry["verdict"] == "guarded":
        return f"batched from {entry['few'] + 1} samples of fitting shapes on, else a loop"
    if entry["few"] and entry["verdict"] == "fissioned":
        return f"batched in part from {entry['few'] + 1} samples on, else a loop"
    if entry["verdict"] == "expanded" and entry["op_type"] != "SequenceMap":
        return "still a loop, of another form"
    return _FORMS[entry["verdict"]]


_FORMS = {
    "fused": "batched",
    "guarded": "batched for enough samples of fitting shapes, else a loop",
    "fissioned": "batched in part, the rest in a loop",
    "unrolled": "unrolled",
    "expanded": "a loop",
    "kept": "kept as given",
}
_LOOP_FREE = {"fused", "unrolled"}
_FAILS = {"before fails", "defined only after"}


def told_held(counts: Record) -> str:
    """Return which maps and loops a model holds, or its sequences; empty where it holds none."""
    numbers = {kind: counts["by_type"].get(kind, 0) for kind in _LOOPS}
    held = [f"{n} {kind}{'s' * (n > 1)}" for kind, n in numbers.items() if n]
    return ", ".join(held) or (_sequences(counts) if counts["sequences"] else "")


def told_counts(counts: Record) -> str:
    """Return how many loops and sequence operators a model holds, in words."""
    loops = counts["loops"]
    return (
        f"{loops} loop{'s' * (loops > 1)}, {_sequences(counts)}"
        if loops
        else (f"no loop, {_sequences(counts)}")
    )


def _sequences(counts: Record) -> str:
    count = counts["sequences"]
    if not count:
        return "no sequence"
    return f"{count} sequence operator{'s' * (count > 1)}"


def _proof(record: Record) -> str:
    proof = record["verification"]
    if proof is None:
        return "" if record["nothing_to_do"] else "not verified"
    repaired = len(proof["repairs"])
    told = f", {repaired} map{'s' * (repaired > 1)} repaired" if repaired else ""
    if proof["ok"]:
        told = told_failing(proof) + told
        return f"verified on {proof['verified']} of {len(proof['cases'])} inputs{told}"
    return "verification failed" if proof["differs"] else "nothing could be verified"


def told_failing(proof: Record) -> str:
    """Say on how many inputs there is nothing to compare with, since the model as given fails."""
    fails = sum(one["verdict"] in _FAILS for one in proof["cases"])
    return f", as given it fails on {fails}" if fails else ""
