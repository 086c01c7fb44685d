"""The measured numbers that the costs of forms are made of.

The numbers are microseconds on one core under onnxruntime 1.31, for elements of 1 KiB
(``python -m benchmarks`` measures what is chosen by them). They need not be exact: a decision
hangs on their proportions. What a node computes costs the same in every form and is left out.
"""

from __future__ import annotations

__all__ = [
    "AGAIN",
    "ASKED",
    "BATCHED",
    "BLOCKED",
    "COLLECTED",
    "COPIED",
    "COUNTED",
    "FIRST_ASKED",
    "FLOPS",
    "FURTHER_REFUTED",
    "HEAVY",
    "HEAVY_STARTED",
    "INSERTED",
    "JOINED",
    "KERNEL",
    "LARGEST",
    "LOOP",
    "LOSS",
    "MARGIN",
    "MEASURED",
    "MOST_BYTES",
    "MOST_CUT",
    "MOST_NUMBERS",
    "MOVED",
    "NEXT_ASKED",
    "PER_ITERATION",
    "PLACED",
    "READ",
    "RECURRENT",
    "REFUTED",
    "ROW",
    "SCATTERED",
    "SLOWEST",
    "SMALL",
    "SPLIT",
    "STARTED",
    "USUAL",
    "WRITTEN",
]

PER_ITERATION = 1.1
"""One iteration of a Loop."""

STARTED = 6.0
"""Starting a further Loop, and the nodes around it."""

KERNEL = 0.37
"""One node run for one sample."""

BATCHED, COUNTED = 0.04, 0.003
"""The share of one sample in a node of the body that runs once for all, and in one that only
computes with lengths and positions."""

READ = {"element": 0.4, "row": 0.5, "slice": 1.6}
"""Reading an element of a sequence, a row of a stacked tensor, a slice of a packed one."""

AGAIN = 30.0
"""Reading an image of any size from a sequence in a further loop, which copies it once more."""

COLLECTED = 0.3
"""A scan output of a Loop."""

INSERTED, COPIED = 0.5, 0.016
"""One SequenceInsert, and what it copies for each element that is there."""

BLOCKED, MEASURED = 3.7, 1.5
"""The work of a Loop over blocks for one value, and for its length where that is read."""

PLACED = 0.4
"""The places of the rows of one sample, computed and read: padding, and what takes it off."""

RECURRENT = 12.0
"""A GRU, LSTM or RNN of very few steps, with what is asked about it on onnxruntime."""

SMALL = 16
"""Up to so many numbers cost next to nothing."""

SCATTERED, ROW = 0.1, 8
"""The rows of one sample in a ScatterElements, which sums or finds them, for each number of a row;
how many numbers a row of unknown size is taken to have."""

WRITTEN, LOOP = 0.42, 8.0
"""A node that runs once in all; a Loop, and what stands around it."""

JOINED, SPLIT, MOVED = 0.15, 0.4, 0.2
"""ConcatFromSequence and SplitToSequence, for each element; a KiB of it that is split, where it
does not stay in the cache."""

ASKED, FIRST_ASKED, NEXT_ASKED = 1.7, 42.0, 14.0
"""Reading the shape of an element; what a guard costs at all, and each further sequence."""

REFUTED, FURTHER_REFUTED, LOSS = 15.0, 8.0, 0.06
"""The cost of a guard that two elements refute, the cost of each further form behind it, and the
share of a loop that both may come to."""

MOST_BYTES = 8192
"""Larger elements are not batched behind a guard: a Loop keeps one in the cache."""

MOST_NUMBERS = 300
"""More single numbers of an element are copied faster than read one by one, about 25 ns each."""

MOST_CUT = 196_608
"""More numbers are not cut into a sequence for few samples: a loop that computes where each begins
copies them once less."""

USUAL = 256
"""The number of samples that forms are compared at."""

MARGIN = 1.3
"""So many times the samples at which two forms are equally fast make the faster one sure."""

SLOWEST = 0.9
"""No form may fall below this share of the speed of the loop as given."""

LARGEST = 2048
"""A form that does not pay for so many samples is not taken."""

FLOPS = 10_000.0
"""Multiplications and additions of a heavy operator in a microsecond."""

HEAVY = frozenset({"Attention", "Conv", "ConvTranspose", "Gemm", "GRU", "LSTM", "MatMul", "RNN"})
"""Operators whose work grows by products of their dimensions: they take most of the time."""

HEAVY_STARTED = 1.5
"""What one of them costs in an iteration at least, more than any other operator does."""
