"""``python -m benchmarks.images``: flat images and experts against a Loop, to IMAGES.md.

Each model runs in a process of its own, on one thread of onnxruntime, so that the most memory it
took is its own, and may take no more than `MOST`. ``--small`` leaves out what takes minutes;
``--only NAME --add`` measures that by itself and adds it to the table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import pathlib
import pickle
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime

import rewriter
from benchmarks.experts import expert_rows
from benchmarks.measure import open_session, own_feeds
from passes.tensors.io import TensorIo
from rewriter.backends.list_sessions import TensorSession
from rewriter.model_files import models

__all__ = ["image_model"]

MOST = 6 << 30
"""So many bytes may a process have."""

RESULTS = pathlib.Path(__file__).with_name("IMAGES.md")
_TO = "to = Constant <value_ints = [224, 224]> () "
_SHORT = "short = Constant <value_ints = [256, 256]> () "
_PIXELS = "pixels = Constant <value_ints = [0, 1]> () "
_RESIZE = _TO + "y = Resize <axes = [0, 1], mode = {}> (x, , , to)"
_CROP = _TO + "y = CenterCropPad <axes = [0, 1]> (x, to)"
_PREPARED = (
    _TO + _SHORT + 'r = Resize <axes = [0, 1], mode = "linear", antialias = 1, '
    'keep_aspect_ratio_policy = "not_smaller"> (x, , , short) '
    "c = CenterCropPad <axes = [0, 1]> (r, to) f = Cast <to = 1> (c) "
    "m = Constant <value_floats = [123.7, 116.3, 103.5]> () s = Sub (f, m) "
    "y = Transpose <perm = [2, 0, 1]> (s)"
)
BODIES = {
    "nearest": (_RESIZE.format('"nearest"'), "uint8[224, 224, 3]"),
    "linear": (_RESIZE.format('"linear"'), "uint8[224, 224, 3]"),
    "antialias": (_RESIZE.format('"linear", antialias = 1'), "uint8[224, 224, 3]"),
    "resized, cropped, normalised": (_PREPARED, "float[3, 224, 224]"),
    "crop": (_CROP, "uint8[224, 224, 3]"),
    "pad": (
        "to = Constant <value_ints = [640, 640]> () y = CenterCropPad <axes = [0, 1]> (x, to)",
        "uint8[640, 640, 3]",
    ),
    "mean": (
        _PIXELS + "f = Cast <to = 1> (x) y = ReduceMean <keepdims = 0> (f, pixels)",
        "float[3]",
    ),
}
SIZES = {"64 x 64": (64, 64), "400 x 500": (400, 500), "8 x 8": (8, 8)}


def image_model(body: str, result: str) -> onnx.ModelProto:
    """Return a map over a list of images whose results are stacked."""
    kind, dims = result.split("[")
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (seq(uint8[H, W, 3]) images) => '
        f"({kind}[B, {dims} out) {{ ys = SequenceMap (images) <body = one (uint8[H, W, 3] x) => "
        f"({result} y) {{ {body} }}> out = ConcatFromSequence <axis = 0, new_axis = 1> (ys) }}"
    )


def _images(count: int, about: tuple[int, int]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    low, high = (np.array(about) * 3) // 4, (np.array(about) * 5) // 4
    shapes = rng.integers(low, high + 1, (count, 2))
    return {"images": [rng.integers(0, 256, (*shape, 3)).astype(np.uint8) for shape in shapes]}


def _rows(small: bool) -> Iterator[tuple[str, onnx.ModelProto, dict[str, Any]]]:
    """Yield what is measured: its name, the model as given, and what it is fed."""
    for size, count in itertools.product(SIZES, (16, 256)):
        if small and size == "400 x 500" and count == 256:
            continue
        for name, (body, result) in BODIES.items():
            about = f"{name}, {count} images of about {size}"
            yield about, image_model(body, result), _images(count, SIZES[size])
    yield from expert_rows()


def _forms(given: onnx.ModelProto) -> dict[str, onnx.ModelProto]:
    return {
        "loop": rewriter.optimize(given, strategy="expand"),
        "flat": rewriter.optimize(given, target="portable", tensor_io=True),
        "auto": rewriter.optimize(given),
    }


def _measured(
    forms: Sequence[onnx.ModelProto], feeds: dict[str, Any], seconds: float
) -> list[dict[str, float]]:
    """Run models in turns in a process of their own.

    Returns:
        Milliseconds of each, and the most megabytes of all together; nothing where one fails.
    """
    io = TensorIo.read(models.take(forms[0]).model)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "task")
        own = TensorSession(cast(Any, None), io, dict.fromkeys(feeds)).tensors(feeds)
        path.write_bytes(pickle.dumps(([m.SerializeToString() for m in forms], own, seconds)))
        words = [sys.executable, "-m", "benchmarks.images", "--task", str(path)]
        ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    return json.loads(ran.stdout) if ran.returncode == 0 else [{} for _ in forms]


def _run_task(path: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))
    forms, feeds, seconds = pickle.loads(pathlib.Path(path).read_bytes())
    sessions = [open_session(onnx.load_from_string(model)) for model in forms]
    own = [own_feeds(session, feeds) for session in sessions]
    before = _status("VmRSS")
    times: list[list[float]] = [[] for _ in sessions]
    started = time.perf_counter()
    while len(times[0]) < 3 or (time.perf_counter() - started < seconds and len(times[0]) < 31):
        for session, fed, found in zip(sessions, own, times, strict=True):
            begin = time.perf_counter()
            session.run(None, fed)
            found.append(1000 * (time.perf_counter() - begin))
    most = max(_status("VmHWM") - before, 0) / 1000
    one = [{"ms": statistics.median(t[1:]), "least": min(t), "MB": most} for t in times]
    print(json.dumps(one))


def _status(name: str) -> int:
    lines = pathlib.Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.images", description=__doc__)
    parser.add_argument("--small", action="store_true", help="leave out 256 large images")
    parser.add_argument("--only", default="", help="rows whose name holds this; writes nothing")
    parser.add_argument("--add", action="store_true", help="with --only: write these rows, too")
    parser.add_argument("--seconds", type=float, default=2.0, help="most seconds for one model")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        _run_task(args.task)
        return
    lines = []
    for line in _table(args):
        print(line, flush=True)
        lines.append(line)
    if args.only and args.add:
        lines = _with_rows(RESULTS.read_text("utf-8").splitlines(), lines)
    if args.add or not args.only:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _with_rows(known: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return a table with rows in the place of those of the same name, or behind all."""
    rows = {line.split("|")[1]: line for line in lines if line.startswith("| ")}
    found = [rows.pop(line.split("|")[1], line) if line[:2] == "| " else line for line in known]
    return [*found, *rows.values()]


