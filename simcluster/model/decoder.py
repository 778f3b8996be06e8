"""The blocks of a decoder-only transformer, written operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from simcluster.model.builder import BlockBuilder
from simcluster.model.dimensions import Dimensions
from simcluster.model.graph import Block
from simcluster.model.operator import Operator, TensorType
from simcluster.model.operators.activation import Geglu, Relu, SquaredRelu
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.cast import Cast
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.dropout import Dropout
from simcluster.model.operators.embedding import Embedding, PositionRows, Positions
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.norm import LayerNorm, RmsNorm
from simcluster.model.operators.pointwise import Add, Bias, Gelu, Swiglu
from simcluster.model.operators.rotary import Rotary
from simcluster.model.operators.softmax import Softmax
from simcluster.model.scores import LABELS as SCORES
from simcluster.work import DType

Labels = tuple[str, ...]

HIDDEN = ("batch", "seq", "hidden")
FFN = ("batch", "seq", "ffn")
LOGITS = ("batch", "seq", "vocab")
QUERY = ("batch", "seq", "heads", "group", "head_dim")
KEY = ("batch", "seq", "heads", "head_dim")
KEYS = ("batch", "keys", "heads", "head_dim")

PLAIN: Mapping[str, Callable[[Labels], Operator]] = {"gelu": Gelu, "relu": Relu, "squared_relu": SquaredRelu}
GATED: Mapping[str, Callable[[Labels], Operator]] = {"swiglu": Swiglu, "geglu": Geglu}


@dataclass(slots=True)
class DecoderBlock:
    """Writes one block of a model of these dimensions."""

    name: str
    dims: Dimensions
    dtype: DType
    build: BlockBuilder = field(init=False)

    def __post_init__(self) -> None:
        self.build = BlockBuilder(self.name, self.dtype)

    # -- blocks -----------------------------------------------------------------------------------------

    def embedding(self, tokens: TensorType) -> Block:
        """Token ids to hidden states."""
        build, dims = self.build, self.dims
        table = build.parameter("tokens.weight", (dims.vocab, dims.hidden))
        x = build.add("tokens", Embedding(), build.feed("tokens", tokens), table)
        if dims.positions == "learned":
            rows = build.parameter("positions.weight", (dims.table_rows, dims.hidden))
            x = build.add("positions", Positions(dims.position_offset), x, rows)
        if dims.embedding_norm:
            x = self._norm("norm", x)
        x = self._dropout("dropout", x, dims.embedding_dropout)
        return build.block(outputs={"out": x})

    def layer(self, hidden: TensorType) -> Block:
        """Self-attention and MLP, each behind a norm and around a residual connection."""
        x = self.build.input("in", hidden)
        y = self._norm("attention.norm", x)
        q, k, v = self._linear("attention.qkv", y, HIDDEN, _heads("q", "k", "v"), self._qkv_bias)
        return self._after_projections(x, q, k, v)

    def query_layer(self, hidden: TensorType, tokens: TensorType) -> Block:
        """A layer whose queries come from a table of positions (PanGu-alpha, arXiv 2104.12369, query layer).

        Keys, values and the residual connection come from the layer before.
        """
        build, dims = self.build, self.dims
        x = build.input("in", hidden)
        table = build.parameter("positions.weight", (dims.max_positions, dims.hidden))
        rows = build.add("positions", PositionRows(), build.feed("tokens", tokens), table)
        y = self._norm("attention.norm", x)
        (q,) = self._linear("attention.query", rows, HIDDEN, _heads("q"), self._qkv_bias)
        k, v = self._linear("attention.qkv", y, HIDDEN, _heads("k", "v"), self._qkv_bias)
        return self._after_projections(x, q, k, v)

    def head(self, hidden: TensorType, tokens: TensorType, num_tokens: int) -> Block:
        """The last norm, logits and loss."""
        build, dims = self.build, self.dims
        x = build.input("in", hidden)
        targets = build.feed("targets", tokens)
        x = self._norm("norm", x)
        weight = build.parameter("logits.weight", (dims.vocab, dims.hidden))
        logits = build.add("logits", Matmul(HIDDEN, (("vocab", "hidden"),), (LOGITS,)), x, weight)
        if dims.logits not in (None, self.dtype):
            assert dims.logits is not None
            logits = build.add("logits.cast", Cast(LOGITS, self.dtype, dims.logits), logits)
        loss, _ = build.adds("loss", CrossEntropy(1 / num_tokens), logits, targets)
        return build.block(outputs={}, loss=loss)

    # -- parts of a layer -------------------------------------------------------------------------------

    @property
    def _qkv_bias(self) -> bool:
        return self.dims.bias or self.dims.qkv_bias

    def _after_projections(self, x: str, q: str, k: str, v: str) -> Block:
        o = self._attention(*self._placed(q, k), v)
        out = {"": ("heads", "group", "head_dim", "hidden")}
        (y,) = self._linear("attention.out", o, QUERY, out, self.dims.bias)
        y = self._dropout("attention.dropout", y, self.dims.dropout)
        x = self.build.add("attention.residual", Add(HIDDEN), x, y)
        return self.build.block(outputs={"out": self._mlp(x)})

    def _placed(self, q: str, k: str) -> tuple[str, str]:
        """Queries and keys normalised by head and rotated to their positions, where the model does so."""
        build, dims = self.build, self.dims
        if dims.qk_norm:
            q = self._norm("attention.q_norm", q, QUERY)
            k = self._norm("attention.k_norm", k, KEY)
        if dims.positions == "rotary":
            rotary = Rotary((QUERY, KEY), dims.rope_theta, fraction=dims.rotary_fraction)
            q, k = build.adds("attention.rotary", rotary, q, k)
        return q, k

    def _attention(self, q: str, k: str, v: str) -> str:
        build, dims, rule = self.build, self.dims, self.dims.rule
        name = "attention.core"
        if dims.flash:
            core = Attention(rule.causal, rule.window, rule.alibi, dims.attention_dropout, name)
            return build.adds(name, core, q, k, v)[0]
        scores = build.add(f"{name}.scores", Matmul(QUERY, (KEYS,), (SCORES,)), q, k)
        weights = build.add(f"{name}.softmax", Softmax(dims.head_dim**-0.5, rule), scores)
        if dims.attention_dropout:
            weights = build.add(f"{name}.dropout", Dropout(SCORES, dims.attention_dropout, name), weights)
        return build.add(f"{name}.context", Matmul(SCORES, (KEYS,), (QUERY,)), weights, v)

    def _mlp(self, x: str) -> str:
        build, dims = self.build, self.dims
        y = self._norm("mlp.norm", x)
        up = ("hidden", "ffn")
        if dims.activation in GATED:
            gate, y = self._linear("mlp.up", y, HIDDEN, {"gate": up, "up": up}, dims.bias)
            y = build.add("mlp.activation", GATED[dims.activation](FFN), gate, y)
        else:
            (y,) = self._linear("mlp.up", y, HIDDEN, {"": up}, dims.bias)
            y = build.add("mlp.activation", PLAIN[dims.activation](FFN), y)
        (y,) = self._linear("mlp.down", y, FFN, {"": ("ffn", "hidden")}, dims.bias)
        y = self._dropout("mlp.dropout", y, dims.dropout)
        return build.add("mlp.residual", Add(HIDDEN), x, y)

    # -- operators --------------------------------------------------------------------------------------

    def _extent(self, labels: Sequence[str]) -> tuple[int, ...]:
        dims = self.dims
        sizes = {"hidden": dims.hidden, "heads": dims.kv_heads, "group": dims.group}
        sizes |= {"head_dim": dims.head_dim, "ffn": dims.ffn}
        return tuple(sizes[label] for label in labels)

    def _norm(self, name: str, x: str, labels: Labels = HIDDEN) -> str:
        build = self.build
        shape = self._extent(labels[-1:])
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
        build = self.build
        results = {
            part: tuple(dim for dim in left if dim not in labels)
            + tuple(dim for dim in labels if dim not in left)
            for part, labels in weights.items()
        }
        stems = {part: f"{name}.{part}" if part else name for part in weights}
        operands = [
            build.parameter(f"{stems[part]}.weight", self._extent(labels)) for part, labels in weights.items()
        ]
        product = Matmul(left, tuple(weights.values()), tuple(results.values()))
        made = list(build.adds(name, product, x, *operands))
        if biased:
            for index, (part, labels) in enumerate(weights.items()):
                dims = tuple(dim for dim in labels if dim not in left)
                bias = build.parameter(f"{stems[part]}.bias", self._extent(dims))
                made[index] = build.add(f"{stems[part]}.bias", Bias(results[part], dims), made[index], bias)
        return made


def _heads(*parts: str) -> dict[str, Labels]:
    """The weights of queries, keys or values by name: queries have a group of heads where keys have one."""
    grouped = ("hidden", "heads", "group", "head_dim")
    return {part: grouped if part == "q" else ("hidden", "heads", "head_dim") for part in parts}
