"""What every family of models can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from simcluster.model.graph import Graph
from simcluster.model.layers import Generation
from simcluster.model.shard_counts import ShardCounts
from simcluster.work import DType


class Model(ABC):
    """A model by its dimensions: its graph for any batch, and itself with other sizes."""

    __slots__ = ()

    @property
    @abstractmethod
    def dimensions(self) -> Mapping[str, int]:
        """The sizes by their names in a scenario."""

    @property
    @abstractmethod
    def num_layers(self) -> int:
        """Layers that pipeline stages share."""

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Rows of the embedding table; 0 if there is none."""

    @property
    @abstractmethod
    def longest(self) -> int | None:
        """The longest sequence it can read, or None if any will do."""

    @property
    def sequence(self) -> int | None:
        """The one length that its sequences have, or None if they may differ."""
        return None

    @property
    def samples(self) -> int | None:
        """Samples at once on a device where nobody says otherwise; None: one, and more of them in turn."""
        return None

    def refuses(self, seq_len: int) -> str:
        """Why it cannot read sequences of this length, with the arithmetic, or nothing."""
        if self.longest is not None and seq_len > self.longest:
            return f"sequences of {seq_len} tokens exceed the model's {self.longest} positions"
        return ""

    @property
    def num_parameters(self) -> int:
        """Parameters, tied ones once, as publications count them (no vocabulary padding)."""
        return self.graph(batch=1, seq_len=self.sequence or 1, dtype=DType.BF16, num_tokens=1).num_parameters

    @property
    def num_experts(self) -> int:
        """Experts of a layer that a router chooses of; 0 if none does."""
        return 0

    @property
    def num_expert_parameters(self) -> int:
        """Parameters of all experts, which expert parallelism spreads."""
        return 0

    @property
    def num_active_parameters(self) -> int:
        """Parameters that a token meets; all of them unless a router chooses."""
        return self.num_parameters

    @property
    def counted(self) -> Model:
        """The model whose matrix products are its FLOPs: without what a plan computes to no use."""
        return self

    def remarks(self, seq_len: int) -> tuple[str, ...]:
        """What a user should be told of how it is computed on sequences of this length."""
        return ()

    @abstractmethod
    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch of ``batch`` sequences over all ranks.

        ``num_tokens`` is the number of tokens of the whole step, by which the summed loss is divided.
        """

    @property
    def still(self) -> Model:
        """The model as it answers: nothing is dropped out."""
        return self

    @property
    def ungenerative(self) -> str:
        """Why it generates no tokens, or nothing if it does."""
        return "only decoder-only transformers generate tokens"

    def generating(self, batch: int, dtype: DType, generation: Generation, known: int) -> Graph:
        """The passes of a generation for ``batch`` sequences over all ranks, tokens among ``known`` ones.

        Of every instance ``chunk`` is the number of its pass; those of decode steps are ``like`` those of
        the prefill, which are called as in ``graph``.
        """
        raise NotImplementedError(self.ungenerative)

    @abstractmethod
    def padded(self, multiple: int) -> Model:
        """The same with its vocabulary rounded up to a multiple, as ranks share it."""

    @abstractmethod
    def computed(self, *, flash: bool, logits: DType | None) -> Model:
        """The same mathematics as a framework computes it.

        ``flash``: attention as one kernel that keeps no scores, or as products and softmax of their own.
        ``logits``: the type in which the loss reads logits, None for that of all activations.
        """

    def in_slices(self, count: int) -> Model:
        """The same on sequences in so many slices, each with what concerns its own tokens alone: places of
        experts. Itself if nothing does.
        """
        return self

    @abstractmethod
    def shrunk(self, layers: int, ways: ShardCounts, *, padded: bool) -> Model:
        """The same structure with ``layers`` layers and sizes as small as proving values needs.

        Sizes come from ``ways``: what was divided still divides, what was padded still has to be.
        ``padded`` asks for a vocabulary that will have to be padded.
        """
