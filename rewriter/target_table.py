"""The consumers of models, one row each: what they accept, and what keeps a model from them."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

from passes.errors import RewriteError
from passes.sequence_operators import SEQUENCE_OPERATORS
from rewriter.errors import suggestion

__all__ = [
    "ALIASES",
    "REQUIREMENTS",
    "TARGETS",
    "Requirement",
    "Target",
    "TargetName",
    "Unreached",
    "find_target",
]

Requirement = Literal["sequence-free", "loop-free", "on-device"]
REQUIREMENTS: tuple[str, ...] = get_args(Requirement)
"""The values of ``require``, beyond a target."""


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
        kernels: The table of the kernels of its device, by which placement is predicted; empty
            where it has no device beside the host, or none is known.
        unrun: Why no backend runs a model for this target; empty where one does.
        rather_without_if: Whether it refuses an If with a result of unknown rank; a model
            without the Ifs that a rewrite adds is preferred then, where there is one.
        release_of: The target that it is an older release or another setting of, which remedies
            name in its place; empty for a target of its own.
    """

    name: str
    sequences: bool = False
    loop: bool = False
    branch: bool = False
    scan: bool = False
    highest_opset: int | None = None
    highest_ir: int | None = None
    backend: str = "onnxruntime"
    device: str = "cpu"
    sequence_io: bool = True
    old_forms: bool = False
    ignores: tuple[tuple[str, str], ...] = ()
    kernels: str = ""
    unrun: str = ""
    rather_without_if: bool = False
    release_of: str = ""

    def accepts(self, op_type: str) -> bool:
        """Return whether nodes of a default-domain operator are accepted."""
        if op_type in SEQUENCE_OPERATORS:
            return self.sequences and op_type != "SequenceMap"
        return {"Loop": self.loop, "If": self.branch, "Scan": self.scan}.get(op_type, True)


def _onnxruntime(name: str, **other: Any) -> Target:
    """Return a row that accepts all that onnxruntime does."""
    return Target(name, sequences=True, loop=True, branch=True, scan=True, **other)


# What the oldest version that `pyproject.toml` allows takes. 1.32 takes opset 28 and IR 14, but
# computes the operators that are new in 27 only where it knows enough shapes.
_VERSIONS = {"highest_opset": 26, "highest_ir": 13}

_ROWS = (
    _onnxruntime("onnxruntime", **_VERSIONS),
    _onnxruntime("onnxruntime-cuda", device="cuda", kernels="cuda", **_VERSIONS),
    # It has no kernel for sequences or control flow: these run on the CPU, with copies.
    _onnxruntime("onnxruntime-webgpu", device="webgpu", kernels="webgpu", **_VERSIONS),
    # With kernels for int64 that compute its lower 32 bits alone.
    _onnxruntime(
        "onnxruntime-webgpu-int64",
        device="webgpu-int64",
        kernels="webgpu-int64",
        release_of="onnxruntime-webgpu",
        **_VERSIONS,
    ),
    _onnxruntime("onnxruntime-dml", device="directml", kernels="dml", **_VERSIONS),
    # In the browser and on Node: the same kernels, but its API passes tensors only.
    _onnxruntime(
        "onnxruntime-web",
        backend="",
        sequence_io=False,
        unrun="it runs in a browser or in Node, not in Python",
    ),
    # onnx-tensorrt lists no sequence operator; opset as documented for TensorRT 11.
    Target(
        "tensorrt",
        loop=True,
        branch=True,
        scan=True,
        highest_opset=25,
        device="tensorrt",
        kernels="tensorrt",
    ),
    # The lists of older releases, and the opsets that they name.
    *(
        Target(
            f"tensorrt-{release}",
            loop=True,
            branch=True,
            scan=True,
            highest_opset=opset,
            device="tensorrt",
            kernels=f"tensorrt-{release}",
            release_of="tensorrt",
        )
        for release, opset in (("8.5", 17), ("8.6", 17), ("9.3", 19))
    ),
    # Its documentation lists no sequence operator either.
    Target(
        "migraphx",
        loop=True,
        branch=True,
        scan=True,
        highest_opset=19,
        device="migraphx",
        kernels="migraphx",
    ),
    # OpenVINO lowers some sequences at import, but only in certain patterns; it refuses an If
    # with a result of unknown rank.
    Target(
        "openvino",
        loop=True,
        branch=True,
        scan=True,
        backend="openvino",
        rather_without_if=True,
        ignores=(("Resize", "antialias"), ("Resize", "exclude_outside")),
    ),
    # tract imports Scan, but does not return from optimising one with a MatMul in its body.
    Target("tract", branch=True, backend="tract", ignores=(("Resize", "antialias"),)),
    Target("coreml", device="coreml", kernels="coreml"),
    # These refuse Loop, or Scan with an open number of steps, or get it wrong.
    Target("iree", backend="iree", old_forms=True),
    Target("jaxonnxruntime", backend="jaxonnxruntime", old_forms=True),
    Target(
        "ncnn",
        backend="",
        old_forms=True,
        unrun="it runs models of its own, which its converter makes of ONNX",
    ),
    Target(
        "onnx2torch",
        backend="onnx2torch",
        old_forms=True,
        ignores=(("Resize", "antialias"), ("Resize", "exclude_outside")),
    ),
    Target("tinygrad", backend="tinygrad", old_forms=True),
    Target("tvm", backend="tvm", old_forms=True, ignores=(("Resize", "antialias"),)),
    Target("portable", old_forms=True),
)
TARGETS = {row.name: row for row in _ROWS}


