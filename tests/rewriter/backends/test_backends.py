from __future__ import annotations

import contextlib
import time

import ml_dtypes
import numpy as np
import onnx
import onnx_graphsurgeon
import onnx_ir as ir
import onnxruntime
import pytest

import rewriter
from passes.errors import RewriteError
from passes.promises import Promises
from rewriter import backends
from rewriter.backends import BACKENDS, BackendError, open_session, run
from rewriter.backends import onnxruntime as runtime
from rewriter.backends.session import has_nothing, one_line
from rewriter.evaluator.run_watch import watching

ENGINES = ["reference", "onnxruntime"]
HEADER = '<ir_version: 10, opset_import: ["" : 21]>'
DOUBLE = onnx.parser.parse_model(
    f"{HEADER} g (seq(float[N]) xs, float[1] w) => (seq(float[N]) ys, float[1] z) {{"
    "ys = SequenceMap <body = b (float[N] x) => (float[N] y) { y = Add(x, x) }> (xs)"
    "z = Neg(w) }"
)
FEEDS = {"xs": [np.float32([1, 2]), np.float32([3])], "w": np.float32([4])}
JOIN_NOTHING = onnx.parser.parse_model(
    f"{HEADER} g (seq(float[N]) xs) => (float[M] y) {{ y = ConcatFromSequence <axis = 0> (xs) }}"
)
RELU = onnx.parser.parse_model(f"{HEADER} g (float[N] x) => (float[N] y) {{ y = Relu(x) }}")


@pytest.mark.parametrize("backend", ENGINES)
class TestRun:
    def test_outputs_by_name(self, backend):
        outputs = run(DOUBLE, FEEDS, backend=backend)
        assert list(outputs) == ["ys", "z"]
        assert [item.tolist() for item in outputs["ys"]] == [[2, 4], [6]]
        assert outputs["z"].tolist() == [-4]

    def test_empty_sequence(self, backend):
        assert run(DOUBLE, FEEDS | {"xs": []}, backend=backend)["ys"] == []

    def test_kinds_of_models(self, backend, tmp_path):
        onnx.save(RELU, tmp_path / "relu.onnx")
        (tmp_path / "relu.onnxtxt").write_text(onnx.printer.to_text(RELU))
        given = [
            str(tmp_path / "relu.onnx"),
            tmp_path / "relu.onnxtxt",
            ir.from_proto(RELU),
            onnx_graphsurgeon.import_onnx(RELU),
        ]
        for model in given:
            outputs = run(model, {"x": np.float32([-1, 2])}, backend=backend)
            assert outputs["y"].tolist() == [0, 2]

    def test_inputs_in_a_file(self, backend, tmp_path):
        np.savez(tmp_path / "feeds.npz", in__x=np.float32([-1, 2]))
        assert run(RELU, tmp_path / "feeds.npz", backend=backend)["y"].tolist() == [0, 2]

    def test_weights_in_another_file(self, backend, tmp_path):
        model = onnx.parser.parse_model(
            f"{HEADER} g (float[2] x) => (float[2] y) {{ y = Mul(x, w) }}"
        )
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([3, 4]), "w"))
        path = tmp_path / "model.onnx"
        onnx.save(
            model,
            path,
            save_as_external_data=True,
            location="w.bin",
            size_threshold=0,
            convert_attribute=True,
        )
        assert (tmp_path / "w.bin").exists()
        for given in (path, rewriter.load(path)):
            outputs = run(given, {"x": np.float32([1, 2])}, backend=backend)
            assert outputs["y"].tolist() == [3, 8]
        with pytest.raises(BackendError, match="weights lie in other files and it is not known"):
            run(onnx.load(path, load_external_data=False), {"x": np.float32([1, 2])}, backend)

    def test_strings(self, backend):
        model = onnx.parser.parse_model(
            f"{HEADER} g (seq(string[N]) xs) => (string[M] y)"
            "{ y = ConcatFromSequence <axis = 0> (xs) }"
        )
        words = [np.array(["a", "b"], object), np.array(["c"], object)]
        assert run(model, {"xs": words}, backend)["y"].tolist() == ["a", "b", "c"]

    def test_absent_optional(self, backend):
        model = onnx.parser.parse_model(
            f"{HEADER} g (optional(float[N]) x) => (bool y) {{ y = OptionalHasElement(x) }}"
        )
        assert not run(model, {"x": None}, backend)["y"]
        assert run(model, {"x": np.float32([1])}, backend)["y"]

    def test_failing_run(self, backend):
        model = onnx.parser.parse_model(
            f"{HEADER} g (float[N] x, int64[1] s) => (float[K] z) {{ z = Reshape(x, s) }}"
        )
        with pytest.raises(
            BackendError, match=r"^(onnxruntime|the reference evaluator) fails: "
        ) as e:
            run(model, {"x": np.zeros(2, np.float32), "s": np.int64([3])}, backend)
        assert not e.value.is_limit
        assert "\n" not in str(e.value)

    def test_unknown_operator(self, backend):
        model = onnx.parser.parse_model(
            '<ir_version: 10, opset_import: ["" : 21, "com.example" : 1]>'
            "g (float[N] x) => (float[N] y) { y = com.example.Unheard(x) }"
        )
        with pytest.raises(BackendError, match="Unheard") as caught:
            open_session(model, backend)
        assert caught.value.is_limit

    def test_inputs_are_checked(self, backend):
        with pytest.raises(RewriteError, match="input 'w' is missing"):
            run(DOUBLE, {"xs": []}, backend)

    def test_promises_are_checked(self, backend):
        carrier = ir.from_proto(DOUBLE)
        Promises(frozenset({"xs"})).write(carrier)
        with pytest.raises(RewriteError, match="breaks the promise uniform"):
            run(carrier, FEEDS, backend)


