"""Reads from a profile of onnxruntime where nodes ran, and which values were copied."""

from __future__ import annotations

import collections
import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["Placement", "read_profile"]

_COPIES = {"MemcpyToHost": "to_host", "MemcpyFromHost": "to_device"}


@dataclasses.dataclass(frozen=True)
class Placement:
    """One run of a model.

    Attributes:
        nodes: For each execution provider how many nodes it ran, by operator, bodies included.
        runs: For each execution provider how often it ran a node.
        to_host: How many copies from the device to the host were made.
        to_device: How many copies from the host to the device.
    """

    nodes: Mapping[str, Mapping[str, int]]
    runs: Mapping[str, int]
    to_host: int = 0
    to_device: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain dicts and numbers, fit for JSON."""
        providers = {
            name: {
                "nodes": sum(nodes.values()),
                "runs": self.runs[name],
                "operators": dict(sorted(nodes.items())),
            }
            for name, nodes in sorted(self.nodes.items())
        }
        return {
            "providers": providers,
            "copies": {"to_host": self.to_host, "to_device": self.to_device},
        }


def read_profile(path: Path) -> Placement:
    """Read the profile that onnxruntime wrote of one run."""
    return _placement(json.loads(path.read_text(encoding="utf-8")))


def _placement(events: Iterable[Mapping[str, Any]]) -> Placement:
    nodes: dict[str, dict[str, set[str]]] = {}
    runs: collections.Counter[str] = collections.Counter()
    copies: collections.Counter[str] = collections.Counter()
    for event in events:
        name = str(event.get("name", ""))
        given = event.get("args", {})
        provider = given.get("provider")
        if event.get("cat") != "Node" or not provider or not name.endswith("_kernel_time"):
            continue
        operator = given.get("op_name", "")
        if operator in _COPIES:
            copies[_COPIES[operator]] += 1
            continue
        runs[provider] += 1
        nodes.setdefault(provider, {}).setdefault(operator, set()).add(name)
    return Placement(
        {p: {op: len(names) for op, names in ops.items()} for p, ops in nodes.items()},
        dict(runs),
        copies["to_host"],
        copies["to_device"],
    )
