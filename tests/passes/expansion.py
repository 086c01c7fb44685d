"""Proves an expansion: the model with its maps on the reference, against what replaces them."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir
import pytest

from passes.decisions import Decision
from passes.expand import ExpandSequenceMapPass
from passes.graph.graphs import all_graphs
from rewriter.backends import BackendError, open_session
from rewriter.proof.compare import compare
from tests.passes.invariants import apply

__all__ = [
    "Expanded",
    "as_proto",
    "expand",
    "fails",
    "inlined",
    "operators",
    "prove",
    "rows",
    "run",
    "write_short_blocks",
]

Feeds = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Expanded:
    """A model after the pass, and what the pass said of its maps."""

    model: onnx.ModelProto
    decisions: list[Decision]

    @property
    def codes(self) -> list[str]:
        """The codes of all reasons, in order."""
        return [reason.code.value for decision in self.decisions for reason in decision.reasons]

    @property
    def operators(self) -> collections.Counter[str]:
        """How often each operator stands in the model."""
        return operators(self.model)


def as_proto(model: str | onnx.ModelProto) -> onnx.ModelProto:
    """Return a model given as ONNX text or as a message."""
    return onnx.parser.parse_model(model) if isinstance(model, str) else model


def operators(model: onnx.ModelProto) -> collections.Counter[str]:
    """Count the operators of a model, bodies and functions included."""
    return collections.Counter(n.op_type for g in all_graphs(ir.from_proto(model)) for n in g)


def expand(model: str | onnx.ModelProto, form: Any = "linear") -> Expanded:
    """Run the pass, and check what holds of every model that it gives: it holds no map."""
    applied = apply(as_proto(model), lambda: ExpandSequenceMapPass(form))
    assert applied.modified
    assert applied.again.decisions == []
    assert operators(applied.model)["SequenceMap"] == 0
    return Expanded(applied.model, applied.first.decisions)


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ONNX's own expansion of the maps of the main graph and its bodies."""
    typed = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return onnx.inliner.inline_selected_functions(
        typed, [("", "SequenceMap")], inline_schema_functions=True
    )


def run(model: onnx.ModelProto, feeds: Feeds, backend: str = "onnxruntime") -> dict[str, Any]:
    """Run a model."""
    return open_session(model, backend).run(feeds)


def _agree(expected: dict[str, Any], actual: dict[str, Any], who: str) -> None:
    difference = compare(expected, actual)
    assert difference.equal, f"{who}: {difference.message}"


def write_short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write blocks of two samples each, from the first sample on."""
    monkeypatch.setattr("passes.loops.few_samples._FEW_FOR_BLOCKS", 0)
    monkeypatch.setattr("passes.loops.blocks.BLOCK", 2)


def prove(
    model: str | onnx.ModelProto,
    *feeds: Feeds,
    ort: bool = True,
    second_opinion: bool = True,
    forms: tuple[str, ...] = ("linear", "plain"),
) -> Expanded:
    """Assert that both forms compute what the maps do, on the reference and on onnxruntime.

    Args:
        model: The model with maps.
        feeds: One or more sets of inputs.
        ort: Whether onnxruntime has kernels for it.
        second_opinion: Whether ONNX's own expansion works for it.
        forms: Which forms are tried.

    Returns:
        The linear form.
    """
    proto = as_proto(model)
    made = {form: expand(proto, form) for form in forms}
    judge = open_session(proto, "reference")
    other = open_session(inlined(proto)) if ort and second_opinion else None
    sessions = {}
    for form, expanded in made.items():
        sessions[f"{form} on reference"] = open_session(expanded.model, "reference")
        if ort:
            sessions[f"{form} on onnxruntime"] = open_session(expanded.model)
    for feed in feeds:
        expected = judge.run(feed)
        if other is not None:
            _agree(expected, other.run(feed), "ONNX's own expansion")
        for who, session in sessions.items():
            _agree(expected, session.run(feed), who)
    return made[forms[0]]


def fails(model: onnx.ModelProto, feeds: Feeds, backend: str = "onnxruntime") -> bool:
    """Whether a model ends in an error on these inputs."""
    try:
        run(model, feeds, backend)
    except BackendError:
        return True
    return False


def rows(*shapes: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> list[Any]:
    """Make the elements of a sequence: small numbers, booleans or strings of given shapes."""
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    for shape in shapes:
        if dtype is object or np.dtype(dtype).kind in "OUT":
            made.append(rng.choice(np.array(["", "a", "bc", "äö"], object), shape))
            if shape == ():
                made[-1] = np.array(made[-1], object)
            continue
        numbers = rng.integers(0, 9, shape)
        kind = np.dtype(dtype).kind
        if kind == "c":
            numbers = numbers + 1j * rng.integers(0, 9, shape)
        made.append(np.asarray(numbers % 2 if kind == "b" else numbers).astype(dtype))
    return made
