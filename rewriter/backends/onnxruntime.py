"""onnxruntime as a backend, on any of its execution providers."""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from passes.graph.builder import STEPS_KEY
from rewriter.backends import isolated
from rewriter.backends.binding import can_bind, run_bound
from rewriter.backends.optimized_graph import all_nodes_of, layer_settings
from rewriter.backends.profiling import Placement, read_profile
from rewriter.backends.providers import (
    DEVICES,
    NO_FALLBACK,
    create_session,
    missing,
    plain,
    provider_of,
    require_provider,
    settings_of,
)
from rewriter.backends.session import BackendError, Session, as_arrays, has_nothing
from rewriter.backends.timed import run_watched
from rewriter.evaluator.run_watch import OverBudgetError, current_watch

__all__ = ["DEVICES", "missing", "open_session"]

_NO_COPIES = "session.disable_prepacking"
# With a batch of 0 these end the process instead of failing.
_FRAGILE = {"Einsum", "GRU", "LSTM", "RNN", "Scan"}
# So does a Scan along one of these where nothing goes through it, whatever the model is fed.
_AXES = {"scan_input_axes", "scan_output_axes"}


def open_session(
    model: onnx.ModelProto,
    folder: Path | None,
    device: str,
    threads: int | None = None,
    *,
    whole: bool = False,
    as_stored: bool = False,
) -> Session:
    """Make a model ready to run.

    Args:
        model: The model.
        folder: Where its external weights lie.
        device: ``cpu``, ``cuda``, ... or the name of an execution provider.
        threads: Threads of one run; None lets onnxruntime choose.
        whole: Refuse a model if another provider would run a part of it.
        as_stored: Read weights where they lie, instead of a copy in the order that is fastest.

    Raises:
        BackendError: onnxruntime refuses the model, or does not run it on that device.
    """
    reason = missing()
    if reason:
        raise BackendError(f"cannot run on onnxruntime: {reason}", is_limit=True)
    return OnnxruntimeSession(
        model, folder, device, whole=whole, threads=threads, as_stored=as_stored
    )


class OnnxruntimeSession:
    """A session that runs where it was asked to, or does not come to be."""

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: Path | None,
        device: str,
        *,
        whole: bool = False,
        threads: int | None = None,
        as_stored: bool = False,
    ) -> None:
        """Open a session.

        Args:
            model: The model.
            folder: Where its external weights lie.
            device: As for `open_session`.
            whole: Refuse a model if another provider would run a part of it.
            threads: As for `open_session`.
            as_stored: As for `open_session`.
        """
        self._source = (model.SerializeToString(), folder, device)
        nodes = [node for owner in (model.graph, *model.functions) for node in all_nodes_of(owner)]
        self._is_fragile = any(map(_may_end_its_process, nodes))
        self._is_brittle = any(map(_divides_by_what_it_scans, nodes))
        self._settings = {**settings_of(device), **layer_settings(model)}
        provider = provider_of(device)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                extra = {**self._settings, **({NO_FALLBACK: "1"} if whole else {})}
                extra |= {_NO_COPIES: "1"} if as_stored else {}
                self._session = create_session(
                    self._source[0], folder, provider, extra, threads=threads
                )
        except BackendError:
            raise
        except Exception as error:
            message = f"onnxruntime refuses the model: {plain(error)}"
            raise BackendError(message, is_limit=True) from error
        require_provider(self._session, provider)
        self._provider = provider
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model once; see :class:`rewriter.backends.session.Session`."""
        feeds = as_arrays(feeds)
        for name, value in feeds.items():
            _check_types(name, value)
        is_judged = current_watch() is not None
        if (self._is_fragile and has_nothing(feeds)) or (self._is_brittle and is_judged):
            return _run_apart(*self._source, feeds)
        return self.run_here(feeds)

    def run_here(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Run the model in this process, whatever may become of it."""
        try:
            results = self._run_on_device(self._session, feeds)
        except OverBudgetError:
            raise
        except Exception as error:
            raise BackendError(f"onnxruntime fails: {plain(error)}") from error
        return dict(zip(self._outputs, results, strict=True))

    def placement(self, feeds: Mapping[str, Any]) -> Placement:
        """Run the model once more, and tell where its nodes ran and what was copied.

        Raises:
            BackendError: The model fails on these inputs.
        """
        data, folder, _ = self._source
        with tempfile.TemporaryDirectory() as place:
            try:
                profile = str(Path(place) / "profile")
                session = create_session(data, folder, self._provider, self._settings, profile)
                self._run_on_device(session, as_arrays(feeds))
            except Exception as error:
                raise BackendError(f"onnxruntime fails: {plain(error)}") from error
            return read_profile(Path(session.end_profiling()))

    def _run_on_device(self, session: Any, feeds: Mapping[str, Any]) -> list[Any]:
        if can_bind(session, self._provider, feeds):
            to_device = importlib.import_module("onnxruntime").OrtValue.ortvalue_from_numpy
            return run_bound(session, self._provider, feeds, to_device)
        if watch := current_watch():
            return run_watched(session, feeds, watch)
        return list(session.run(None, dict(feeds)))


def run_here(
    model: onnx.ModelProto, folder: Path | None, device: str, feeds: dict[str, Any]
) -> dict[str, Any]:
    """Run a model once, whatever may become of this process."""
    return OnnxruntimeSession(model, folder, device).run_here(feeds)


def _run_apart(
    data: bytes, folder: Path | None, device: str, feeds: dict[str, Any]
) -> dict[str, Any]:
    try:
        return isolated.run(__name__, data, folder, device, feeds, current_watch(), again=True)
    except BackendError as error:
        if "ended its process" not in str(error):
            raise
        where = " on inputs without elements" if has_nothing(feeds) else ""
        message = f"onnxruntime fails: {error}{where}"
        raise BackendError(message) from error


def _check_types(name: str, value: Any) -> None:
    for item in value if isinstance(value, list) else [value]:
        dtype = np.asarray(item).dtype
        # 2: registered from outside numpy, as the types of ml_dtypes are.
        if dtype.isbuiltin == 2:
            raise BackendError(
                f"onnxruntime takes no {dtype} arrays (input {name!r}); run on the backend "
                "'reference'",
                is_limit=True,
            )


def _may_end_its_process(node: onnx.NodeProto) -> bool:
    steps = (one.value for one in node.metadata_props if one.key == STEPS_KEY)
    return node.op_type in _FRAGILE and next(steps, "0") == "0"


def _divides_by_what_it_scans(node: onnx.NodeProto) -> bool:
    return node.op_type == "Scan" and any(
        attribute.name in _AXES and any(attribute.ints) for attribute in node.attribute
    )
