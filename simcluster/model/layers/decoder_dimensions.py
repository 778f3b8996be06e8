"""The dimensions of a decoder-only transformer: sizes, and which of the usual choices it makes."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass
from simcluster.model.attributes import Scores
from simcluster.model.layers.latent_attention import LatentAttention
from simcluster.model.layers.mixture_of_experts import Experts
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes and choices of a decoder-only transformer, named as in the scenario's model section."""

    layers: int
    """Layers that pipeline stages share."""
    hidden: int
    """Size of the hidden state."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Key-value heads, of which ``heads`` is a multiple."""
    head_dim: int
    """Elements of a head."""
    ffn: int
    """Inner size of the MLP."""
    vocab: int
    """Rows of the token table."""
    norm: str = "rms"
    """``rms`` or ``layer``."""
    norm_bias: bool = True
    """Whether layer norms have biases."""
    parallel: str | None = None
    """MLP beside attention, ``x + attention(norm(x)) + mlp(norm(x))``: ``one_norm`` (GPT-J, Falcon 7B), or
    ``two_norms``, one for each (GPT-NeoX). None: behind it."""
    post_norms: bool = False
    """A norm behind attention and one behind the MLP, before their residual connections (Gemma 2)."""
    capped_logits: bool = False
    """Logits are ``30 tanh(x / 30)`` (Gemma 2)."""
    embedding_norm: bool = False
    """A norm behind the embedding (BLOOM)."""
    qk_norm: bool = False
    """A norm of every query and key head (Qwen3)."""
    activation: str = "swiglu"
    """Activation of the MLP: gelu, relu, squared_relu, or the gates swiglu, geglu and clamped_swiglu."""
    positions: str = "rotary"
    """``rotary``, ``learned``, ``alibi`` or ``none``."""
    max_positions: int = 0
    """The longest sequence of a learned position table."""
    position_offset: int = 0
    """Rows of that table before the one of the first token (OPT: 2)."""
    rope_theta: float = 10000.0
    """Base of the rotary angles."""
    rotary_fraction: float = 1.0
    """The share of a head's dims that is rotated."""
    bias: bool = False
    """Whether projections have biases."""
    qkv_bias: bool | None = None
    """Whether those to queries, keys and values have them; None: as ``bias`` says."""
    out_bias: bool | None = None
    """Whether that of attention's result has one; None: as ``bias`` says."""
    tied: bool = False
    """Whether the head shares the embedding's weights."""
    window: int = 0
    """Tokens that a token sees, itself included (sliding window); 0: all before it."""
    window_every: int = 1
    """Only every N-th layer has the window, from the first on (gpt-oss: 2)."""
    full_attention_every: int = 0
    """Every N-th layer sees all tokens before, the others have the window (Gemma 3: 6); 0: as above."""
    query_layer: bool = False
    """The last layer takes its queries from a table of positions (PanGu-alpha)."""
    mtp_layers: int = 0
    """Layers of multi-token prediction behind the last one (DeepSeek-V3), each with the head once more."""
    mtp_loss_weight: float = 0.1
    """What their losses, in the mean over these layers, count beside the head's."""
    dropout: float = 0.0
    """Rate of dropout behind attention and MLP."""
    embedding_dropout: float = 0.0
    """Rate of dropout behind the embedding."""
    attention_dropout: float = 0.0
    """Rate of dropout of attention weights."""
    experts: Experts | None = None
    """A mixture of experts in place of the MLP."""
    latent: LatentAttention | None = None
    """Latent attention, whose ``heads`` have sizes of its own."""
    flash: bool = True
    """Whether attention is one kernel that keeps no scores (``FrameworkDependent.computed``)."""
    logits: DType | None = None
    """The dtype in which the loss reads logits; None: that of all activations."""
    alibi_table: bool = False
    """Whether attention in one kernel reads ALiBi's distances from a table."""
    head_multiple: int = 0
    """A multiple to which the kernel of latent attention has its heads filled; 0: it takes any."""
    gathered: bool = True
    """Whether sparse attention reads chosen tokens alone, in absorbed latent attention, or masks others."""

    @property
    def group(self) -> int:
        """Query heads of every key-value head."""
        return self.heads // self.kv_heads

    def has_window(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has the window, if any has."""
        if self.full_attention_every:
            return (layer + 1) % self.full_attention_every != 0
        return layer % self.window_every == 0

    @property
    def scale(self) -> float:
        """By what products of queries and keys are multiplied."""
        return float((self.latent.head_dim if self.latent else self.head_dim) ** -0.5)

    @property
    def absorbed(self) -> bool:
        """Whether heads of queries read latent vectors in place of keys and values of their own."""
        return self.gathered and self.latent is not None and self.latent.sparse is not None

    @property
    def rule(self) -> Scores:
        """How attention scores become weights."""
        alibi = (self.kv_heads, self.group) if self.positions == "alibi" else None
        return Scores(True, self.window, alibi)

    @property
    def table_rows(self) -> int:
        """Rows of a learned position table."""
        return self.max_positions + self.position_offset
