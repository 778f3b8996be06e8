"""The dimensions of a decoder-only transformer: sizes, and which of the usual choices it makes."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.model.attributes import Scores
from simcluster.model.layers.latent_attention import LatentAttention
from simcluster.model.layers.mixture_of_experts import Experts
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes and choices, named as in the scenario's model section.

    ``heads`` are query heads, ``kv_heads`` key-value heads (``heads`` is a multiple of it). ``max_positions``
    is the longest sequence of a learned position table, which has ``position_offset`` rows more.
    ``query_layer`` makes the last layer a query layer as PanGu-alpha's. ``window`` is 0 where every earlier
    token is seen. ``experts`` make the MLP a mixture of experts, ``latent`` makes attention latent, with
    ``heads`` heads of its own sizes. ``flash`` and ``logits`` are how a framework computes: attention as one
    kernel or as several, and the type of the logits the loss reads (None: that of all activations).
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    norm: str = "rms"
    norm_bias: bool = True
    embedding_norm: bool = False
    qk_norm: bool = False
    activation: str = "swiglu"
    positions: str = "rotary"
    max_positions: int = 0
    position_offset: int = 0
    rope_theta: float = 10000.0
    rotary_fraction: float = 1.0
    bias: bool = False
    qkv_bias: bool = False
    tied: bool = False
    window: int = 0
    query_layer: bool = False
    dropout: float = 0.0
    embedding_dropout: float = 0.0
    attention_dropout: float = 0.0
    experts: Experts | None = None
    latent: LatentAttention | None = None
    flash: bool = True
    logits: DType | None = None

    @property
    def group(self) -> int:
        """Query heads of every key-value head."""
        return self.heads // self.kv_heads

    @property
    def scale(self) -> float:
        """By what products of queries and keys are multiplied."""
        return float((self.latent.head_dim if self.latent else self.head_dim) ** -0.5)

    @property
    def rule(self) -> Scores:
        """How attention scores become weights."""
        alibi = (self.kv_heads, self.group) if self.positions == "alibi" else None
        return Scores(True, self.window, alibi)

    @property
    def table_rows(self) -> int:
        """Rows of a learned position table."""
        return self.max_positions + self.position_offset
