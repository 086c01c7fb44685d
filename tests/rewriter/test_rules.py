"""Rules from outside: files that ``--rules`` names, and plug-ins that are installed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import onnx
import onnx_ir as ir
import pytest

import passes
from passes.batching import table
from passes.batching.context import Context, Operand, Output
from rewriter import FaultWarning, RewriteError, cli, rewrite, rule_files
from rewriter.evaluator import reference
from tests.passes.batching.test_custom_rule import MODEL

RULES = """
from onnx.reference.op_run import OpRun

import passes

passes.register("Double", passes.elementwise, domain="my.domain", total=True)


class Double(OpRun):
    op_domain = "my.domain"

    def _run(self, x):
        return (x + x,)
"""


@pytest.fixture(autouse=True)
def forgets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget afterwards what a test registers."""
    monkeypatch.setattr(table, "_rows", {k: list(v) for k, v in table._rows.items()})
    monkeypatch.setattr(table, "_packed", dict(table._packed))
    monkeypatch.setattr(reference, "_added", [])
    rule_files.load_plugins.cache_clear()
    yield
    rule_files.load_plugins.cache_clear()


def _written(path: Path, model: onnx.ModelProto) -> Path:
    onnx.save(model, path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_rules.py"
    path.write_text(RULES)
    return path


def test_the_command_line_takes_a_file_of_rules(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = _written(tmp_path / "in.onnx", MODEL), tmp_path / "out.onnx"
    words = ["--require", "loop-free"]
    assert cli.main(["optimize", str(model), str(out), *words, "--no-verify"]) == 4
    assert cli.main(["optimize", str(model), str(out), *words, "--rules", str(file)]) == 0
    assert "verified" in capsys.readouterr().out
    assert cli.main(["explain", str(model), *words]) == 0  # this process knows them by now
    assert cli.main(["ops", "Double"]) == 0
    assert "my.domain::Double" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no file of rules"),
        ("import passes\npasses.register('Relu', passes.elementwise)", "line 2: ValueError: Relu"),
        ("def", "line 1: SyntaxError: "),
        ("\0", "fail: SyntaxError: "),
        ("raise SystemExit(3)", "line 1: SystemExit: 3"),
        (
            "import passes\npasses.register('My', 3)",
            "line 2: TypeError: the rule of My is 3, which",
        ),
    ],
    ids=["missing", "registered already", "no Python", "no text", "it ends", "no rule"],
)
def test_a_file_that_is_no_good_is_told_in_one_line(
    tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "bad.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RewriteError, match=message) as told:
        rule_files.load_rules(path)
    assert "\n" not in str(told.value)


FAULTS = {
    "it fails": ("    raise KeyError('rows')", "line 4, fails: KeyError: 'rows'; mend the rule"),
    "it fails in onnx_ir": ("    return [node.inputs[7]]", "line 4, fails: IndexError: "),
    "it returns a value": (
        "    return [node.inputs[0]]",
        "fails: TypeError: it has to return what",
    ),
    "it returns nothing": ("    return None", "line 3, fails: TypeError: "),
    "it returns too little": ("    return []", "fails: ValueError: it returns 0 outputs, and the"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_rule_that_fails_is_named_and_its_map_takes_a_safer_form(
    tmp_path: Path, name: str
) -> None:
    line, said = FAULTS[name]
    path = tmp_path / "my_rules.py"
    path.write_text(
        f"""import passes

def double(ctx, node, operands):
{line}

passes.register("Double", double, domain="my.domain")
"""
    )
    rule_files.load_rules(path)
    with pytest.warns(FaultWarning) as warned:
        report = rewrite(MODEL).report
    (sentence,) = {str(one.message) for one in warned}
    assert f"rows could not be rewritten (the rule of my.domain::Double, 'double' in {path}, " in (
        sentence
    )
    assert said in sentence
    assert sentence.endswith(") and is expanded instead")
    assert report.warnings == (sentence,)
    assert [d.verdict for d in report.decisions] == [passes.Verdict.EXPANDED]


def test_a_rule_may_decline(tmp_path: Path) -> None:
    def declines(ctx: Context, node: ir.Node, operands: Sequence[Operand]) -> list[Output]:
        raise passes.Decline(passes.Code.NO_RULE, "three of it are too many")

    passes.register("Double", declines, domain="my.domain")
    (decision,) = _decisions()
    assert decision.reasons[0].detail == "three of it are too many"


def installed(monkeypatch: pytest.MonkeyPatch, load: object) -> None:
    point = SimpleNamespace(name="mine", dist=SimpleNamespace(name="my-package"), load=load)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])


def test_the_rules_of_an_installed_package_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def mine() -> None:
        passes.register("Double", passes.elementwise, domain="my.domain")

    installed(monkeypatch, lambda: mine)
    assert passes.Verdict.FUSED in [d.verdict for d in _decisions()]


def test_a_package_whose_rules_fail_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise ImportError("no module named 'other'")

    installed(monkeypatch, fails)
    with pytest.raises(RewriteError, match="'mine' of my-package fail: ImportError"):
        _decisions()


def _decisions() -> tuple[passes.Decision, ...]:
    from rewriter import explain

    return explain(MODEL).decisions
