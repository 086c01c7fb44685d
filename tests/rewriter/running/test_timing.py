"""``seqmap bench``: sizes, what is drawn, the crossover, the chart; no test reads a clock."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import rewriter
from passes.errors import RewriteError
from rewriter.backends import onnxruntime as runtime
from rewriter.feeding.feeds import FeedMaker
from rewriter.reporting.bench_record import Bench, BenchRow
from rewriter.running.timing import drawn_text
from tests.rewriter.cli_models import HEADER, ROWS, TWO, last_line, seqmap, write

Capture = pytest.CaptureFixture[str]
FRAMES = (
    HEADER
    + """agraph (float[B,T] x) => (float[B,F] y) {
    from = Constant <value_ints = [200]> ()  to = Constant <value_ints = [10000]> ()
    axis = Constant <value_ints = [1]> ()  rest = Slice (x, from, to, axis)
    y = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
        body = b (float[B] e) => (float[B] o) { o = Neg (e) }> (rest)
}"""
)
"""Signals of more than 200 numbers: with fewer nothing goes through the Scan."""


def table(*times: tuple[int, float | None, float], **others: Any) -> Bench:
    rows = tuple(
        BenchRow(size, before, after, 30, "x: float32[1]") for size, before, after in times
    )
    return Bench(rows, runtime="rt 1", **others)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([(1, 2.0, 1.0), (16, 2.0, 1.0)], 1),
        ([(1, 1.0, 2.0), (16, 2.0, 1.0)], 4),
        ([(1, 1.0, 2.0), (4, 8.0, 1.0), (16, 1.0, 2.0), (64, 4.0, 2.0)], 32),
        ([(1, 2.0, 1.0), (16, 1.0, 2.0)], None),
        ([(1, None, 1.0)], None),
        ([(1, 1.0, 1.0)], None),
        ([(1, 1.0, 1.0), (16, 2.0, 1.0)], 1),
        ([(1, 0.99, 1.0), (16, 2.0, 1.0)], 2),
    ],
    ids=[
        "always",
        "between",
        "the last one",
        "never",
        "refused",
        "equal",
        "equal first",
        "just not the first",
    ],
)
def test_the_crossover(times: list[Any], expected: int | None) -> None:
    assert table(*times).crossover == expected
    assert table(*times).to_dict()["crossover"] == expected


def test_a_model_crosses_not_over_itself() -> None:
    assert table((1, 2.0, 1.0), nothing_to_do=True).crossover is None


def test_the_text() -> None:
    assert str(table((1, 1.0, 2.0), (16, 1200.0, 100.0))).splitlines() == [
        "x: float32[1]",
        "rt 1, cpu, 1 thread, seed 0, medians of 30 paired runs, in milliseconds",
        "samples  as given  rewritten  faster by",
        "      1         1          2  0.5x   slower",
        "     16     1,200        100  12x    ###########",
        "growth for 16x samples: as given 1200.0x, rewritten 50.0x",
        "gains from about 2 samples on; below that the model as given is faster by at most 1 ms",
    ]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (table((1, None, 2.0), refused="it says no"), "as given it is refused: it says no\n"),
        (table((1, 2.0, 1.0)), "the rewritten model is the faster one at all of these sizes"),
        (table((1, 1.0, 2.0)), "the model as given is the faster one at the largest size"),
        (table((1, 0.99, 1.0), (16, 2.0, 1.0)), "0.99x  slower"),
        (table((1, 1.0, 2.0), stopped="no more than 1"), "\nno more than 1"),
        (table((1, 1.0, 2.0), threads=0), "rt 1, cpu, seed 0, "),
        (table((8, 2.0, 1.0), axis="N"), "N  as given  rewritten  faster by\n"),
        (
            table((0, 2.0, 1.0)),
            "milliseconds\nas given  rewritten  faster by\n       2          1  2.0x",
        ),
        (
            table((0, 2.0, 1.0)),
            "the rewritten model is the faster one; these inputs have one size",
        ),
        (table((0, 1.0, 2.0)), "the model as given is the faster one; these inputs have one size"),
        (
            table((1, 1.0, 1.04), (4, 1.04, 1.0)),
            "\nneither is faster by more than a twentieth at all of these sizes",
        ),
        (table((1, 1.0, 1.04), (4, 1.06, 1.0)), "gains from about 2 samples on; below"),
        (
            table((0, 1.03, 1.0)),
            "\nneither is faster by more than a twentieth at this size, the only one",
        ),
        (
            table((1, 2.0, 1.0), nothing_to_do=True),
            "samples  as given\n      1         2\n"
            "nothing to rewrite: these are the times of the model as given\n",
        ),
    ],
    ids=[
        "refused",
        "always",
        "never",
        "hardly slower",
        "stopped",
        "threads",
        "dimension",
        "one size",
        "one size, faster",
        "one size, slower",
        "alike",
        "alike but for one",
        "one size, alike",
        "the same",
    ],
)
def test_what_else_the_text_says(shown: Bench, expected: str) -> None:
    assert expected in f"{shown}\n"


def test_the_chart() -> None:
    svg = table((1, 1.0, 2.0), (16, 1200.0, 100.0)).to_svg()
    root = ET.fromstring(svg)
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"as given", "rewritten", "faster from 2 on", "milliseconds"} <= set(texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 2
    assert svg == table((1, 1.0, 2.0), (16, 1200.0, 100.0))._repr_html_()
    assert "faster from" not in table((1, 2.0, 1.0)).to_svg()


def test_a_picture_needs_matplotlib(tmp_path: Path, rows: Path, capsys: Capture) -> None:
    plot = tmp_path / "plot.png"
    status = seqmap("bench", rows, "--sizes", "1,2", "--repeats", "1", "--plot", plot)
    if status == 0:
        assert plot.read_bytes().startswith(b"\x89PNG")
    else:
        printed = capsys.readouterr()
        assert "a png needs matplotlib" in printed.err
        assert "samples" not in printed.out  # nothing was timed before


class TestCommand:
    def test_sizes_and_a_record(self, rows: Path, tmp_path: Path, capsys: Capture) -> None:
        plot = tmp_path / "plot.svg"
        words = ("--sizes", "1..8", "--repeats", "2", "--plot", plot, "--threads", "2", "--json")
        assert seqmap("bench", rows, *words) == 0
        record = json.loads(capsys.readouterr().out)
        assert [row["size"] for row in record["rows"]] == [1, 4, 8]
        assert {row["repeats"] for row in record["rows"]} == {2}
        last = record["rows"][-1]
        assert last["drawn"] == "x: float32[8, 4]; bias: float32[4]"
        assert record["speedup"] == last["speedup"] == last["before_ms"] / last["after_ms"]
        assert (record["threads"], record["axis"], record["device"]) == (2, "samples", "cpu")
        ET.parse(plot)

    def test_a_named_dimension(self, rows: Path, capsys: Capture) -> None:
        assert seqmap("bench", rows, "--sizes", "N=3", "--repeats", "1") == 0
        assert capsys.readouterr().out.startswith("x: float32[3, 4]; bias: float32[4]\n")

    def test_a_dimension_that_is_none(self, rows: Path, capsys: Capture) -> None:
        assert seqmap("bench", rows, "--sizes", "M=3") == 1
        message = "no input has a dimension 'M'; those named are: N"
        assert message in capsys.readouterr().err

    def test_a_gain_that_is_asked_for(self, rows: Path, capsys: Capture) -> None:
        words = ("--sizes", "2", "--repeats", "1", "--min-speedup")
        assert seqmap("bench", rows, *words, "1e9") == 4
        printed = capsys.readouterr()
        assert "--min-speedup asks for 1e+09" in printed.err
        assert last_line(printed.out) == ("failed", "bench")
        assert seqmap("bench", rows, *words, "1e-9") == 0

    def test_a_model_that_is_refused_as_given(self, tmp_path: Path, capsys: Capture) -> None:
        source = write(tmp_path / "in.onnx", ROWS.replace("q = Relu (s)", "q = HardSwish (s)"))
        assert seqmap("bench", source, "--sizes", "2", "--repeats", "1") == 0
        assert "as given it is refused: " in capsys.readouterr().out
        words = ("--sizes", "2", "--repeats", "1", "--report", tmp_path / "r.json")
        assert seqmap("bench", source, *words) == 0
        record = json.loads((tmp_path / "r.json").read_text("utf-8"))
        assert record["given"]["loading"]["outcome"] == "refused"
        assert record["given"]["loading"]["reason"] == record["bench"]["refused"]

    def test_a_report_tells_no_loading_of_another_backend(
        self, rows: Path, tmp_path: Path
    ) -> None:
        words = ("--sizes", "1", "--repeats", "1", "--report", tmp_path / "r.json")
        assert seqmap("bench", rows, "--backend", "reference", *words) == 0
        record = json.loads((tmp_path / "r.json").read_text("utf-8"))
        assert record["given"]["loading"] is record["loading"] is None

    def test_a_report_holds_the_times(self, rows: Path, tmp_path: Path) -> None:
        words = ("--sizes", "1,2", "--repeats", "1", "--report")
        assert seqmap("bench", rows, *words, tmp_path / "r.html") == 0
        assert 'class="chart"' in (tmp_path / "r.html").read_text("utf-8")
        assert seqmap("bench", rows, *words, tmp_path / "r.json") == 0
        record = json.loads((tmp_path / "r.json").read_text("utf-8"))
        assert [row["size"] for row in record["bench"]["rows"]] == [1, 2]
        assert record["given"]["loading"]["outcome"] == record["loading"]["outcome"] == "loaded"
        assert seqmap("bench", rows, *words, tmp_path / "r.md") == 0
        assert "## timings" in (tmp_path / "r.md").read_text("utf-8")

    @pytest.mark.parametrize("sizes", ["many", "0", "4..x", "N=", "8..1..2", "8..1", "-1..4"])
    def test_sizes_that_are_none(self, rows: Path, capsys: Capture, sizes: str) -> None:
        with pytest.raises(SystemExit, match="2"):
            seqmap("bench", rows, f"--sizes={sizes}")
        assert "--sizes" in capsys.readouterr().err

    def test_a_plot_is_svg_or_png(self, rows: Path, capsys: Capture) -> None:
        with pytest.raises(SystemExit, match="2"):
            seqmap("bench", rows, "--plot", "plot.pdf")
        assert "ends in neither .svg nor .png" in capsys.readouterr().err


class TestPython:
    def test_inputs_that_are_given(self, rows: Path) -> None:
        inputs = {"x": np.ones((3, 4), np.float32), "bias": np.ones(4, np.float32)}
        (row,) = rewriter.bench(rows, inputs=inputs, repeats=1).rows
        assert row.drawn == "x: float32[3, 4]; bias: float32[4]"

    def test_a_sequence_has_so_many_elements(self, tmp_path: Path) -> None:
        found = rewriter.bench(write(tmp_path / "m.onnx", TWO), sizes=[7], repeats=1)
        assert found.rows[0].drawn.startswith("xs: sequence of 7 float32[1..")

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"sizes": [4, 0]}, r"sizes is \[4, 0\]: give numbers from 1 on"),
            ({"sizes": 4}, "sizes is 4: give a list of numbers"),
            ({"sizes": ["4"]}, r"sizes is \['4'\]: give numbers from 1 on"),
            ({"sizes": {"N": [4]}}, "give the list alone, and the name as dimension="),
            ({"threads": -1}, "threads is -1"),
            ({"sizes": [1, 10**11]}, "a sequence of 100,000,000,000 elements is too long"),
        ],
        ids=["sizes", "number", "text", "dict", "threads", "length"],
    )
    def test_what_cannot_be_timed(
        self, tmp_path: Path, asked: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(rewriter.RewriteError, match=message):
            rewriter.bench(write(tmp_path / "m.onnx", TWO), repeats=1, **asked)

    def test_fixed_shapes_have_one_size(self, tmp_path: Path) -> None:
        text = HEADER + "agraph (float[3] x) => (float[3] y) { y = Relu (x) }"
        found = rewriter.bench(write(tmp_path / "m.onnx", text), repeats=1)
        assert [row.size for row in found.rows] == [0]
        assert found.nothing_to_do
        assert str(found).splitlines()[2] == "as given"

    def test_a_size_that_the_model_refuses_is_not_told(self, tmp_path: Path) -> None:
        # Only one sample runs, whatever the type says.
        text = HEADER + (
            "agraph (float[B,T] x) => (float[T] y) {"
            " first = Constant <value_ints = [0]> () y = Squeeze (x, first) }"
        )
        found = rewriter.bench(write(tmp_path / "m.onnx", text), sizes=[1, 16], repeats=1)
        assert [row.size for row in found.rows] == [1]

    def test_sizes_that_are_too_small_are_left_out_unless_they_are_asked_for(
        self, tmp_path: Path
    ) -> None:
        text = HEADER + (
            "agraph (float[B,2] x) => (float[2] y) {"
            " third = Constant <value = int64 {2}> () y = Gather (x, third) }"
        )
        path = write(tmp_path / "m.onnx", text)
        assert [row.size for row in rewriter.bench(path, repeats=1).rows] == [16, 256, 4096]
        with pytest.raises(rewriter.RewriteError, match="drawn for size 1"):
            rewriter.bench(path, sizes=[1, 16], repeats=1)
        with pytest.raises(rewriter.RewriteError, match="drawn for size"):
            rewriter.bench(write(tmp_path / "m.onnx", text.replace("{2}", "{9999}")), repeats=1)

    def test_what_would_end_the_process_is_tried_in_another(self, tmp_path: Path) -> None:
        found = rewriter.bench(write(tmp_path / "m.onnx", FRAMES), sizes=[1, 2], repeats=1)
        assert [row.size for row in found.rows] == [1, 2]

    def test_threads_reach_the_runtime(self, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[int | None] = []
        create = runtime.create_session

        def spy(*given: Any, **named: Any) -> Any:
            seen.append(named["threads"])
            return create(*given, **named)

        monkeypatch.setattr(runtime, "create_session", spy)
        rewriter.bench(rows, sizes=[1], repeats=1, threads=3)
        rewriter.bench(rows, sizes=[1], repeats=1, threads=0)
        assert seen == [3, 3, None, None]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "x: absent"),
        (np.zeros((2, 3), np.int64), "x: int64[2, 3]"),
        (np.full((2,), "a", object), "x: string[2]"),
        ([], "x: sequence of 0"),
        ([np.zeros((2, 3)), np.zeros((5, 3))], "x: sequence of 2 float64[2..5, 3]"),
        ([np.zeros(2), np.zeros(())], "x: sequence of 2"),
    ],
)
def test_what_was_drawn(value: Any, expected: str) -> None:
    assert drawn_text({"x": value}) == expected


def test_a_named_dimension_leaves_sequences_short() -> None:
    text = HEADER + "agraph (seq(float[L]) xs) => (int64 n) { n = SequenceLength (xs) }"
    maker = FeedMaker(onnx.parser.parse_model(text))
    feed = maker.draw(maker.sized(40, "L")).values
    assert [len(one) for one in feed["xs"]] == [40] * 5
    with pytest.raises(RewriteError, match="no input has a dimension 'N'"):
        maker.sized(4, "N")
