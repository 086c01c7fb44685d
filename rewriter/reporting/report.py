"""The record of one rewrite: what was done with every map, and what the model holds after it."""

from __future__ import annotations

import dataclasses
import html
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from passes.decisions import Decision, Verdict
from passes.promises import Promises
from passes.tensors.io import TensorIo
from rewriter.model_files.model_facts import ModelFacts, OperatorCounts
from rewriter.placement.predict import PredictedPlacement
from rewriter.reporting import render, render_html
from rewriter.reporting.bench_record import Bench
from rewriter.reporting.environment import environment
from rewriter.reporting.headline import headline
from rewriter.reporting.pictures import Picture
from rewriter.reporting.printable import json_text
from rewriter.reporting.python_words import in_python
from rewriter.reporting.remedies import HasRemedies, Remedies
from rewriter.reporting.report_parts import Loading, decision_record, promises_record, with_tried
from rewriter.target_table import Unreached

__all__ = ["Report", "Result"]


@dataclasses.dataclass(frozen=True)
class Report:
    """The record of a rewrite: its decisions, and the assumptions behind them.

    Attributes:
        decisions: One decision for every map, in the order of the graph.
        before: Operators of the model as given.
        after: Operators of the rewritten model.
        promises: What the caller promised.
        target: Name of the target.
        require: What the caller required: ``sequence-free``, ``loop-free``, ``on-device``.
        blocked: What keeps the model from ``target`` and ``require``; empty when reached. Its
            remedies were not tried.
        strategy: ``auto``, ``fuse`` or ``expand``.
        tensor_io: Which sequences the new model passes as tensors.
        warnings: What the user should know although nothing is wrong with the rewrite.
        spent: Options of the command line that can do nothing more; no remedy names them.
        loading: What became of the model at the runtime of its target; None where it was not
            handed to it, as in ``explain`` and from Python.
        given: What the model as given declares.
        given_loading: What became of the model as given at the runtime of the target; None where
            it was not handed to it.
        new: What the rewritten model declares.
        placement: Where the nodes of the new model are predicted to run; None for a target without
            a device.
        trials: Tries remedies when they are read; None where nothing can be tried.
        verification: What a comparison with the model as given showed, see
            `rewriter.proof.proof_record`; None where there was none.
        pictures: What stands around each map, before and after.
        bench: Times over sizes; None where none were taken.
    """

    decisions: Sequence[Decision]
    before: OperatorCounts
    after: OperatorCounts
    promises: Promises = dataclasses.field(default_factory=Promises)
    target: str = "onnxruntime"
    require: Sequence[str] = ()
    blocked: Sequence[Unreached] = ()
    strategy: str = "auto"
    warnings: Sequence[str] = ()
    tensor_io: TensorIo = dataclasses.field(default_factory=TensorIo)
    spent: Sequence[str] = ()
    loading: Loading | None = None
    given: ModelFacts = dataclasses.field(default_factory=ModelFacts)
    given_loading: Loading | None = None
    new: ModelFacts = dataclasses.field(default_factory=ModelFacts)
    placement: PredictedPlacement | None = None
    trials: HasRemedies | None = dataclasses.field(default=None, compare=False, repr=False)
    verification: Mapping[str, Any] | None = None
    pictures: Sequence[Picture] = dataclasses.field(default=(), compare=False, repr=False)
    bench: Bench | None = None

    @property
    def reached(self) -> bool:
        """Whether the target and everything required is reached."""
        return not self.blocked

    @property
    def remedies(self) -> Remedies:
        """Remedies that were tried and help; whoever reads them first waits for the tries."""
        return Remedies(tried=False) if self.trials is None else self.trials.remedies

    @property
    def unreached(self) -> tuple[Unreached, ...]:
        """The nodes in the way of ``target`` and ``require``, with remedies that were tried."""
        if not self.blocked or not self.remedies.tried:
            return tuple(self.blocked)
        return tuple(with_tried(left, self.remedies) for left in self.blocked)

    def with_loading(self, loading: Loading) -> Report:
        """Return the report with what became of the model at the runtime of its target.

        What the runtime refuses is unreached, unless only for the version that the model declares:
        that is a warning.
        """
        if loading.outcome != "refused":
            return dataclasses.replace(self, loading=loading)
        if loading.by_version:
            warned = (*self.warnings, f"{loading.sentence}; it never ran there")
            return dataclasses.replace(self, loading=loading, warnings=warned)
        reason = f"{loading.runtime} refuses the model: {loading.reason}"
        left = Unreached(loading.node, loading.op_type, reason, loading.remedy, "refused")
        blocked = (*self.blocked, left)
        return dataclasses.replace(self, loading=loading, blocked=blocked)

    @property
    def nothing_to_do(self) -> bool:
        """Whether the rewrite left the operators of the model as they were."""
        kept = all(decision.verdict is Verdict.KEPT for decision in self.decisions)
        return kept and self.before == self.after

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the rewrite that nothing in the graph proves, each once."""
        of_maps = [a for d in self.decisions for a in d.assumptions]
        return tuple(dict.fromkeys([*self.tensor_io.assumptions, *of_maps]))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, strings and numbers, fit for JSON."""
        record = {
            "headline": "",
            "strategy": self.strategy,
            "target": self.target,
            "require": list(self.require),
            "reached": self.reached,
            "nothing_to_do": self.nothing_to_do,
            "remedies_tried": self.remedies.tried,
            "maps": [decision_record(d, self.spent, self.remedies) for d in self.decisions],
            "given": self.given.to_dict() | {"loading": _record(self.given_loading)},
            "new": self.new.to_dict(),
            "assumptions": list(self.assumptions),
            "promises": promises_record(self.promises),
            "tensor_io": self.tensor_io.to_dict(),
            "operators": {"before": self.before.to_dict(), "after": self.after.to_dict()},
            "unreached": [dataclasses.asdict(left) for left in self.unreached],
            "warnings": list(self.warnings),
            "loading": _record(self.loading),
            "placement": _record(self.placement),
            "verification": self.verification,
            "bench": _record(self.bench),
            "environment": environment(),
        }
        return record | {"headline": headline(record)}

    @property
    def headline(self) -> str:
        """What the model was, what it is now, and what proves it, in one sentence."""
        return str(self.to_dict()["headline"])

    def to_json(self) -> str:
        """Return the report as an indented JSON object."""
        return json_text(self.to_dict()) + "\n"

    def to_text(self, *, verbose: bool = False) -> str:
        """Return the report for a terminal: the answer first, then a line for each map.

        Args:
            verbose: Add the assumptions, the sizes and the operators.
        """
        return render.to_text(self.to_dict(), verbose=verbose)

    def __str__(self) -> str:
        """Return what `to_text` returns, remedies in Python's words."""
        return in_python(self.to_text())

    def __repr__(self) -> str:
        """Return one line for a prompt; all that is held is in `to_dict`."""
        return f"<Report: {in_python(self.headline)}>"

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        return render.to_markdown(self.to_dict())

    def to_html(self, *, title: str = "", command: str = "", date: str = "") -> str:
        """Return the report as one HTML page that needs no other file.

        Args:
            title: What the page calls the model; empty for the name of its graph.
            command: The command line that made it.
            date: When it was made.
        """
        return render_html.to_html(
            self.to_dict(),
            self.pictures,
            self.bench,
            version=importlib.metadata.version("seqmap"),
            title=title,
            command=command,
            date=date,
        )

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, for notebooks."""
        # In a frame a link to a place on the page would lead to the page around it.
        framed = self.to_html().replace("<head>", '<head>\n<base href="about:srcdoc">', 1)
        page = html.escape(framed)
        style = "width:100%;height:40rem;border:1px solid #ccc"
        return f'<iframe title="seqmap report" style="{style}" srcdoc="{page}"></iframe>'


def _record(part: Loading | PredictedPlacement | Bench | None) -> dict[str, Any] | None:
    return None if part is None else part.to_dict()


M = TypeVar("M")


@dataclasses.dataclass(frozen=True)
class Result(Generic[M]):
    """A rewritten model and what was done to it.

    Attributes:
        model: The new model, of the kind that was handed in (a path gives an
            ``onnx.ModelProto``).
        report: Decisions, operators before and after, assumptions, and the verification where
            there was one.
    """

    model: M
    report: Report

    def __str__(self) -> str:
        """Return the report as text."""
        return str(self.report)

    def __repr__(self) -> str:
        """Return one line for a prompt."""
        return f"<Result: {in_python(self.report.headline)}>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()
