"""The options of the passes that fuse maps, as one record."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from passes.promises import Promises

__all__ = ["FuseOptions"]


@dataclasses.dataclass(frozen=True)
class FuseOptions:
    """Switches of fusing, handed on whole from the pass to the rules.

    Attributes:
        promises: What the caller promises of sequences and shapes.
        exact: Keep per-sample what rounding could change by more than rounding, and keep a Loop
            whose carried value would be rounded in another order.
        auto: Leave a map alone where fusing it gains nothing.
        lacks: Operators that the target does not have.
        for_device: The model is for a device beside the host: what it computes for few samples
            would be copied to the host to be cut, and is batched like any number.
        for_tensors: Sequences at the ends of the model will be tensors, so that a branch for few
            samples would only make sequences again.
    """

    promises: Promises = dataclasses.field(default_factory=Promises)
    exact: bool = False
    auto: bool = False
    lacks: Collection[str] = ()
    for_device: bool = False
    for_tensors: bool = False

    @property
    def takes_flat(self) -> bool:
        """Whether to batch samples that differ along several axes.

        A runtime that has loops, and sequences, is faster with large images one by one; a device
        is started anew for each node of each image, and waits for the sizes of each.
        """
        return not self.auto or bool(self.lacks) or (self.for_device and self.for_tensors)

    @property
    def takes_packed_as_flat(self) -> bool:
        """Whether packed samples may become flat ones.

        A guard asks for their lengths where the target has an If, and a Loop for all others.
        """
        return self.takes_flat and not {"If", "Loop"}.isdisjoint(self.lacks)
