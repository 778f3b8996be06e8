"""What only some models can be asked: about a vocabulary, kernels, routing, generation."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

from simcluster.model.graph import Graph
from simcluster.model.layers import Generation
from simcluster.model.model import Model
from simcluster.work import DType


@runtime_checkable
class WithVocabulary(Protocol):
    """A model that looks up or predicts tokens of a vocabulary, which ranks may share if it is padded."""

    @property
    def vocab(self) -> int:
        """Rows of the embedding table."""
        ...

    @property
    def vocabulary_operators(self) -> tuple[str, ...]:
        """Full names of the operators that use it: it is padded for the ranks that split it there."""
        ...


@runtime_checkable
class FrameworkDependent(Protocol):
    """A model that frameworks compute with different kernels."""

    def computed(self, *, flash: bool, logits: DType | None) -> Model:
        """The same mathematics as a framework computes it.

        ``flash``: attention as one kernel that keeps no scores, or as products and softmax of their own.
        ``logits``: the type in which the loss reads logits, None for that of all activations.
        """
        ...


@runtime_checkable
class KernelDependent(Protocol):
    """A model whose attention may need more than a kernel takes: heads of two sizes, distances of tokens."""

    def fitted(self, *, head_multiple: int, alibi_table: bool, gathered: bool) -> Model:
        """The same mathematics as an attention kernel takes it.

        ``head_multiple``: latent attention on heads filled to such a multiple; 0: on those that it has.
        ``alibi_table``: ALiBi's distances are read from a table. ``gathered``: sparse attention reads the
        tokens that were chosen alone, not all with a mask.
        """
        ...


@runtime_checkable
class Routed(Protocol):
    """A model in which a router may choose experts for every token."""

    @property
    def num_experts(self) -> int:
        """Experts of a layer that a router chooses of; 0 if none does."""
        ...

    @property
    def num_expert_parameters(self) -> int:
        """Parameters of all experts, which expert parallelism spreads."""
        ...

    @property
    def num_active_parameters(self) -> int:
        """Parameters that a token meets; all of them unless a router chooses."""
        ...

    @property
    def for_flops(self) -> Model:
        """The model whose matrix products are the model FLOPs: without what only a plan computes."""
        ...

    def in_slices(self, count: int) -> Model:
        """The same on sequences in ``count`` slices, each with expert slots for its own tokens alone."""
        ...


@runtime_checkable
class Generative(Protocol):
    """A model that can generate tokens one by one, unless it says why not."""

    @property
    def generation_error(self) -> str:
        """Why it generates no tokens, or nothing if it does."""
        ...

    @property
    def without_dropout(self) -> Model:
        """The model as inference runs it."""
        ...

    def generating(self, batch: int, dtype: DType, generation: Generation, known: int) -> Graph:
        """The passes of a generation for ``batch`` sequences over all ranks, tokens among ``known`` ones.

        Of every instance ``chunk`` is the number of its pass; those of decode steps repeat those of
        the prefill, which are called as in ``graph``.
        """
        ...


def vocabulary_of(model: Model) -> int:
    """Rows of a model's embedding table; 0 if there is none."""
    return model.vocab if isinstance(model, WithVocabulary) else 0


def padded(model: Model, multiple: int) -> Model:
    """A model, which is a dataclass, with its vocabulary, if it has one, rounded up to a multiple."""
    if not isinstance(model, WithVocabulary):
        return model
    return replace(model, vocab=-(-model.vocab // multiple) * multiple)  # type: ignore[type-var]


def generation_refusal(model: Model) -> str:
    """Why a model generates no tokens, or nothing if it does."""
    if isinstance(model, Generative):
        return model.generation_error
    return "only decoder-only transformers generate tokens"
