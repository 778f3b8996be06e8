"""The scenario's ``training:`` section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from simcluster.document import Name, PositiveInt, Section
from simcluster.plan.fine_tuning import LoraSpec
from simcluster.plan.spec.optimizer_spec import OptimizerSpec
from simcluster.plan.spec.precision_spec import PrecisionSpec
from simcluster.plan.spec.routing_spec import RoutingSpec

_STEPS = "leave it out: the number of micro-batches is global_batch / (micro_batch x data-parallel ranks)"

_ELSEWHERE = {
    "batch_size": "write global_batch, of all devices, or micro_batch, of one data-parallel rank",
    "dtype": "write precision",
    **dict.fromkeys(("lr", "learning_rate"), "write optimizer: {kind: adamw, learning_rate: 1e-4}"),
    **dict.fromkeys(("gradient_accumulation", "gradient_accumulation_steps", "micro_batch_num"), _STEPS),
    **dict.fromkeys(("accumulate_grad_batches", "micro_batches", "num_micro_batches"), _STEPS),
}
"""Keys of other tools that the section does not have, and what it says instead."""


class TrainingSpec(Section):
    """The workload of one training step."""

    keys_elsewhere: ClassVar[Mapping[str, str]] = _ELSEWHERE

    global_batch: PositiveInt
    """Sequences per step over all ranks."""

    micro_batch: PositiveInt
    """Sequences per micro-batch on each data-parallel rank; the number of gradient accumulation steps
    follows."""

    batch_shares: dict[Name, Annotated[tuple[PositiveInt, ...], Field(min_length=1)]] = {}
    """Unequal shares of the global batch, by coordinate along one mesh axis: ``{data: [3, 3, 1, 1]}`` gives
    the first two three times as many micro-batches as the last two. Equal if absent."""

    seq_len: PositiveInt
    """Tokens per sequence."""

    precision: PrecisionSpec = PrecisionSpec.model_construct()
    """fp32, tf32, fp16, bf16, fp8 or nvfp4, or each number format separately."""

    optimizer: OptimizerSpec = OptimizerSpec.model_construct()
    """sgd, momentum, adam, adamw, lamb, muon, lazy_adam or ftrl, with its hyperparameters."""

    routing: RoutingSpec = RoutingSpec.model_construct()
    """Distribution of tokens over the experts of a mixture: uniform, zipf:1.2, normal:0.3, or a histogram."""

    lora: LoraSpec | None = None
    """Low-rank adapters, which are trained while the weights of the model are frozen."""

    frozen: tuple[Name, ...] | None = None
    """Parameter names, as patterns, that are not trained: they have no gradients and no optimizer states.
    Default: all parameters of the model if there are adapters, else none."""

    @property
    def formats(self) -> PrecisionSpec:
        """The formats of a step."""
        return self.precision

    @property
    def frozen_patterns(self) -> tuple[str, ...]:
        """Patterns of the model's parameters that are not trained."""
        return self.frozen if self.frozen is not None else ("*",) if self.lora else ()
