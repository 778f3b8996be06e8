"""The scenario's ``inference:`` section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from simcluster.document import PositiveInt, Refused, Section
from simcluster.model import Generation
from simcluster.plan.spec.precision_spec import FloatName, PrecisionSpec
from simcluster.plan.spec.routing_spec import RoutingSpec
from simcluster.plan.spec.training_spec import TrainingSpec
from simcluster.work import DType


class CacheSpec(Section):
    """How the key-value cache is stored."""

    shorthand: ClassVar[str] = "dtype"

    dtype: Literal["fp32", "fp16", "bf16", "fp8"] | None = None
    """Number format of the cache; that in which keys and values are computed if absent."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"dtype": written} if isinstance(written, str) else written


class InferenceSpec(Section):
    """Text generation: a prefill of the prompts, then decode steps, with all sequences in lockstep."""

    batch: PositiveInt
    """Sequences generated concurrently over all ranks (concurrency)."""

    micro_batch: PositiveInt | None = None
    """Sequences that go through the pipeline stages together on each data-parallel rank; if absent, all of
    the rank's. Smaller micro-batches keep several stages busy at once."""

    prompt: PositiveInt
    """Tokens per prompt (input length)."""

    tokens: PositiveInt
    """Tokens generated per sequence (output length)."""

    precision: FloatName = "bf16"
    """Number format of weights and activations."""

    cache: CacheSpec = CacheSpec.model_construct()
    """The key-value cache."""

    decode_steps: Literal["all"] | PositiveInt = 5
    """How many decode steps are simulated, evenly spaced from the first to the last; times in between are
    interpolated linearly. ``all``: every step is simulated."""

    @model_validator(mode="after")
    def _has_an_end(self) -> InferenceSpec:
        if self.decode_steps == 1 and self.tokens > 2:
            raise Refused(
                f"{self.tokens - 1:,} decode steps are not known from one of them",
                path="decode_steps",
                hint="write at least 2, the first and the last, or all",
            )
        return self

    @property
    def global_batch(self) -> int:
        """Sequences over all ranks."""
        return self.batch

    @property
    def batch_shares(self) -> Mapping[str, tuple[int, ...]]:
        """None: all ranks answer equally many."""
        return {}

    @property
    def seq_len(self) -> int:
        """Tokens of a sequence in the end."""
        return self.prompt + self.tokens

    @property
    def formats(self) -> PrecisionSpec:
        """The formats of a forward pass."""
        return PrecisionSpec(compute=self.precision, gradients=self.precision, master="none")

    @property
    def routing(self) -> RoutingSpec:
        """All experts get equally much."""
        return RoutingSpec()

    @property
    def steps(self) -> tuple[int, ...]:
        """The decode steps that are simulated, by the number of the token that each makes (the first: 0)."""
        last = self.tokens - 1
        if self.decode_steps == "all" or self.decode_steps >= last:
            return tuple(range(1, last + 1))
        between = self.decode_steps - 1
        return tuple(1 + (last - 1) * number // between for number in range(self.decode_steps))

    def generation(self, flights: int) -> Generation:
        """What the model has to do for so many micro-batches."""
        dtype = DType.of(self.cache.dtype or self.precision)
        return Generation(self.prompt, self.tokens, self.steps, flights, dtype)


Task = TrainingSpec | InferenceSpec
"""What is done with the model."""


def samples(task: Task, ways: int) -> int:
    """Sequences of a micro-batch on each of so many data-parallel ranks."""
    return task.micro_batch or max(1, task.global_batch // ways)
