"""RNN, GRU and LSTM of the evaluator: samples have lengths, which onnx's own do not read."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.ops import op_gru, op_lstm, op_rnn

__all__ = ["GRU", "LSTM", "RNN"]


class _OfLengths:
    """Runs each sample for as many steps as it has; ``Y`` is 0 behind them."""

    carried = 1
    """How many states an operator has: ``initial_h``, and ``initial_c``."""

    def _run(
        self,
        x: np.ndarray,
        w: np.ndarray,
        r: np.ndarray,
        b: np.ndarray | None = None,
        lengths: np.ndarray | None = None,
        *others: np.ndarray | None,
        **attributes: Any,
    ) -> tuple[np.ndarray, ...]:
        run: Any = super()._run  # type: ignore[misc]
        if lengths is None or attributes.get("layout") or not lengths.size:
            return tuple(run(x, w, r, b, lengths, *others, **attributes))
        states, weights = others[: self.carried], others[self.carried :]
        found = []
        for at, length in enumerate(lengths.tolist()):
            own = slice(at, at + 1)
            begin = [None if s is None else s[:, own] for s in states]
            rows = x[: max(length, 1), own]
            made = run(rows, w, r, b, None, *begin, *weights, **attributes)
            behind = np.zeros((len(x) - len(rows), *made[0].shape[1:]), x.dtype)
            found.append((np.concatenate([made[0], behind]), *made[1:]))
        whole, *last = zip(*found, strict=True)
        return (np.concatenate(whole, 2), *(np.concatenate(one, 1) for one in last))


class RNN(_OfLengths, op_rnn.RNN_14):  # type: ignore[misc]
    """An RNN that reads lengths."""


class GRU(_OfLengths, op_gru.GRU):  # type: ignore[misc]
    """A GRU that reads lengths."""


class LSTM(_OfLengths, op_lstm.LSTM):  # type: ignore[misc]
    """An LSTM that reads lengths."""

    carried = 2
