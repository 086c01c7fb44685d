"""A report as one HTML page that needs no other file; `page/` beside it has style and script."""

from __future__ import annotations

import functools
import html
import importlib.resources
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from passes.decisions import Code
from rewriter.model_files.model_facts import bytes_text
from rewriter.reporting.bench_record import Bench
from rewriter.reporting.code_pages import page_text
from rewriter.reporting.headline import told_counts
from rewriter.reporting.number_columns import number_columns
from rewriter.reporting.pictures import Picture
from rewriter.reporting.printable import printable
from rewriter.reporting.remedies import told
from rewriter.reporting.render import (
    Block,
    boundary_rows,
    codes_of,
    environment_rows,
    later_blocks,
    operator_rows,
)
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
        _section("maps", (_card(one, by_path, record) for one in record["maps"])),
        _legend() if pictures else "",
        *(_block(block) for block in later_blocks(record)),
        _shapes(record),
        _verification(record["verification"]),
        _timings(bench),
        _operators(record),
        _codes(record),
        _environment(record),
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
        f"<title>seqmap: {_text(name)}</title>\n<style>\n{_part('page.css')}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n{scripts}\n</body>\n</html>\n"
    )


@functools.cache
def _part(name: str) -> str:
    return (importlib.resources.files("rewriter") / "reporting" / "page" / name).read_text("utf-8")


def _text(text: object) -> str:
    return html.escape(printable(str(text)))


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
        f"<header><h1>{_text(name)}</h1>",
        f'<p class="meta">{_text(" · ".join(filter(None, facts)))}</p>',
        f'<p class="meta"><code>{_text(command)}</code></p>' if command else "",
        f'<p class="answer{"" if record["reached"] else " bad"}">{_text(record["headline"])}</p>',
        "</header>",
    ]
    return "\n".join(filter(None, lines))


def _tiles(record: Record, bench: Bench | None) -> str:
    verdicts = [one["verdict"] for one in record["maps"]]
    counts = [f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts)]
    proof = record["verification"]
    verified = f"{proof['verified']} of {len(proof['cases'])}" if proof else "not verified"
    tiles = [
        ("maps", ", ".join(counts) or "no maps"),
        ("inputs verified", verified),
        ("runtime, before → after", _runtime(record)),
        ("in the new model, branches included", told_counts(record["operators"]["after"])),
    ]
    if bench is not None and bench.crossover is not None:
        always = bench.crossover <= bench.rows[0].size
        when = "at all sizes" if always else f"from {bench.crossover:,} {bench.axis} on"
        tiles[3] = ("faster", when)
    inner = "".join(
        f'<div class="tile"><b>{_text(value)}</b><span>{_text(name)}</span></div>'
        for name, value in tiles
    )
    return f'<div class="tiles">{inner}</div>'


def _runtime(record: Record) -> str:
    sides = (record["given"]["loading"], record["loading"])
    words = [one["outcome"] for one in sides if one]
    return " → ".join(words) or "not asked"


def _section(title: str, parts: Iterable[str]) -> str:
    inner = "\n".join(filter(None, parts))
    return f"<section>\n<h2>{_text(title)}</h2>\n{inner}\n</section>" if inner else ""


def _card(entry: Record, by_path: Mapping[str, int], record: Record) -> str:
    form = f" {_text(entry['form'])}" if entry["form"] else ""
    lines = [_reason(one, tried=record["remedies_tried"]) for one in entry["reasons"]]
    shown, folded = lines[:_FOLDED], lines[_FOLDED:]
    if folded:
        count = f"{len(folded)} more reasons"
        shown.append(f"<details><summary>{count}</summary>{''.join(folded)}</details>")
    notes = [f"<p>{_text(note)}</p>" for note in entry["notes"]]
    remedies = [_remedy(one) for one in entry["remedies"]]
    number = by_path.get(entry["path"])
    picture = "" if number is None else _panes(number, entry["path"])
    return (
        f'<details open class="card {entry["verdict"]}"><summary>{_text(entry["path"])} '
        f'({_text(entry["op_type"])}) <span class="verdict">{entry["verdict"]}</span>{form}'
        f"</summary>\n{''.join([*shown, *notes, *remedies, picture])}\n</details>"
    )


def _reason(reason: Record, *, tried: bool) -> str:
    node = f"{_text(reason['node'])} ({_text(reason['op_type'])}): " if reason["node"] else ""
    after = told(reason["remedy"], tried=tried)
    dependents = reason["dependents"]
    inner = "".join(f"<li>{_text(one)}</li>" for one in dependents)
    is_one = len(dependents) == 1
    nodes = "1 node that depends on it" if is_one else f"{len(dependents)} nodes that depend on it"
    if dependents:
        inner = f"<details><summary>{nodes}</summary><ul>{inner}</ul></details>"
    more = f"; {_text(after)}" if after else ""
    code = reason["code"]
    what = f'<a href="#code-{code}"><code>{code}</code></a>: {_text(reason["detail"])}'
    return f"<p>{node}{what}{more}</p>{inner}"