class TestRegistry:
    def test_names_and_devices(self):
        assert list(BACKENDS)[:2] == ["reference", "onnxruntime"]
        assert BACKENDS["reference"].devices == ("cpu",)
        assert {"cpu", "cuda", "webgpu"} < set(BACKENDS["onnxruntime"].devices)
        assert all(BACKENDS[name].is_available for name in ENGINES)

    def test_unknown_backend(self):
        message = "there is no backend 'nope'; say one of reference, onnxruntime"
        with pytest.raises(BackendError, match=message):
            run(RELU, {"x": np.float32([1])}, backend="nope")

    def test_a_failure_names_an_element_of_another_rank(self):
        model = onnx.parser.parse_model(
            f"{HEADER} g (seq(float[H,W]) xs) => (seq(float[W,H]) ys) {{ ys = SequenceMap (xs) "
            "<body = b (float[H,W] x) => (float[W,H] y) { y = Transpose <perm = [1, 0]> (x) }> }"
        )
        feeds = {"xs": [np.zeros((2, 3), np.float32), np.zeros(3, np.float32)]}
        message = r"element 1 of 'xs' has shape \[3\] and is declared as \[H,W\]: is that meant"
        with pytest.raises(BackendError, match=message):
            run(model, feeds)
        with pytest.raises(BackendError, match="fails"):
            run(JOIN_NOTHING, {"xs": []})

    def test_a_device_is_no_backend(self):
        message = "no backend 'cuda'; it is a device: backend='onnxruntime', device='cuda'; say"
        with pytest.raises(BackendError, match=message):
            open_session(RELU, "cuda")

    def test_short_names(self):
        assert run(RELU, {"x": np.float32([1])}, backend="ort")["y"] == 1

    def test_backend_that_is_not_installed(self, monkeypatch):
        monkeypatch.setattr(runtime.importlib.util, "find_spec", lambda name: None)
        backend = BACKENDS["onnxruntime"]
        assert not backend.is_available
        assert backend.missing() == "onnxruntime is not installed; install seqmap[cpu]"
        with pytest.raises(BackendError, match=r"cannot be used: onnxruntime is not installed"):
            open_session(RELU)

    def test_reference_has_no_other_device(self):
        with pytest.raises(BackendError, match="runs on cpu, not on 'cuda'"):
            open_session(RELU, "reference", "cuda")


class FakeSession:
    """What onnxruntime gives where a provider cannot start: a session on another one."""

    actual = "CPUExecutionProvider"
    placed = ()

    def __init__(self, *_, **__):
        pass

    def get_providers(self):
        return [self.actual]

    def get_provider_graph_assignment_info(self):
        return [type("Part", (), {"ep_name": name})() for name in self.placed]

    def get_outputs(self):
        return []


