"""The parts of README.md and the docs that the program writes.

``python -m tests.readme_blocks --write`` writes them anew.

A part stands between ``<!-- NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import pathlib
import re
import sys
from collections.abc import Callable

from passes.decisions import Code
from rewriter import cli
from rewriter.commands.output import add_output_options
from rewriter.proof.compare import TOLERANCES
from rewriter.target_table import TARGETS
from tests import code_pages, gallery, notebooks

__all__ = ["PAGES", "PARTS", "README", "generated", "part_of", "printed_by"]

ROOT = pathlib.Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [
    README,
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if "upstream" not in page.relative_to(ROOT).parts
    ),
]
"""Every page that a user reads."""
_FRONT = {
    "two-layer perceptron on rows, 1,024 x 64": (
        "two-layer perceptron on 1,024 rows",
        "two-layer perceptron on rows of 64",
    ),
    "scripted loop over rows, linear layer, 16,384 rows": (
        "scripted loop over 16,384 rows",
        "scripted loop over rows, linear layer",
    ),
    "tf.map_fn of a dense layer, 1,024 rows": (
        "tf.map_fn of a dense layer, 1,024 rows",
        "tf.map_fn of a dense layer",
    ),
    "ragged, as a sequence, 16,000 x 16": (
        "16,000 vectors of different length",
        "ragged, as a sequence, of 16",
    ),
    "sequence in and out (guarded), 1,000 x 16 x 16": (
        "1,000 matrices, shapes known at run time",
        "sequence in and out (guarded), 16 x 16",
    ),
    "ResNet-50 preprocessing, 16 images": (
        "ResNet-50 preprocessing, 16 images",
        "ResNet-50 preprocessing (*)",
    ),
}
"""The rows of the benchmarks on the front page: how each is called there, and over all sizes."""
EXAMPLE = "models/demo/resnet50_preprocessing.onnxtxt"
_SECONDS = re.compile(r"in \d+\.\d s$", re.MULTILINE)


def printed_by(*words: str) -> str:
    """Return what the command line prints, run at the root of the checkout, and a fixed time."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.chdir(ROOT):
        cli.main(words)
    return _SECONDS.sub("in 0.1 s", out.getvalue()).rstrip()


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    return "\n".join([_row(*head), _row(*["---"] * len(head)), *(_row(*row) for row in rows)])


def _explain() -> str:
    return f"```text\n{printed_by('explain', EXAMPLE)}\n```"


def _ops() -> str:
    return printed_by("ops", "--markdown").rpartition("\n")[0]


def _options() -> str:
    """Return a table of every option, the commands that have it, and what ``--help`` says."""
    commands: dict[tuple[str, str], list[str]] = {}
    for name in cli.COMMANDS:
        parser = argparse.ArgumentParser(add_help=False)
        cli.load_command(name).add_options(parser)
        add_output_options(parser)
        for action in parser._actions:
            if action.option_strings and action.help != argparse.SUPPRESS:
                commands.setdefault(_said_of(action), []).append(name)
    every = ["all"]
    rows: list[tuple[object, ...]] = [
        (f"`{option}`", ", ".join(every if len(of) == len(cli.COMMANDS) else of), text)
        for (option, text), of in commands.items()
    ]
    return _table(("option", "of", "meaning"), rows)


def _said_of(action: argparse.Action) -> tuple[str, str]:
    argument = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    return ", ".join(action.option_strings) + argument, (action.help or "").replace("|", "\\|")


def _codes() -> str:
    head = ("code", "meaning", "what you can do")
    return _table(head, [(f"[`{c}`](codes/{c}.md)", c.meaning, c.remedy) for c in Code])


def _targets() -> str:
    def said(flag: bool) -> str:
        return "yes" if flag else "no"

    head = ("target", "sequences", "Loop", "If", "Scan", "highest opset", "run by")
    rows = [
        (
            f"`{t.name}`",
            "yes" if t.sequence_io and t.sequences else "inside" if t.sequences else "no",
            *map(said, (t.loop, t.branch, t.scan)),
            t.highest_opset or "-",
            f"`{t.backend}` on {t.device}" if t.backend else f"none: {t.unrun}",
        )
        for t in TARGETS.values()
    ]
    return _table(head, rows)


