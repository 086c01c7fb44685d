"""``python -m benchmarks.gpu``: as given, ours and by hand, on a GPU provider of onnxruntime.

Inputs and outputs are bound to the device; a time includes their copies, which are the same for
all forms. The copies that are counted are those that onnxruntime makes inside of a model, once for
every node that has no kernel on the device, in one run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

import onnx

from benchmarks.cases import CASES
from benchmarks.workload import Case
from rewriter.backends import BackendError, Session, open_session, placement
from rewriter.backends.providers import provider_of
from rewriter.pipeline import rewrite
from rewriter.proof.compare import compare

DEVICES = ("cuda", "webgpu")
_PROBE = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = Relu (x) }'
_RTOL, _ATOL = 1e-2, 1e-3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--device", help="cuda, webgpu, ...; default: the first that works")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--rounds", type=int, default=21, help="runs of each model")
    parser.add_argument(
        "--software", action="store_true", help="WebGPU on the software adapter of the tests"
    )
    args = parser.parse_args()
    if args.software:
        from tests import software_gpu

        software_gpu.start()
    device = args.device or _first_device()
    print(f"provider: {provider_of(device)}\n")
    print("| case | form | ms | nodes on the device | on the host | copies in | copies out |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for make in CASES:
        case = make()
        if args.only in case.name:
            for line in _lines(case, device, args.rounds):
                print(line, flush=True)


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


def _lines(case: Case, device: str, rounds: int) -> Iterator[str]:
    ours = rewrite(case.given, **case.promises).model
    forms = {"as given": case.given, "ours": ours}
    if case.by_hand is not None:
        forms["by hand"] = case.by_hand
    sessions: dict[str, Session] = {}
    for form, model in forms.items():
        try:
            sessions[form] = open_session(model, device=device)
        except BackendError as error:
            yield f"| {case.name} | {form} | refused: {error} | | | | |"
    expected: dict[str, Any] | None = None
    for form, session in sessions.items():
        outputs = session.run(case.feeds)
        expected = expected or outputs
        difference = compare(expected, outputs, _RTOL, _ATOL)
        assert difference.equal, f"{case.name}, {form}: {difference.message}"
    times = _times(sessions, case.feeds, rounds)
    for form, session in sessions.items():
        placed = placement(session, case.feeds)
        assert placed is not None
        counts = {name: sum(nodes.values()) for name, nodes in placed.nodes.items()}
        there = counts.pop(provider_of(device), 0)
        yield (
            f"| {case.name} | {form} | {times[form]:.1f} | {there} | {sum(counts.values())} | "
            f"{placed.to_device} | {placed.to_host} |"
        )


def _times(
    sessions: Mapping[str, Session], feeds: Mapping[str, Any], rounds: int
) -> dict[str, float]:
    """Return the median milliseconds of each session, all run in turns."""
    found: dict[str, list[float]] = {form: [] for form in sessions}
    for _ in range(rounds):
        for form, session in sessions.items():
            started = time.perf_counter()
            session.run(feeds)
            found[form].append(1e3 * (time.perf_counter() - started))
    return {form: statistics.median(values) for form, values in found.items()}


if __name__ == "__main__":
    main()
