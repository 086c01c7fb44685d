"""LSTM of the evaluator: samples have lengths, which onnx's own does not read."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx.reference.ops import op_lstm

__all__ = ["LSTM"]


class LSTM(op_lstm.LSTM):
    """An LSTM that runs each sample for as many steps as it has; ``Y`` is 0 behind them."""

    def _run(  # type: ignore[override]
        self,
        x: np.ndarray,
        w: np.ndarray,
        r: np.ndarray,
        b: np.ndarray | None = None,
        lengths: np.ndarray | None = None,
        *states: np.ndarray | None,
        **attributes: Any,
    ) -> tuple[np.ndarray, ...]:
        run: Any = super()._run
        is_plain = attributes.get("direction", "forward") in (None, "forward")
        if lengths is None or attributes.get("layout") or not is_plain or not lengths.size:
            return tuple(run(x, w, r, b, lengths, *states, **attributes))
        first, kept, peepholes = (*states, None, None, None)[:3]
        found = []
        for at, length in enumerate(lengths.tolist()):
            own = slice(at, at + 1)
            begin = [None if s is None else s[:, own] for s in (first, kept)]
            rows = x[: max(length, 1), own]
            made = run(rows, w, r, b, None, *begin, peepholes, **attributes)
            behind = np.zeros((len(x) - len(rows), *made[0].shape[1:]), x.dtype)
            found.append((np.concatenate([made[0], behind]), *made[1:]))
        whole, *last = zip(*found, strict=True)
        return (np.concatenate(whole, 2), *(np.concatenate(one, 1) for one in last))
