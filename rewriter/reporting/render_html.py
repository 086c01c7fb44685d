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
from rewriter.reporting.bench_record import Bench
from rewriter.reporting.code_pages import page_text
from rewriter.reporting.headline import told_counts
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
from rewriter.reporting.remedies import told
from rewriter.reporting.render import Block, codes_of, later_blocks
from rewriter.reporting.render_proof import feed_rows, proof_lines

__all__ = ["to_html"]

Record = Mapping[str, Any]
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)
_CODES = {code.value: code for code in Code}
_FOLDED = 6
"""Reasons of one map that are shown unfolded."""


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
        section("maps", (_card(one, by_path, record) for one in record["maps"])),
        _legend() if pictures else "",
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


def _head(name: str, record: Record, version: str, command: str, date: str) -> str:
    given = record["given"]
    facts = [
        f"graph {given['name']}" if given["name"] not in ("", name) else "",
        given["producer"],
        f"opset {given['opset']}",
        f"IR version {given['ir_version']}",
        f"weights {bytes_text(given['weight_bytes'])}",
        f"target {record['target']}",
        f"strategy {record['strategy']}",
        f"seqmap {version}" if version else "",
        date,
    ]
    lines = [
        f"<header><h1>{safe(name)}</h1>",
        f'<p class="meta">{safe(" · ".join(filter(None, facts)))}</p>',
        f'<p class="meta"><code>{safe(command)}</code></p>' if command else "",
        f'<p class="answer{"" if record["reached"] else " bad"}">{safe(record["headline"])}</p>',
        "</header>",
    ]
    return "\n".join(filter(None, lines))


def _tiles(record: Record, bench: Bench | None) -> str:
    verdicts = [one["verdict"] for one in record["maps"]]
    counts = [f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts)]
    proof = record["verification"]
    verified = f"{proof['verified']} of {len(proof['cases'])}" if proof else "none"
    tiles = [
        ("maps", ", ".join(counts) or "none"),
        ("inputs verified", verified),
        ("runtime, before → after", _runtime(record)),
        ("in the new model, branches included", told_counts(record["operators"]["after"])),
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


def _card(entry: Record, by_path: Mapping[str, int], record: Record) -> str:
    form = f" {safe(entry['form'])}" if entry["form"] else ""
    lines = [_reason(one, tried=record["remedies_tried"]) for one in entry["reasons"]]
    shown, folded = lines[:_FOLDED], lines[_FOLDED:]
    if folded:
        count = f"{len(folded)} more reasons"
        shown.append(f"<details><summary>{count}</summary>{''.join(folded)}</details>")
    notes = [f"<p>{safe(note)}</p>" for note in entry["notes"]]
    remedies = [_remedy(one) for one in entry["remedies"]]
    number = by_path.get(entry["path"])
    picture = "" if number is None else _panes(number, entry["path"])
    return (
        f'<details open class="card {entry["verdict"]}"><summary>{safe(entry["path"])} '
        f'({safe(entry["op_type"])}) <span class="verdict">{entry["verdict"]}</span>{form}'
        f"</summary>\n{''.join([*shown, *notes, *remedies, picture])}\n</details>"
    )


def _reason(reason: Record, *, tried: bool) -> str:
    node = f"{safe(reason['node'])} ({safe(reason['op_type'])}): " if reason["node"] else ""
    after = told(reason["remedy"], tried=tried)
    dependents = reason["dependents"]
    inner = "".join(f"<li>{safe(one)}</li>" for one in dependents)
    is_one = len(dependents) == 1
    nodes = "1 node that depends on it" if is_one else f"{len(dependents)} nodes that depend on it"
    if dependents:
        inner = f"<details><summary>{nodes}</summary><ul>{inner}</ul></details>"
    more = f"; {safe(after)}" if after else ""
    code = reason["code"]
    what = f'<a href="#code-{code}"><code>{code}</code></a>: {safe(reason["detail"])}'
    return f"<p>{node}{what}{more}</p>{inner}"


def _remedy(remedy: Record) -> str:
    option = safe(remedy["option"])
    return (
        f'<div class="remedy"><span>remedy: <code>{safe(remedy["text"])}</code> '
        f"(tried: {safe(remedy['effect'])})</span>"
        f'<button type="button" data-copy="{option}" aria-label="copy {option}">copy</button>'
        "</div>"
    )


def _panes(number: int, path: str) -> str:
    figures = [
        f'<figure><figcaption>{side}</figcaption><div class="pane" tabindex="0" role="group" '
        f'data-map="{number}" data-side="{side}" aria-label="{safe(path)} {side} the rewrite">'
        "<noscript>the picture needs JavaScript</noscript></div></figure>"
        for side in ("before", "after")
    ]
    return f'<div class="panes">{"".join(figures)}</div>'


def _legend() -> str:
    kinds = {"loop": "a loop or map", "sequence": "makes or reads a sequence", "branch": "an If"}
    told_kinds = ", ".join(
        f'<span class="key" style="background:var(--{kind})">{what}</span>'
        for kind, what in kinds.items()
    )
    return f'<p class="meta">{told_kinds}; pale: beside the map; dashed: what a node holds</p>'


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
