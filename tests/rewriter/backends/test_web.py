"""The page of the docs runs rewritten models in onnxruntime-web, in a real browser."""

from __future__ import annotations

import functools
import http.server
import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import rewriter
from tests import browser, web_runtime

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "howto" / "web" / "index.html"
ROWS = np.linspace(-1, 1, 21, dtype=np.float32).reshape(7, 3)
SHOWN = {
    "exported/seqmap_mlp_ragged_rows.onnx": {
        "xs": ROWS,
        "xs.lengths": np.array([2, 5], np.int64),
    },
    "demo/dy_hstack.onnx": {"a": ROWS[0], "b": ROWS[1:].reshape(-1)[:5]},
}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and takes what the page says at its end."""

    told: queue.Queue[str]

    def do_POST(self) -> None:
        self.told.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {
            "type": str(array.dtype),
            "dims": list(array.shape),
            "data": array.reshape(-1).tolist(),
        }
        for name, array in values.items()
    }


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str, queue.Queue[str]]]:
    """A folder that is served, its address, and what is posted to it."""
    folder = tmp_path / "site"
    folder.mkdir()
    shutil.copy(PAGE, folder)
    (folder / "dist").symlink_to(web_runtime.dist().resolve())
    told: queue.Queue[str] = queue.Queue()
    handler = type("Own", (Handler,), {"told": told})
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(handler, directory=str(folder))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/index.html", told
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.long
@pytest.mark.skipif(bool(browser.why_not()), reason=browser.why_not())
@pytest.mark.skipif(not web_runtime.is_there(), reason="python -m tests.web_runtime fetches it")
@pytest.mark.parametrize("change", [0.0, 1.0], ids=["equal", "different"])
@pytest.mark.parametrize("name", SHOWN)
def test_a_browser_computes_what_the_evaluator_does(
    served: tuple[Path, str, queue.Queue[str]], tmp_path: Path, name: str, change: float
) -> None:
    folder, address, told = served
    model = rewriter.optimize(ROOT / "models" / name, target="onnxruntime-web", tensor_io=True)
    onnx.save(model, folder / "model.onnx")
    expected = rewriter.run(model, SHOWN[name], backend="reference")
    first = next(iter(expected))
    expected[first] = expected[first] + np.asarray(change, expected[first].dtype)
    feeds = {"inputs": plain(SHOWN[name]), "outputs": plain(expected)}
    (folder / "feeds.json").write_text(json.dumps(feeds))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    shown = subprocess.Popen(
        [browser.find(), *flags, f"--user-data-dir={tmp_path / 'profile'}", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        said = told.get(timeout=60)
    finally:
        shown.terminate()
        shown.wait(timeout=20)
    assert said.rstrip().splitlines()[-1] == ("different" if change else "equal"), said
    assert first in said