def _remedy(remedy: Record) -> str:
    option = _text(remedy["option"])
    return (
        f'<div class="remedy"><span>remedy: <code>{_text(remedy["text"])}</code> '
        f"(tried: {_text(remedy['effect'])})</span>"
        f'<button type="button" data-copy="{option}" aria-label="copy {option}">copy</button>'
        "</div>"
    )


def _panes(number: int, path: str) -> str:
    figures = [
        f'<figure><figcaption>{side}</figcaption><div class="pane" tabindex="0" role="group" '
        f'data-map="{number}" data-side="{side}" aria-label="{_text(path)} {side} the rewrite">'
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
        f"<li>{_text(one.line)}"
        + (f"<ul>{''.join(f'<li>{_text(d)}</li>' for d in one.details)}</ul>" * bool(one.details))
        + "</li>"
        for one in block.items
    )
    listed = f"<ul>{items}</ul>" if items else ""
    title, colon, answer = block.heading.partition(": ")
    answered = f'<b>{colon}</b><span class="answered">{_text(answer)}</span>' if answer else ""
    heading = f"<h2>{_text(title)}{answered}</h2>"
    return f"<section>\n{heading}\n{listed}{_table(block.rows)}\n</section>"


def _shapes(record: Record) -> str:
    promised = record["promises"]["input_shapes"]
    uniform = record["promises"]["uniform"]
    rows: list[Sequence[str]] = [("value", "declared", "promised", "in the new model")]
    for title, key in (("input", "inputs"), ("output", "outputs")):
        before, after = record["given"][key], record["new"][key]
        passed = record["tensor_io"][key]
        for name in {**before, **after}:
            vouched = "one shape" if name in uniform else ""
            if name in promised:
                vouched = str(["?" if dim is None else dim for dim in promised[name]])
            form = f" ({passed[name]['form']})" if name in passed else ""
            rows.append((f"{title} {name}", before.get(name, ""), vouched, after.get(name, "")))
            rows[-1] = (*rows[-1][:3], rows[-1][3] + form)
    if not any(row[2] for row in rows[1:]):
        rows = [(name, declared, new) for name, declared, _, new in rows]
    tables = [_table(rows)] if len(rows) > 1 else []
    if held := boundary_rows(record):
        tables.append(f"<h3>at the maps</h3>{_table(held)}")
    return _section("shapes", tables)


def _verification(proof: Record | None) -> str:
    if proof is None:
        return ""
    lines = "".join(f"<p>{_text(line)}</p>" for line in proof_lines(proof))
    return _section("verification", [lines, _table(feed_rows(proof))])


def _timings(bench: Bench | None) -> str:
    if bench is None:
        return ""
    return _section("timings", [bench.to_svg(), f"<pre>{_text_lines(str(bench))}</pre>"])


def _text_lines(text: str) -> str:
    return html.escape(printable(text, keep="\n"))


def _operators(record: Record) -> str:
    head, *rows = operator_rows(record["operators"])
    changed = [row for row in rows if row[1] != row[2]]
    inner = f"<details><summary>all operators</summary>{_table([head, *rows])}</details>"
    told_rows = _table([head, *changed]) if changed else "<p>as many of each as before</p>"
    return _section("operators", [told_rows, inner])


def _codes(record: Record) -> str:
    """Return the page of every code in the report, folded."""
    parts = [
        f"<details><summary><code>{code}</code></summary>"
        f'<pre id="code-{code}">{_text_lines(page_text(_CODES[code]))}</pre></details>'
        for code in codes_of(record)
    ]
    return _section("what the codes mean", parts)


def _environment(record: Record) -> str:
    table = _table(environment_rows(record))
    return _section("environment", [f"<details><summary>versions</summary>{table}</details>"])


def _table(rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head, *others = rows
    kinds = [" class=number" if is_number else "" for is_number in number_columns(rows)]
    lines = [f"<tr>{_cells('th scope=col', head, kinds)}</tr>"]
    lines += [f"<tr>{_cells('td', row, kinds)}</tr>" for row in others]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _cells(tag: str, row: Sequence[str], kinds: Sequence[str]) -> str:
    name = tag.split()[0]
    return "".join(
        f"<{tag}{kind}>{_text(cell)}</{name}>" for cell, kind in zip(row, kinds, strict=True)
    )
