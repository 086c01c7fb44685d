"""The first line of a report: what the model was, what it is now, and what proves it."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from passes.decisions import PART_OF
from rewriter.reporting.alike import each_once

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
    """Return what the maps became, or what is left where that says more."""
    left = told_counts(record["operators"]["after"])
    maps = each_once(record["maps"])
    if not record["operators"]["after"]["loops"]:
        return left
    if all(one["verdict"] == "kept" for one in maps):
        return f"still {left}"
    forms = collections.defaultdict(list)
    by_path = {one["path"]: one for one in maps}
    for one in maps:
        whole = by_path.get(one["form"].removeprefix(PART_OF), one)
        forms[_form(whole)].append(whole["few"] + 1)
    told = _told_forms(forms)
    return told if forms.keys() - _LOOP_FREE else f"{told}, {left}"


def _told_forms(forms: Mapping[str, Sequence[int]]) -> str:
    """Say what maps became.

    Args:
        forms: Of each form, from how many samples on its maps are batched.
    """
    told = [form.format(_numbers(sizes)) for form, sizes in forms.items()]
    counts = [len(sizes) for sizes in forms.values()]
    if sum(counts) == 1:
        return told[0]
    of_all = f" of {sum(counts)}" if len(counts) > 1 else ""
    first, *others = map(" ".join, zip(map(str, counts), told, strict=True))
    return ", ".join([first.replace(" ", f"{of_all} maps ", 1), *others])


def _numbers(sizes: Sequence[int]) -> str:
    """Return numbers in words: one, two, or the least and the largest."""
    least, *others = sorted(set(sizes))
    return f"{least}{f' to {others[-1]}' if others else ''}"


def _form(entry: Record) -> str:
    """Say what became of one map; a number belongs into the braces."""
    is_asked = entry["few"] and not entry["few_copied"]
    if is_asked and entry["verdict"] in _FROM_SAMPLES:
        return _FROM_SAMPLES[entry["verdict"]]
    if entry["verdict"] == "expanded" and entry["op_type"] != "SequenceMap":
        return "still a loop, of another form"
    return _FORMS[entry["verdict"]]


_FROM_SAMPLES = {
    "fused": "batched from {} samples on, else a loop",
    "guarded": "batched from {} samples of fitting shapes on, else a loop",
    "fissioned": "batched in part from {} samples on, else a loop",
}
_FORMS = {
    "fused": "batched",
    "guarded": "batched for enough samples of fitting shapes, else a loop",
    "fissioned": "batched in part, the rest in a loop",
    "unrolled": "unrolled",
    "expanded": "a loop",
    "kept": "kept as given",
}
_LOOP_FREE = {_FORMS["fused"], _FORMS["unrolled"]}
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
