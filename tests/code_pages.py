"""The pages of the codes: their examples, and the parts of them that the program writes."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from passes.decisions import Code
from rewriter import cli

__all__ = ["FOLDER", "Example", "Page", "page_at"]

FOLDER = pathlib.Path(__file__).parents[1] / "docs" / "reference" / "codes"
_COMMAND = re.compile(r"`seqmap explain ([\w-]+)\.onnxtxt ?([^`]*)`")
_MODEL = re.compile(r"^```\n(<ir_version.*?)^```$", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"(<!-- (code|said) -->\n).*?(<!-- end -->)", re.DOTALL)
_SECONDS = re.compile(r"^(?:passed|failed) explain in .*\n", re.MULTILINE)


class Example(NamedTuple):
    """A model, and the options of `seqmap explain` that it is explained with."""

    model: str
    options: tuple[str, ...]


class Page(NamedTuple):
    """A page.

    Attributes:
        code: Its code.
        text: What stands on it.
        example: Where the code comes out; None where there is no such model.
        mended: Where it does not.
    """

    code: Code
    text: str
    example: Example | None
    mended: tuple[Example, ...]

    def written_anew(self) -> str:
        """Return the text with the parts anew that the program writes."""

        def part(found: re.Match[str]) -> str:
            inner = self._code() if found[2] == "code" else self._said()
            return f"{found[1]}{inner}\n{found[3]}"

        return _PART.sub(part, self.text)

    def _code(self) -> str:
        meaning = self.code.meaning[0].upper() + self.code.meaning[1:]
        return f"{meaning}.\n\nRemedy: {self.code.remedy}."

    def _said(self) -> str:
        assert self.example is not None
        with saved(self.code.value, self.example.model) as name:
            return f"```\n{_SECONDS.sub('', explained(name, *self.example.options)).rstrip()}\n```"


def page_at(code: Code) -> Page:
    """Read the page of a code."""
    text = (FOLDER / f"{code.value}.md").read_text("utf-8")
    first, _, rest = text.partition("\n## What to do\n")
    models = _MODEL.findall(first)
    example = None
    mended = [Example(model, ()) for model in _MODEL.findall(rest)]
    if models:
        (command,) = _COMMAND.findall(first)
        example = Example(models[0], tuple(command[1].split()))
        mended += [Example(models[0], tuple(words.split())) for _, words in _COMMAND.findall(rest)]
    assert {name for name, _ in _COMMAND.findall(text)} <= {code.value}
    return Page(code, text, example, tuple(mended))


@contextlib.contextmanager
def saved(name: str, model: str) -> Iterator[str]:
    """Save a model in the current folder of the block; yield its name."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        pathlib.Path(f"{name}.onnxtxt").write_text(model, "utf-8")
        yield f"{name}.onnxtxt"


def explained(*words: str) -> str:
    """Return what `seqmap explain` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        cli.main(["explain", *words])
    return out.getvalue()


def write_pages() -> list[str]:
    """Write the parts anew that the program writes; return the codes whose pages changed."""
    changed = []
    for code in Code:
        page = page_at(code)
        if (new := page.written_anew()) != page.text:
            (FOLDER / f"{code.value}.md").write_text(new, "utf-8")
            changed.append(code.value)
    return changed
