"""What is told of a step that takes long: on a terminal a line that goes away, else lines."""

from __future__ import annotations

import itertools
import re
import sys
import time
from collections.abc import Callable

import pytest

from rewriter.commands import progress, status_line
from rewriter.commands.progress import Progress
from rewriter.reporting.listening import tell

Capture = pytest.CaptureFixture[str]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the terminal have 40 columns, and every step take long."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(status_line, "_REFRESH", 0.01)


def shown(capsys: Capture, words: str) -> str:
    """Wait until stderr holds some words, and return what it holds."""
    text = ""
    for _ in range(1000):
        text += capsys.readouterr().err
        if words in text:
            return text
        time.sleep(0.01)
    raise AssertionError(f"{words!r} is never told, only {text!r}")


def drawn(capsys: Capture, until: str, places: Callable[[], None]) -> list[str]:
    """Return the looks of the line, up to one that holds some text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.stderr, "isatty", lambda: True)
        with Progress(is_silent=False, in_lines=False).step("verifying"):
            places()
            text = shown(capsys, until)
    text += capsys.readouterr().err
    assert "\x1b[?25l" not in text, "the cursor is hidden"
    return [ESCAPE.sub("", look).rstrip() for look in re.split(r"\r", text)]


@pytest.mark.usefixtures("terminal")
class TestOnATerminal:
    def test_a_line_says_where_the_work_is(self, capsys: Capture) -> None:
        assert "seqmap: verifying 3 of 8 ... 0 s" in drawn(capsys, "8", lambda: tell("3 of 8"))

    @pytest.mark.parametrize("letter", ["x", "模", "é"])
    def test_a_line_fits(self, letter: str, capsys: Capture) -> None:
        looks = drawn(capsys, "…", lambda: tell(letter * 300))
        wide = {"模": 2}.get(letter, 1)
        widths = {len(look) + (wide - 1) * look.count(letter) for look in looks}
        assert 30 < max(widths) <= 40
        assert any(look.endswith(" ... 0 s") for look in looks)

    def test_a_line_goes_away(self, capsys: Capture) -> None:
        *_, last = drawn(capsys, "8", lambda: tell("3 of 8"))
        assert last == ""

    def test_names_are_shown_as_they_are(self, capsys: Capture) -> None:
        looks = drawn(capsys, "red", lambda: tell("a[red]\x1b[31m"))
        assert r"seqmap: verifying a[red]\x1b[31m ... 0 s" in looks


def steps(capsys: Capture, **how: bool) -> str:
    announced = Progress(**{"is_silent": False, "in_lines": False} | how)
    with announced.step("repairing"):
        text = shown(capsys, "repairing")
        with announced.step("verifying") as move:
            move("3 of 8")
            text += shown(capsys, "8")
        text += shown(capsys, "repairing ")
    return text + capsys.readouterr().err


@pytest.mark.parametrize(
    "how",
    [{"in_lines": True}, {"TERM": "dumb"}, {"isatty": False}],
    ids=["verbose", "dumb", "no terminal"],
)
def test_a_step_within_a_step_shares_its_line(
    how: dict[str, object], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: how.get("isatty", True))
    monkeypatch.setenv("TERM", str(how.get("TERM", "xterm")))
    monkeypatch.setattr(progress, "_INTERVAL", 0.001)
    told = steps(capsys, in_lines="in_lines" in how).splitlines()
    assert [key for key, _ in itertools.groupby(told)] == [
        "seqmap: repairing ... 0 s",
        "seqmap: repairing, verifying 3 of 8 ... 0 s",
        "seqmap: repairing ... 0 s",
    ]


def test_nothing_is_told_in_silence(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_INTERVAL", 0.0)
    with Progress(is_silent=True, in_lines=False).step("repairing"):
        tell("3 of 8")
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_nobody_hears_of_a_place_behind_the_step() -> None:
    with Progress(is_silent=True, in_lines=False).step("reading"):
        pass
    tell("nowhere")
