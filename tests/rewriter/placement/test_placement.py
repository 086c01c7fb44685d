"""Where nodes are predicted to run; against the providers themselves where they are at hand."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import onnx
import pytest

import rewriter
from rewriter.errors import ModelError
from rewriter.model_files.protos import from_proto
from rewriter.placement.kernel_table import TABLES, load_table
from rewriter.placement.placing import off_device, place
from rewriter.target_table import TARGETS, find_target
from rewriter.targets import TargetError
from tests import software_gpu, stand_in_cuda
from tests.kernel_lists import table
from tests.rewriter.cli_models import seqmap
from tests.test_zoo import DEMO, EXPORTED, TEXT, load

ROOT = pathlib.Path(__file__).parents[3]
PIPELINES = sorted((ROOT / "models" / "pipelines").glob("*.onnx"))
ZOO = [*TEXT, *DEMO, *EXPORTED, *PIPELINES]

# Graph, target, nodes on the device, operators on the host with their reasons, copies, of them in
# each iteration.
SHAPES = "arithmetic on shapes, which onnxruntime keeps there"
PAD = "no CUDA kernel for uint8 (has bool, double, float, float16)"
FROM = "no WebGPU kernel for int64 (has bool, float, float16, int32, uint32, uint8)"
UNIQUE = "g (float[N] x) => (float[M] y) { a = Neg (x) u = Unique (a) y = Neg (u) }"
RESHAPED = """g (float[N,M] x, float[K] w) => (float[] y) {
    s = Shape (x)  zero = Constant <value = int64 {0}> ()  n = Gather (s, zero)
    one = Constant <value = int64[1] {1}> ()  r = Unsqueeze (n, one)  t = Concat <axis = 0> (r, one)
    y = Reshape (w, t) }"""
LOOPED = """g (int64 n, float[2] x, float[2] z) => (float[2] y) {
    yes = Constant <value = bool {1}> ()
    y = Loop (n, yes, x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] o) {
        d = Identity (c)  p = Neg (a)  u = Det2 (p)  o = Add (u, z) }> }""".replace("Det2", "Acos")
RANGED = """g (float[N] x, int64 n) => (float[M] y) <int64 zero = {0}, int64 one = {1}> {
    r = Range (zero, n, one)  y = Gather (x, r) }"""
CASES = {
    "all on the device": ("g (float[N] x) => (float[N] y) { y = Relu (x) }", "cuda", 1, [], 0, 0),
    "no kernel": (UNIQUE, "cuda", 2, [("Unique", "no CUDA kernel")], 2, 0),
    "no kernel for the type": (
        "g (uint8[N] x, int64[2] p) => (uint8[M] y) { y = Pad (x, p) }",
        "cuda",
        0,
        [("Pad", PAD)],
        0,
        0,
    ),
    "arithmetic on shapes": (
        RESHAPED,
        "cuda",
        2,
        [("Gather", SHAPES), ("Unsqueeze", SHAPES), ("Concat", SHAPES)],
        0,
        0,
    ),
    "copies in each iteration": (LOOPED, "cuda", 4, [("Acos", "no CUDA kernel")], 2, 2),
    "an attribute of a recurrent layer": (
        """g (float[T,B,2] x, float[1,6,2] w, float[1,6,2] r) => (float[] y) {
            y = GRU <hidden_size = 2> (x, w, r) }""",
        "cuda",
        0,
        [("GRU", "no CUDA kernel for this 'linear_before_reset'")],
        0,
        0,
    ),
    "int64 on WebGPU": (
        "g (int64[N] x) => (int64[N] y) { y = Neg (x) }",
        "webgpu",
        0,
        [("Neg", "no WebGPU kernel for int64 (has float, float16)")],
        0,
        0,
    ),
    "int64 on WebGPU with its setting": (
        "g (int64[N] x) => (int64[N] y) { a = Add (x, x) y = Mod (a, x) }",
        "webgpu-int64",
        1,
        [("Mod", "no WebGPU kernel")],
        2,
        0,
    ),
    "WebGPU is asked twice": (
        """g (float[N] x) => (int32[1,K] e, int32[2] m) {
            s = Shape (x)  h = NonZero (s)  i = Cast <to = 6> (h)  e = Mul (i, i)
            t = Shape (i)  c = Cast <to = 6> (t)  m = Mul (c, c) }""",
        "webgpu",
        3,
        [("NonZero", "no WebGPU kernel"), ("Cast", FROM), ("Cast", FROM), ("Mul", SHAPES)],
        1,
        0,
    ),
    "Casts in a row, one of them on WebGPU": (
        "g (int32[N] x) => (float[N] y) { i = Cast <to = 7> (x) y = Cast <to = 1> (i) }",
        "webgpu",
        1,
        [("Cast", FROM)],
        1,
        0,
    ),
    "Casts in a row on CUDA, which makes one of them": (
        "g (int32[N] x) => (float[N] y) { i = Cast <to = 7> (x) y = Cast <to = 1> (i) }",
        "cuda",
        1,
        [],
        0,
        0,
    ),
    "Casts in a row, both on WebGPU, which makes one of them": (
        "g (uint8[N] x) => (float[N] y) { i = Cast <to = 6> (x) y = Cast <to = 1> (i) }",
        "webgpu",
        1,
        [],
        0,
        0,
    ),
    "Casts in a row; the first takes digits away": (
        "g (int64[N] x) => (float[N] y) { i = Cast <to = 6> (x) y = Cast <to = 1> (i) }",
        "webgpu-int64",
        2,
        [],
        0,
        0,
    ),
    "Casts in a row, the second of which takes more away": (
        "g (float[N] x) => (uint8[N] y) { i = Cast <to = 6> (x) y = Cast <to = 2> (i) }",
        "webgpu-int64",
        1,
        [],
        0,
        0,
    ),
    "an operator of another domain, by its types": (
        """g (float[N] x, float16[N] h, float s, float16 t, int8 z) => (int8[N] y, int8[N] w) {
            y = com.microsoft.QuantizeLinear (x, s, z)
            w = com.microsoft.QuantizeLinear (h, t, z) }""",
        "cuda",
        1,
        [("QuantizeLinear", "no CUDA kernel for float (has float16)")],
        1,
        0,
    ),
    "texts that are handed on, which a list does not name": (
        "g (string[N] x) => (string[N] y) { y = Identity (x) }",
        "trt",
        0,
        [
            (
                "Identity",
                "no TensorRT kernel for string (has bfloat16, bool, float, float16, int32, int64)",
            )
        ],
        0,
        0,
    ),
    "the list of an older release": (
        "g (float[N] x) => (float[N] y) { a = Hardmax (x) y = Neg (a) }",
        "tensorrt-8.6",
        1,
        [("Hardmax", "no TensorRT kernel")],
        1,
        0,
    ),
    "a Range that one Gather reads, which onnxruntime makes a Slice of": (
        RANGED,
        "cuda",
        2,
        [],
        3,
        0,
    ),
    "the same, which TensorRT takes over": (RANGED, "trt", 2, [], 0, 0),
    "the same on WebGPU, where it stays": (
        RANGED.replace("int64", "int32"),
        "webgpu",
        2,
        [],
        0,
        0,
    ),
    "the same on DirectML, where it stays": (RANGED, "dml", 2, [], 0, 0),
    "an operator that onnxruntime opens, beside a shape that WebGPU took before": (
        """g (float[N,M] x, float[K] w) => (float[] y, float[N,M] z) {
            z = Mish (x)  s = Shape (x)  zero = Constant <value = int64 {0}> ()
            n = Gather (s, zero)  at = Constant <value = int64[1] {0}> ()  r = Unsqueeze (n, at)
            y = Expand (w, r) }""",
        "webgpu-int64",
        7,
        [],
        2,
        0,
    ),
    "a list from documentation": (UNIQUE, "trt", 2, [("Unique", "no TensorRT kernel")], 2, 0),
}


def parse(text: str) -> onnx.ModelProto:
    opsets = '["" : 18, "com.microsoft" : 1]' if "microsoft" in text else '["" : 18]'
    return onnx.parser.parse_model(f"<ir_version: 9, opset_import: {opsets}> {text}")


@pytest.mark.parametrize(
    ("text", "target", "device", "host", "copies", "inside"), CASES.values(), ids=CASES
)
def test_predictions(
    text: str, target: str, device: int, host: list, copies: int, inside: int
) -> None:
    found = place(from_proto(parse(text)), find_target(target))
    assert found is not None
    assert [(one.op, one.reason) for one in found.host] == host
    assert (found.device, found.copies, found.copies_per_iteration) == (device, copies, inside)


def test_what_counts_is_told_from_what_computes() -> None:
    text = """g (int64[N] i, float[N] x) => (float[N] y, float[N] z) {
        a = Abs (i)  f = Cast <to = 1> (a)  y = Mul (f, x)  z = Hardmax (x) }"""
    found = place(from_proto(parse(text)), find_target("webgpu"))
    assert found is not None
    counting = {one.op: one.is_counting for one in found.host}
    assert counting == {"Abs": True, "Cast": True, "Hardmax": False}


NOTES = {
    "half precision that only an input has": (
        "g (float16[N,M] h) => (int64[K] y) { y = ArgMin <keepdims = 0> (h) }",
        "cuda",
        "counted without onnxruntime's own optimization: the host computes half-precision floats",
    ),
    "Casts back and forth, one of them on WebGPU": (
        """g (int32[N] x) => (int32[N] y) {
            a = Add (x, x)  i = Cast <to = 7> (a)  j = Cast <to = 6> (i)  y = Add (j, j) }""",
        "webgpu",
        "Casts that undo one another do not count",
    ),
    "Casts in a row of values that are not declared": (
        """g (int32[N] x) => (float[N] y) {
            a = Add (x, x)  i = Cast <to = 2> (a)  j = Cast <to = 1> (i)  y = Neg (j) }""",
        "webgpu",
        "",
    ),
    "the same on CUDA, where none is left": (
        """g (int32[N] x) => (int32[N] y) {
            a = Add (x, x)  i = Cast <to = 7> (a)  j = Cast <to = 6> (i)  y = Add (j, j) }""",
        "cuda",
        "",
    ),
}


@pytest.mark.parametrize(("text", "target", "note"), NOTES.values(), ids=NOTES)
def test_what_a_prediction_cannot_know_is_noted(text: str, target: str, note: str) -> None:
    found = place(from_proto(parse(text)), find_target(target))
    assert found is not None
    assert found.note.startswith(note)
    assert bool(found.note) == bool(note)


def test_a_report_holds_the_placement() -> None:
    report = rewriter.explain(parse(UNIQUE), target="cuda")
    placement = report.to_dict()["placement"]
    assert placement["provider"] == "CUDAExecutionProvider"
    assert (placement["device"], placement["copies"]) == (2, 2)
    (host,) = placement["host"]
    assert (host["op"], host["reason"]) == ("Unique", "no CUDA kernel")
    line = "2 nodes on the device, 1 on the host, 2 copies"
    assert line in str(report) and line in report.to_markdown() and line in report.to_html()
    assert rewriter.explain(parse(UNIQUE)).to_dict()["placement"] is None


def test_a_target_whose_device_runs_nothing_is_not_called_reached(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "doubles.onnx"
    onnx.save(parse("g (double[N] x) => (double[N] y) { y = Neg (x) }"), path)
    told = {}
    for target in ("tensorrt", "migraphx"):
        assert seqmap("explain", path, "--target", target, "--verbose") == 0
        told[target] = capsys.readouterr().out
    assert "target tensorrt: accepted, but no node runs on the device; " in told["tensorrt"]
    assert "reached" not in told["tensorrt"]
    assert "target migraphx: reached; " in told["migraphx"]


def test_on_device_is_required() -> None:
    with pytest.raises(TargetError, match="on-device rules out a node on the host; no CUDA"):
        rewriter.rewrite(parse(UNIQUE), target="cuda", require=["on-device"])
    assert rewriter.rewrite(parse(CASES["all on the device"][0]), target="cuda").report.reached
    with pytest.raises(rewriter.RewriteError, match="target onnxruntime has no device: choose"):
        rewriter.rewrite(parse(UNIQUE), require="on-device")


def test_the_command_line_requires_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "unique.onnx"
    onnx.save(parse(UNIQUE), path)
    assert seqmap("explain", path, "--target", "cuda", "--require", "on-device") == 4
    told = capsys.readouterr()
    assert "no CUDA kernel" in told.err
    assert "tried: target reached" not in told.err + told.out


def test_a_device_that_lacks_int64_names_the_one_that_has_it() -> None:
    text = """g (int64[N] x, double[N] d) => (int64[N] y, double[N] e) {
        y = Add (x, x)  e = Add (d, d) }"""
    for target, remedies in (
        ("webgpu", ["--target onnxruntime-webgpu-int64, where all", "cast to a type"]),
        ("webgpu-int64", ["cast to a type"]),
    ):
        found = place(from_proto(parse(text)), find_target(target))
        assert found is not None
        for one, remedy in zip(off_device(found), remedies, strict=True):
            assert one.remedy.startswith(remedy)


def test_the_setting_of_a_device_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "relu.onnx"
    onnx.save(parse(CASES["all on the device"][0]), path)
    entry = "ep.webgpuexecutionprovider.enableInt64"
    assert seqmap("explain", path, "--target", "webgpu-int64") == 0
    assert f"with {entry} = 1 in the session's configuration" in capsys.readouterr().out
    assert seqmap("explain", path, "--target", "webgpu-int64", "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["report"]["placement"]["settings"] == {entry: "1"}
    found = place(from_proto(parse(CASES["all on the device"][0])), find_target("webgpu"))
    assert found is not None
    assert found.to_dict()["settings"] == {}


@pytest.mark.parametrize("name", sorted({row.kernels for row in TARGETS.values()} - {""}))
def test_tables_are_in_the_package(name: str) -> None:
    assert (TABLES / f"{name}.csv").is_file()
    assert load_table(name).kernels["", "Relu"]


DOCUMENTED = {
    "tensorrt-8.6": (
        "> It will cast down INT64 to INT32.\n| Abs | Y | FP32, INT32 |\n| Unique | N |\n",
        [",Abs,,,main=float|int32|int64,,"],
    ),
    "tensorrt": ("| Abs | Y | FP32, INT64 |\n| Unique | N |\n", [",Abs,,,main=float|int64,,"]),
    "migraphx": (
        "| Abs  | ✅ | INT8, |  |\n|      |    | FP32  |  |\n| Unique | ❌ |   |  |\n",
        [",Abs,,,main=float|int8,,"],
    ),
    "coreml": ("|ai.onnx:Argmax||\n|ai.onnx:Add|2D|\n", [",Add,,,,,", ",ArgMax,,,,,"]),
    "dml": (
        """by DmlExecutionProvider