ALIASES = {
    "ort": "onnxruntime",
    "cpu": "onnxruntime",
    "cuda": "onnxruntime-cuda",
    "webgpu": "onnxruntime-webgpu",
    "webgpu-int64": "onnxruntime-webgpu-int64",
    "dml": "onnxruntime-dml",
    "web": "onnxruntime-web",
    "trt": "tensorrt",
    "ov": "openvino",
    "jax": "jaxonnxruntime",
    "torch": "onnx2torch",
}
"""Short names of targets, and what they stand for."""


TargetName = Literal[
    "onnxruntime",
    "onnxruntime-cuda",
    "onnxruntime-webgpu",
    "onnxruntime-webgpu-int64",
    "onnxruntime-dml",
    "onnxruntime-web",
    "tensorrt",
    "tensorrt-8.5",
    "tensorrt-8.6",
    "tensorrt-9.3",
    "migraphx",
    "openvino",
    "tract",
    "coreml",
    "iree",
    "jaxonnxruntime",
    "ncnn",
    "onnx2torch",
    "tinygrad",
    "tvm",
    "portable",
    "ort",
    "cpu",
    "cuda",
    "webgpu",
    "webgpu-int64",
    "dml",
    "web",
    "trt",
    "ov",
    "jax",
    "torch",
]
"""The names of targets, short ones too, for type checkers."""


@dataclasses.dataclass(frozen=True)
class Unreached:
    """One thing that keeps the model from its target, or from what ``require`` asks.

    Attributes:
        node: Path of the node through subgraphs, ``""`` for the model as a whole.
        op_type: The operator of the node, ``""`` for the model as a whole.
        reason: What is in the way, in one clause.
        remedy: What the user can do about it.
        code: ``ruled-out`` by what is known of the target or by ``require``, ``refused`` by the
            runtime itself.
        cause: The part of the reason that other nodes may share, empty where there is none.
    """

    node: str
    op_type: str
    reason: str
    remedy: str
    code: str = "ruled-out"
    cause: str = ""


def find_target(name: str) -> Target:
    """Return the row of a target, whose name may be a short one, in any case of letters.

    Raises:
        RewriteError: There is no target of this name.
    """
    if isinstance(name, str) and name not in TARGETS:
        name = ALIASES.get(name.lower(), name.lower())
    if not isinstance(name, str) or name not in TARGETS:
        meant = suggestion(str(name), [*TARGETS, *ALIASES])
        raise RewriteError(f"unknown target {name!r}; choose one of {', '.join(TARGETS)}{meant}")
    return TARGETS[name]
