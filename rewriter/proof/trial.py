"""Does the runtime of a target take a rewritten model? Where it is installed, it is asked."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

import onnx
import onnx_ir as ir

from passes.graph.builder import ORIGIN_KEY
from passes.graph.graphs import node_paths
from rewriter.backends import (
    BACKENDS,
    Backend,
    BackendError,
    PlacementError,
    open_session,
    run_as_given,
)
from rewriter.model_files import models, protos
from rewriter.model_files.model_facts import model_facts
from rewriter.proof.validation import Check
from rewriter.reporting.report_parts import Loading
from rewriter.target_table import Target, find_target
from rewriter.targets import CONVERT

__all__ = ["load_as_given", "load_at_target"]

_LARGEST_GIVEN = 2**30
"""Bytes of weights up to which the model as given is handed to a runtime too."""


def load_at_target(model: Any, target: str, check: Check, *, whole: bool = False) -> Loading:
    """Hand a rewritten model to the runtime of its target, once, with inputs to run it on.

    Args:
        model: The rewritten model.
        target: The name of the target.
        check: What a comparison showed: inputs that the model before accepts, and what
            onnxruntime said of the new model there.
        whole: Whether the runtime is to refuse a model if its device leaves a part to the host.

    Returns:
        What became of it.
    """
    row = find_target(target)
    if not row.backend:
        return Loading(row.name, "not loaded", row.unrun)
    backend = BACKENDS[row.backend]
    if backend.missing():
        return Loading(row.name, "not loaded", f"{row.backend} is not installed here")
    runtime = f"{row.backend} {backend.version}".strip()
    feed = next((case.feed for case in check.cases if case.verdict == "equal"), None)
    attempt = _Attempt(models.take(model).model, model, row, runtime, backend, whole)
    if row.device != "cpu" and (reason := backend.lacking(row.device)):
        return Loading(runtime, "not loaded", _short(reason).partition(":")[0])
    refusal = check.runtime_refusal
    if (row.backend, row.device) == ("onnxruntime", "cpu") and refusal is not None:
        return attempt.refused(refusal) if refusal else Loading(runtime, "loaded")
    return attempt.outcome(feed)


def load_as_given(model: Any, target: str) -> Loading | None:
    """Hand a model as given to the runtime of a target, to know what it does with it.

    Args:
        model: The model before the rewrite, which has run on another engine.
        target: The name of the target.

    Returns:
        What became of it; None where the runtime is not asked: it is not here, or the weights
        are too large to be read for that.
    """
    row = find_target(target)
    backend = BACKENDS.get(row.backend)
    taken = models.take(model).model
    if backend is None or backend.missing() or row.device != "cpu":
        return None
    if model_facts(taken).weight_bytes > _LARGEST_GIVEN:
        return None
    runtime = f"{row.backend} {backend.version}".strip()
    try:
        open_session(model, row.backend, row.device, briefly=True)
    except BackendError as error:
        return Loading(runtime, "refused", _short(str(error)))
    return Loading(runtime, "loaded")


@dataclasses.dataclass(frozen=True)
class _Attempt:
    """Handing one model to one runtime."""

    graph: ir.Model
    source: Any
    row: Target
    runtime: str
    backend: Backend
    whole: bool

    def outcome(self, feed: Mapping[str, Any] | None) -> Loading:
        try:
            session = open_session(
                self.source,
                self.row.backend,
                self.row.device,
                whole=self.whole,
                briefly=True,
            )
            if feed is None:
                return Loading(self.runtime, "loaded")
            try:
                run_as_given(session, feed)
                return Loading(self.runtime, "loaded")
            except BackendError:
                run_as_given(session, feed, with_shapes=True)
                return Loading(self.runtime, "loaded", _SHAPES)
        except PlacementError as error:
            return Loading(self.runtime, "loaded", f"but {_short(str(error))}")
        except BackendError as error:
            return self.refused(str(error))

    def refused(self, message: str) -> Loading:
        path, op_type = _blamed(self.graph, message)
        if domain := self._foreign_domain(message):
            return Loading(
                self.runtime, "not loaded", f"operators of {domain} are not registered in it here"
            )
        if self._is_new_only():
            return Loading(
                self.runtime, "refused", _short(message), path, op_type, CONVERT, by_version=True
            )
        remedy = ", or ".join([*self._ways(path, op_type, message), _ANOTHER, _ANYWAY])
        return Loading(self.runtime, "refused", _short(message), path, op_type, remedy)

    def _ways(self, path: str, op_type: str, message: str) -> list[str]:
        """Return what can be done about a node, which the rewrite wrote or the model had."""
        if not op_type:
            return []
        if re.search(_NO_KERNEL, message):
            return [f"{_WRITE.format(op_type)}, or make it with another element type"]
        nodes = [node for node, at in node_paths(self.graph).items() if at == path]
        if any(ORIGIN_KEY in node.metadata_props for node in nodes):
            return [_PROMISE]
        return [_WRITE.format(op_type)]

    def _foreign_domain(self, message: str) -> str:
        """Return the domain of an operator that only a library of the user's makes known."""
        foreign = {(n.domain, n.op_type) for n in node_paths(self.graph)} - {
            (one.domain, one.name) for one in self.graph.functions.values()
        }
        blamed = (d for d, op_type in sorted(foreign) if f"{d}:{op_type}(" in message)
        return next((d for d in blamed if d and not d.startswith(_RUNTIMES_OWN)), "")

    def _is_new_only(self) -> bool:
        """Whether the runtime takes the model once it declares a version that is known there."""
        if self.row.highest_opset is None or self.row.highest_ir is None:
            return False
        taken = models.take(self.source)
        proto = protos.to_proto(taken.model)
        if not _lower(proto, self.row.highest_opset, self.row.highest_ir):
            return False
        try:
            self.backend.open(proto, taken.folder, self.row.device)
        except BackendError:
            return False
        return True


