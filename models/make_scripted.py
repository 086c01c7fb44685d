"""Writes models of ``models/pipelines`` that come from ``torch.jit.script``, with vectors.

Run ``python models/make_scripted.py DIRECTORY`` where torch is installed (2.13 and 2.14 wrote the
files here). Nothing else needs it: tests use the files that are checked in.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable

import torch
from scripted import write_model
from torch import Tensor, nn


class LogMelClips(nn.Module):
    """Log mel features of clips of any length, without the mean of each clip."""

    def __init__(self) -> None:
        super().__init__()
        turns = torch.arange(5).unsqueeze(1) * torch.arange(8) * (2 * torch.pi / 8)
        self.register_buffer("cosines", torch.cos(turns).t())
        self.register_buffer("sines", torch.sin(turns).t())
        self.register_buffer("mel", torch.rand(5, 3))
        self.register_buffer("window", torch.hann_window(8))

    def forward(self, signal: Tensor, offsets: Tensor) -> Tensor:
        features: list[Tensor] = []
        for i in range(offsets.size(0) - 1):
            clip = signal[int(offsets[i]) : int(offsets[i + 1])]
            starts = torch.arange(0, clip.size(0) - 7, 4).unsqueeze(1)
            frames = clip[starts + torch.arange(8)] * self.window
            power = (frames @ self.cosines) ** 2 + (frames @ self.sines) ** 2
            made = torch.log(power @ self.mel + 1e-6)
            features.append(made - made.mean(0, keepdim=True))
        return torch.cat(features)


class StreamedConv(nn.Module):
    """A convolution that hears a signal in chunks, and keeps the last places of what it heard."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 3)

    def forward(self, signal: Tensor) -> Tensor:
        cache = torch.zeros(1, 2, 2)
        heard: list[Tensor] = []
        for i in range(signal.size(0) // 4):
            chunk = torch.cat([cache, signal[i * 4 : i * 4 + 4].t().unsqueeze(0)], 2)
            cache = chunk[:, :, -2:]
            heard.append(torch.relu(self.conv(chunk)[0]))
        return torch.cat(heard, 1)


class ChunkMemory(nn.Module):
    """Attention within a chunk and the one before, which is kept as the memory."""

    def __init__(self) -> None:
        super().__init__()
        self.ask, self.answer = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, rows: Tensor) -> Tensor:
        memory = torch.zeros(3, 4)
        made: list[Tensor] = []
        for i in range(rows.size(0) // 3):
            chunk = rows[i * 3 : i * 3 + 3]
            known = torch.cat([memory, chunk])
            weight = torch.softmax(self.ask(chunk) @ self.answer(known).t() / 2, -1)
            made.append(weight @ known)
            memory = chunk
        return torch.cat(made)


class TargetEncoding(nn.Module):
    """For each row the mean of what earlier rows of its category had, which leaks no label."""

    def forward(self, target: Tensor, category: Tensor) -> Tensor:
        total, count = torch.zeros(5), torch.zeros(5)
        encoded: list[Tensor] = []
        for i in range(target.size(0)):
            at = category[i]
            encoded.append((total[at] + 0.5) / (count[at] + 1.0))
            total[at] += target[i]
            count[at] += 1.0
        return torch.stack(encoded)


class BoxVoting(nn.Module):
    """Each kept box becomes the mean of all that overlap it, by score and overlap."""

    def forward(self, boxes: Tensor, scores: Tensor, kept: Tensor) -> Tensor:
        voted: list[Tensor] = []
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        for j in range(kept.size(0)):
            i = int(kept[j])
            low = torch.max(boxes[i, :2], boxes[:, :2])
            high = torch.min(boxes[i, 2:], boxes[:, 2:])
            sides = (high - low).clamp(min=0)
            shared = sides[:, 0] * sides[:, 1]
            overlap = shared / (area[i] + area - shared)
            near = torch.nonzero(overlap > 0.3)[:, 0]
            weight = scores[near] * overlap[near]
            voted.append((boxes[near] * weight.unsqueeze(1)).sum(0) / weight.sum())
        return torch.stack(voted)


class MasksByScore(nn.Module):
    """A segmentation from masks: what a better mask has taken stays."""

    def forward(self, masks: Tensor, scores: Tensor) -> Tensor:
        order = torch.argsort(scores, descending=True)
        segments = torch.zeros(masks.size(1), masks.size(2), dtype=torch.int64)
        for k in range(order.size(0)):
            i = int(order[k])
            free = (segments == 0) & masks[i]
            segments[free] = i + 1
        return segments


class TokensPacked(nn.Module):
    """Token ids of texts with their first and last token, cut and padded to 6, and the mask."""

    def forward(self, tokens: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        ids = torch.zeros(offsets.size(0) - 1, 6, dtype=torch.int64)
        mask = torch.zeros(offsets.size(0) - 1, 6, dtype=torch.int64)
        for b in range(offsets.size(0) - 1):
            text = tokens[int(offsets[b]) : int(offsets[b + 1])][:4]
            row = torch.cat([torch.tensor([101]), text, torch.tensor([102])])
            ids[b, : row.size(0)] = row
            mask[b, : row.size(0)] = 1
        return ids, mask


class LengthRegulator(nn.Module):
    """The phonemes of a text, each repeated for as many frames as it is spoken, with its place."""

    def forward(self, phonemes: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        spoken = torch.repeat_interleave(phonemes, frames, dim=0)
        return spoken, torch.arange(spoken.size(0))


class SpokenTokens(nn.Module):
    """Those phonemes that are long enough, each as often as it is spoken, behind a start token."""

    def forward(self, phonemes: Tensor, frames: Tensor) -> Tensor:
        spoken = [torch.zeros(1, 8)]
        for i in range(phonemes.size(0)):
            if int(frames[i]) > 1:
                again = phonemes[i].unsqueeze(0).repeat(int(frames[i]), 1)
                spoken.append(again)
        return torch.cat(spoken)


class BestBoxes(nn.Module):
    """The best boxes of each image, as many as it asks for, with their scores."""

    def forward(self, boxes: Tensor, scores: Tensor, wanted: Tensor) -> Tensor:
        found = [torch.zeros(0, 5)]
        for i in range(boxes.size(0)):
            best, places = torch.topk(scores[i], int(wanted[i]))
            found.append(torch.cat([boxes[i][places], best.unsqueeze(1)], 1))
        return torch.cat(found)


class SessionMeans(nn.Module):
    """The mean of each session so far: sum and number begin anew with it."""

    def forward(self, values: Tensor, begins: Tensor) -> Tensor:
        means = torch.zeros(values.size(0))
        total, number = torch.zeros(()), torch.zeros(())
        for i in range(values.size(0)):
            if int(begins[i]) == 1:
                total, number = torch.zeros(()), torch.zeros(())
            total, number = total + values[i], number + 1
            means[i] = total / number
        return means


class GruTagger(nn.Module):
    """A score of each tag for each step of a batch, by a GRU cell written out."""

    def __init__(self) -> None:
        super().__init__()
        self.of_rows = nn.Linear(6, 24)
        self.of_state = nn.Linear(8, 24)
        self.tags = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores: list[Tensor] = []
        h = torch.zeros(x.size(1), 8)
        for i in range(x.size(0)):
            rows = self.of_rows(x[i]).chunk(3, -1)
            states = self.of_state(h).chunk(3, -1)
            reset = torch.sigmoid(rows[0] + states[0])
            update = torch.sigmoid(rows[1] + states[1])
            new = torch.tanh(rows[2] + reset * states[2])
            h = (1 - update) * new + update * h
            scores.append(torch.sigmoid(self.tags(h)))
        return torch.stack(scores), h


class LstmDecoder(nn.Module):
    """Two LSTM cells, each of one product of the rows and the state, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.lower = nn.Linear(6 + 8, 32)
        self.upper = nn.Linear(8 + 8, 32)

    def cell(self, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        entry, new, forget, output = gates.chunk(4, -1)
        c = c * torch.sigmoid(forget + 1.0) + torch.sigmoid(entry) * torch.tanh(new)
        return torch.tanh(c) * torch.sigmoid(output), c

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h1 = torch.zeros(x.size(0), 8)
        c1, h2, c2 = h1, h1, h1
        outputs: list[Tensor] = []
        for i in range(x.size(1)):
            h1, c1 = self.cell(self.lower(torch.cat([x[:, i], h1], -1)), c1)
            h2, c2 = self.cell(self.upper(torch.cat([h1, h2], -1)), c2)
            outputs.append(h2)
        return torch.stack(outputs, 1), c2


def clips(n: int) -> tuple[Tensor, ...]:
    offsets = torch.cumsum(torch.randint(8, 40, (n + 1,)), 0)
    offsets -= offsets[:1].clone()
    return torch.randn(int(offsets[-1])), offsets


def boxes(n: int) -> tuple[Tensor, ...]:
    corners = torch.rand(n, 2) * 8
    found = torch.cat([corners, corners + 1 + torch.rand(n, 2) * 4], 1)
    return found, torch.rand(n), torch.randperm(n)[: n // 2 + 1]


def masks(n: int) -> tuple[Tensor, ...]:
    return torch.rand(n, 5 + n, 7) > 0.6, torch.rand(n)


def phonemes(n: int) -> tuple[Tensor, ...]:
    return torch.randn(n, 8), torch.randint(0, 6, (n,))


def rated(n: int) -> tuple[Tensor, ...]:
    return torch.rand(n, 6, 4), torch.rand(n, 6), torch.randint(0, 7, (n,))


def sessions(n: int) -> tuple[Tensor, ...]:
    return torch.randn(n), torch.randint(0, 2, (n,))


class PaddedBatch(nn.Module):
    """Rows of clips as one padded batch with a mask; they attend to those of their own clip."""

    def __init__(self) -> None:
        super().__init__()
        self.ask, self.answer = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, rows: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        count = offsets.size(0) - 1
        longest = int((offsets[1:] - offsets[:-1]).max())
        padded = torch.zeros(count, longest, 4)
        mask = torch.ones(count, longest, dtype=torch.bool)
        for i in range(count):
            clip = rows[int(offsets[i]) : int(offsets[i + 1])]
            padded[i, : clip.size(0)] = clip - clip.mean(0)
            mask[i, : clip.size(0)] = False
        scores = self.ask(padded) @ self.answer(padded).transpose(1, 2)
        scores = scores.masked_fill(mask.unsqueeze(1), -1e9)
        return torch.softmax(scores, -1) @ padded, mask


class NestedImages(nn.Module):
    """Images of any size in one batch, as DETR's nested tensor has them: copied, and masked."""

    def forward(self, images: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        batch = torch.zeros_like(images)
        mask = torch.ones(images.size(0), images.size(2), images.size(3), dtype=torch.bool)
        for i in range(images.size(0)):
            image = images[i, :, : int(sizes[i, 0]), : int(sizes[i, 1])]
            image = image * 2.0 - 1.0
            pad_image = batch[i]
            pad_image[: image.shape[0], : image.shape[1], : image.shape[2]].copy_(image)
            mask[i, : image.shape[1], : image.shape[2]] = False
        return batch, mask


class SpanCounts(nn.Module):
    """Add up weights in columns, each as far as its span reaches."""

    def forward(self, weights: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        total = torch.zeros(9, ends.size(0))
        first = torch.ones(6, ends.size(0))
        for i in range(ends.size(0)):
            total[: int(ends[i]), i] += weights[i, : int(ends[i])]
            first[:3, i] += weights[i, 0]
        return total, first


def steps(n: int) -> tuple[Tensor, ...]:
    return (torch.randn(n + 2, n, 6),)


def batches(n: int) -> tuple[Tensor, ...]:
    return (torch.randn(n, 2 * n, 6),)


def texts(n: int) -> tuple[Tensor, ...]:
    offsets = torch.cumsum(torch.randint(0, 9, (n + 1,)), 0)
    offsets -= offsets[:1].clone()
    return torch.randint(1, 90, (int(offsets[-1]),)), offsets


def streamed(n: int) -> tuple[Tensor, ...]:
    return (torch.randn(4 * n + 1, 2),)


def chunked(n: int) -> tuple[Tensor, ...]:
    return (torch.randn(3 * n + 2, 4),)


def labelled(n: int) -> tuple[Tensor, ...]:
    return torch.randn(n), torch.randint(0, 5, (n,))


def padded(n: int) -> tuple[Tensor, ...]:
    ends = torch.cumsum(torch.randint(1, 8, (n,)), 0)
    return torch.randn(int(ends[-1]), 4), torch.cat([torch.zeros(1, dtype=torch.int64), ends])


def nested(n: int) -> tuple[Tensor, ...]:
    high, wide = torch.randint(1, 8, (n, 1)), torch.randint(1, 6, (n, 1))
    return torch.rand(n, 3, 7, 5), torch.cat([high, wide], 1)


def spans(n: int) -> tuple[Tensor, ...]:
    return torch.randn(n, 9), torch.randint(1, 10, (n,))


PROGRAMS: dict[str, tuple[type[nn.Module], Callable[[int], tuple[Tensor, ...]], list[int]]] = {
    "ts_log_mel_clips": (LogMelClips, clips, [1, 1]),
    "ts_box_voting": (BoxVoting, boxes, [1, 1, 1]),
    "ts_masks_by_score": (MasksByScore, masks, [3, 1]),
    "ts_length_regulator": (LengthRegulator, phonemes, [1, 1]),
    "ts_spoken_tokens": (SpokenTokens, phonemes, [1, 1]),
    "ts_best_boxes": (BestBoxes, rated, [1, 1, 1]),
    "ts_session_means": (SessionMeans, sessions, [1, 1]),
    "ts_gru_tagger": (GruTagger, steps, [2]),
    "ts_lstm_decoder": (LstmDecoder, batches, [2]),
    "ts_tokens_packed": (TokensPacked, texts, [1, 1]),
    "ts_streamed_conv": (StreamedConv, streamed, [1]),
    "ts_chunk_memory": (ChunkMemory, chunked, [1]),
    "ts_target_encoding": (TargetEncoding, labelled, [1, 1]),
    "ts_padded_batch": (PaddedBatch, padded, [1, 1]),
    "ts_nested_images": (NestedImages, nested, [1, 1]),
    "ts_span_counts": (SpanCounts, spans, [1, 1]),
}
"""The module, what draws its inputs, and how many dimensions of each are open."""


def main(folder: pathlib.Path) -> None:
    torch.manual_seed(0)
    for name, how in PROGRAMS.items():
        write_model(folder, name, *how)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
