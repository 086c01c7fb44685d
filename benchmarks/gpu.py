"""``python -m benchmarks.gpu``: as given, ours and by hand, on a GPU provider of onnxruntime.

Tensors lie on the device before a run, and on CUDA stay there after it. Sequences come from the
host and go back to it, which is the same for all forms. On CUDA a form that leaves nothing to
the host is also replayed as a CUDA graph. ``--write`` puts the table into RESULTS.md, under
"On a GPU".
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx

from benchmarks.cases import CASES
from benchmarks.results import row, write_gpu
from benchmarks.workload import Case
from rewriter.backends import BackendError, open_session, placement
from rewriter.backends.binding import can_bind, device_memory
from rewriter.backends.providers import create_session, provider_of
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare

DEVICES = ("cuda", "webgpu")
_PROBE = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = Relu (x) }'
_RTOL, _ATOL = 1e-2, 1e-3
_GRAPH = {"enable_cuda_graph": "1"}
_FORMS = ("as given", "ours", "by hand", "ours, replayed", "by hand, replayed")


class SlowError(Exception):
    """One run takes longer than a form may take in all."""


class Form:
    """A model on the device, its tensors bound once."""

    def __init__(
        self,
        model: onnx.ModelProto,
        device: str,
        feeds: Mapping[str, Any],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Open a session.

        Args:
            model: The model.
            device: As for `rewriter.backends.open_session`.
            feeds: Input name to array, or to a list of arrays for a sequence.
            settings: Options of the provider.

        Raises:
            BackendError: onnxruntime refuses the model.
        """
        provider = provider_of(device)
        try:
            self._session = create_session(
                model.SerializeToString(), None, provider, {}, settings=settings
            )
        except Exception as error:
            raise BackendError(str(error)) from error
        self._feeds = dict(feeds)
        self._memory = device_memory(provider)
        self._names = [value.name for value in self._session.get_outputs()]
        self._binding: Any = None
        if can_bind(self._session, provider, feeds):
            self._bind()

    def _bind(self) -> None:
        from onnxruntime import OrtValue

        self._binding = self._session.io_binding()
        for name, value in self._feeds.items():
            there = OrtValue.ortvalue_from_numpy(np.asarray(value, order="C"), self._memory, 0)
            self._binding.bind_ortvalue_input(name, there)
        for name in self._names:
            self._binding.bind_output(name, self._memory)

    def keep_outputs(self, outputs: Mapping[str, Any]) -> None:
        """Write the outputs of every run to one place, as the replay of a graph does."""
        from onnxruntime import OrtValue

        for name in self._names:
            there = OrtValue.ortvalue_from_numpy(outputs[name], self._memory, 0)
            self._binding.bind_ortvalue_output(name, there)

    def run(self, seconds: float) -> float:
        """Run once and return the seconds.

        Raises:
            SlowError: It took longer than it may, and was ended.
        """
        from onnxruntime import RunOptions

        options = RunOptions()
        timer = threading.Timer(seconds, setattr, (options, "terminate", True))
        timer.start()
        started = time.perf_counter()
        try:
            if self._binding is None:
                self._found = self._session.run(None, self._feeds, options)
            else:
                self._session.run_with_iobinding(self._binding, options)
                self._wait()
        except Exception as error:
            if options.terminate:
                raise SlowError from error
            raise
        finally:
            timer.cancel()
        return time.perf_counter() - started

    def _wait(self) -> None:
        """Wait for the device; only a copy does so where the end of a run does not."""
        if self._memory == "cuda":
            self._binding.synchronize_outputs()
        else:
            self._binding.copy_outputs_to_cpu()

    def outputs(self) -> dict[str, Any]:
        """Return what the last run gave."""
        found = self._found if self._binding is None else self._binding.copy_outputs_to_cpu()
        return dict(zip(self._names, found, strict=True))

    @property
    def is_bound(self) -> bool:
        """Whether its tensors lie on the device."""
        return self._binding is not None


def main() -> None:
    args = _arguments()
    if args.software:
        from tests import software_gpu

        software_gpu.start()
    device = args.device or _first_device()
    lines = []
    for line in itertools.chain(_head(device, args), _table(device, args)):
        print(line, flush=True)
        lines.append(line)
    if args.write:
        write_gpu(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", help="cuda, webgpu, ...; default: the first that works")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--rounds", type=int, default=21, help="runs of each model")
    parser.add_argument("--seconds", type=float, default=3.0, help="most seconds for one model")
    parser.add_argument("--write", action="store_true", help="write the table to RESULTS.md")
    parser.add_argument(
        "--software", action="store_true", help="WebGPU on the software adapter of the tests"
    )
    return parser.parse_args()


def _first_device() -> str:
    probe = onnx.parser.parse_model(_PROBE)
    reasons = []
    for device in DEVICES:
        try:
            open_session(probe, device=device)
        except BackendError as error:
            reasons.append(f"{device}: {error}")
            continue
        return device
    raise SystemExit("no GPU provider works here; " + "; ".join(reasons))


