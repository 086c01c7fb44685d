"""Writes models of ``models/pipelines`` from ``torch.jit.script`` that keep what each step made.

Run ``python models/make_scripted_steps.py DIRECTORY`` where torch is installed (2.14.1 wrote the
files here). Nothing else needs it: tests use the files that are checked in.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from scripted import write_model
from torch import Tensor, nn


class CachedDecoder(nn.Module):
    """One token a step, whose keys and values are kept for those that follow."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(6, 6) for _ in range(3))
        self.out = nn.Linear(6, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        keys, values = torch.zeros(2, 0, 3), torch.zeros(2, 0, 3)
        made: list[Tensor] = []
        for t in range(tokens.size(0)):
            x = tokens[t]
            keys = torch.cat([keys, self.key(x).reshape(2, 1, 3)], 1)
            values = torch.cat([values, self.value(x).reshape(2, 1, 3)], 1)
            asked = self.query(x).reshape(2, 1, 3)
            weight = torch.softmax(asked @ keys.transpose(1, 2) * 0.58, -1)
            made.append(self.out((weight @ values).reshape(6)))
        return torch.stack(made)


class PathOfStates(nn.Module):
    """States that a force drives, each from the last one of a list, held near the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.field, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, force: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        path: list[Tensor] = [start]
        seen: list[Tensor] = []
        for i in range(force.size(0)):
            now = path[-1]
            step = torch.tanh(self.field(now)) + force[i] - 0.3 * (now - path[0])
            path.append(now + 0.1 * step)
            seen.append(self.head(now * force[i]))
        return torch.stack(path), torch.stack(seen)


class SelectiveScan(nn.Module):
    """A state space layer whose states decay as each step says, written as its recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.into, self.out = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 3)
        self.decay = nn.Parameter(torch.rand(4, 3))

    def forward(self, rows: Tensor) -> Tensor:
        size = nn.functional.softplus(self.step(rows))
        into, out = self.into(rows), self.out(rows)
        decay = -torch.exp(self.decay)
        state = torch.zeros(4, 3)
        made: list[Tensor] = []
        for t in range(rows.size(0)):
            kept = torch.exp(size[t].unsqueeze(-1) * decay)
            state = kept * state + (size[t] * rows[t]).unsqueeze(-1) * into[t]
            made.append((state * out[t]).sum(-1) + rows[t])
        return torch.stack(made)


class Advantages(nn.Module):
    """Generalized advantages of steps whose episodes may end, from the last one to the first."""

    def forward(self, reward: Tensor, value: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        count = reward.size(0)
        later = torch.zeros(4)
        made = torch.zeros_like(reward)
        for t in range(count - 1, -1, -1):
            goes_on = (~ends[t]).float()
            error = reward[t] + 0.99 * value[t + 1] * goes_on - value[t]
            later = error + 0.99 * 0.95 * goes_on * later
            made[t] = later
        return made, made + value[:-1]


class MovingStatistics(nn.Module):
    """Rows less a moving mean, over a moving spread; steps that are masked change neither."""

    def forward(self, rows: Tensor, valid: Tensor) -> Tensor:
        mean, spread = torch.zeros(4), torch.ones(4)
        made: list[Tensor] = []
        for t in range(rows.size(0)):
            if bool(valid[t]):
                mean = mean + 0.1 * (rows[t] - mean)
                spread = 0.9 * spread + 0.1 * (rows[t] - mean) ** 2
            made.append((rows[t] - mean) / torch.sqrt(spread + 1e-5))
        return torch.stack(made)


class ClauseEncoder(nn.Module):
    """Clauses of any length, each by an LSTM both ways; its vectors are declared as matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.LSTM(6, 4, bidirectional=True)
        self.out = nn.Linear(8, 2)

    def forward(self, clauses: list[Tensor]) -> list[Tensor]:
        made: list[Tensor] = []
        for clause in clauses:
            states, _ = self.words(clause.unsqueeze(1))
            made.append(self.out(states[:, 0].max(0)[0]))
        return made


def tokens(n: int) -> tuple[Tensor]:
    return (torch.randn(n, 6),)


def forces(n: int) -> tuple[Tensor, Tensor]:
    return torch.randn(n, 4), torch.randn(4)


def episodes(n: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(4 * n, 4), torch.randn(4 * n + 1, 4), torch.rand(4 * n, 4) < 0.2


def masked(n: int) -> tuple[Tensor, Tensor]:
    return torch.randn(4 * n, 4), torch.rand(4 * n) < 0.7


def many_rows(n: int) -> tuple[Tensor]:
    return (torch.randn(4 * n, 4),)


def clauses(n: int) -> tuple[list[Tensor]]:
    return ([torch.randn(int(torch.randint(1, 7, ())), 6) for _ in range(n)],)


PROGRAMS: dict[str, tuple[type[nn.Module], Callable[[int], tuple[Any, ...]], list[int], int]] = {
    "ts_cached_decoder": (CachedDecoder, tokens, [1], 13),
    "ts_path_of_states": (PathOfStates, forces, [1, 0], 16),
    "ts_clause_encoder": (ClauseEncoder, clauses, [1], 17),
    "ts_advantages": (Advantages, episodes, [1, 1, 1], 17),
    "ts_moving_statistics": (MovingStatistics, masked, [1, 1], 17),
    "ts_selective_scan": (SelectiveScan, many_rows, [1], 17),
}
"""The module, what draws its inputs, how many dimensions of each are open, and the opset."""


def main(folder: pathlib.Path) -> None:
    torch.manual_seed(0)
    for name, how in PROGRAMS.items():
        write_model(folder, name, *how)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
