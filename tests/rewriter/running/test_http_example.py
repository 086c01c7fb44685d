"""The HTTP example of the docs under load: no request lost or mixed up, bad ones among them."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")

EXAMPLE = pathlib.Path(__file__).parents[3] / "docs" / "howto" / "http" / "serve.py"
CLIENTS = 64
TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (seq(float[N, 3]) xs) => (seq(float[N, 2]) ys)
<float[3, 2] w = {0, 1, 2, 3, 4, 5}> {
    ys = SequenceMap (xs) <body = body (float[N, 3] x) => (float[N, 2] y) { y = MatMul (x, w) }>
}
"""
WEIGHTS = np.arange(6, dtype=np.float32).reshape(3, 2)
# The body of a bad request of a number, and what its answer has to say.
BAD = [
    (lambda n: json.dumps({"xs": np.ones((2, 4 + n)).tolist()}), lambda n: f"(2, {4 + n})"),
    (lambda n: json.dumps({f"x{n}": [[1, 2, 3]]}), lambda n: f"no input 'x{n}'"),
    (lambda n: json.dumps({"xs": [[1, 2, 3], [n]]}), lambda n: "its rows differ in length"),
    (lambda n: json.dumps({"xs": [["a", "b", "c"]]}), lambda n: "is of type <U1"),
    (lambda n: "{}", lambda n: "no value for input 'xs'"),
    (lambda n: f"{{{n}", lambda n: "not JSON"),
    (lambda n: "[" * 10_000 + str(n), lambda n: "not JSON"),
    (lambda n: json.dumps([n]), lambda n: "not a mapping of inputs"),
]


def example() -> Any:
    spec = importlib.util.spec_from_file_location("serve", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return str(path)


def sample(number: int) -> np.ndarray:
    """Return the sample of a request: no two are equal, some have no rows."""
    rows = number % 7
    return np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) + number


async def load(client: Any, count: int, every: int) -> dict[int, Any]:
    """Send requests from clients that each wait for their answers; one in so many is bad."""
    answers: dict[int, Any] = {}
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            is_bad = number % every == every - 1
            body = json.dumps({"xs": sample(number).tolist()})
            if is_bad:
                body = BAD[number // every % len(BAD)][0](number)
            assert number not in answers
            answers[number] = await client.post("/predict", content=body, timeout=60)

    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    return answers


def check(answers: dict[int, Any], count: int, every: int) -> int:
    """Compare each answer with its own request; return how many were bad."""
    assert sorted(answers) == list(range(count))
    failed = 0
    for number, response in answers.items():
        body = response.json()
        if number % every == every - 1:
            assert response.status_code in (400, 422)
            assert BAD[number // every % len(BAD)][1](number) in body["error"]
            failed += 1
            continue
        assert response.status_code == 200, body
        found = np.array(body["ys"], np.float32).reshape(-1, 2)
        np.testing.assert_allclose(found, sample(number) @ WEIGHTS, rtol=1e-5)
    return failed


def test_requests_share_batches_and_none_is_lost_or_mixed_up(model: str) -> None:
    serve = example()
    sizes: list[int] = []

    async def run() -> dict[int, Any]:
        app = serve.create_app(model)
        async with app.router.lifespan_context(app):
            predict = app.state.predictor.predict
            app.state.predictor.predict = lambda batch: sizes.append(len(batch)) or predict(batch)
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await load(client, 500, 20)

    answers = asyncio.run(run())
    assert check(answers, 500, 20) == 25
    # What is no mapping never reaches the model.
    assert sum(sizes) == 500 - sum(answer.status_code == 400 for answer in answers.values())
    assert 1 < max(sizes) <= 64


def test_a_model_whose_samples_act_on_each_other_is_never_served_in_batches(
    tmp_path: pathlib.Path,
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    agraph (float[N, 3] x) => (float[N, 3] y) { m = ReduceMean <axes = [0]> (x)  y = Sub (x, m) }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    serve = example()

    async def run() -> list[Any]:
        app = serve.create_app(str(tmp_path / "model.onnx"))
        async with app.router.lifespan_context(app):
            return await asyncio.gather(
                *(
                    app.state.batcher.predict({"x": np.full(3, number, np.float32)})
                    for number in range(8)
                )
            )

    results = asyncio.run(run())
    # The first may run alone; what shares a batch is refused.
    assert all("not independent" in str(one.error) for one in results[1:])


@pytest.fixture
def server(model: str, tmp_path: pathlib.Path) -> Iterator[str]:
    pytest.importorskip("uvicorn")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "--factory", "serve:create_app"]
    command += ["--app-dir", str(EXAMPLE.parent), "--port", str(port), "--log-level", "warning"]
    # A server that closes an idle connection meets a client, on a busy machine, that sends on it.
    command += ["--timeout-keep-alive", "600"]
    environment = {**os.environ, "SEQMAP_MODEL": model, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=environment, cwd=tmp_path)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                httpx.get(f"{url}/openapi.json")
                break
            except httpx.ConnectError:
                assert process.poll() is None
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.full
def test_ten_thousand_requests_over_sockets(server: str) -> None:
    async def run() -> dict[int, Any]:
        limits = httpx.Limits(max_connections=CLIENTS)
        async with httpx.AsyncClient(base_url=server, limits=limits) as client:
            return await load(client, 10_000, 100)

    assert check(asyncio.run(run()), 10_000, 100) == 100
