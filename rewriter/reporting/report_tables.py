"""The tables of a report, from its plain record: rows of cells, the titles first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewriter.model_files.model_facts import bytes_text

__all__ = ["bench_rows", "boundary_rows", "environment_rows", "model_rows", "operator_rows"]

Record = Mapping[str, Any]


def bench_rows(bench: Record) -> list[Sequence[str]]:
    """Return the times over the sizes, titles first."""
    rows: list[Sequence[str]] = [(bench["axis"], "as given, ms", "rewritten, ms", "faster by")]
    for row in bench["rows"]:
        given = "refused" if row["before_ms"] is None else f"{row['before_ms']:.3g}"
        speed = "" if row["speedup"] is None else f"{row['speedup']:.1f}x"
        rows.append((str(row["size"]), given, f"{row['after_ms']:.3g}", speed))
    return rows


def model_rows(record: Record) -> list[Sequence[str]]:
    """Return the label of the model before and after, and its inputs and outputs."""
    before, after = record["given"], record["new"]
    rows: list[Sequence[str]] = [("model", "before", "after")]
    counts = record["operators"]
    rows.append(("nodes", *(str(counts[side]["total"]) for side in ("before", "after"))))
    sizes = [side.get("file_bytes") for side in (before, after)]
    if any(size is not None for size in sizes):
        rows.append(("file", *("-" if size is None else bytes_text(size) for size in sizes)))
    rows.append(("weights", *(bytes_text(side["weight_bytes"]) for side in (before, after))))
    for title, key in {"opset": "opset", "IR version": "ir_version"}.items():
        rows.append((title, str(before[key]), str(after[key])))
    for title, key in {"IN": "inputs", "OUT": "outputs"}.items():
        for name in {**before[key], **after[key]}:
            types = (side[key].get(name, "") for side in (before, after))
            rows.append((f"{title} {name}", *types))
    return rows


def boundary_rows(record: Record) -> list[Sequence[str]]:
    """Return what goes into each batched map and comes out of it, titles first if there is any."""
    rows: list[Sequence[str]] = [
        (entry["path"], f"{one['role']} {one['name']}", one["sample"], " or ".join(one["layouts"]))
        for entry in record["maps"]
        for one in entry["boundary"]
    ]
    return [("map", "value", "one sample", "held"), *rows] if rows else []


def environment_rows(record: Record) -> list[Sequence[str]]:
    """Return the versions that the report was made with, titles first."""
    return [("package", "version"), *record["environment"].items()]


def operator_rows(operators: Record) -> list[Sequence[str]]:
    """Return how often each operator occurs before and after, titles first and sums last."""
    before, after = operators["before"], operators["after"]
    rows: list[Sequence[str]] = [("operator", "before", "after")]
    for op_type in sorted(before["by_type"].keys() | after["by_type"].keys()):
        counts = [str(side["by_type"].get(op_type, 0)) for side in (before, after)]
        rows.append((op_type, *counts))
    totals = {"all": "total", "sequence operators": "sequences", "loops and maps": "loops"}
    for title, key in totals.items():
        rows.append((title, str(before[key]), str(after[key])))
    return rows
