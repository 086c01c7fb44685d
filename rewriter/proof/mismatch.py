"""Saves a rewrite that went wrong, so that it can be run again elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewriter.feeding.feed_files import write_feeds
from rewriter.model_files import models, on_disk

__all__ = ["write_mismatch"]


def write_mismatch(
    folder: str | os.PathLike[str],
    before: Any,
    after: Any,
    feeds: Mapping[str, Any],
    command: str,
    broken_pass: str | None = None,
) -> Path:
    """Write two models that differ, the feed that shows it, and how to see it again.

    Args:
        folder: Where to; made if need be, and nothing outside it is needed to run the models.
        before: The model that is right (path, ModelProto, onnx_ir.Model or graphsurgeon Graph).
        after: The model that differs.
        feeds: Input name to array, list of arrays or None.
        command: What the user ran.
        broken_pass: The pass that broke the model, if it was found.

    Returns:
        The folder.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for model, name in ((before, "before.onnx"), (after, "after.onnx")):
        taken = models.take(model)
        on_disk.save(taken.model, folder / name, copy_weights=True, folder=taken.folder)
    write_feeds(folder / "feeds.npz", feeds)
    lines = [
        "# Ran, in the folder that this one was written from:",
        command,
        "# Shows the difference again, in this folder:",
        "seqmap validate before.onnx after.onnx --inputs feeds.npz",
    ]
    if broken_pass:
        lines.append(f"# The first pass whose result differs: {broken_pass}")
    (folder / "command.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