def _table(args: argparse.Namespace) -> Iterator[str]:
    yield "# Images of any size, and experts"
    yield ""
    yield (
        f"Written by `{_command(args)}` on {_where()}: median (least) milliseconds of one thread, "
        f"of up to 30 runs in {args.seconds:g} s, and the most megabytes beside the inputs. "
        "`flat` is for a target without loops and sequences; `auto` is what is chosen for "
        "onnxruntime, where the list is a sequence, run in turns with the loop. The ratio is that "
        "of the medians, the geometric mean of two runs in which either is loaded first."
    )
    yield ""
    yield f"A form that needs more than {MOST >> 30} GB has no numbers."
    yield ""
    yield "| case | loop | flat | auto | loop, MB | flat, MB | auto / loop |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, given, feeds in _rows(args.small):
        if args.only not in name:
            continue
        yield _row(name, _forms(given), feeds, args.seconds)


def _row(
    name: str, forms: dict[str, onnx.ModelProto], feeds: dict[str, Any], seconds: float
) -> str:
    """Measure the forms of a model; the one that is chosen is run in turns with the loop.

    Of two sessions of one process the first is up to a tenth faster, whatever they run: each
    form is the first one once.
    """
    found = {f: _measured([forms[f]], feeds, seconds)[0] for f in ("loop", "flat")}
    cells = [_time(found["loop"]), _time(found["flat"])]
    if forms["auto"].graph == forms["loop"].graph:
        auto = ["the loop", "1"]
    else:
        both = [forms["loop"], forms["auto"]]
        loop, chosen = _measured(both, feeds, seconds)
        chosen_first, loop_second = _measured(both[::-1], feeds, seconds)
        pairs = [(chosen, loop), (chosen_first, loop_second)]
        ratios = [one["ms"] / other["ms"] for one, other in pairs if one and other]
        mean = statistics.geometric_mean(ratios) if ratios else math.nan
        auto = [_time(chosen), f"{mean:.2f}" if ratios else "-"]
    memory = [f"{found[f]['MB']:.0f}" if found[f] else "-" for f in ("loop", "flat")]
    return f"| {name} | {' | '.join([*cells, auto[0], *memory, auto[1]])} |"


def _command(args: argparse.Namespace) -> str:
    small = " --small" * args.small
    return f"python -m benchmarks.images{small} --seconds {args.seconds:g}"


def _where() -> str:
    """Say which runtime and processor the numbers are of."""
    lines = pathlib.Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = names[0] if names else "a processor without a name"
    return f"onnxruntime {onnxruntime.__version__}, {processor}, {len(names)} cores"


def _time(found: dict[str, float]) -> str:
    return f"{_three(found['ms'])} ({_three(found['least'])})" if found else "-"


def _three(number: float) -> str:
    """Return a number with three digits, thousands written out."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


if __name__ == "__main__":
    main()