_RUNTIMES_OWN = ("ai.onnx", "com.microsoft", "com.ms.")
"""How the domains begin whose operators come with a runtime."""
_NO_KERNEL = "Could not find an implementation|Type '.*' of input parameter"
"""What onnxruntime says of an operator that it has for other types only."""
_WRITE = "write {} with other operators where the model is made"
_SHAPES = "once the shapes of its inputs are known: declare them, or set them where it is loaded"
_PROMISE = "promise more of the shapes with --uniform or --input-shape"
_ANOTHER = "choose another target"
_ANYWAY = "write the model all the same with --no-verify"


def _lower(proto: onnx.ModelProto, highest_opset: int, highest_ir: int) -> bool:
    """Declare versions that are not above the highest; return whether one of them was."""
    declared = [one for part in (proto, *proto.functions) for one in part.opset_import]
    new = [one for one in declared if one.domain == "" and one.version > highest_opset]
    is_new = bool(new) or proto.ir_version > highest_ir
    for one in new:
        one.version = highest_opset
    proto.ir_version = min(proto.ir_version, highest_ir)
    return is_new


def _blamed(model: ir.Model, message: str) -> tuple[str, str]:
    """Return path and operator of the node that a message speaks of, as far as that is clear."""
    words = set(_words(message))
    paths = node_paths(model)
    named = [node for node in paths if node.name and node.name in words]
    if named:
        node = max(named, key=lambda one: len(one.name or ""))
        return paths[node], node.op_type
    for word in _words(message):
        found = [node for node in paths if node.op_type == word]
        if found:
            return (paths[found[0]] if len(found) == 1 else ""), word
    return "", ""


def _words(message: str) -> Iterator[str]:
    for match in re.finditer(r"[\w/.:]+", message):
        word = match[0].strip(".:")
        yield word
        yield from (part for part in re.split(r"[/.:]+", word) if part != word)


def _short(message: str) -> str:
    """Return a message without the words that the sentence around it says itself."""
    text = re.sub(r"^\S+ (refuses the model|fails): ", "", " ".join(message.split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_LONGEST = 200
