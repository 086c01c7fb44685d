"""The backends: one module for each, its runtime imported when it is used."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx.external_data_helper import uses_external_data

from passes.tensors.io import TensorIo
from rewriter.backends import (
    iree,
    jaxonnxruntime,
    onnx2torch,
    onnxruntime,
    openvino,
    reference,
    tinygrad,
    tract,
    tvm,
)
from rewriter.backends.list_sessions import TensorSession
from rewriter.backends.profiling import Placement
from rewriter.backends.session import (
    AsGivenSession,
    BackendError,
    PlacementError,
    PlacingSession,
    Session,
)
from rewriter.errors import suggestion
from rewriter.feeding.feed_checks import as_feeds, check_feeds, told_unlike
from rewriter.feeding.feed_files import read_feeds
from rewriter.model_files import models, protos, weights
from rewriter.model_files.kinds import AnyModel

__all__ = [
    "BACKENDS",
    "Backend",
    "BackendError",
    "Placement",
    "PlacementError",
    "Session",
    "open_session",
    "placement",
    "run",
    "run_as_given",
]


@dataclasses.dataclass(frozen=True)
class Backend:
    """One way to run a model.

    Attributes:
        name: What users call it.
        devices: What its ``device`` may be.
        missing: Gives the reason why it cannot be used here, empty where it can.
        open: Makes a model ready to run, given the folder of its weights and a device.
        packages: The distributions, one of which holds the runtime.
    """

    name: str
    devices: tuple[str, ...]
    missing: Callable[[], str]
    open: Callable[[onnx.ModelProto, Path | None, str], Session]
    packages: tuple[str, ...] = ()

    @property
    def is_available(self) -> bool:
        """Whether it can be used here."""
        return not self.missing()

    @property
    def version(self) -> str:
        """The version that is installed, empty where that is not known."""
        for package in self.packages:
            try:
                return importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
        return ""

    @property
    def lacking_devices(self) -> dict[str, str]:
        """The devices that cannot be used here, with the reason; a single one always can."""
        if len(self.devices) == 1:
            return {}
        reasons = {device: self.lacking(device) for device in self.devices if " " not in device}
        return {device: reason for device, reason in reasons.items() if reason}

    def lacking(self, device: str) -> str:
        """Return why a device cannot be used here, empty where it can: one small model tells."""
        try:
            self.open(_smallest(), None, device)
        except PlacementError:
            return ""
        except BackendError as error:
            return str(error)
        return ""


_MODULES: dict[str, Any] = {
    "reference": reference,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "tract": tract,
    "iree": iree,
    "tvm": tvm,
    "jaxonnxruntime": jaxonnxruntime,
    "onnx2torch": onnx2torch,
    "tinygrad": tinygrad,
}
_PACKAGES = {
    "reference": ("onnx",),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino"),
    "iree": ("iree-base-compiler",),
    "tvm": ("apache-tvm",),
}
BACKENDS: dict[str, Backend] = {
    name: Backend(
        name, module.DEVICES, module.missing, module.open_session, _PACKAGES.get(name, (name,))
    )
    for name, module in _MODULES.items()
}
"""Every backend that is known, installed or not."""
_LARGE = 2**28
"""Bytes of weights in other files from which it takes long to copy them."""
_SHORT = {"ort": "onnxruntime", "ov": "openvino"}


def open_session(
    model: Any,
    backend: str = "onnxruntime",
    device: str = "cpu",
    *,
    threads: int | None = None,
    whole: bool = False,
    briefly: bool = False,
) -> Session:
    """Make a model ready to run.

    Args:
        model: A path, ModelProto, onnx_ir.Model or graphsurgeon Graph. Weights in other files are
            found from a path, or from where the model was loaded.
        backend: The name of a backend.
        device: One of its devices.
        threads: Threads of one run, where the backend can be told (onnxruntime); None lets it
            choose.
        whole: Refuse a model if the device leaves a part of it to the host, where the backend can
            be told (onnxruntime).
        briefly: Whether it runs a few times: then gigabytes of weights in other files are read
            where they lie (onnxruntime), and not copied in the order that is fastest to read.

    Raises:
        BackendError: The backend is unknown or not installed, refuses the model, or would run it
            elsewhere than asked.
    """
    backend = _SHORT.get(backend, backend)
    if backend not in BACKENDS:
        what = f"there is no backend {backend!r}"
        if backend in onnxruntime.DEVICES:
            what += f"; it is a device: backend='onnxruntime', device={backend!r}"
        meant = suggestion(str(backend), BACKENDS)
        raise BackendError(f"{what}; say one of {', '.join(BACKENDS)}{meant}")
    chosen = BACKENDS[backend]
    reason = chosen.missing()
    if reason:
        raise BackendError(f"the backend {backend!r} cannot be used: {reason}", is_limit=True)
    taken = models.take(model)
    proto = protos.to_proto(taken.model)
    outside = sum(map(_bytes_outside, protos.all_tensors(proto)))
    if taken.folder is None and outside:
        raise BackendError(
            "the model's weights lie in other files and it is not known where; give the model as "
            "a path, or load it with rewriter.load",
            is_limit=True,
        )
    as_stored = briefly and outside > _LARGE
    if chosen.name == "onnxruntime" and (whole or as_stored or threads is not None):
        session = onnxruntime.open_session(
            proto, taken.folder, device, threads, whole=whole, as_stored=as_stored
        )
    else:
        session = chosen.open(proto, taken.folder, device)
    io = TensorIo.read(taken.model)
    if not io.inputs:
        return session
    dtypes = {v.name: v.dtype.numpy() for v in taken.model.graph.inputs if v.name and v.dtype}
    return TensorSession(session, io, dtypes)


def _bytes_outside(tensor: onnx.TensorProto) -> int:
    """Return how many bytes of a tensor lie in another file, 1 where it has none there."""
    if not uses_external_data(tensor):
        return 0
    length = next((one.value for one in tensor.external_data if one.key == "length"), "")
    return max(int(length) if length.isdecimal() else math.prod(tensor.dims), 1)


def placement(session: Session, feeds: Mapping[str, Any]) -> Placement | None:
    """Run a model once more, and tell where its nodes ran and what was copied.

    Args:
        session: A session of `open_session`.
        feeds: The inputs, as for its ``run``.

    Returns:
        What is known; None for a backend that cannot tell.

    Raises:
        BackendError: The model fails on these inputs.
    """
    if isinstance(session, TensorSession):
        return placement(session.session, session.tensors(feeds))
    if isinstance(session, PlacingSession):
        return session.placement(feeds)
    return None


def run_as_given(
    session: Session, feeds: Mapping[str, Any], *, with_shapes: bool = False
) -> dict[str, Any]:
    """Run a model as its runtime takes it, not one that was made anew for shapes.

    Args:
        session: A session of `open_session`.
        feeds: The inputs, as for its ``run``.
        with_shapes: Tell the runtime the shapes of the inputs before it takes the model.

    Returns:
        What ``run`` returns.

    Raises:
        BackendError: The runtime refuses the model, or fails on these inputs.
    """
    if isinstance(session, TensorSession):
        return run_as_given(session.session, session.tensors(feeds), with_shapes=with_shapes)
    if isinstance(session, AsGivenSession):
        return session.run_as_given(feeds, with_shapes=with_shapes)
    return session.run(feeds)


@functools.cache
def _smallest() -> onnx.ModelProto:
    header = '<ir_version: 8, opset_import: ["" : 13]>'
    return onnx.parser.parse_model(f"{header} g (float[2] x) => (float[2] y) {{ y = Relu(x) }}")


def run(
    model: AnyModel,
    inputs: Mapping[str, Any] | str | os.PathLike[str],
    backend: str = "onnxruntime",
    device: str = "cpu",
) -> dict[str, Any]:
    """Run a model once.

    Args:
        model: A path, ModelProto, onnx_ir.Model or graphsurgeon Graph.
        inputs: Input name to array, list of arrays (a sequence) or None (an absent optional); or
            an npz file with them. A sequence that the model takes as a tensor may be given as
            either.
        backend: The name of a backend.
        device: One of its devices.

    Returns:
        Output name to array, or list of arrays for a sequence, or None for an absent optional.

    Raises:
        RewriteError: The inputs do not fit the model or break a promise that it carries, or the
            backend cannot run it.
    """
    taken = models.take(model).model
    from_file = isinstance(inputs, str | os.PathLike)
    feeds = read_feeds(inputs, taken) if from_file else as_feeds(inputs)
    check_feeds(taken, feeds)
    weights.require(taken)
    session = open_session(model, backend, device)
    try:
        return session.run(feeds)
    except BackendError as error:
        if unlike := told_unlike(taken, feeds):
            raise BackendError(f"{error}; {unlike}: is that meant?", error.is_limit) from error
        raise
