"""What the passes share that ask what the host reads."""

from __future__ import annotations

import onnx_ir as ir

from passes.device.host_facts import ReadsOnHost

__all__ = ["HostReadingPass"]


class HostReadingPass(ir.passes.InPlacePass):
    """A pass that changes nodes by which of their inputs the host reads."""

    def __init__(self, reads_on_host: ReadsOnHost) -> None:
        """Set up the pass.

        Args:
            reads_on_host: Tells what the host reads.
        """
        super().__init__()
        self._reads_on_host = reads_on_host
