"""What a caller asks of a rewrite, as one record."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

import onnx_ir as ir

from passes.errors import RewriteError
from passes.promises import Promises
from rewriter.target_table import Target, find_target
from rewriter.targets import REQUIREMENTS

__all__ = ["STRATEGIES", "Dims", "Options", "Strategy", "sequence_inputs"]

Strategy = Literal["auto", "fuse", "expand"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
Dims = Sequence[int | str | None]


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of `rewriter.rewrite`, which describes each of them.

    Raises:
        RewriteError: There is no such strategy, target or requirement.
    """

    strategy: Strategy
    target: str
    uniform: Iterable[str]
    input_shapes: Mapping[str, Dims] | None
    trust_types: bool
    tensor_io: bool
    exact: bool
    require: Iterable[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "require", tuple(self.require))
        find_target(self.target)
        _check_known("strategy", "choose one of", [self.strategy], STRATEGIES)
        _check_known("requirement", "choose among", self.require, REQUIREMENTS)

    @functools.cached_property
    def promises(self) -> Promises:
        """What the caller vouches for."""
        shapes = {
            name: tuple(dim if isinstance(dim, int) else None for dim in dims)
            for name, dims in (self.input_shapes or {}).items()
        }
        return Promises(frozenset(self.uniform), shapes, self.trust_types)

    @property
    def row(self) -> Target:
        """What the target accepts."""
        return find_target(self.target)

    @property
    def sequence_free(self) -> bool:
        """Whether no sequence may be left inside of the model."""
        return "sequence-free" in self.require or not self.row.sequences

    @property
    def lacks(self) -> frozenset[str]:
        """The operators of control flow that the target does not have, or must not be left."""
        lacks = {op for op in ("If", "Loop", "Scan") if not self.row.accepts(op)}
        return frozenset(lacks | ({"Loop", "Scan"} if "loop-free" in self.require else set()))

    def spent(self, model: ir.Model) -> tuple[str, ...]:
        """Return the options of the command line that can do nothing more for a model.

        Args:
            model: The model as given.
        """
        all_uniform = sequence_inputs(model) <= self.promises.uniform
        spent = {"--tensor-io": self.tensor_io, "--uniform": all_uniform}
        return tuple(option for option, is_spent in spent.items() if is_spent)

    def check_names(self, model: ir.Model) -> None:
        """Refuse promises about what the model does not have.

        Raises:
            RewriteError: A promise names no input, or no sequence input.
        """
        inputs = [value.name for value in model.graph.inputs if value.name]
        for name in self.promises.input_shapes:
            if name not in inputs:
                raise RewriteError(
                    f"the promised shape is for {name!r}, which is no input of the model: the "
                    f"inputs are {', '.join(sorted(inputs))}."
                )
        sequences = sequence_inputs(model)
        for name in sorted(self.promises.uniform):
            if name not in sequences:
                raise RewriteError(
                    f"{name!r} is promised to be uniform, but is no sequence input of the model: "
                    f"its sequence inputs are {', '.join(sorted(sequences)) or 'none'}."
                )


def sequence_inputs(model: ir.Model) -> set[str]:
    """Return the names of the inputs that are sequences."""
    inputs = model.graph.inputs
    return {v.name for v in inputs if v.name and isinstance(v.type, ir.SequenceType)}


def _check_known(what: str, choose: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise RewriteError(f"unknown {what} {name!r}: {choose} {', '.join(known)}.")
