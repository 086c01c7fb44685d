"""Do two models take the same inputs?"""

from __future__ import annotations

from typing import Any

from passes.errors import RewriteError
from passes.promises import Promises
from rewriter.feeding.input_specs import InputSpec, input_specs
from rewriter.model_files import models

__all__ = ["check_same_inputs"]


def check_same_inputs(before: Any, after: Any) -> None:
    """Refuse two models if one takes an input that the other does not.

    Raises:
        RewriteError: Their inputs differ in name or type.
    """
    one, other = _specs(before), _specs(after)
    for name in [*one, *other]:
        sides = (one.get(name), other.get(name))
        types = [spec and _type(spec) for spec in sides]
        if types[0] == types[1] or not any(spec and _is_fed(spec) for spec in sides):
            continue
        first, second = (
            f"takes {type_} {name!r}" if type_ else f"has no input {name!r}" for type_ in types
        )
        raise RewriteError(
            f"the models take different inputs: the first {first}, the second {second}; compare "
            "models with the same inputs"
        )


def _specs(model: Any) -> dict[str, InputSpec]:
    return {spec.name: spec for spec in input_specs(models.take(model).model, Promises())}


def _type(spec: InputSpec) -> str:
    text = f"seq({spec.dtype})" if spec.is_sequence else str(spec.dtype)
    return (f"optional({text})" if spec.is_optional else text).lower()


def _is_fed(spec: InputSpec) -> bool:
    return spec.is_required or spec.is_optional
