"""Writes the models of ``models/pipelines`` that come from PaddlePaddle: ``pd_*``.

Run ``python models/make_paddle.py DIRECTORY`` where paddlepaddle and paddle2onnx (3.3 and 2.1
wrote the files here) are installed, which also need packaging. Nothing else needs them: tests use
the files that are checked in.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np
import paddle
from paddle.nn import functional
from paddle.static import InputSpec


class LengthMeans(paddle.nn.Layer):
    """Give the mean of as many rows of each sample as its length says."""

    def forward(self, x: Any, n: Any) -> Any:
        y = paddle.zeros([x.shape[0], 8])
        for i in range(x.shape[0]):
            y[i] = x[i, : n[i]].mean(axis=0)
        return y


class LastValid(paddle.nn.Layer):
    """Give the last row of each sample that its length reaches."""

    def forward(self, x: Any, n: Any) -> Any:
        y = paddle.zeros([x.shape[0], 8])
        for i in range(x.shape[0]):
            y[i] = x[i, n[i] - 1]
        return y


class AttentionPooling(paddle.nn.Layer):
    """Weigh the rows of each sample by a softmax over its length."""

    def forward(self, x: Any, n: Any) -> Any:
        y = paddle.zeros([x.shape[0], 8])
        for i in range(x.shape[0]):
            rows = x[i, : n[i]]
            weights = functional.softmax(rows.sum(axis=1), axis=0)
            y[i] = paddle.matmul(weights.unsqueeze(0), rows)[0]
        return y


class RunningSum(paddle.nn.Layer):
    """Write the sum of all rows so far, row by row."""

    def forward(self, x: Any, n: Any) -> Any:
        total, y = paddle.zeros([5, 8]), paddle.zeros_like(x)
        for i in range(x.shape[0]):
            total = total + x[i]
            y[i] = total
        return y * n.sum()


class Erase(paddle.nn.Layer):
    """Assign to a slice, for which the exporter writes SequenceMaps in an If."""

    def forward(self, x: Any, n: Any) -> Any:
        y = x * n.sum()
        y[:, 1:3, 2:5] = 0.0
        return y


class Smoothed(paddle.nn.Layer):
    """Smooth rows exponentially: a recurrence."""

    def forward(self, x: Any, n: Any) -> Any:
        state, y = paddle.zeros([5, 8]), paddle.zeros_like(x)
        for i in range(x.shape[0]):
            state = 0.9 * state + 0.1 * functional.tanh(x[i])
            y[i] = state
        return y * n.sum()


class Counted(paddle.nn.Layer):
    """Count the samples with a sum above 0 in a float, and add their first rows."""

    def forward(self, x: Any, n: Any) -> Any:
        count, total = paddle.zeros([1]), paddle.zeros([8])
        for i in range(x.shape[0]):
            if x[i].sum() > 0:
                count = count + 1
                total = total + x[i, 0]
        return count + total * n.sum()


PROGRAMS = {
    "attention_pooling": AttentionPooling,
    "counted": Counted,
    "erase": Erase,
    "last_valid": LastValid,
    "length_means": LengthMeans,
    "running_sum": RunningSum,
    "smoothed": Smoothed,
}


def main(folder: pathlib.Path) -> None:
    for name, program in PROGRAMS.items():
        layer = program()
        specs = [InputSpec([None, 5, 8], "float32", "x"), InputSpec([None], "int64", "n")]
        graph = paddle.jit.to_static(layer, input_spec=specs, full_graph=True)
        paddle.onnx.export(graph, str(folder / f"pd_{name}"), input_spec=specs, opset_version=17)
        for number, lengths in enumerate(([3, 5, 1], [2, 4, 4, 1, 5, 3, 5])):
            rng = np.random.default_rng(number)
            x = rng.standard_normal((len(lengths), 5, 8)).astype(np.float32)
            n = np.array(lengths, np.int64)
            result = graph(paddle.to_tensor(x), paddle.to_tensor(n)).numpy()
            vector = {"in__x": x, "in__n": n, "out__0": result}
            np.savez(folder / f"pd_{name}{f'.v{number}' * bool(number)}.npz", **vector)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
