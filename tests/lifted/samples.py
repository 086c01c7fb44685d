"""Samples of an official test that differ from each other wherever its operator allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tests.lifted.cases import MAPPED, Official, Role, stable_hash
from tests.lifted.operands import INDEX_OPERANDS, SCATTERS

__all__ = ["COUNT", "UNCHANGED", "draw"]

#: How many samples are drawn.
COUNT = 3
#: How a sample is described whose operator allows no other value.
UNCHANGED = "unchanged"

_Run = Callable[[Mapping[str, np.ndarray]], Sequence[np.ndarray]]
_Variants = list[tuple[str, np.ndarray]]


def draw(
    official: Official, roles: Mapping[str, Role], run: _Run
) -> tuple[list[dict[str, np.ndarray]], dict[str, list[str]]]:
    """Draw samples; the first is the official one, all have its shapes.

    Every mapped input takes its strongest change with which the single model still runs, and
    makes no NaN or infinity where the official sample makes none.

    Args:
        official: The test.
        roles: The role of each of its inputs.
        run: Runs the single model.

    Returns:
        The samples, and for each mapped input how its samples 1, 2, ... were changed.
    """
    mapped = [name for name, role in roles.items() if role == MAPPED]
    baseline = _broken(run(official.inputs))
    samples = [dict(official.inputs)]
    changes: dict[str, list[str]] = {name: [] for name in mapped}
    for k in range(1, COUNT):
        rng = np.random.default_rng([stable_hash(official.name), k])
        variants = {name: _variants(official, name, k, rng) for name in mapped}
        sample = {**official.inputs, **{name: variants[name][0][1] for name in mapped}}
        chosen = {name: variants[name][0][0] for name in mapped}
        if not _acceptable(run, sample, baseline):
            sample, chosen = _one_by_one(official, variants, run, baseline)
        samples.append(sample)
        for name in mapped:
            changes[name].append(chosen[name])
    return samples, changes


def _one_by_one(
    official: Official, variants: Mapping[str, _Variants], run: _Run, baseline: list[bool]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    sample, chosen = dict(official.inputs), {}
    for name, ladder in variants.items():
        for label, array in ladder:
            trial = {**sample, name: array}
            if label == UNCHANGED or _acceptable(run, trial, baseline):
                sample, chosen[name] = trial, label
                break
    return sample, chosen


def _acceptable(run: _Run, sample: Mapping[str, np.ndarray], baseline: list[bool]) -> bool:
    try:
        outputs = run(sample)
    except Exception:  # every engine has its own errors for a sample out of its domain
        return False
    broken = _broken(outputs)
    return all(before or not after for before, after in zip(baseline, broken, strict=True))


def _broken(outputs: Sequence[np.ndarray]) -> list[bool]:
    """For each output whether it holds a NaN or an infinity."""
    return [out.dtype.kind in "fc" and not bool(np.isfinite(out).all()) for out in outputs]


def _variants(official: Official, name: str, k: int, rng: np.random.Generator) -> _Variants:
    """Changes of one input, the strongest first and none at all last."""
    array = official.inputs[name]
    node = next(n for n in official.model.graph.node if n.op_type == official.op_type)
    positions = INDEX_OPERANDS.get(official.op_type, frozenset())
    selects = name in node.input and list(node.input).index(name) in positions
    if array.size == 0:
        made: Iterator[tuple[str, np.ndarray]] = iter(())
    elif selects:
        made = _indices(array, k, rng, scatters=official.op_type in SCATTERS)
    elif array.dtype.kind in "fc":
        made = _floats(array, k, rng)
    elif array.dtype.kind in "iu":
        made = _integers(array, k, rng)
    elif array.dtype.kind == "b":
        made = _booleans(array, k, rng)
    else:
        made = _strings(array, k, rng)
    changed = [(label, np.asarray(new, array.dtype).reshape(array.shape)) for label, new in made]
    return [
        *((label, new) for label, new in changed if not _same(new, array)),
        (UNCHANGED, array),
    ]


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))


def _permuted(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(array.reshape(-1)).reshape(array.shape)


def _floats(
    array: np.ndarray, k: int, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    factor = array.dtype.type(1 - k / 16)
    permuted = _permuted(array, rng)
    yield "permuted and scaled", permuted * factor
    yield "permuted", permuted
    yield "scaled", array * factor
    yield "scaled up", array * array.dtype.type(1 + k / 16)
    yield "rolled", np.roll(array, k)


def _next_value(array: np.ndarray, k: int) -> np.ndarray:
    """Replace each value by the next of the values in the array, so that none is new."""
    values, places = np.unique(array, return_inverse=True)
    return values[(places + k) % len(values)].reshape(array.shape)


def _integers(
    array: np.ndarray, k: int, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    permuted = _permuted(array, rng)
    yield "permuted, next value", _next_value(permuted, k)
    yield "permuted", permuted
    yield "next value", _next_value(array, k)
    if np.unique(array).size == 1:
        limits = np.iinfo(array.dtype)
        value = int(array.reshape(-1)[0])
        for step in (k, -k):
            # never 0 where there was none: a division by it would end the process
            if limits.min <= value + step <= limits.max and value + step != 0:
                yield f"{step:+d}", np.full_like(array, value + step)


def _indices(
    array: np.ndarray, k: int, rng: np.random.Generator, *, scatters: bool
) -> Iterator[tuple[str, np.ndarray]]:
    if array.ndim:
        yield "rolled", np.roll(array, k, axis=0)
    yield "next value", _next_value(array, k)
    if not scatters:  # a permutation could make two updates of one place
        yield "permuted", _permuted(array, rng)


def _booleans(
    array: np.ndarray, k: int, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    flipped = rng.random(array.size) < 0.5
    flipped[rng.integers(array.size)] = True
    yield "some flipped", array ^ flipped.reshape(array.shape)
    yield "permuted", _permuted(array, rng)


def _strings(
    array: np.ndarray, k: int, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    permuted = _permuted(array, rng)
    changed = rng.random(array.size) < 0.5
    changed[rng.integers(array.size)] = True
    pairs = zip(permuted.reshape(-1), changed, strict=True)
    suffixed = np.empty(array.size, object)
    suffixed[:] = [text + str(k) if change else text for text, change in pairs]
    yield "permuted, some changed", suffixed.reshape(array.shape)
    yield "permuted", permuted