|Reshape|x|14+|**T** = tensor(float), tensor(int64)|
|||[5, 12]|**T** = seq(tensor(bool))|
|MemcpyToHost|x|1+|**T** = tensor(float)|""",
        [",Reshape,14,,T=float|int64,1,", ",Reshape,5,12,T=seq bool,1,"],
    ),
}


@pytest.mark.parametrize(("name", "text", "rows"), [(k, *v) for k, v in DOCUMENTED.items()])
def test_documentation_is_read(name: str, text: str, rows: list[str]) -> None:
    assert table(name, text).splitlines()[2:] == rows


def written(folder: pathlib.Path, paths: list[pathlib.Path], target: str) -> list[str]:
    """Write models as given, rewritten, and with tensors at their ends; return where."""
    names = []
    for path in paths:
        try:
            model = load(path)
        except Exception:
            continue
        forms = {"given": model}
        for form, tensor_io in (("new", False), ("tensors", True)):
            try:
                forms[form] = rewriter.optimize(model, target=target, tensor_io=tensor_io)
            except (TargetError, ModelError):
                continue
        for form, one in forms.items():
            names.append(str(folder / f"{path.stem}.{form}.onnx"))
            onnx.save(one, names[-1])
    return names


# While WebGPU looks for what it computes channels last, onnxruntime moves Transposes: two of the
# first become one, and one of the second becomes two in front of a Where.
MOVED = ("ts_moe_stacked_experts", "ts_cached_decoder")


def placed(device: str, models: list[str], environment: dict[str, str] | None) -> dict:
    command = [sys.executable, "-W", "ignore", "-m", "tests.placed", device, *models]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def counted(placement: dict, leave_out_transposes: bool) -> dict:
    if not leave_out_transposes:
        return placement
    sides = {
        side: {op: number for op, number in placement[side].items() if op != "Transpose"}
        for side in ("host", "device")
    }
    return placement | sides


def compare(rows: dict, accepted: int, moved: tuple[str, ...] = ()) -> None:
    models = {name: row for name, row in rows.items() if "refused" not in row}
    differing = {
        name: row
        for name, row in models.items()
        if not row["predicted"].get("note")
        and counted(row["predicted"], name.startswith(moved))
        != counted(row["actual"], name.startswith(moved))
    }
    assert differing == {}
    assert len(models) >= accepted


@pytest.mark.full
def test_cuda_places_the_zoo_as_predicted(tmp_path: pathlib.Path) -> None:
    if reason := stand_in_cuda.why_not():
        pytest.skip(reason)
    rows = placed("cuda", written(tmp_path, ZOO, "cuda"), stand_in_cuda.environment())
    compare(rows, accepted=200)


REFUSED = """
import sys, onnx
from rewriter.backends import BackendError, open_session
for path in sys.argv[1:]:
    try:
        open_session(path, device="cuda", whole=True)
        print("taken")
    except BackendError as error:
        print("fallback to CPU EP has been explicitly disabled" in str(error))
