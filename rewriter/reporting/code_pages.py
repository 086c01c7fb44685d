"""The page of each code: what it means, an example, what can be done.

The documentation holds them, ``docs/reference/codes``; the wheel carries a copy.
"""

from __future__ import annotations

import importlib.resources

from passes.decisions import Code

__all__ = ["page_of", "page_text"]


def page_of(code: Code) -> str:
    """Return the page of a code, in Markdown."""
    package = importlib.resources.files("rewriter")
    folder = package / "code_pages"
    if not folder.is_dir():
        folder = package / ".." / "docs" / "reference" / "codes"
    return (folder / f"{code.value}.md").read_text("utf-8")


def page_text(code: Code) -> str:
    """Return the page of a code as plain text: meaning and remedy first, examples indented."""
    _, body = page_of(code).split("<!-- end -->\n", 1)
    lines: list[str] = []
    is_example = False
    for line in body.splitlines():
        if line.startswith("```"):
            is_example = not is_example
        elif is_example:
            lines.append(f"    {line}")
        elif not line.startswith("<!-- ") and (line or lines[-1:] != [""]):
            lines.append(line.removeprefix("## "))
    head = f"{code.value}\n  {code.meaning}\n  remedy: {code.remedy}\n"
    return head + "\n".join(lines).rstrip() + "\n"