class TestDevices:
    @pytest.mark.parametrize(
        ("device", "provider"),
        [
            ("cpu", "CPUExecutionProvider"),
            ("CUDA", "CUDAExecutionProvider"),
            ("webgpu", "WebGpuExecutionProvider"),
            ("tensorrt", "TensorrtExecutionProvider"),
            ("openvino", "OpenVINOExecutionProvider"),
            ("XnnpackExecutionProvider", "XnnpackExecutionProvider"),
        ],
    )
    def test_names(self, device, provider):
        assert runtime.provider_of(device) == provider

    def test_unknown_name(self):
        with pytest.raises(BackendError, match="'gpu0' is no device of onnxruntime; say one of"):
            open_session(RELU, device="gpu0")

    def test_provider_by_name(self):
        session = open_session(RELU, device="CPUExecutionProvider")
        assert session.run({"x": np.float32([-1])})["y"].tolist() == [0]

    @pytest.mark.parametrize(
        ("device", "remedy"),
        [
            ("tensorrt", "no TensorrtExecutionProvider: install onnxruntime-gpu and TensorRT"),
            ("NoneExecutionProvider", "no NoneExecutionProvider: install an onnxruntime that has"),
        ],
    )
    def test_provider_that_is_not_there(self, device, remedy, monkeypatch):
        monkeypatch.setattr(onnxruntime, "get_available_providers", list)
        with pytest.raises(BackendError, match=remedy):
            open_session(RELU, device=device)

    def test_fallback_is_refused(self, monkeypatch):
        monkeypatch.setattr(
            onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"]
        )
        monkeypatch.setattr(onnxruntime, "InferenceSession", FakeSession)
        with pytest.raises(BackendError, match="runs on CPUExecutionProvider instead") as caught:
            open_session(RELU, device="cuda")
        assert caught.value.is_limit

    @pytest.mark.parametrize(
        ("placed", "is_refused"),
        [
            (("CPUExecutionProvider",), True),
            (("CPUExecutionProvider", "CUDAExecutionProvider"), False),
            ((), False),
        ],
        ids=["nothing-there", "a-part-there", "no-nodes"],
    )
    def test_provider_that_takes_no_node_is_refused(self, placed, is_refused, monkeypatch):
        monkeypatch.setattr(
            onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"]
        )
        fake = type("Fake", (FakeSession,), {"actual": "CUDAExecutionProvider", "placed": placed})
        monkeypatch.setattr(onnxruntime, "InferenceSession", fake)
        if is_refused:
            with pytest.raises(BackendError, match="CUDAExecutionProvider takes no node of this"):
                open_session(RELU, device="cuda")
        else:
            open_session(RELU, device="cuda")

    @pytest.mark.parametrize(
        ("device", "provider"),
        [
            ("coreml", "CoreMLExecutionProvider"),
            ("directml", "DmlExecutionProvider"),
            ("QNNExecutionProvider", "QNNExecutionProvider"),
            ("VitisAIExecutionProvider", "VitisAIExecutionProvider"),
        ],
    )
    @pytest.mark.parametrize("whole", [True, False])
    def test_the_host_is_no_way_out_where_all_is_asked_of_a_device(
        self, device, provider, whole, monkeypatch
    ):
        opened = []

        class Recorded(FakeSession):
            actual, placed = provider, (provider,)

            def __init__(self, data, options, *, providers, enable_fallback):
                told = "not set"
                with contextlib.suppress(RuntimeError):
                    told = options.get_session_config_entry("session.disable_cpu_ep_fallback")
                opened.append((told, [name for name, _ in providers], enable_fallback))

        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [provider])
        monkeypatch.setattr(onnxruntime, "get_ep_devices", list)
        monkeypatch.setattr(onnxruntime, "InferenceSession", Recorded)
        open_session(RELU, device=device, whole=whole)
        host = [] if whole else ["CPUExecutionProvider"]
        assert opened == [("1" if whole else "not set", [provider, *host], False)]

    def test_plugin_is_added_by_its_device(self, monkeypatch):
        # A plugin's provider that is only named would be ignored in silence.
        added = []

        class Options:
            def add_session_config_entry(self, *_):
                pass

            def add_provider_for_devices(self, devices, options):
                added.extend(devices)

        device = type("Device", (), {"ep_name": "WebGpuExecutionProvider"})()
        fake = type("Fake", (FakeSession,), {"actual": "WebGpuExecutionProvider"})
        monkeypatch.setattr(onnxruntime, "SessionOptions", Options)
        monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: [device])
        monkeypatch.setattr(onnxruntime, "InferenceSession", fake)
        open_session(RELU, device="webgpu")
        assert added == [device]