"""


@pytest.mark.full
def test_cuda_refuses_what_is_not_wholly_on_the_device(tmp_path: pathlib.Path) -> None:
    if reason := stand_in_cuda.why_not():
        pytest.skip(reason)
    paths = [tmp_path / "relu.onnx", tmp_path / "unique.onnx"]
    for path, text in zip(paths, (CASES["all on the device"][0], UNIQUE), strict=True):
        onnx.save(parse(text), path)
    command = [sys.executable, "-W", "ignore", "-c", REFUSED, *map(str, paths)]
    environment = stand_in_cuda.environment()
    done = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["taken", "True"]


@pytest.mark.cuda
def test_a_real_device_places_the_zoo_as_predicted(tmp_path: pathlib.Path) -> None:
    compare(placed("cuda", written(tmp_path, ZOO, "cuda"), None), accepted=200)


@pytest.mark.long
@pytest.mark.parametrize("device", ["webgpu", "webgpu-int64"])
@pytest.mark.parametrize("paths", [DEMO, pytest.param(ZOO, marks=pytest.mark.full)])
def test_webgpu_places_models_as_predicted(
    tmp_path: pathlib.Path, paths: list[pathlib.Path], device: str
) -> None:
    if reason := software_gpu.why_not():
        pytest.skip(reason)
    compare(placed(device, written(tmp_path, paths, device), None), len(paths), MOVED)
