"""Serve a model over HTTP; requests that wait at the same time share a batch.

``SEQMAP_MODEL=model.onnx uvicorn --factory serve:create_app``
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response

import seqmap

Waiting = tuple[dict[str, Any], asyncio.Future[seqmap.Prediction]]


class MicroBatcher:
    """Runs the samples of waiting requests as one batch.

    While a batch runs, requests gather for the next one. No timer is needed: a request alone runs
    at once, and the more there are, the larger the batches.
    """

    def __init__(self, predictor: seqmap.Predictor, batch_size: int) -> None:
        self._predictor = predictor
        self._batch_size = batch_size
        # Beyond this number, requests wait to be taken in.
        self._waiting: asyncio.Queue[Waiting] = asyncio.Queue(maxsize=16 * batch_size)

    async def predict(self, sample: dict[str, Any]) -> seqmap.Prediction:
        """Return what becomes of one sample."""
        answer: asyncio.Future[seqmap.Prediction] = asyncio.get_running_loop().create_future()
        await self._waiting.put((sample, answer))
        return await answer

    async def run(self) -> None:
        """Run batches until the task is cancelled."""
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < self._batch_size and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            samples, answers = zip(*batch, strict=True)
            results: list[Any]
            try:
                results = await asyncio.to_thread(self._predictor.predict, samples)
            except Exception as error:  # the model is to blame: all hear of it
                results = [seqmap.Prediction(error=str(error))] * len(samples)
            for answer, result in zip(answers, results, strict=True):
                if not answer.done():  # a client that left has cancelled it
                    answer.set_result(result)


def as_tensor(value: Any, dtype: np.dtype[Any], dims: tuple[Any, ...] | None) -> Any:
    """Return nested lists as an array of the type and rank that the model takes."""
    try:
        array = np.asarray(value)
    except ValueError:
        return value  # the predictor says what is wrong with it
    if not array.size:
        rest = (dims or ())[array.ndim :]
        return np.empty((*array.shape, *(d if isinstance(d, int) else 0 for d in rest)), dtype)
    return array.astype(dtype) if dtype.kind == "f" and array.dtype.kind == "i" else array


def answer(body: dict[str, Any], status: int = 200) -> Response:
    """Return a response of JSON; NaN and infinity stand in it as Python writes them."""
    return Response(json.dumps(body), status, media_type="application/json")


def create_app(model: str | None = None, batch_size: int = 64) -> FastAPI:
    """Return the application.

    Args:
        model: The path of a model; None takes the one that SEQMAP_MODEL names.
        batch_size: The most requests of one batch.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        rewritten = seqmap.optimize(model or os.environ["SEQMAP_MODEL"], tensor_io=True)
        # Bad requests may come first: they are no reason to stop.
        app.state.predictor = seqmap.Predictor(rewritten, batch_size=batch_size, must_begin=False)
        app.state.batcher = MicroBatcher(app.state.predictor, batch_size)
        batches = asyncio.create_task(app.state.batcher.run())
        yield
        batches.cancel()

    app = FastAPI(title="seqmap", lifespan=lifespan)

    @app.post("/predict")
    async def predict(request: Request) -> Response:
        """Take ``{input: nested lists}`` of one sample, and answer with its outputs."""
        predictor = request.app.state.predictor
        try:
            given = await request.json()
        except (ValueError, RecursionError):
            return answer({"error": "the body is not JSON"}, 400)
        if not isinstance(given, dict):
            return answer({"error": "the body is not a mapping of inputs"}, 400)
        sample = {
            name: as_tensor(value, predictor.dtypes[name], predictor.dims[name])
            if name in predictor.dtypes
            else value
            for name, value in given.items()
        }
        result = await request.app.state.batcher.predict(sample)
        if result.outputs is None:
            return answer({"error": result.error}, 422)
        return answer({name: value.tolist() for name, value in result.outputs.items()})

    return app
