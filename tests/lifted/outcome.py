"""Rewrite one lifted case, run it for 0, 1 and 3 samples, and say what came of it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir

from passes.errors import RewriteError
from passes.expand import ExpandSequenceMapPass
from rewriter.pipeline import rewrite
from tests.lifted.build import Lifted, build, joins_rows
from tests.lifted.cases import (
    FALSELY_DECLARED,
    MAPPED,
    WAYS,
    Official,
    Role,
    nodes_of,
    official_cases,
    stable_hash,
)
from tests.lifted.judge import (
    Engine,
    difference,
    engine_for,
    loop_free,
    on_reference,
    single_engine,
)
from tests.lifted.ragged import Cut, cut_first_axes, feeds_of, of_any_length, split_inputs
from tests.lifted.samples import COUNT, UNCHANGED, draw

__all__ = ["SAMPLE_COUNTS", "STRATEGIES", "Outcome", "Prepared", "judge", "prepare"]

#: The numbers of samples that every case is run with.
SAMPLE_COUNTS = (0, 1, COUNT)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A case with its samples and what each of them must give.

    Attributes:
        official: The official test.
        roles: The role of each of its inputs.
        engine: Which engine ran the single model.
        samples: The inputs of each sample.
        results: The outputs of each sample.
        changes: For each mapped input how its samples after the first differ from that.
        cut: In the way ``ragged``: the inputs that differ in length.
    """

    official: Official
    roles: Mapping[str, Role]
    engine: str
    samples: Sequence[Mapping[str, np.ndarray]]
    results: Sequence[Sequence[np.ndarray]]
    changes: Mapping[str, list[str]]
    cut: Cut | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of one case.

    Attributes:
        name: Name of the official test.
        op_type: The operator that it tests.
        status: ``right``; ``wrong``: another result; ``fails``: an error in rewriting, loading or
            running; ``refused``: no rewrite, or a SequenceMap is left; ``unusable``: no engine
            runs the single model, or nothing is mapped.
        detail: What was wrong or failed.
        loop_free: Whether no loop is left but those of the body.
        single: The engine of the single model.
        rewritten: The engine of the rewritten model.
        refusal: Why onnxruntime did not load the rewritten model.
        differ: Whether at least one mapped input differs from sample to sample.
    """

    name: str
    op_type: str
    status: str
    detail: str = ""
    loop_free: bool = False
    single: str = ""
    rewritten: str = ""
    refusal: str = ""
    differ: bool = False


@functools.lru_cache(maxsize=8)
def prepare(name: str, way: str) -> Prepared | None:
    """Draw the samples of a case and run each alone; None where the case is not usable."""
    official = official_cases()[name]
    roles = WAYS[way](official)
    if way == "ragged":
        official = of_any_length(official, [n for n, role in roles.items() if role == MAPPED])
    engine = single_engine(official) if MAPPED in roles.values() else None
    if engine is None:
        return None
    samples, changes = draw(official, roles, engine.run)
    cut = None
    if way == "ragged":
        mapped = [name for name, role in roles.items() if role == MAPPED]
        cut = cut_first_axes(samples, mapped, engine.run)
        if cut is None:
            return None
        samples = cut.samples
    results = [engine.run(sample) for sample in samples]
    if way == FALSELY_DECLARED and not _differ_in_shape(results):
        return None
    return Prepared(official, roles, engine.name, samples, results, changes, cut)


def _differ_in_shape(results: Sequence[Sequence[np.ndarray]]) -> bool:
    """Whether an output of the single model has another shape for another sample."""
    return len({tuple(output.shape for output in outputs) for outputs in results}) > 1


def _inlined(lifted: Lifted) -> onnx.ModelProto:
    """ONNX's own expansion: a second opinion on the cases, not a rewrite of ours."""
    return onnx.inliner.inline_selected_functions(
        lifted.model, [("", "SequenceMap")], inline_schema_functions=True
    )


def _plain(lifted: Lifted) -> onnx.ModelProto:
    model = ir.from_proto(lifted.model)
    ExpandSequenceMapPass(form="plain")(model)
    return ir.to_proto(model)


def _promised(lifted: Lifted) -> onnx.ModelProto:
    sequences = {v.name for v in lifted.model.graph.input if v.type.HasField("sequence_type")}
    uniform = [name for name in lifted.sequences.values() if name in sequences]
    return rewrite(lifted.model, strategy="fuse", uniform=uniform).model


def _expanded(lifted: Lifted) -> onnx.ModelProto:
    return rewrite(lifted.model, strategy="expand").model