def _head(device: str, args: argparse.Namespace) -> Iterator[str]:
    import onnxruntime

    yield (
        f"Written by `python -m benchmarks.gpu --write`. {_name_of(device, args.software)}, "
        f"{provider_of(device)} of onnxruntime {onnxruntime.__version__}. Tensors lie on the "
        f"device before a run, on CUDA after it too. Medians of {args.rounds} runs in turns (of "
        f"fewer, at least 3, where one model would take over {args.seconds:g} s), milliseconds. "
        "Replayed: as a CUDA graph, where nothing is left to the host."
    )
    yield ""


def _name_of(device: str, is_software: bool) -> str:
    """Return what the driver calls the device."""
    if device == "cuda" and shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()[0].strip()
    return "a software adapter" if is_software else device


def _table(device: str, args: argparse.Namespace) -> Iterator[str]:
    forms = _FORMS if device == "cuda" else _FORMS[:3]
    ratios = ["as given / ours", "ours / by hand"]
    placed = ["ours: nodes on the device", "on the host", "copies"]
    yield row(["case", *forms, *ratios, *placed])
    yield row(["---", *["---:"] * len([*forms, *ratios, *placed])])
    for make in CASES:
        case = make()
        if args.only in case.name:
            yield _case(case, device, args, forms)


def _case(case: Case, device: Any, args: argparse.Namespace, columns: tuple[str, ...]) -> str:
    ours: onnx.ModelProto = rewrite(case.given, target=device, **case.promises).model
    models = {"as given": case.given, "ours": ours}
    if case.by_hand is not None:
        models["by hand"] = case.by_hand
    told: dict[str, str] = {}
    forms: dict[str, Form] = {}
    expected: dict[str, Any] | None = None
    for label, model in models.items():
        try:
            form = Form(model, device, case.feeds)
            form.run(args.seconds)
        except BackendError:
            told[label] = "refused"
            continue
        except SlowError:
            told[label] = f"over {1000 * args.seconds:,.0f}"
            continue
        forms[label], expected = form, expected or form.outputs()
        _check(case, label, form, expected)
    if device == "cuda" and expected is not None:
        forms |= _replayed(case, {k: models[k] for k in forms}, forms, expected, args.seconds)
    times = _times(forms, args.rounds, args.seconds)
    told |= {label: f"{1000 * statistics.median(each):.3g}" for label, each in times.items()}
    ratios = [_ratio(times, "as given", "ours"), _ratio(times, "ours", "by hand")]
    return row(
        [case.name, *(told.get(c, "-") for c in columns), *ratios, *_placed(case, ours, device)]
    )


def _check(case: Case, label: str, form: Form, expected: Mapping[str, Any]) -> None:
    difference = compare(expected, form.outputs(), _RTOL, _ATOL)
    assert difference.equal, f"{case.name}, {label}: {difference.message}"


def _replayed(
    case: Case,
    models: Mapping[str, onnx.ModelProto],
    bound: Mapping[str, Form],
    expected: Mapping[str, Any],
    seconds: float,
) -> dict[str, Form]:
    """Return the forms that can be replayed as a CUDA graph: those wholly on the device."""
    found = {}
    for label, model in models.items():
        if label == "as given" or not bound[label].is_bound:
            continue
        try:
            form = Form(model, "cuda", case.feeds, _GRAPH)
            form.keep_outputs(expected)
            for _ in range(3):  # the first runs find memory and record
                form.run(seconds)
            _check(case, label, form, expected)
        except Exception as error:
            print(f"# {case.name}, {label}: not replayed: {str(error)[:300]}")
            continue
        found[f"{label}, replayed"] = form
    return found


def _times(forms: Mapping[str, Form], rounds: int, seconds: float) -> dict[str, list[float]]:
    """Return the seconds of every run, all forms in turns."""
    found: dict[str, list[float]] = {label: [] for label in forms}
    for turn in range(rounds):
        for label, form in forms.items():
            if turn < 3 or sum(found[label]) < seconds:
                found[label].append(form.run(10 * seconds))
    return found


def _ratio(times: Mapping[str, list[float]], upper: str, lower: str) -> str:
    if upper not in times or lower not in times:
        return "-"
    pairs = zip(times[upper], times[lower], strict=False)
    return f"{statistics.median(a / b for a, b in pairs):.2f}"


def _placed(case: Case, model: onnx.ModelProto, device: str) -> list[str]:
    """Return how many nodes run on the device and on the host, and what is copied in one run."""
    placed = placement(open_session(model, device=device), case.feeds)
    assert placed is not None
    counts = {name: sum(nodes.values()) for name, nodes in placed.nodes.items()}
    there = counts.pop(provider_of(device), 0)
    copies = placed.to_device + placed.to_host
    return [str(there), str(sum(counts.values())), str(copies)]


if __name__ == "__main__":
    main()
