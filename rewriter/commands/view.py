"""``seqmap view IN``: the report of a model as a page in the browser."""

from __future__ import annotations

import argparse
import tempfile
import webbrowser
from pathlib import Path

from rewriter import pipeline
from rewriter.commands import options
from rewriter.commands.console import Console
from rewriter.model_files import files

__all__ = ["USAGE", "add_options", "execute"]

USAGE = "IN "


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add_model(parser, "input", "IN", "the model, .onnx or .onnxtxt, - for stdin")
    options.add_rewrite_options(options.rewrite_group(parser))


def execute(args: argparse.Namespace, console: Console) -> int:
    """Write the page to the folder of temporary files and open it."""
    with console.progress("reading"):
        model = options.read_model(args.input)
    with console.progress("deciding"):
        report = pipeline.explain(model, **options.rewrite_options(args))
        page = report.to_html(title=args.input.name)
    path = Path(tempfile.mkdtemp(prefix="seqmap-")) / f"{args.input.stem}.html"
    files.write(page.encode(), path)
    console.record["page"] = str(path)
    shown = webbrowser.open(path.as_uri())
    console.say(f"{'opened' if shown else 'no browser is found; open'} {path}")
    return 0