def _tolerances() -> str:
    by_pair: dict[tuple[float, float], list[str]] = {}
    for name, pair in TOLERANCES.items():
        by_pair.setdefault(pair, []).append(name)
    rows = [(", ".join(names), rtol, atol) for (rtol, atol), names in by_pair.items()]
    return _table(("element type", "relative", "absolute"), [*rows, ("all others", 0, 0)])


def _speed() -> str:
    found = {row[0]: row for row in _results("Milliseconds")}
    head, *swept = _results("Speed over the model as given, by the number of samples")
    sizes = {row[0]: row[head.index("no slower from")] for row in swept}
    titles = found["case"]
    columns = [titles.index(one) for one in ("as given", "ours, auto", "as given / ours, auto")]
    rows: list[tuple[object, ...]] = []
    for case, (name, sweep) in _FRONT.items():
        given, ours, ratio = (found[case][i] for i in columns)
        rows.append((name, given, ours, _times(ratio), sizes[sweep]))
    names = ("case", "as given (ms)", "seqmap (ms)", "times as fast", "no slower from (samples)")
    return _table(names, rows)


def _times(ratio: str) -> str:
    """Return a ratio as a front page tells it."""
    if ratio == "-":
        return "loads"
    return f"{float(ratio):,.{1 if float(ratio) < 10 else 0}f}"


def _benchmarks() -> str:
    head, *rows = _measured()
    return _table(head, list(rows))


def _measured() -> list[tuple[str, ...]]:
    head, *rows = _results("Milliseconds")
    wanted = [head.index(name) for name in ("case", "as given", "ours, auto", "by hand")]
    titles = ("case", "as given (ms)", "seqmap (ms)", "batched by hand (ms)")
    return [titles, *(tuple(row[i] for i in wanted) for row in rows)]


def _results(heading: str) -> list[list[str]]:
    """Return the rows of a table of the benchmarks, the titles first."""
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [head, *rows]


def _portability() -> str:
    text = (ROOT / "benchmarks" / "PORTABILITY.md").read_text("utf-8")
    (table,) = re.findall(r"^\| of \d+ models right .*?(?=\n\n)", text, re.DOTALL | re.MULTILINE)
    return str(table)


def _distribution() -> str:
    text = (ROOT / "benchmarks" / "DISTRIBUTION.md").read_text("utf-8")
    tables = re.findall(r"^\|.*?(?=\n\n|\n*\Z)", text, re.DOTALL | re.MULTILINE)
    return "\n\n".join(tables)


PARTS: dict[str, Callable[[], str]] = {
    "explain": _explain,
    "options": _options,
    "speed": _speed,
    "benchmarks": _benchmarks,
    "portability": _portability,
    "distribution": _distribution,
    "tolerances": _tolerances,
    "targets": _targets,
    "codes": _codes,
    "ops": _ops,
}


def _between(name: str) -> re.Pattern[str]:
    return re.compile(f"(<!-- {name} -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def part_of(text: str, name: str) -> str:
    """Return what stands in a text between the marks of a part."""
    (found,) = _between(name).findall(text)
    return found[1].rstrip("\n")


def generated(text: str) -> str:
    """Return a text with every part written anew."""
    for name, make in PARTS.items():
        text = _between(name).sub(lambda m, make=make: f"{m[1]}{make()}\n{m[3]}", text)
    return text


if __name__ == "__main__":
    stale = []
    if "--write" in sys.argv[1:]:
        stale += [*code_pages.write_pages(), *gallery.write_pages()]
        stale += notebooks.write_notebooks(gallery.PAGES)
    for page in PAGES:
        old = page.read_text("utf-8")
        new = generated(old)
        if new != old:
            stale.append(page.name)
        if "--write" in sys.argv[1:]:
            page.write_text(new, "utf-8")
    if stale and "--write" not in sys.argv[1:]:
        named = ", ".join(stale)
        sys.exit(f"{named}: not what the program says: python -m tests.readme_blocks --write")
