"""A model over many samples, in batches: a bad sample never hides the others."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from passes.errors import RewriteError
from passes.tensors.io import TensorIo
from rewriter.backends import open_session
from rewriter.backends.list_sessions import ListSession
from rewriter.errors import BackendError
from rewriter.feeding.feed_checks import InputCheck
from rewriter.feeding.sampled_inputs import as_array, element_type, sampled_inputs
from rewriter.model_files import models, weights
from rewriter.model_files.kinds import AnyModel
from rewriter.proof.compare import compare
from rewriter.running.per_sample import NotPerSampleError, split_result

__all__ = ["Prediction", "Predictor", "Unreadable"]

Array = np.ndarray[Any, Any]
Sample = Mapping[str, Any]
_Key = tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The result of one sample.

    Attributes:
        outputs: Output name to the array of this sample; None where it failed.
        error: Why it failed; None where it did not.
    """

    outputs: dict[str, Array] | None = None
    error: str | None = None


class Unreadable(str):
    """The reason why a value of a sample cannot be read, in the place of the value."""


class Predictor:
    """A session that takes samples one after the other and runs them in batches.

    Each input that is a sequence, or a sequence passed as a tensor, holds an element for each
    sample. A tensor input whose first dimension is open holds a row for each sample, unless its
    value is given in ``shared``. Each output must hold one element, or one row, for each sample.
    Samples whose shapes cannot lie in one batch run in batches of their own.

    Attributes:
        inputs: The names of the inputs that hold a value for each sample.
        dims: The dimensions of that value, as far as they are known, by name.
        dtypes: The element type of that value, by name; object for strings.
        outputs: The names of the outputs.
    """

    def __init__(
        self,
        model: AnyModel,
        *,
        backend: str = "onnxruntime",
        device: str = "cpu",
        batch_size: int = 256,
        threads: int | None = 1,
        shared: Mapping[str, Any] | None = None,
        must_begin: bool = True,
    ) -> None:
        """Open the session.

        Args:
            model: A path, ModelProto, onnx_ir.Model or graphsurgeon Graph.
            backend: The name of a backend.
            device: One of its devices.
            batch_size: Samples in a run, at most.
            threads: Threads of a run on onnxruntime's CPU; None lets onnxruntime choose. Other
                backends choose their own.
            shared: The inputs that are the same for every sample, by name.
            must_begin: Whether an error of every sample of the first batch is raised.

        Raises:
            RewriteError: The backend cannot run the model, no input holds samples, or an input is
                left that is neither given in ``shared`` nor has a default.
            ValueError: The batch size is no number from 1 on, or the number of threads below 0.
        """
        if not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise ValueError(f"batch_size is {batch_size!r}; give 1 or more")
        if threads is not None and threads < 0:
            raise ValueError(f"threads is {threads}; give 1 or more, or None for all")
        self._opened: dict[str, Any] = {
            "model": os.fspath(model) if isinstance(model, str | os.PathLike) else None,
            "backend": backend,
            "device": device,
            "batch_size": batch_size,
            "threads": threads,
            "shared": shared,
            "must_begin": must_begin,
        }
        taken = models.take(model).model
        weights.require(taken)
        self._check = InputCheck(taken)
        self._batch_size = batch_size
        self._shared = dict(shared or {})
        self._specs = sampled_inputs(taken, self._shared)
        self._passed = TensorIo.read(taken)
        self.dims = {
            spec.name: spec.dims if spec.is_sequence or spec.dims is None else spec.dims[1:]
            for spec in self._specs
        }
        self.dtypes = {spec.name: element_type(spec) for spec in self._specs}
        self.inputs = tuple(self.dims)
        lengths = {one.lengths for one in self._passed.outputs.values()}
        self.outputs = tuple(v.name or "" for v in taken.graph.outputs if v.name not in lengths)
        session = open_session(model, backend, device, threads=threads)
        self._session = ListSession(session, self._passed)
        self._is_begun, self._is_tried = not must_begin, False

    def __reduce__(self) -> tuple[Any, ...]:
        """Let another process open the model anew.

        Raises:
            TypeError: The model has no path.
        """
        if self._opened["model"] is None:
            raise TypeError(
                "a Predictor is sent to another process by the path of its model; save the model, "
                "and give its path in the place of the model"
            )
        return functools.partial(Predictor, **self._opened), ()

    def __call__(self, samples: Iterable[Sample | Array]) -> Iterator[Prediction]:
        """Run samples, a batch at a time as they are read.

        Args:
            samples: A mapping of input name to array each, or an array each where one input holds
                samples. Floats and integers of other widths are converted where no integer
                changes.

        Yields:
            What became of each sample, in their order.

        Raises:
            RewriteError: Every sample of the first batch fails (a batch of more than one sample),
                or an output does not hold one value for each sample.
        """
        rest = iter(samples)
        while batch := list(itertools.islice(rest, self._batch_size)):
            yield from self.predict(batch)

    def predict(self, samples: Sequence[Sample | Array]) -> list[Prediction]:
        """Run one batch.

        Args:
            samples: As for a call.

        Returns:
            What became of each sample, in their order.

        Raises:
            RewriteError: As for a call.
        """
        found: dict[int, Prediction] = {}
        groups: dict[_Key, list[tuple[int, Sample]]] = {}
        for number, given in enumerate(samples):
            try:
                sample = self._sample(given)
                groups.setdefault(self._key(sample), []).append((number, sample))
            except RewriteError as error:
                found[number] = Prediction(error=str(error))
        for group in groups.values():
            numbers, members = zip(*group, strict=True)
            found |= zip(numbers, self._run(members), strict=True)
        results = [found[number] for number in range(len(samples))]
        if not self._is_begun and len(results) > 1 and all(one.error for one in results):
            raise RewriteError(f"every sample of the first batch fails: {results[0].error}")
        self._is_begun = self._is_begun or bool(results)
        return results

    def _sample(self, given: Sample | Array) -> dict[str, Array]:
        """Return the value of each input, in order.

        Raises:
            RewriteError: A value is missing, or belongs to no input that holds samples.
        """
        if not isinstance(given, Mapping):
            if len(self.inputs) > 1:
                names = ", ".join(map(repr, self.inputs))
                raise RewriteError(f"a sample is a mapping with a value for each of {names}")
            given = {self.inputs[0]: given}
        if unknown := [name for name in given if name not in self.inputs]:
            raise RewriteError(f"no input {unknown[0]!r} holds samples; give {self.inputs}")
        if absent := [name for name in self.inputs if given.get(name) is None]:
            raise RewriteError(
                f"the sample has no value for input {absent[0]!r}, or lists that are not "
                "rectangular or hold a null; one that is the same for all is given as shared"
            )
        if unread := [given[name] for name in self.inputs if isinstance(given[name], Unreadable)]:
            raise RewriteError(str(unread[0]))
        return {spec.name: as_array(spec, given[spec.name]) for spec in self._specs}

    def _key(self, sample: Sample) -> _Key:
        """Return what samples of one batch must have in common."""
        key = []
        for spec in self._specs:
            shape = sample[spec.name].shape
            passed = self._passed.inputs.get(spec.name)
            if passed is not None:
                first, behind = passed.span
                key.append((len(shape), *shape[:first], *shape[behind:]))
            elif spec.is_uniform or not spec.is_sequence:
                key.append(shape)
        return tuple(key)

    def _run(self, samples: Sequence[Sample]) -> list[Prediction]:
        """Run samples that can lie in one batch; halve the batch until a bad one is alone."""
        try:
            outputs = self._run_whole(samples)
        except BackendError as error:
            if error.is_limit:
                raise
            return self._halved(samples, error)
        except NotPerSampleError as error:
            raise RewriteError(str(error)) from None
        except RewriteError as error:
            return self._halved(samples, error)
        if not self._is_tried and len(samples) > 1:
            for number in (0, -1):
                self._require_apart(samples[number], outputs[number])
            # Outputs without numbers tell nothing.
            tried = (outputs[0].values(), outputs[-1].values())
            self._is_tried = all(any(np.size(one) for one in values) for values in tried)
        return [Prediction(one) for one in outputs]

    def _halved(self, samples: Sequence[Sample], error: RewriteError) -> list[Prediction]:
        if len(samples) == 1:
            return [Prediction(error=str(error))]
        half = len(samples) // 2
        return [*self._run(samples[:half]), *self._run(samples[half:])]

    def _run_whole(self, samples: Sequence[Sample]) -> list[dict[str, Array]]:
        feeds: dict[str, Any] = dict(self._shared)
        for spec in self._specs:
            values = [sample[spec.name] for sample in samples]
            feeds[spec.name] = values if spec.is_sequence else np.stack(values)
        self._check(feeds)
        results = self._session.run(feeds)
        columns = {name: split_result(name, results[name], len(samples)) for name in self.outputs}
        return [
            {name: column[number] for name, column in columns.items()}
            for number in range(len(samples))
        ]

    def _require_apart(self, sample: Sample, in_batch: Mapping[str, Array]) -> None:
        """Refuse a model whose samples act on each other: the first and the last alone tell.

        Running totals leave the first one as it is, and a value of the whole batch that was given
        as shared may fit the place of one sample.

        Raises:
            RewriteError: The sample alone gives something else than in its batch.
        """
        alone = self._run_whole([sample])[0]
        found = compare(alone, in_batch)
        if not found.equal:
            raise RewriteError(
                "the samples of a batch are not independent: a sample alone gives other "
                f"outputs than in its batch ({found.message}); run it with batch_size=1, or give "
                "the inputs that belong to the whole batch as shared"
            )
