"""The consumers of models, one row each, and what they accept."""

from __future__ import annotations

import dataclasses

from passes.errors import RewriteError
from passes.sequence_operators import SEQUENCE_OPERATORS

__all__ = ["TARGETS", "Target", "find_target"]


@dataclasses.dataclass(frozen=True)
class Target:
    """One consumer of models. SequenceMap is accepted by none: every rewrite removes it.

    Attributes:
        name: What ``target=`` and ``--target`` take.
        sequences: Whether values inside of the model may be sequences.
        loop: Whether Loop is accepted.
        branch: Whether If is accepted.
        scan: Whether Scan is accepted.
        highest_opset: The newest default-domain opset accepted, ``None`` where none is known.
        highest_ir: The newest IR version accepted, ``None`` where none is known.
        backend: The backend that runs a model for this target; empty where there is none.
        device: The device of that backend.
        sequence_io: Whether inputs and outputs may be sequences.
        old_forms: Whether operators are written in the forms that old frontends know.
        ignores: Pairs of operator and attribute that it takes no notice of.
        unrun: Why no backend runs a model for this target; empty where one does.
    """

    name: str
    sequences: bool
    loop: bool
    branch: bool
    scan: bool
    highest_opset: int | None = None
    highest_ir: int | None = None
    backend: str = "onnxruntime"
    device: str = "cpu"
    sequence_io: bool = True
    old_forms: bool = False
    ignores: tuple[tuple[str, str], ...] = ()
    unrun: str = ""

    def accepts(self, op_type: str) -> bool:
        """Return whether nodes of a default-domain operator are accepted."""
        if op_type in SEQUENCE_OPERATORS:
            return self.sequences and op_type != "SequenceMap"
        return {"Loop": self.loop, "If": self.branch, "Scan": self.scan}.get(op_type, True)


def _tensors_only(
    name: str, backend: str = "", unrun: str = "", ignores: tuple[tuple[str, str], ...] = ()
) -> Target:
    return Target(
        name,
        False,
        False,
        False,
        False,
        backend=backend,
        old_forms=True,
        unrun=unrun,
        ignores=ignores,
    )


_ROWS = (
    # name, sequences, loop, branch, scan, highest opset, highest IR, backend, device
    Target("onnxruntime", True, True, True, True, 26, 13),
    Target("onnxruntime-cuda", True, True, True, True, 26, 13, device="cuda"),
    # It has no kernel for sequences or control flow: these run on the CPU, with copies.
    Target("onnxruntime-webgpu", True, True, True, True, 26, 13, device="webgpu"),
    # In the browser and on Node: the same kernels, but its API passes tensors only.
    Target(
        "onnxruntime-web",
        True,
        True,
        True,
        True,
        backend="",
        sequence_io=False,
        unrun="it runs in a browser or in Node, not in Python",
    ),
    # onnx-tensorrt lists no sequence operator; opset as documented for TensorRT 11.
    Target("tensorrt", False, True, True, True, 25, None, device="tensorrt"),
    # OpenVINO lowers some sequences at import, but only in certain patterns.
    Target(
        "openvino",
        False,
        True,
        True,
        True,
        backend="openvino",
        ignores=(("Resize", "antialias"), ("Resize", "exclude_outside")),
    ),
    # tract imports Scan, but does not return from optimising one with a MatMul in its body.
    Target(
        "tract",
        False,
        False,
        True,
        False,
        backend="tract",
        ignores=(("Resize", "antialias"),),
    ),
    Target("coreml", False, False, False, False, None, None, device="coreml"),
    # These refuse Loop, or Scan with an open number of steps, or get it wrong.
    _tensors_only("iree", "iree"),
    _tensors_only("jaxonnxruntime", "jaxonnxruntime"),
    _tensors_only("ncnn", unrun="it runs models of its own, which its converter makes of ONNX"),
    _tensors_only(
        "onnx2torch",
        "onnx2torch",
        ignores=(("Resize", "antialias"), ("Resize", "exclude_outside")),
    ),
    _tensors_only("tinygrad", "tinygrad"),
    _tensors_only("tvm", "tvm", ignores=(("Resize", "antialias"),)),
    _tensors_only("portable", "onnxruntime"),
)
TARGETS = {row.name: row for row in _ROWS}


def find_target(name: str) -> Target:
    """Return the row of a target.

    Raises:
        RewriteError: There is no target of this name.
    """
    if name not in TARGETS:
        raise RewriteError(f"unknown target {name!r}; choose one of {', '.join(TARGETS)}")
    return TARGETS[name]