def _auto(lifted: Lifted) -> onnx.ModelProto:
    return rewrite(lifted.model, strategy="auto").model


#: The rewrites that can be judged. Only ``fuse`` promises equal shapes.
STRATEGIES: Mapping[str, Callable[[Lifted], onnx.ModelProto]] = {
    "auto": _auto,
    "expand": _expanded,
    "fuse": _promised,
    "inliner": _inlined,
    "plain": _plain,
}


def judge(name: str, way: str, strategy: str) -> Outcome:
    """Lift, rewrite, run and compare one case."""
    op_type = official_cases()[name].op_type
    prepared = prepare(name, way)
    if prepared is None:
        return Outcome(name, op_type, "unusable")
    fuses = strategy in ("auto", "fuse")
    static = strategy == "fuse" or stable_hash(name) % 2 == 0
    is_false = way == FALSELY_DECLARED
    lifted = _lift(
        prepared,
        static=static or is_false,
        stacks=fuses and way not in ("all", FALSELY_DECLARED),
        declared=prepared.results[: 1 if is_false else None],
    )
    served: Mapping[str, Sequence[str]] = {}
    if prepared.cut is not None:
        split, served = split_inputs(lifted, prepared.cut)
        lifted = dataclasses.replace(lifted, model=split)
    differ = any(label != UNCHANGED for labels in prepared.changes.values() for label in labels)
    outcome = Outcome(name, op_type, "right", single=prepared.engine, differ=differ)
    try:
        rewritten = STRATEGIES[strategy](lifted)
        onnx.checker.check_model(rewritten)
    except RewriteError as error:
        return dataclasses.replace(outcome, status="refused", detail=str(error))
    except Exception as error:  # any other error is a defect, and the table must go on
        return _failed(outcome, error)
    if any(node.op_type == "SequenceMap" for node in nodes_of(rewritten.graph)):
        return dataclasses.replace(outcome, status="refused", detail="a SequenceMap is left")
    outcome = dataclasses.replace(outcome, loop_free=loop_free(prepared.official, rewritten))
    try:
        engine = engine_for(rewritten, prepared.engine)
        found = _mismatch(prepared, lifted, engine, served)
    except Exception as error:
        return _failed(outcome, error)
    outcome = dataclasses.replace(outcome, rewritten=engine.name, refusal=engine.refusal)
    return dataclasses.replace(outcome, status="wrong", detail=found) if found else outcome


def _lift(
    prepared: Prepared,
    *,
    static: bool,
    stacks: bool,
    declared: Sequence[Sequence[np.ndarray]],
) -> Lifted:
    """Build the map, with numbers for dimensions where ONNX's inference refuses symbols."""

    def lift(numbers: bool) -> Lifted:
        one = prepared
        return build(one.official, one.roles, one.samples, declared, static=numbers, stacks=stacks)

    lifted = lift(static)
    try:
        onnx.checker.check_model(lifted.model, full_check=True)
    except onnx.shape_inference.InferenceError:
        return lift(True)
    return lifted


def _failed(outcome: Outcome, error: Exception) -> Outcome:
    return dataclasses.replace(outcome, status="fails", detail=f"{type(error).__name__}: {error}")


def _feeds(
    prepared: Prepared, lifted: Lifted, served: Mapping[str, Sequence[str]], count: int
) -> Mapping[str, Any]:
    if prepared.cut is None:
        return lifted.feeds(prepared.samples, count)
    return feeds_of(lifted, prepared.cut, served, count)


def _mismatch(
    prepared: Prepared, lifted: Lifted, engine: Engine, served: Mapping[str, Sequence[str]]
) -> str:
    results = prepared.results
    if (
        engine.name != prepared.engine
    ):  # the engines may differ in what a specification leaves open
        single = on_reference(prepared.official.model)
        results = [single.run(sample) for sample in prepared.samples]
    for count in SAMPLE_COUNTS:
        expected = [list(column) for column in zip(*results[:count], strict=True)]
        expected = expected or [[] for _ in lifted.model.graph.output]
        for i, joined in enumerate(joins_rows(lifted, results)):
            if joined and expected[i]:
                expected[i] = list(np.concatenate(expected[i]))
        try:
            outputs = engine.run(_feeds(prepared, lifted, served, count))
            actual = [list(rows) for rows in outputs]  # of a sequence, or of a stacked tensor
        except Exception as error:
            raise RuntimeError(f"with {count} samples: {error}") from error
        found = difference(expected, actual)
        if found:
            return f"with {count} samples: {found}"
    return ""
