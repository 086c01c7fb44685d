"""A report as one HTML page that needs no other file; `page/` beside it has style and script."""

from __future__ import annotations

import functools
import html
import importlib.resources
import json
from collections.abc import Mapping, Sequence
from typing import Any

from passes.decisions import Code
from rewriter.model_files.model_facts import bytes_text
from rewriter.reporting.alike import each_once
from rewriter.reporting.bench_record import Bench
from rewriter.reporting.blocks import Block
from rewriter.reporting.code_pages import page_text
from rewriter.reporting.headline import told_counts, told_failing
from rewriter.reporting.html_cards import cards, legend
from rewriter.reporting.html_sections import (
    environment_section,
    html_table,
    operators_section,
    safe,
    section,
    shapes_section,
)
from rewriter.reporting.pictures import Picture
from rewriter.reporting.printable import printable
from rewriter.reporting.render import codes_of, later_blocks
from rewriter.reporting.render_proof import feed_rows, proof_lines

__all__ = ["to_html"]

Record = Mapping[str, Any]
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)
_CODES = {code.value: code for code in Code}


def to_html(
    record: Record,
    pictures: Sequence[Picture] = (),
    bench: Bench | None = None,
    *,
    version: str = "",
    title: str = "",
    command: str = "",
    date: str = "",
) -> str:
    """Return the page.

    Args:
        record: The report as plain values.
        pictures: The maps before and after.
        bench: Times over sizes.
        version: That of seqmap.
        title: What the model is called; empty for the name of its graph.
        command: The command line that made the page.
        date: When it was made.
    """
    graph = record["given"]["name"]
    name = title or graph or "model"
    by_path = {picture.path: number for number, picture in enumerate(pictures)}
    parts = [
        _head(name, record, version, command, date),
        _tiles(record, bench),
        section("maps", cards(record, by_path)),
        legend() if pictures else "",
        *(_block(block) for block in later_blocks(record)),
        shapes_section(record),
        _verification(record["verification"]),
        _timings(bench),
        operators_section(record),
        _codes(record),
        environment_section(record),
    ]
    body = "\n".join(filter(None, parts))
    data = json.dumps([picture.to_dict() for picture in pictures]).replace("<", "\\u003c")
    licence = _part("dagre.LICENSE").replace("*/", "* /")
    scripts = (
        f"<script>/* dagre 3.1.3\n{licence}*/\n{_part('dagre.min.js')}</script>\n"
        f'<script type="application/json" id="pictures">{data}</script>\n'
        f"<script>{_part('page.js')}</script>"
        if pictures
        else ""
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>seqmap: {safe(name)}</title>\n<style>\n{_part('page.css')}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n{scripts}\n</body>\n</html>\n"
    )


@functools.cache
def _part(name: str) -> str:
    return (importlib.resources.files("rewriter") / "reporting" / "page" / name).read_text("utf-8")


def _size_words(record: Record) -> list[str]:
    given, new = (record[side].get("file_bytes") for side in ("given", "new"))
    sizes = [bytes_text(size) for size in (given, new) if size is not None]
    weights = f"weights {bytes_text(record['given']['weight_bytes'])}"
    return [f"file {' → '.join(sizes)}", weights] if sizes else [weights]


def _head(name: str, record: Record, version: str, command: str, date: str) -> str:
    given = record["given"]
    facts = [
        f"graph {given['name']}" if given["name"] not in ("", name) else "",
        given["producer"],
        f"opset {given['opset']}",
        f"IR version {given['ir_version']}",
        *_size_words(record),
        f"target {record['target']}",
        f"strategy {record['strategy']}",
        f"seqmap {version}" if version else "",
        date,
    ]
    shown = [f"<span>{safe(fact)}</span>" for fact in facts if fact]
    lines = [
        f"<header><h1>{safe(name)}</h1>",
        f'<p class="meta">{" · ".join(shown)}</p>',
        f'<p class="meta"><code>{safe(command)}</code></p>' if command else "",
        f'<p class="answer{"" if record["reached"] else " bad"}">{safe(record["headline"])}</p>',
        "</header>",
    ]
    return "\n".join(filter(None, lines))


def _tiles(record: Record, bench: Bench | None) -> str:
    verdicts = [one["verdict"] for one in each_once(record["maps"])]
    counts = [f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts)]
    proof = record["verification"]
    verified = f"{proof['verified']} of {len(proof['cases'])}" if proof else "none"
    several = any(one["few"] or one["verdict"] == "guarded" for one in record["maps"])
    branches = "all branches counted, though one runs" if several else "branches included"
    tiles = [
        ("maps", ", ".join(counts) or "none"),
        (f"inputs verified{told_failing(proof) if proof else ''}", verified),
        ("runtime, before → after", _runtime(record)),
        (f"in the new model, {branches}", told_counts(record["operators"]["after"])),
    ]
    if bench is not None and bench.crossover is not None:
        always = bench.crossover <= bench.rows[0].size
        when = "at all sizes" if always else f"from {bench.crossover:,} {bench.axis} on"
        tiles[3] = ("faster", when)
    inner = "".join(
        f'<div class="tile"><b>{safe(value)}</b><span>{safe(name)}</span></div>'
        for name, value in tiles
    )
    return f'<div class="tiles">{inner}</div>'


def _runtime(record: Record) -> str:
    sides = (record["given"]["loading"], record["loading"])
    words = [one["outcome"] for one in sides if one]
    return " → ".join(words) or "not asked"


def _block(block: Block) -> str:
    items = "".join(
        f"<li>{safe(one.line)}"
        + (f"<ul>{''.join(f'<li>{safe(d)}</li>' for d in one.details)}</ul>" * bool(one.details))
        + "</li>"
        for one in block.items
    )
    listed = f"<ul>{items}</ul>" if items else ""
    title, colon, answer = block.heading.partition(": ")
    answered = f'<b>{colon}</b><span class="answered">{safe(answer)}</span>' if answer else ""
    heading = f"<h2>{safe(title)}{answered}</h2>"
    return f"<section>\n{heading}\n{listed}{html_table(block.rows)}\n</section>"


def _verification(proof: Record | None) -> str:
    if proof is None:
        return ""
    lines = "".join(f"<p>{safe(line)}</p>" for line in proof_lines(proof))
    return section("verification", [lines, html_table(feed_rows(proof))])


def _timings(bench: Bench | None) -> str:
    if bench is None:
        return ""
    return section("timings", [bench.to_svg(), f"<pre>{_text_lines(str(bench))}</pre>"])


def _text_lines(text: str) -> str:
    return html.escape(printable(text, keep="\n"))


def _codes(record: Record) -> str:
    """Return the page of every code in the report, folded."""
    parts = [
        f"<details><summary><code>{code}</code></summary>"
        f'<pre id="code-{code}">{_text_lines(page_text(_CODES[code]))}</pre></details>'
        for code in codes_of(record)
    ]
    return section("what the codes mean", parts)
