"""Remedies: options that a user can still set to get a better result."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from passes.decisions import is_no_remedy, without_remedy

__all__ = [
    "REACHED",
    "Candidate",
    "Found",
    "HasRemedies",
    "Remedies",
    "Remedy",
    "naming",
    "still_open",
    "told",
    "without_options",
]

REACHED = "target reached"
"""The effect of a remedy after which nothing keeps the model from its target."""

_BETWEEN = re.compile(r"[,;] or ")
_UNIFORM = re.compile(r"--uniform\b")


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A change of options.

    Attributes:
        option: The change, as options of the command line.
        changes: The change, as keyword arguments of `rewriter.rewrite`.
        unknown: The names in ``option`` that the user must replace by numbers, each with the
            number that it is tried with.
        where: On what condition it can be true, as far as that is not known.
    """

    option: str
    changes: Mapping[str, Any]
    unknown: Mapping[str, int] = dataclasses.field(default_factory=dict)
    where: str = ""

    @property
    def text(self) -> str:
        """The change in words."""
        names = list(self.unknown)
        last = " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
        numbers = f"with numbers for {last}" if names else ""
        return " ".join(filter(None, [self.option, numbers, self.where]))


@dataclasses.dataclass(frozen=True)
class Remedy:
    """A change of options that was tried and makes something better.

    Attributes:
        candidate: The change.
        effect: What it leads to, e.g. ``fused``.
    """

    candidate: Candidate
    effect: str

    def __str__(self) -> str:
        return f"{self.candidate.text} (tried: {self.effect})"

    def to_dict(self) -> dict[str, Any]:
        """Return the remedy as plain values, fit for JSON."""
        return {
            "option": self.candidate.option,
            "text": self.candidate.text,
            "numbers_for": list(self.candidate.unknown),
            "effect": self.effect,
        }


@dataclasses.dataclass(frozen=True)
class Remedies:
    """The remedies that tries have found.

    Attributes:
        tried: Whether anything could be tried: a large model takes too long.
        maps: What makes the verdict on a map better, by the path of the map; what leads further
            comes later.
        nodes: What takes something out of the way to the target, by path and operator.
    """

    tried: bool = True
    maps: Mapping[str, tuple[Remedy, ...]] = dataclasses.field(default_factory=dict)
    nodes: Mapping[tuple[str, str], tuple[Remedy, ...]] = dataclasses.field(default_factory=dict)


class HasRemedies(Protocol):
    """An object that tries remedies when they are read, or has them."""

    @property
    def remedies(self) -> Remedies:
        """The remedies that were found."""


@dataclasses.dataclass(frozen=True)
class Found:
    """Remedies that were found already.

    Attributes:
        remedies: What was found.
    """

    remedies: Remedies


def still_open(remedy: str, given: Collection[str]) -> str:
    """Leave out of a remedy the ways that have been gone.

    Args:
        remedy: Ways, parted by ``, or`` or ``; or``.
        given: Options that can do nothing more, such as ``--tensor-io``.

    Returns:
        The ways that are left; the whole remedy where that is none of them.
    """
    ways = _BETWEEN.split(remedy)
    left = [way for way in ways if not any(option in way for option in given)]
    return remedy if len(left) in (0, len(ways)) else ", or ".join(left)


def without_options(remedy: str) -> str:
    """Leave out of a remedy the ways that are options of the command line."""
    return ", or ".join(way for way in _BETWEEN.split(remedy) if "--" not in way)


def told(remedy: str, *, tried: bool) -> str:
    """Return a remedy as it stands behind what is wrong, empty where there is none.

    Args:
        remedy: The remedy.
        tried: Whether the options in it were tried.
    """
    if not remedy or is_no_remedy(remedy):
        return without_remedy(remedy)
    return f"remedy: {remedy}" if tried or "--" not in remedy else f"may help: {remedy}"


def naming(text: str, names: Sequence[str]) -> str:
    """Name the inputs where a remedy says ``--uniform``.

    Args:
        text: A remedy, its ways parted as for `still_open`.
        names: The sequence inputs that a promise can be made of.

    Returns:
        The text; without the ways that say it where there is no such input.
    """
    if not names:
        return still_open(text, ("--uniform",))
    return _UNIFORM.sub("--uniform " + " --uniform ".join(names), text)
