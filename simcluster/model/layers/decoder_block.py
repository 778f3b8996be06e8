"""The blocks of a decoder-only transformer, written operator by operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import Block, BlockBuilder, Labels, TensorType
from simcluster.model.layers.decoder_dimensions import Dimensions
from simcluster.model.layers.generation import LayerCaches
from simcluster.model.layers.latent_attention import LatentAttention
from simcluster.model.layers.transformer_layers import (
    FFN,
    GATED,
    HIDDEN,
    KEY,
    LOGITS,
    PLAIN,
    QUERY,
    AttentionForm,
    linear,
)
from simcluster.model.operators import (
    Add,
    Bias,
    Cast,
    Concat,
    CrossEntropy,
    Dropout,
    Embedding,
    Greedy,
    IndexerLoss,
    LayerNorm,
    Matmul,
    PositionRows,
    Positions,
    RmsNorm,
    Rotary,
    Slice,
    SoftCap,
    SparseAttention,
)
from simcluster.work import DType


@dataclass(slots=True)
class DecoderBlock:
    """Writes one block of a model of these dimensions; ``mixed``: its MLP is the mixture of experts.

    ``past``: the block is one of a pass that generates a token. ``num_tokens``: by which losses of layers are
    divided.
    """

    name: str
    dims: Dimensions
    dtype: DType
    mixed: bool = False
    past: LayerCaches | None = None
    num_tokens: float = 1
    build: BlockBuilder = field(init=False)

    def __post_init__(self) -> None:
        self.build = BlockBuilder(self.name, self.dtype)

    # -- blocks -----------------------------------------------------------------------------------------

    def embedding(self, tokens: TensorType) -> Block:
        """Token ids to hidden states; ids come with the batch, or from the pass before."""
        build = self.build
        fed = self.past is None or not self.past.token
        ids = build.feed("tokens", tokens, self.dims.vocab) if fed else build.input("in", tokens)
        return build.block(outputs={"out": self._embedded(ids)})

    def _embedded(self, ids: str, stem: str = "") -> str:
        """The hidden states of tokens; names begin with ``stem``."""
        build, dims = self.build, self.dims
        table = build.parameter(f"{stem}tokens.weight", (dims.vocab, dims.hidden))
        x = build.add(f"{stem}tokens", Embedding(), ids, table)
        if dims.positions == "learned":
            rows = build.parameter(f"{stem}positions.weight", (dims.table_rows, dims.hidden))
            x = build.add(f"{stem}positions", Positions(dims.position_offset + self._position), x, rows)
        if dims.embedding_norm:
            x = self._norm(f"{stem}norm", x)
        return self._dropout(f"{stem}dropout", x, dims.embedding_dropout)

    def layer(self, hidden: TensorType) -> Block:
        """Self-attention and MLP behind norms, each with a residual connection, or both with one."""
        return self._layer(self.build.input("in", hidden))

    def _layer(self, x: str) -> Block:
        y = self._norm("attention.norm", x)
        if self.dims.latent is not None:
            return self._latent(x, y, self.dims.latent)
        q, k, v = self._linear("attention.qkv", y, HIDDEN, _heads("q", "k", "v"), self._qkv_bias)
        return self._after_attention(x, y, self._attention(*self._placed(q, k), v))

    def _latent(self, x: str, y: str, latent: LatentAttention) -> Block:
        """A layer with latent attention from its normalised hidden states on."""
        build, dims = self.build, self.dims
        made = latent.write(build, y, dims.hidden, dims.heads, dims.rope_theta, absorbed=dims.absorbed)
        if latent.sparse is None:
            return self._after_attention(x, y, self._attention(made.q, made.k, made.v))
        name, loss = "attention.core", IndexerLoss(dims.heads, 1 / self.num_tokens, dims.gathered)
        core = SparseAttention(self._form.operator(name), dims.gathered, loss)
        o = build.add(name, core, made.q, made.k, made.v, made.ids, *made.indexer)
        return self._after_attention(x, y, latent.values(build, o, dims.heads) if dims.absorbed else o)

    def query_layer(self, hidden: TensorType, tokens: TensorType) -> Block:
        """A layer whose queries come from a table of positions (PanGu-alpha, arXiv 2104.12369, query layer).

        Keys, values and the residual connection come from the layer before.
        """
        build, dims = self.build, self.dims
        x = build.input("in", hidden)
        table = build.parameter("positions.weight", (dims.max_positions, dims.hidden))
        if self.past is None:
            rows = build.add("positions", PositionRows(), build.feed("tokens", tokens, dims.vocab), table)
        else:
            # Tokens of later passes are known to the first stage only.
            rows = build.add("positions", PositionRows(position=self._position, of_states=True), x, table)
        y = self._norm("attention.norm", x)
        (q,) = self._linear("attention.query", rows, HIDDEN, _heads("q"), self._qkv_bias)
        k, v = self._linear("attention.qkv", y, HIDDEN, _heads("k", "v"), self._qkv_bias)
        return self._after_attention(x, y, self._attention(*self._placed(q, k), v))

    def head(
        self, hidden: TensorType, tokens: TensorType, num_tokens: float, *, depth: int = 0, read: bool = False
    ) -> Block:
        """The last norm, logits and loss; of the prediction ``depth`` tokens beyond the next one.

        ``read``: the normalised hidden states leave the block, for a prediction of the token behind it.
        """
        build, dims = self.build, self.dims
        x = self._norm("norm", build.input("in", hidden))
        targets = build.feed(_targets(depth), tokens, dims.vocab)
        share = dims.mtp_loss_weight / dims.mtp_layers if depth else 1
        loss, _ = build.adds("loss", CrossEntropy(share / num_tokens), self._logits(x), targets)
        return build.block(outputs={"out": x} if read else {}, loss=loss)

    def mtp_layer(self, hidden: TensorType, tokens: TensorType, depth: int) -> Block:
        """The layer behind which the token is predicted that is ``depth`` places beyond the next one.

        It reads the hidden states before it and the embedding of the token ``depth`` places on, both
        normalised, side by side and projected (DeepSeek-V3, arXiv 2412.19437, equation 21; Megatron-Core's
        ``MultiTokenPredictionLayer``). That token is the target of the prediction before: the same ids are
        fed.
        """
        build, dims = self.build, self.dims
        x = self._norm("hidden.norm", build.input("in", hidden))
        ids = build.feed(_targets(depth - 1), tokens, dims.vocab)
        y = self._norm("token.norm", self._embedded(ids, "embedding."))
        pair = build.add("joined", Concat(HIDDEN, 2, (dims.hidden, dims.hidden)), y, x)
        weight = build.parameter("projection.weight", (2 * dims.hidden, dims.hidden))
        labels = ("batch", "seq", "pair")
        product = Matmul(labels, (("pair", "hidden"),), (HIDDEN,))
        return self._layer(build.add("projection", product, pair, weight))

    def next_token(self, hidden: TensorType, known: int) -> Block:
        """The last norm, the logits of the last token, and the token behind it, one of ``known``."""
        build = self.build
        x = build.input("in", hidden)
        length = hidden.shape[1]
        if length > 1:
            x = build.add("last", Slice(HIDDEN, hidden.shape, ((1, length - 1, 1, 1),)), x)
        logits = self._logits(self._norm("norm", x))
        return build.block(outputs={"out": build.add("next", Greedy(known), logits)})

    def _logits(self, x: str) -> str:
        build, dims = self.build, self.dims
        weight = build.parameter("logits.weight", (dims.vocab, dims.hidden))
        logits = build.add("logits", Matmul(HIDDEN, (("vocab", "hidden"),), (LOGITS,)), x, weight)
        if dims.capped_logits:
            logits = build.add("logits.cap", SoftCap(LOGITS), logits)
        if dims.logits not in (None, self.dtype):
            assert dims.logits is not None
            logits = build.add("logits.cast", Cast(LOGITS, self.dtype, dims.logits), logits)
        return logits

    # -- parts of a layer -------------------------------------------------------------------------------

    @property
    def _position(self) -> int:
        """Where the first of the tokens stands."""
        return self.past.position if self.past else 0

    @property
    def _qkv_bias(self) -> bool:
        own = self.dims.qkv_bias
        return self.dims.bias if own is None else own

    def _after_attention(self, x: str, normed: str, o: str) -> Block:
        """The layer from what attention gives on; attention read ``normed``, the norm of x."""
        build, dims = self.build, self.dims
        if dims.parallel is not None:
            normed = normed if dims.parallel == "one_norm" else self._norm("mlp.norm", x)
            y = self._parallel_residual(normed, o)
        else:
            y = self._output_projection(o)
            y = self._norm("attention.post_norm", y) if dims.post_norms else y
            y = self._dropout("attention.dropout", y, dims.dropout)
            x = build.add("attention.residual", Add(HIDDEN), x, y)
            y = self._mlp(self._norm("mlp.norm", x))
        return build.block(outputs={"out": build.add("mlp.residual", Add(HIDDEN), x, y)})

    def _parallel_residual(self, normed: str, o: str) -> str:
        """The sum of attention's result and the MLP's, which reads ``normed``.

        Products are summed before biases are added, so that what is partial over tensor ranks is reduced
        once; dropout leaves nothing partial.
        """
        build, dims = self.build, self.dims
        if dims.dropout:
            y = self._dropout("attention.dropout", self._output_projection(o), dims.dropout)
            return build.add("attention.residual", Add(HIDDEN), y, self._mlp(normed))
        x = build.add(
            "parallel.sum",
            Add(HIDDEN),
            self._output_projection(o, biased=False),
            self._mlp(normed, biased=False),
        )
        biased = {"attention.out": self._out_bias, "mlp.down": dims.bias and not self.mixed}
        for name in (name for name, has in biased.items() if has):
            added = build.parameter(f"{name}.bias", (dims.hidden,))
            x = build.add(f"{name}.bias", Bias(HIDDEN, ("hidden",)), x, added)
        return x

    @property
    def _out_bias(self) -> bool:
        own = self.dims.out_bias
        return self.dims.bias if own is None else own

    def _output_projection(self, o: str, *, biased: bool = True) -> str:
        """Attention's result as a hidden state."""
        out = {"": ("heads", "group", "head_dim", "hidden")}
        return self._linear("attention.out", o, QUERY, out, biased and self._out_bias)[0]

    def _placed(self, q: str, k: str) -> tuple[str, str]:
        """Queries and keys normalised by head and rotated to their positions, where the model does so."""
        build, dims = self.build, self.dims
        if dims.qk_norm:
            q = self._norm("attention.q_norm", q, QUERY)
            k = self._norm("attention.k_norm", k, KEY)
        if dims.positions == "rotary":
            fraction, position = dims.rotary_fraction, self._position
            rotary = Rotary((QUERY, KEY), dims.rope_theta, fraction=fraction, position=position)
            q, k = build.adds("attention.rotary", rotary, q, k)
        return q, k

    def _attention(self, q: str, k: str, v: str) -> str:
        dims = self.dims
        if self.past is not None:
            batch = self.build.values[q].type.shape[0]
            attended = self.past.attend(self.build, "attention.core", batch, q, k, v, dims.rule, dims.scale)
            if attended is not None:
                return attended
        return self._form.write(self.build, "attention.core", q, k, v)

    @property
    def _form(self) -> AttentionForm:
        dims, own = self.dims, self.dims.latent is not None
        return AttentionForm(
            dims.rule,
            dims.scale,
            dims.attention_dropout,
            dims.flash,
            own,
            dims.head_multiple if own else 0,
            dims.alibi_table,
        )

    def _mlp(self, y: str, *, biased: bool = True) -> str:
        """What the MLP, or the mixture of experts, makes of normalised hidden states.

        Not ``biased``: without the bias of a plain MLP's last projection.
        """
        build, dims = self.build, self.dims
        if self.mixed:
            assert dims.experts is not None
            y = dims.experts.write(build, y, dims.hidden, dims.activation, bias=dims.bias)
        else:
            y = self._plain_mlp(y, biased=biased)
        y = self._norm("mlp.post_norm", y) if dims.post_norms else y
        return self._dropout("mlp.dropout", y, dims.dropout)

    def _plain_mlp(self, y: str, *, biased: bool) -> str:
        build, dims = self.build, self.dims
        up = ("hidden", "ffn")
        if dims.activation in GATED:
            gate, y = self._linear("mlp.up", y, HIDDEN, {"gate": up, "up": up}, dims.bias)
            y = build.add("mlp.activation", GATED[dims.activation](FFN), gate, y)
        else:
            (y,) = self._linear("mlp.up", y, HIDDEN, {"": up}, dims.bias)
            y = build.add("mlp.activation", PLAIN[dims.activation](FFN), y)
        return self._linear("mlp.down", y, FFN, {"": ("ffn", "hidden")}, biased and dims.bias)[0]

    # -- operators --------------------------------------------------------------------------------------

    @property
    def _sizes(self) -> Mapping[str, int]:
        dims = self.dims
        heads, group = (1, dims.heads) if dims.absorbed else (dims.kv_heads, dims.group)
        sizes = {"hidden": dims.hidden, "heads": heads, "group": group}
        head_dim = dims.latent.value_dim if dims.latent else dims.head_dim
        return sizes | {"head_dim": head_dim, "ffn": dims.ffn}

    def _norm(self, name: str, x: str, labels: Labels = HIDDEN) -> str:
        build = self.build
        shape = (self._sizes[labels[-1]],)
        weights = [build.parameter(f"{name}.weight", shape)]
        if self.dims.norm == "rms":
            return build.adds(name, RmsNorm(labels), x, *weights)[0]
        if self.dims.norm_bias:
            weights.append(build.parameter(f"{name}.bias", shape))
        return build.adds(name, LayerNorm(labels, bias=self.dims.norm_bias), x, *weights)[0]

    def _dropout(self, name: str, x: str, rate: float) -> str:
        return self.build.add(name, Dropout(HIDDEN, rate, name), x) if rate else x

    def _linear(
        self, name: str, x: str, left: Labels, weights: Mapping[str, Labels], biased: bool
    ) -> list[str]:
        """A projection by one or more weights that share their input, each with its bias if ``biased``."""
        return linear(self.build, name, x, left, weights, self._sizes, bias=biased)


def _targets(depth: int) -> str:
    """What the ids are called that are predicted ``depth`` tokens beyond the next one."""
    return f"targets.{depth}" if depth else "targets"


def _heads(*parts: str) -> dict[str, Labels]:
    """The weights of queries, keys or values by name: queries have a group of heads where keys have one."""
    grouped = ("hidden", "heads", "group", "head_dim")
    return {part: grouped if part == "q" else ("hidden", "heads", "head_dim") for part in parts}
