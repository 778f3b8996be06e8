"""What every family of models can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

from simcluster.model.graph import Graph
from simcluster.model.shard_counts import ShardCounts
from simcluster.work import DType


class Model(ABC):
    """A model by its dimensions: its graph for any batch, and itself with other sizes."""

    __slots__ = ()

    tensor_recipe: ClassVar[str] = "data"
    """The recipe of a plan that has an axis called ``tensor`` and names none."""

    @property
    @abstractmethod
    def dimensions(self) -> Mapping[str, int]:
        """The sizes by their names in a scenario."""

    @property
    @abstractmethod
    def num_layers(self) -> int:
        """Layers that pipeline stages share."""

    @property
    def fixed_seq_len(self) -> int | None:
        """The one length that its sequences have, or None if they may differ."""
        return None

    @property
    def max_seq_len(self) -> int | None:
        """The longest sequence it can read, or None if any will do."""
        return self.fixed_seq_len

    @property
    def throughput_unit(self) -> str:
        """What its throughput counts: tokens, or samples where each of them is one token."""
        return "samples" if self.fixed_seq_len == 1 else "tokens"

    @property
    def samples(self) -> int | None:
        """Samples at once on a device where nobody says otherwise; None: one, and more of them in turn."""
        return None

    def seq_len_error(self, seq_len: int) -> str:
        """Why it cannot read sequences of this length, with the arithmetic, or nothing."""
        if self.max_seq_len is not None and seq_len > self.max_seq_len:
            return f"sequences of {seq_len} tokens exceed the model's {self.max_seq_len} positions"
        return ""

    @property
    def num_parameters(self) -> int:
        """Parameters, tied ones once, as publications count them (no vocabulary padding)."""
        return _num_parameters(self)

    def remarks(self, seq_len: int) -> tuple[str, ...]:
        """What a user should be told of how it is computed on sequences of this length."""
        return ()

    @abstractmethod
    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch of ``batch`` sequences over all ranks.

        ``num_tokens`` is the number of tokens of the whole step, by which the summed loss is divided.
        """

    @abstractmethod
    def shrunk(self, layers: int, ways: ShardCounts, *, padded: bool) -> Model:
        """The same structure with ``layers`` layers and sizes as small as proving values needs.

        Sizes come from ``ways``: what was divided still divides, what was padded still has to be.
        ``padded`` asks for a vocabulary that will have to be padded.
        """


@lru_cache(maxsize=256)
def _num_parameters(model: Model) -> int:
    """Parameters of a model's graph; searches ask for those of one model in every plan that they try."""
    graph = model.graph(batch=1, seq_len=model.fixed_seq_len or 1, dtype=DType.BF16, num_tokens=1)
    return graph.num_parameters
