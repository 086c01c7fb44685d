"""The options of a rewrite, as one record."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict, TypeVar, cast, get_args, get_type_hints

import onnx_ir as ir

from passes.errors import RewriteError
from passes.promises import FuseOptions, Promises
from rewriter.errors import suggestion
from rewriter.option_values import (
    Dims,
    check_agrees,
    check_is_sequence,
    check_known,
    read_names,
    read_shapes,
    refuse_flag,
)
from rewriter.target_table import (
    REQUIREMENTS,
    TARGETS,
    Requirement,
    Target,
    TargetName,
    find_target,
)

__all__ = [
    "STRATEGIES",
    "Options",
    "RewriteOptions",
    "Strategy",
    "sequence_inputs",
    "takes_options",
]

Strategy = Literal["auto", "fuse", "expand"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
F = TypeVar("F", bound=Callable[..., Any])


class RewriteOptions(TypedDict, total=False):
    """The keyword arguments that `rewriter.optimize`, `rewrite` and `explain` share.

    Attributes:
        strategy: ``auto`` fuses where it is proven and pays, ``fuse`` wherever a rule exists,
            ``expand`` makes loops.
        target: Name of the consumer of the new model, see `rewriter.target_table`.
        uniform: Names of sequences whose elements have one shape; a promise.
        input_shapes: Shapes of inputs (of the elements, for a sequence), None or a string for
            an unknown dimension; a promise.
        trust_types: Promise that all numbers in declared sequence types hold.
        tensor_io: Turn sequence inputs and outputs into tensors.
        exact: Keep per-sample what batching could change by rounding before a discrete operator.
        require: Any of ``sequence-free``, ``loop-free`` and ``on-device``.
        opset: Convert the model to this newer version of ONNX's operators first.
        padded: Names of sequence inputs that are padded to their largest element, one tensor
            ``[B, *s]`` and ``NAME.sizes``; with ``tensor_io``.
    """

    strategy: Strategy
    target: TargetName
    uniform: str | Iterable[str]
    input_shapes: Mapping[str, Dims] | None
    trust_types: bool
    tensor_io: bool
    exact: bool
    require: Requirement | Iterable[Requirement]
    opset: int | None
    padded: str | Iterable[str]


@dataclasses.dataclass(frozen=True)
class Options:
    """The same as one checked record, with the defaults.

    Raises:
        RewriteError: There is no such strategy, target or requirement, or a promise is none.
    """

    strategy: Strategy = "auto"
    target: str = "onnxruntime"
    uniform: str | Iterable[str] = ()
    input_shapes: Mapping[str, Dims] | None = None
    trust_types: bool = False
    tensor_io: bool = False
    exact: bool = False
    require: str | Iterable[str] = ()
    opset: int | None = None
    padded: str | Iterable[str] = ()

    def __post_init__(self) -> None:
        for field in ("uniform", "padded", "require"):
            if not isinstance(given := getattr(self, field), tuple) or given:
                object.__setattr__(self, field, read_names(field, given))
        for field in ("trust_types", "tensor_io", "exact"):
            if not isinstance(given := getattr(self, field), bool):
                refuse_flag(field, given)
        if self.input_shapes is not None:
            object.__setattr__(self, "input_shapes", read_shapes(self.input_shapes))
        object.__setattr__(self, "target", find_target(self.target).name)
        if self.strategy not in STRATEGIES:
            check_known("strategy", "choose one of", [self.strategy], STRATEGIES)
        if self.require:
            check_known("requirement", "choose among", self.require, REQUIREMENTS)
        if "on-device" in self.require and not self.row.kernels:
            devices = ", ".join(
                name for name, row in TARGETS.items() if row.kernels and not row.release_of
            )
            raise RewriteError(
                f"on-device is required, and target {self.target} has no device: choose one of "
                f"{devices}"
            )
        if self.padded and not self.tensor_io:
            raise RewriteError(
                f"{', '.join(self.padded)} is to be padded, which is for tensors: "
                "ask for tensor_io, --tensor-io, too"
            )
        if self.opset is not None and (type(self.opset) is not int or self.opset < 1):
            raise RewriteError(f"opset is {self.opset!r}: give the number of an opset, such as 18")

    @functools.cached_property
    def promises(self) -> Promises:
        """The promises of the caller."""
        shapes = {
            name: tuple(dim if isinstance(dim, int) else None for dim in dims)
            for name, dims in (self.input_shapes or {}).items()
        }
        return Promises(frozenset(self.uniform), shapes, self.trust_types)

    @property
    def row(self) -> Target:
        """The row of the target: what it accepts."""
        return find_target(self.target)

    @property
    def sequence_free(self) -> bool:
        """Whether no sequence may be left inside of the model."""
        return "sequence-free" in self.require or not self.row.sequences

    @property
    def lacks(self) -> frozenset[str]:
        """The operators of loops and branches that the target lacks, or must not be left."""
        lacks = {op for op in ("If", "Loop", "Scan") if not self.row.accepts(op)}
        if self.sequence_free:
            lacks.add("SequenceInsert")
        return frozenset(lacks | ({"Loop", "Scan"} if "loop-free" in self.require else set()))

    @property
    def strict(self) -> tuple[str, ...]:
        """The switches that are set and without which more could be batched."""
        return ("exact",) if self.exact else ()

    def fusing(self, promises: Promises) -> FuseOptions:
        """Return what the passes that fuse have to know, with the promises that hold there."""
        return FuseOptions(
            promises,
            self.exact,
            self.strategy == "auto",
            self.lacks,
            for_device=bool(self.row.kernels),
            for_tensors=bool(self.tensor_io),
        )

    def spent(self, model: ir.Model) -> tuple[str, ...]:
        """Return the options of the command line that can do nothing more for a model.

        Args:
            model: The model as given.
        """
        all_uniform = sequence_inputs(model) <= self.promises.uniform
        spent = {"--tensor-io": self.tensor_io, "--uniform": all_uniform}
        return tuple(option for option, is_spent in spent.items() if is_spent)

    def check_promises(self, model: ir.Model) -> None:
        """Refuse promises about what the model does not have, or that its types contradict.

        Raises:
            RewriteError: A promise names no input, or no sequence input, or is of another rank
                or another number than the declared type.
        """
        inputs = {value.name: value for value in model.graph.inputs if value.name}
        for name, dims in self.promises.input_shapes.items():
            if name not in inputs:
                raise RewriteError(
                    f"the promised shape is for {name!r}, which is no input of the model: the "
                    f"inputs are {', '.join(sorted(inputs))}."
                )
            check_agrees(inputs[name], dims)
        sequences = sequence_inputs(model)
        for what, names in (
            ("promised to be uniform", self.promises.uniform),
            ("to be padded", self.padded),
        ):
            for name in sorted(names):
                check_is_sequence(name, what, sequences)


def takes_options(function: F) -> F:
    """Show the options in the signature of a function that takes them, and in its docstring.

    There they take the place of the argument ``options``.
    """
    shown = inspect.signature(function)
    own = [one for one in shown.parameters.values() if one.kind is not one.VAR_KEYWORD]
    types = get_type_hints(RewriteOptions)
    options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=types[field.name],
        )
        for field in dataclasses.fields(Options)
    ]
    signature = shown.replace(parameters=[own[0], *options, *own[1:]])

    @functools.wraps(function)
    def checked(*given: Any, **named: Any) -> Any:
        try:
            signature.bind(*given, **named)
        except TypeError as error:
            hint = _hint(
                str(error), named, signature.parameters, _RETURNED.get(function.__name__, "")
            )
            raise TypeError(f"{function.__name__}() {error}{hint}") from None
        return function(*given, **named)

    checked.__signature__ = signature  # type: ignore[attr-defined]
    checked.__doc__ = _with_options(function.__doc__ or "")
    return cast(F, checked)


def _with_options(text: str) -> str:
    """Return a docstring with the options, one by one, in the place of ``options``."""
    told = (RewriteOptions.__doc__ or "").partition("Attributes:\n")[2].rstrip()
    return re.sub(r" {8}options: .*(\n {12}.*)*", lambda _: told, text)


_RETURNED = {
    "optimize": "; the new model is returned: onnx.save(model, path) writes it",
    "rewrite": "; the new model is returned: onnx.save(result.model, path) writes it",
}
"""What a call that names a place for the new model is told, by the function."""


def _hint(error: str, named: Mapping[str, Any], known: Iterable[str], returned: str) -> str:
    """Say how a call that does not fit a signature may have been meant."""
    if "positional" in error:
        return f": all but the model are keyword arguments, as in strategy='fuse'{returned}"
    wrong = next((name for name in named if name not in known), "")
    return returned if wrong.startswith("out") else suggestion(wrong, known)


def sequence_inputs(model: ir.Model) -> set[str]:
    """Return the names of the inputs that are sequences."""
    inputs = model.graph.inputs
    return {v.name for v in inputs if v.name and isinstance(v.type, ir.SequenceType)}
