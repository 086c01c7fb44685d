"""Writes that some iterations make: the same pattern, of what those iterations write only.

``if flag_i: out[k_i] = r_i`` with the flags ``[1, 0, 1]`` is one scatter of ``[r0, r2]`` to the
places ``[k0, k2]``.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from passes.carried.common.wrapped import Wrapped
from passes.carried.joined import Joined
from passes.typing.value_types import ValueType

__all__ = ["Conditional"]


@dataclasses.dataclass(frozen=True)
class Conditional(Wrapped):
    """What some iterations do to a carried tensor, where the others leave it as it is.

    Attributes:
        terms: Those of what is done, and whether an iteration does it. Without that flag all are
            concatenated, and an iteration that does nothing has no rows.
        form: What is done.
        is_flagged: Whether the last term is the flag.
    """

    is_flagged: bool

    @property
    def name(self) -> str:  # type: ignore[override]
        """What the report calls it."""
        return f"{self.form.name.removesuffix(_UNDER)}{_UNDER}"

    def check_shape(self, joined: Joined) -> None:
        """Check that what is done leaves the shape as it is."""
        self.form.check_shape(joined)

    def write(self, joined: Joined) -> ir.Value:
        """Record what is done by the iterations that do it."""
        return self.form.write(self._kept(joined))

    def _kept(self, joined: Joined) -> Joined:
        """Return what those iterations give."""
        if not self.is_flagged:
            return dataclasses.replace(joined, types=self._single(joined))
        *values, flags = joined.values
        kept = [
            joined.builder.op("Compress", [value, flags], {"axis": term.axis})
            if term.kind == "stacked"
            else value
            for value, term in zip(values, self.terms, strict=False)
        ]
        return dataclasses.replace(joined, values=kept, types=joined.types[:-1])

    def _single(self, joined: Joined) -> list[ValueType]:
        """Return the types of what was stacked: without the axis of 0 or 1 rows."""
        types = []
        for known, term in zip(joined.types, self.form.terms, strict=True):
            dims = known.dims
            if term.kind == "stacked" and dims is not None:
                known = ValueType(known.type, (*dims[: term.axis], *dims[term.axis + 1 :]))
            types.append(known)
        return types


_UNDER = " under a condition"
