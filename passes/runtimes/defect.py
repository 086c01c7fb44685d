"""One defect of a runtime, and the way around it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import onnx_ir as ir

from passes.graph.builder import Builder
from passes.runtimes.beside import Beside
from passes.runtimes.types import Types

__all__ = ["Defect", "seen_in"]

Form = Callable[[ir.Node, Types, Builder], list[ir.Value] | None]
"""Records what takes the place of a node, and returns the new outputs; None where it stays."""


@dataclasses.dataclass(frozen=True)
class Defect:
    """One defect of a runtime and the way around it.

    Attributes:
        name: What it is called in tests and on its page in ``docs/upstream``.
        runtime: The runtime.
        since: The oldest version in which it was seen.
        operators: The default-domain operators that may meet it.
        meets: Whether a node, with its types, meets the defect.
        form: Records nodes that compute the same and do not meet it.
        pinned_by: The test that fails when the runtime is mended.
        mended_in: The first version without it; None where there is none yet.
        stays: Whether the node stays: the form gives it other inputs, or makes new outputs of its
            own.
        rounds: Whether the form may round otherwise. It is for batched nodes alone: a node in a
            loop, or a copy of one of the body, reads what it read in the model as given, and
            rounds as it did there.
        beside: Whether a node of the author's is looked at as well, since the runtime takes it
            together with new ones; None where it never does.
        needs: An operator without which no model meets the defect; None where there is none.
        asking: A form that asks by an If when the model runs, for targets that have it; None
            where there is none.
    """

    name: str
    runtime: str
    since: str
    operators: tuple[str, ...]
    meets: Callable[[ir.Node, Types], bool]
    form: Form
    pinned_by: str
    mended_in: str | None = None
    stays: bool = False
    rounds: bool = False
    beside: Beside | None = None
    needs: str | None = None
    asking: Form | None = None


def seen_in(
    runtime: str,
    since: str,
    name: str,
    operators: tuple[str, ...],
    meets: Callable[[ir.Node, Types], bool],
    form: Form,
    mended_in: str | None = None,
    *,
    stays: bool = False,
    rounds: bool = False,
    beside: Beside | None = None,
    needs: str | None = None,
    asking: Form | None = None,
) -> Defect:
    """Return a defect that the test of its page pins; see `Defect` for the arguments."""
    pin = f"tests/passes/runtimes/test_upstream.py::test_defect[{name}]"
    return Defect(
        *(name, runtime, since, operators, meets, form, pin, mended_in),
        *(stays, rounds, beside, needs, asking),
    )
