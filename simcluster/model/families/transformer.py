"""Decoder-only transformers by dimensions: the GPT and Llama families as graphs of named operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Fraction, NonNegativeInt, PositiveFloat, PositiveInt, Refused
from simcluster.errors import PlanError
from simcluster.model.family_spec import (
    AttentionKeys,
    ExpertsSpec,
    LatentSpec,
    LayerKeys,
    PositionKeys,
    Probability,
    TextKeys,
    VocabularyKeys,
    experts_of,
    latent_of,
    refuse_clashes,
    refuse_missing,
    usual_head_dim,
)
from simcluster.model.graph import Block, Graph, Instance, TensorType
from simcluster.model.layers import (
    GATED,
    DecoderBlock,
    Dimensions,
    Experts,
    Generation,
    LatentAttention,
    LayerCaches,
    LightningIndexer,
)
from simcluster.model.model import Model
from simcluster.model.shard_counts import ShardCounts
from simcluster.work import DType

_TIED = ("embedding.tokens.weight", "head.logits.weight")
"""The two matrices that are one in models with tied embeddings."""

_WHOLE = "_whole"
"""Behind the name of blocks of layers without the window that others have."""


@dataclass(frozen=True, slots=True)
class Transformer(Dimensions, Model):
    """A decoder-only transformer of these dimensions."""

    tensor_recipe: ClassVar[str] = "megatron"
    vocabulary_operators: ClassVar[tuple[str, ...]] = ("embedding.tokens", "head.logits")

    @property
    def dimensions(self) -> Mapping[str, int]:
        """The sizes by their names in a scenario."""
        names = ["layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab"]
        names += [name for name in ("window", "mtp_layers") if getattr(self, name)]
        sizes: dict[str, int] = {name: getattr(self, name) for name in names}
        for part in ("experts", "latent"):
            inner = getattr(self, part)
            if inner is not None:
                sizes |= _sizes(part, inner)
        if self.latent and self.latent.sparse:
            sizes |= _sizes("latent.sparse", self.latent.sparse)
        return sizes

    @property
    def num_layers(self) -> int:
        """Layers that pipeline stages share."""
        return self.layers

    @property
    def max_seq_len(self) -> int | None:
        """Rows of a learned position table; None without one."""
        tables = self.positions == "learned" or self.query_layer
        return self.max_positions if tables else None

    def computed(self, *, flash: bool, logits: DType | None) -> Transformer:
        """Attention in one kernel or several, logits in the type of activations or another.

        PlanError if sparse attention is to be in several.
        """
        if not flash and self.latent and self.latent.sparse:
            why = "sparse attention (model.latent.sparse) is one kernel that keeps no scores"
            hint = "a profile with attention: flash; with sparse_attention: masked it computes all scores"
            raise PlanError(
                f"{why}; separate kernels for its products and softmax are not modelled", hint=hint
            )
        return replace(self, flash=flash, logits=logits)

    def fitted(self, *, head_multiple: int, alibi_table: bool, gathered: bool) -> Transformer:
        """Attention as a kernel takes it: filled heads, distances in a table, chosen tokens gathered."""
        return replace(self, head_multiple=head_multiple, alibi_table=alibi_table, gathered=gathered)

    def in_slices(self, count: int) -> Transformer:
        """With expert slots for each of ``count`` slices of a sequence."""
        if self.experts is None:
            return self
        return replace(self, experts=replace(self.experts, slices=count))

    def shrunk(self, layers: int, ways: ShardCounts, *, padded: bool) -> Transformer:
        """Small sizes that divide as these do; grouped heads stay grouped, windows shorter than sequences."""
        # What latent keys share is shared by more than one head.
        least = 2 if self.latent else 1
        ways_of_heads = ways("heads", least)
        if self.latent and self.latent.sparse:
            # Absorbed, its heads are one group.
            ways_of_heads = max(ways_of_heads, ways("group", least))
        kv_heads = min(self.kv_heads, ways_of_heads)
        group = min(self.group, ways("group", 2 if self.group > 1 else 1))
        vocab = ways("vocab", 32)
        return replace(
            self,
            layers=layers,
            hidden=min(self.hidden, ways("hidden", 16)),
            heads=kv_heads * group,
            kv_heads=kv_heads,
            head_dim=min(self.head_dim, ways("head_dim", round(4 / self.rotary_fraction))),
            ffn=min(self.ffn, ways("ffn", 8)),
            vocab=min(self.vocab, vocab - 3 if padded else vocab),
            max_positions=min(self.max_positions, max(ways("seq", 4), 8)),
            window=min(self.window, 2),
            full_attention_every=min(self.full_attention_every, layers),
            experts=self.experts and self.experts.shrunk(layers, ways),
            latent=self.latent and self.latent.shrunk(ways),
        )

    @property
    def num_experts(self) -> int:
        """Experts of a layer that the router chooses of; 0 without a router."""
        return self.experts.count if self.experts else 0

    @property
    def num_expert_parameters(self) -> int:
        """Parameters of all experts that a router chooses of."""
        if self.experts is None:
            return 0
        matrices, ffn = 3 if self.activation in GATED else 2, self.experts.ffn
        biases = (matrices - 1) * ffn + self.hidden if self.bias else 0
        count = (self._mixtures + self.mtp_layers) * self.experts.count
        return count * (matrices * self.hidden * ffn + biases)

    @property
    def num_active_parameters(self) -> int:
        """Parameters that one token uses: of the experts only its own, and no bias of the router."""
        if self.experts is None:
            return self.num_parameters
        idle = self.num_expert_parameters * (self.experts.count - self.experts.top_k) // self.experts.count
        steering = (self._mixtures + self.mtp_layers) * self.experts.count if self.experts.steered else 0
        return self.num_parameters - idle - steering

    @property
    def _mixtures(self) -> int:
        """Layers with experts, of those that pipeline stages share."""
        return sum(map(self.experts.in_layer, range(self.layers))) if self.experts else 0

    @property
    def for_flops(self) -> Transformer:
        """The model whose products are the model FLOPs: experts with as many slots as tokens choose."""
        if self.experts is None:
            return self
        return replace(self, experts=replace(self.experts, capacity_factor=None, padded=True))

    def remarks(self, seq_len: int) -> tuple[str, ...]:
        """Its multi-token prediction, and how many tokens an expert takes."""
        count = self.mtp_layers
        more = f"{count} more layer{'s' * (count > 1)} and head{'s' * (count > 1)}"
        said = (f"multi-token prediction: {more} on the last stage",) if count else ()
        return said if self.experts is None else (*said, self._places(self.experts, seq_len))

    def _places(self, experts: Experts, seq_len: int) -> str:
        """How many tokens an expert takes."""
        places, count = experts.capacity(seq_len), experts.count
        if experts.capacity_factor is None:
            return f"experts drop no token: each of {count} gets {places:,} of a sequence in the mean"
        how = "computes all of them, taken or not" if experts.padded else "computes what sits in them"
        return (
            f"each of {count} experts has {places:,} places for every sequence, "
            f"{experts.capacity_factor:g} x its mean share, and {how}"
        )

    def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
        """The forward graph of one micro-batch of ``batch`` sequences over all ranks.

        ``num_tokens`` is the number of tokens of the whole step, by which the summed loss is divided.
        """
        tokens = TensorType((batch, seq_len), DType.INT64)
        hidden = TensorType((batch, seq_len, self.hidden), dtype)

        def write(name: str, *, mixed: bool = False) -> DecoderBlock:
            dims = replace(self, window=0) if name.endswith(_WHOLE) else self
            return DecoderBlock(name, dims, dtype, mixed, num_tokens=num_tokens)

        blocks = [write("embedding").embedding(tokens)]
        instances = [Instance("embedding", "embedding")]
        mixed = self.experts.in_layer if self.experts else lambda layer: False
        kinds = ["mixture" if mixed(index) else "layer" for index in range(self.layers)]
        if self.window:
            kinds = [
                kind if self.has_window(index) else f"{kind}{_WHOLE}" for index, kind in enumerate(kinds)
            ]
        if self.query_layer:
            kinds[-1] = "query_layer"
            blocks.append(write("query_layer").query_layer(hidden, tokens))
        for kind in dict.fromkeys(kinds):
            if kind != "query_layer":
                blocks.append(write(kind, mixed=kind.startswith("mixture")).layer(hidden))
        depths = range(1, self.mtp_layers + 1)
        blocks.append(write("head").head(hidden, tokens, num_tokens, read=bool(depths)))
        last = instances[0].output("out")
        for index, kind in enumerate(kinds):
            layer = Instance(f"layers.{index}", kind, (last,))
            instances.append(layer)
            last = layer.output("out")
        instances.append(Instance("head", "head", (last,)))
        for depth in depths:
            with_experts, read = self.experts is not None, depth < self.mtp_layers
            made = (
                write(f"mtp_layer_{depth}", mixed=with_experts).mtp_layer(hidden, tokens, depth),
                write(f"mtp_head_{depth}").head(hidden, tokens, num_tokens, depth=depth, read=read),
            )
            blocks += made
            for part, block in zip(("layers", "heads"), made, strict=True):
                before = instances[-1].output("out")
                instances.append(Instance(f"mtp.{part}.{depth - 1}", block.name, (before,)))
        ties = self._ties(blocks[0].parameters)
        return Graph({block.name: block for block in blocks}, tuple(instances), ties)

    def _ties(self, embedding: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """The parameters that are one: multi-token prediction shares the ``embedding`` and the head."""
        depths = range(self.mtp_layers)
        groups = {
            f"embedding.{name}": [f"mtp.layers.{depth}.embedding.{name}" for depth in depths]
            for name in embedding
        }
        table, logits = _TIED
        heads = [f"mtp.heads.{depth}.logits.weight" for depth in depths]
        if self.tied:
            groups[table] += [logits, *heads]
        else:
            groups[logits] = heads
        return tuple((first, *others) for first, others in groups.items() if others)

    @property
    def without_dropout(self) -> Transformer:
        """Without dropout."""
        return replace(self, dropout=0.0, embedding_dropout=0.0, attention_dropout=0.0)

    @property
    def generation_error(self) -> str:
        """Why it cannot generate tokens: what of it has no form that reads a KV cache; empty if it can."""
        some = self.window and (self.window_every > 1 or self.full_attention_every > 0)
        lacking: dict[str, object] = {"latent attention": self.latent, "experts": self.experts}
        lacking |= {"windows in some layers": some, "multi-token prediction": self.mtp_layers}
        unsupported = [name for name, has in lacking.items() if has]
        return (
            f"inference of models with {' and '.join(unsupported)} is not supported yet"
            if unsupported
            else ""
        )

    def generating(self, batch: int, dtype: DType, generation: Generation, known: int) -> Graph:
        """The graph of a prefill and of decode steps, in order, over the same weights and caches."""
        if self.generation_error:
            raise NotImplementedError(self.generation_error)
        names = ("embedding", *(f"layers.{index}" for index in range(self.layers)), "head")
        blocks: dict[str, Block] = {}
        instances: list[Instance] = []
        for number, token in enumerate((0, *generation.steps)):
            length = generation.length(token)
            ids = TensorType((batch, length), DType.INT64)
            hidden = TensorType((batch, length, self.hidden), dtype)
            prefix = generation.prefix(token)

            def write(name: str, prefix: str = prefix, token: int = token) -> DecoderBlock:
                return DecoderBlock(
                    f"{prefix}{name}", self.without_dropout, dtype, past=LayerCaches(generation, token)
                )

            made = [write("embedding").embedding(ids), write("layer").layer(hidden)]
            made.append(write("head").next_token(hidden, known))
            kinds = ["embedding", *("layer",) * self.layers, "head"]
            if self.query_layer:
                kinds[-2] = "query_layer"
                made.append(write("query_layer").query_layer(hidden, ids))
            blocks |= {block.name: block for block in made}
            for name, kind in zip(names, kinds, strict=True):
                inputs = (instances[-1].output("out"),) if instances else ()
                like = name if token else ""
                instances.append(
                    Instance(f"{prefix}{name}", f"{prefix}{kind}", inputs, chunk=number, repeats=like)
                )
        return Graph(blocks, tuple(instances), _shared(blocks, instances, self.tied))


def _sizes(name: str, part: Experts | LatentAttention | LightningIndexer) -> dict[str, int]:
    """The sizes of a part of the model section by their names."""
    known = ((field.name, getattr(part, field.name)) for field in fields(part))
    return {f"{name}.{key}": size for key, size in known if type(size) is int}


def _shared(
    blocks: Mapping[str, Block], instances: Sequence[Instance], tied: bool
) -> tuple[tuple[str, ...], ...]:
    """The parameters and caches of the passes of a generation: every one is one of all passes."""
    copies: dict[str, list[str]] = {}
    for instance in instances:
        block = blocks[instance.block]
        for name in (*block.parameters, *block.states):
            copies.setdefault(f"{instance.known_as}.{name}", []).append(f"{instance.name}.{name}")
    if tied:
        copies[_TIED[0]] += copies.pop(_TIED[1])
    return tuple(tuple(group) for group in copies.values() if len(group) > 1)


_CHOICES = tuple(
    field.name
    for field in fields(Dimensions)
    if field.name
    not in ("kv_heads", "head_dim", "ffn", "flash", "logits", "head_multiple", "alibi_table", "gathered")
)


class LlamaSpec(LayerKeys, AttentionKeys, VocabularyKeys, PositionKeys, TextKeys):
    """A decoder-only transformer; what is ``usual`` holds where nothing is written."""

    kind: ClassVar[str] = "llama"
    network: ClassVar[type[Model]] = Transformer
    usual: ClassVar[Mapping[str, Any]] = {
        "norm": "rms",
        "activation": "swiglu",
        "positions": "rotary",
        "bias": False,
        "tied": False,
    }

    kv_heads: PositiveInt | None = None
    """Number of key-value heads; as many as query heads if absent."""

    position_offset: NonNegativeInt | None = None
    """Rows of the position table before that of the first token (OPT: 2); 0 if absent."""

    norm: Literal["rms", "layer"] | None = None
    """RMS norm or layer norm, before attention and before the MLP."""

    norm_bias: bool | None = None
    """Whether layer norms have biases; true if absent."""

    parallel: Literal["one_norm", "two_norms"] | None = None
    """Attention and MLP side by side, with one residual connection around both: behind the same norm
    (GPT-J, Falcon 7B, Phi-2, Command R) or each behind its own (GPT-NeoX, Falcon 40B); the MLP behind
    attention if absent."""

    post_norms: bool | None = None
    """Whether results of attention and MLP are normalised before they are added (Gemma 2, Grok 1)."""

    capped_logits: bool | None = None
    """Whether logits are capped, ``30 tanh(x / 30)`` (Gemma 2)."""

    embedding_norm: bool | None = None
    """Whether a norm follows the embedding (BLOOM)."""

    qk_norm: bool | None = None
    """Whether every query and key head is normalised (Qwen3)."""

    positions: Literal["rotary", "learned", "alibi", "none"] | None = None
    """Rotary embeddings, a learned table, ALiBi slopes in attention, or no positions at all."""

    rope_theta: PositiveFloat = 10000.0
    """Base of the rotary frequencies."""

    rotary_fraction: Fraction | None = None
    """Share of each head's dims that are rotated; 1 if absent."""

    bias: bool | None = None
    """Whether all projections have biases, including those of experts and their router."""

    qkv_bias: bool | None = None
    """Whether the query, key and value projections have biases, regardless of ``bias``."""

    out_bias: bool | None = None
    """Whether the projection of attention's result has a bias, regardless of ``bias``."""

    window: PositiveInt | None = None
    """Sliding-window attention: number of tokens that each token attends to, itself included; if absent, all
    tokens before it."""

    window_every: PositiveInt | None = None
    """Only every N-th layer, starting with the first, has that window (gpt-oss: 2); all layers if absent."""

    full_attention_every: PositiveInt | None = None
    """Every N-th layer attends to all tokens before it, the others have that window (Gemma 3: 6, OLMo 3: 4);
    no layer if absent."""

    query_layer: bool | None = None
    """Whether the last layer takes its queries from a table of positions (PanGu-alpha)."""

    mtp_layers: NonNegativeInt = 0
    """Multi-token prediction: number of additional layers after the last one (DeepSeek-V3: 1). Each has a
    projection and runs the head again, and predicts one token further ahead. They are on the last pipeline
    stage in addition to its share of the layers."""

    mtp_loss_weight: PositiveFloat | None = None
    """Weight of the mean of their losses relative to the head's loss; 0.1 if absent."""

    embedding_dropout: Probability | None = None
    """Dropout rate after the embedding; the same as ``dropout`` if absent."""

    experts: ExpertsSpec | None = None
    """Mixture of experts (MoE) instead of the MLP."""

    latent: LatentSpec | None = None
    """Multi-head latent attention instead of the usual one. Its heads have sizes of their own; kv_heads and
    head_dim are not used."""

    @classmethod
    def make(cls, given: Mapping[str, Any], written: Mapping[str, Any]) -> Model:
        """The model of what a file gives and the section says instead; Refused if impossible."""
        known = {**cls.usual, **given, **written}
        refuse_missing([name for name in ("layers", "hidden", "heads", "vocab") if name not in known])
        known |= {
            "experts": experts_of(given.get("experts"), written.get("experts")),
            "latent": latent_of(given.get("latent"), written.get("latent")),
        }
        known = {name: value for name, value in known.items() if value is not None}
        hidden, heads = known["hidden"], known["heads"]
        kv_heads = known.get("kv_heads", heads)
        if heads % kv_heads:
            raise Refused(f"{heads} heads are not a multiple of {kv_heads} key-value heads", path="kv_heads")
        head_dim = usual_head_dim(known)
        ffn = known.get("ffn")
        if ffn is None and "experts" in known and known["experts"].in_layer(0):
            ffn = known["experts"].ffn
        if ffn is None:
            if known["activation"] in GATED:
                raise Refused("'ffn' is missing: a gated MLP has no usual size", path="ffn")
            ffn = 4 * hidden
        refuse_clashes(known)
        known.setdefault("embedding_dropout", known.get("dropout", 0.0))
        chosen = {name: known[name] for name in _CHOICES if name in known}
        sizes = {"kv_heads": kv_heads, "head_dim": head_dim, "ffn": ffn}
        return Transformer(**{**chosen, **sizes})


class GptSpec(LlamaSpec):
    """A decoder-only transformer with the choices of GPT."""

    kind: ClassVar[str] = "gpt"
    usual: ClassVar[Mapping[str, Any]] = {
        "norm": "layer",
        "activation": "gelu",
        "positions": "learned",
        "bias": True,
        "tied": True,
    }
