"""Blocks of a report, whatever its format: promises, sequences as tensors, the target."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rewriter.reporting.alike import LEAST_ALIKE
from rewriter.reporting.printable import printable
from rewriter.reporting.remedies import REACHED, told

__all__ = ["Block", "Item", "promise_items", "target_block", "tensor_items"]

Record = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Item:
    """One line, and the lines that belong to it."""

    line: str
    details: Sequence[str] = ()

    def printable(self) -> Item:
        """Return the item with the control characters of names escaped, line ends included."""
        return Item(printable(self.line), [printable(detail) for detail in self.details])


@dataclasses.dataclass(frozen=True)
class Block:
    """A heading and what stands under it: items, then rows of a table (the first: titles)."""

    heading: str
    items: Sequence[Item] = ()
    rows: Sequence[Sequence[str]] = ()

    def printable(self) -> Block:
        """Return the block with the control characters of names escaped."""
        items = [item.printable() for item in self.items]
        rows = [[printable(cell) for cell in row] for row in self.rows]
        return Block(printable(self.heading), items, rows)


def target_block(record: Record) -> Block:
    """Return whether the target is reached, and what is in its way."""
    wanted = " and ".join([f"target {record['target']}", *record["require"]])
    if record["reached"]:
        return Block(f"{wanted}: {_how_reached(record['loading'], record['placement'])}")
    reaching = _reaching(record["unreached"])
    items = []
    for first, *others in _by_cause(record["unreached"], with_remedies=not reaching):
        node = f"{first['node']} ({first['op_type']}): " if first["node"] else ""
        details = [] if reaching else [told(first["remedy"], tried=record["remedies_tried"])]
        if others:
            counts = collections.Counter(left["op_type"] for left in others)
            named = ", ".join(f"{count} {op_type}" for op_type, count in counts.items())
            is_one = all(left["cause"] or left["reason"] == first["reason"] for left in others)
            why = " for this reason" * is_one
            details.insert(0, f"and {len(others)} more{why}: {named}")
        items.append(Item(f"{node}{first['reason']}", list(filter(None, details))))
    items += [Item(told(reaching, tried=True))] * bool(reaching)
    return Block(f"{wanted}: not reached, left", items)


def _reaching(unreached: Sequence[Record]) -> str:
    """Return the tried remedy after which nothing is left, empty if there is none."""
    first, *others = {left["remedy"].partition(", or ")[0] for left in unreached}
    return first if not others and first.endswith(f"(tried: {REACHED})") else ""


def _by_cause(unreached: Sequence[Record], *, with_remedies: bool) -> list[list[Record]]:
    """Put together what is left for one cause.

    What no cause is known of is told one by one, unless the same is said of more than a few.

    Args:
        unreached: What is left.
        with_remedies: What a remedy takes away is told apart from what another one does.
            Otherwise one takes away all, and nodes of no known cause are told as one.
    """
    groups: dict[Any, list[Record]] = {}
    for left in unreached:
        why = left["cause"] or (left["reason"] if with_remedies or not left["node"] else "")
        groups.setdefault((why, left["remedy"] * with_remedies), []).append(left)
    together: list[list[Record]] = []
    for group in groups.values():
        is_told_once = group[0]["cause"] or len(group) > LEAST_ALIKE
        together += [group] if is_told_once else [[left] for left in group]
    return together


def _how_reached(loading: Record | None, placement: Record | None) -> str:
    """Say that a model is accepted; it may be so and yet run on the host alone."""
    how = "reached in all but the version" if loading and loading["by_version"] else "reached"
    if placement and placement["host"] and not placement["device"]:
        how = how.replace("reached", "accepted") + ", but no node runs on the device"
    if loading is None:
        return f"{how}; checked for sequences and control flow, not loaded"
    return f"{how}; {loading['sentence']}"


def promise_items(promises: Record) -> list[Item]:
    """Return what the caller promised."""
    items = [Item(f"uniform: {name}") for name in promises["uniform"]]
    for name, dims in promises["input_shapes"].items():
        shown = ", ".join("?" if dim is None else str(dim) for dim in dims)
        items.append(Item(f"shape of {name}: [{shown}]"))
    if promises["trust_types"]:
        items.append(Item("declared dimensions of sequence elements hold"))
    return items


def tensor_items(tensor_io: Record) -> list[Item]:
    """Return which sequences the new model passes as tensors."""
    items = []
    for side in ("input", "output"):
        for name, passed in tensor_io[f"{side}s"].items():
            dims = passed["dims"]
            shown = None if dims is None else ["?" if d is None else str(d) for d in dims]
            first = "B"
            if passed["form"] == "packed":
                first, shown = "sum of lengths", (shown or [])[1:]
            if passed["form"] == "flat":
                ragged = [axis for axis, d in enumerate(dims) if not isinstance(d, int)]
                first, shown = "P", (shown or [])[ragged[-1] + 1 :]
            shape = ", ".join([first, *(["..."] if shown is None else shown)])
            kinds = [kind for kind in ("lengths", "sizes") if kind in passed]
            beside = "".join(f", {kind} in {passed[kind]}" for kind in kinds)
            items.append(Item(f"{side} {name}: {passed['form']} [{shape}]{beside}"))
    return items
