"""Proves what becomes of Loops and Scans: the model as it is, against what replaces it."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from passes.decisions import Decision, Verdict
from passes.fuse import FuseSequenceMapPass
from passes.graph.graphs import all_graphs
from passes.promises import FuseOptions, Promises
from rewriter.backends import BackendError, open_session
from rewriter.proof.compare import as_known, compare
from tests.passes.invariants import apply

__all__ = ["Read", "kept", "model", "prove", "read", "rows", "same"]

Feeds = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Read:
    """A model after the pass, and what the pass said."""

    model: onnx.ModelProto
    decisions: list[Decision]

    @property
    def codes(self) -> list[str]:
        """The codes of all reasons, in order."""
        return [reason.code.value for d in self.decisions for reason in d.reasons]

    @property
    def details(self) -> str:
        """The details of all reasons."""
        return "; ".join(reason.detail for d in self.decisions for reason in d.reasons)

    @property
    def operators(self) -> collections.Counter[str]:
        """How often each operator stands in the model."""
        return collections.Counter(
            n.op_type for g in all_graphs(ir.from_proto(self.model)) for n in g
        )

    @property
    def loops(self) -> int:
        """How many Loops and Scans are left."""
        return self.operators["Loop"] + self.operators["Scan"]


def model(text: str, opset: int = 17) -> onnx.ModelProto:
    """Parse a graph; the header is added."""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>\n'
    return onnx.parser.parse_model(head + text)


def read(before: onnx.ModelProto, **options: Any) -> Read:
    """Run the pass, and check what holds of every model that it gives."""
    onnx.checker.check_model(before, full_check=True)
    applied = apply(before, lambda: FuseSequenceMapPass(FuseOptions(**options), loops=True))
    decisions = applied.first.decisions
    assert applied.modified == any(d.verdict is not Verdict.KEPT for d in decisions)
    return Read(applied.model, decisions)


def same(
    before: onnx.ModelProto, after: onnx.ModelProto, *feeds: Feeds, open_rows: bool = False
) -> int:
    """Assert that two models agree wherever the first runs; return how often it does.

    Args:
        before: The model as given.
        after: What it became.
        feeds: The inputs of each run.
        open_rows: Whether no rows may tell more of their shape than those of ``before`` do.
    """
    one, other = open_session(before), open_session(after)
    ran = 0
    for feed in feeds:
        try:
            expected = one.run(feed)
        except BackendError:
            continue
        actual = other.run(feed)
        if open_rows:
            actual = {name: as_known(expected[name], value) for name, value in actual.items()}
        difference = compare(expected, actual)
        assert difference.equal, difference.message
        ran += 1
    return ran


def prove(text: str, *feeds: Feeds, opset: int = 17, loops: int = 0, **options: Any) -> Read:
    """Assert that a graph with Loops is fused, and computes what it did on all feeds."""
    before = model(text, opset)
    found = read(before, promises=Promises(**options))
    assert found.loops == loops, [(d.path, d.reasons) for d in found.decisions]
    assert same(before, found.model, *feeds) == len(feeds), "the model fails as it was"
    return found


def kept(text: str, opset: int = 17) -> Read:
    """Assert that a graph is left as it is, to the byte."""
    before = model(text, opset)
    found = read(before)
    assert found.model == ir.to_proto(ir.from_proto(before))
    assert all(d.verdict is Verdict.KEPT for d in found.decisions)
    return found


def rows(*shape: int, seed: int = 0) -> np.ndarray:
    """Make floats."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
