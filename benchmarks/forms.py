"""The form that the cost model chooses for thirty bodies, against every form there is."""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import onnx
import onnxruntime

from benchmarks.bodies import BODIES
from benchmarks.measure import open_session, own_feeds
from passes.fusing.form_choice import FormChoice
from passes.fusing.fused_body import FusedBody
from passes.fusing.fusion_facts import FusionFacts
from passes.fusing.guarded_walks import Behind
from passes.loops.plan import LoopPlan
from passes.site import GuardCheck, MapSite
from rewriter.pipeline import rewrite

__all__ = ["FORMS", "forced", "forms_of", "forms_table"]

FORMS = ("expanded", "without a guard", "equal shapes", "equal rows", "both")
"""What a map over sequences of unproven shapes may become."""

SAMPLES = 256
_CHOSEN = "passes.fusing.planning.choose_form"
_TURN = 0.002


@contextlib.contextmanager
def forced(form: str) -> Iterator[list[bool]]:
    """Rewrite maps in a given form, whatever it costs.

    Args:
        form: One of `FORMS`.

    Yields:
        A list that gains for each map whether it has that form.
    """
    had: list[bool] = []

    def choose(
        site: MapSite,
        facts: FusionFacts,
        loop: LoopPlan,
        plain: FusedBody,
        behind: Behind,
    ) -> FormChoice:
        found = behind.found
        shapes = found.get(GuardCheck.SHAPES)
        by_rows = {c: body for c, body in found.items() if c is not GuardCheck.SHAPES}
        rows = max(by_rows, key=lambda c: by_rows[c].walk.fused, default=None)
        batched = {c for c, body in found.items() if body.walk.fused > plain.walk.fused}
        forms: dict[str, dict[GuardCheck | None, FusedBody]] = {"without a guard": {None: plain}}
        if shapes is not None and GuardCheck.SHAPES in batched:
            forms["equal shapes"] = {GuardCheck.SHAPES: shapes}
        if rows is not None and rows in batched:
            forms["equal rows"] = {rows: by_rows[rows]}
        if len(forms) == 3 and shapes is not None and rows is not None:
            forms["both"] = {GuardCheck.SHAPES: shapes, rows: by_rows[rows]}
        had.append(form in forms and (form != "without a guard" or plain.walk.fused > 0))
        rest = plain if plain.walk.fused else None
        return FormChoice(
            forms.get(form, {}),
            rest=rest if form != "without a guard" else None,
            relied=behind.relied,
        )

    with mock.patch(_CHOSEN, choose):
        yield had


def forms_of(model: onnx.ModelProto) -> dict[str, onnx.ModelProto]:
    """Return a model of one map as given, and in every form that the map can have."""
    found = {"as given": model, "expanded": _rewritten(model, "expand")}
    for form in FORMS[1:]:
        with forced(form) as had:
            made = _rewritten(model, "auto")
        if had == [True]:
            found[form] = made
    return found


def _rewritten(model: onnx.ModelProto, strategy: Any) -> onnx.ModelProto:
    made = rewrite(model, strategy=strategy).model
    assert isinstance(made, onnx.ModelProto)
    return made


def forms_table(turns: int) -> Iterator[str]:
    """Yield the lines of the table, one row for each body.

    Args:
        turns: How often the forms of a body take turns.
    """
    yield f"## What is chosen for {len(BODIES)} bodies"
    yield ""
    yield (
        f"Maps over sequences of unproven shapes; microseconds for {SAMPLES} samples. The last "
        "column is what `auto` writes over the fastest form."
    )
    yield ""
    columns = ["as given", *FORMS, "auto", "auto / best"]
    yield f"| body | {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * len(columns)}"
    for name, body in BODIES.items():
        case = body.case(name, SAMPLES)
        models = forms_of(case.given) | {"auto": _rewritten(case.given, "auto")}
        times = _measure(models, case.feeds, turns)
        medians = {form: statistics.median(one) for form, one in times.items()}
        best = min((form for form in times if form != "auto"), key=medians.__getitem__)
        ratio = statistics.median(
            auto / other for auto, other in zip(times["auto"], times[best], strict=True)
        )
        cells = [f"{1e6 * medians[c]:,.0f}" if c in medians else "-" for c in columns[:-1]]
        yield f"| {name} | {' | '.join(cells)} | {ratio:.2f} |"
    yield ""


def _measure(
    models: Mapping[str, onnx.ModelProto], feeds: Mapping[str, Any], turns: int
) -> dict[str, list[float]]:
    """Return the seconds of CPU that each model takes, turn by turn."""
    sessions = {form: open_session(model) for form, model in models.items()}
    once = min(_seconds(sessions["as given"], feeds, 1) for _ in range(3))
    runs = max(1, round(_TURN / once))
    order, draw = list(sessions), random.Random(0)
    times: dict[str, list[float]] = {form: [] for form in sessions}
    for _ in range(turns):
        draw.shuffle(order)
        for form in order:
            _seconds(sessions[form], feeds, 1)
            times[form].append(_seconds(sessions[form], feeds, runs) / runs)
    return times


def _seconds(session: onnxruntime.InferenceSession, feeds: Mapping[str, Any], runs: int) -> float:
    own = own_feeds(session, feeds)
    started = time.thread_time()
    for _ in range(runs):
        session.run(None, own)
    return time.thread_time() - started