class TestOnnxruntime:
    def test_foreign_element_types_are_refused(self):
        model = onnx.parser.parse_model(
            f"{HEADER} g (bfloat16[N] x) => (bfloat16[N] y) {{ y = Identity(x) }}"
        )
        feeds = {"x": np.array([1], ml_dtypes.bfloat16)}
        with pytest.raises(
            BackendError, match=r"takes no bfloat16 arrays .*'reference'"
        ) as caught:
            run(model, feeds)
        assert caught.value.is_limit
        assert run(model, feeds, "reference")["y"] == 1

    @pytest.mark.parametrize(
        ("header", "message"),
        [
            ('<ir_version: 99, opset_import: ["" : 21]>', "IR version"),
            ('<ir_version: 10, opset_import: ["" : 99]>', "opset"),
        ],
        ids=["ir-version", "opset"],
    )
    def test_newer_than_it_knows(self, header, message):
        model = onnx.parser.parse_model(
            f"{header} g (float[N] x) => (float[N] y) {{ y = Relu(x) }}"
        )
        with pytest.raises(BackendError, match=f"onnxruntime refuses the model: .*{message}") as e:
            open_session(model)
        assert e.value.is_limit

    def test_nothing_is_logged(self, capfd):
        model = onnx.parser.parse_model(
            f"{HEADER} g (float[N] x, float[M] y) => (float[K] z) {{ z = Add(x, y) }}"
        )
        with pytest.raises(BackendError):
            run(model, {"x": np.zeros(2, np.float32), "y": np.zeros(3, np.float32)})
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize(
        ("briefly", "large", "expected"),
        [(True, 8, {}), (False, 7, {}), (True, 7, {"session.disable_prepacking": "1"})],
    )
    def test_large_weights_are_read_where_they_lie(
        self, tmp_path, monkeypatch, briefly, large, expected
    ):
        model = onnx.parser.parse_model(
            f"{HEADER} g (float[2] x) => (float[2] y) {{ y = Mul (x, w) }}"
        )
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32([3, 4]), "w"))
        path = tmp_path / "m.onnx"
        onnx.save(model, path, save_as_external_data=True, location="w", size_threshold=0)
        monkeypatch.setattr(backends, "_LARGE", large)
        create, seen = runtime.create_session, []

        def spy(data, folder, provider, extra, **named):
            seen.append(extra)
            return create(data, folder, provider, extra, **named)

        monkeypatch.setattr(runtime, "create_session", spy)
        session = open_session(path, briefly=briefly)
        assert session.run({"x": np.float32([1, 2])})["y"].tolist() == [3, 8]
        assert seen == [expected]

    def test_a_judged_scan_that_would_end_the_process_is_an_error(self):
        # Nothing goes through it, although the input has elements.
        session = open_session(
            onnx.parser.parse_model(
                f"""{HEADER} g (float[B,T,2] x) => (float[B,S,2] y) {{
                    a = Constant <value_ints = [0]> ()  n = Slice (x, a, a)
                    y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
                        body = b (float[B,2] e) => (float[B,2] o) {{ o = Neg (e) }}> (n) }}"""
            )
        )
        feed = {"x": np.ones((2, 3, 2), np.float32)}
        with (
            watching(time.monotonic() + 60, 2**30),
            pytest.raises(BackendError, match="it ended its process by signal"),
        ):
            session.run(feed)

    def test_what_would_end_the_process_is_an_error(self):
        # A batch of 0 makes onnxruntime's LSTM abort.
        session = open_session(
            onnx.parser.parse_model(
                f"{HEADER} g (float[S,B,1] x, float[1,8,1] w, float[1,8,2] r) => "
                "(float[S,1,B,2] y) { y = LSTM <hidden_size = 2> (x, w, r) }"
            )
        )
        weights = {"w": np.ones((1, 8, 1), np.float32), "r": np.ones((1, 8, 2), np.float32)}
        assert session.run({"x": np.zeros((1, 1, 1), np.float32)} | weights)["y"].shape == (
            1,
            1,
            1,
            2,
        )
        with pytest.raises(
            BackendError, match="it ended its process by signal 6 on inputs without"
        ):
            session.run({"x": np.zeros((1, 0, 1), np.float32)} | weights)

    def test_a_process_of_its_own_gives_outputs_and_errors(self):
        session = open_session(
            onnx.parser.parse_model(
                f"{HEADER} g (float[N,1] x, float[1] s, float[M] a, float[K] b) =>"
                "(float[1] t, float[N,1] y, float[] c)"
                "{ t, y = Scan <num_scan_inputs = 1, body = b (float[1] u, float[1] v)"
                " => (float[1] p, float[1] q) { p = Add(u, v) q = Identity(p) }> (s, x)"
                " c = Add(a, b) }"
            )
        )
        none, one, two, three = (np.ones(n, np.float32) for n in (0, 1, 2, 3))
        feeds = {"x": np.ones((2, 1), np.float32), "s": one, "a": none, "b": none}
        assert session.run(feeds)["t"].tolist() == [3]
        with pytest.raises(BackendError, match=r"onnxruntime fails: .*Add"):
            session.run(feeds | {"x": np.ones((0, 1), np.float32), "a": two, "b": three})


def test_has_nothing():
    one, none = np.ones(1), np.ones((2, 0))
    assert not has_nothing({"a": one, "b": [one], "c": None})
    assert has_nothing({"a": none})
    assert has_nothing({"a": []})
    assert has_nothing({"a": [one, none]})


def test_one_line():
    assert one_line(ValueError("a\n  b")) == "a b"
    assert one_line(KeyError()) == "KeyError"
    assert one_line(ValueError("x" * 400)) == "x" * 300 + "..."
