"""Mixtures of experts: an MLP of which every token uses some parts only, the experts its router chooses.

Names of operators are those of an MLP with ``experts`` and ``shared`` below it. Sources: Mixtral (arXiv
2401.04088), DeepSeek-V2 (2405.04434, section 2.2), DeepSeek-V3 (2412.19437, section 2.1.2), Qwen3
(2505.09388).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from simcluster.deferred_dataclass import dataclass
from simcluster.model.graph import BlockBuilder
from simcluster.model.layers.transformer_layers import FFN, GATED, HIDDEN, PLAIN, linear
from simcluster.model.operators import (
    Activation,
    Add,
    Bias,
    Combine,
    Dispatch,
    ExpertSlots,
    Gate,
    Matmul,
    Reshape,
    Route,
    RouterWeighted,
    SlotFill,
    SlotWeights,
    WeighedBias,
    slot_dims,
    token_dims,
)
from simcluster.model.shard_counts import ShardCounts


@dataclass(frozen=True, slots=True)
class Experts:
    """Sizes and choices of a mixture of experts, named as in the scenario's model section."""

    count: int
    """Experts of a layer, of which the router chooses."""
    top_k: int
    """Experts that every token uses."""
    ffn: int
    """Inner size of an expert."""
    shared: int = 0
    """Further experts of that size that all tokens use."""
    dense_layers: int = 0
    """The first so many layers have a plain MLP."""
    every: int = 1
    """Of the layers behind those, only every N-th of all has experts, the others a plain MLP (Llama 4: 2)."""
    score: str = "softmax"
    """How scores become weights: ``softmax`` over all experts, or ``sigmoid`` of each."""
    normalised: bool = True
    """Whether the weights of a token's experts are divided by their sum."""
    scale: float = 1.0
    """What these weights are multiplied by."""
    groups: int = 1
    """Groups of experts, of which the router first chooses some (DeepSeek)."""
    kept_groups: int = 1
    """Groups that a token's experts are chosen from."""
    group_best: int = 1
    """A group counts as the sum of so many of its best experts."""
    steered: bool = False
    """Whether a bias per expert is added where experts are compared (DeepSeek-V3)."""
    capacity_factor: float | None = None
    """An expert takes so many times its mean share of the tokens of a sequence and drops the others. None: as
    many as come, which is the mean share if all get equally many."""
    padded: bool = True
    """Whether slots that no token takes are sent and computed as well."""
    slices: int = 1
    """Slices of a sequence that have slots of their own, as where ranks have a part of the sequence each."""

    @property
    def route(self) -> Route:
        """How the router chooses."""
        return Route(
            self.top_k,
            self.score,
            self.normalised,
            self.scale,
            self.groups,
            self.kept_groups,
            self.group_best,
            self.steered,
            self.slices > 1,
        )

    def in_layer(self, layer: int) -> bool:
        """Whether a layer, counted from 0, has experts."""
        return layer >= self.dense_layers and (layer + 1) % self.every == 0

    def capacity(self, seq_len: int) -> int:
        """Slots of an expert for the tokens of one sequence, rounded up."""
        factor = Fraction(str(1.0 if self.capacity_factor is None else self.capacity_factor))
        return math.ceil(factor * self.top_k * seq_len / self.count)

    def shrunk(self, layers: int, ways: ShardCounts) -> Experts:
        """Few small experts that divide as these do, in some of ``layers`` layers.

        Where none drops a token, each has a slot for every token: in values the router says how many come.
        """
        groups = min(self.groups, 4)
        kept = min(self.kept_groups, max(groups // 2, 1))
        count = min(self.count, 2 * math.lcm(groups, ways("experts")))
        top_k = min(self.top_k, 2, kept * (count // groups))
        factor = self.capacity_factor
        if factor is None:
            # For sequences of four tokens or a multiple, and as many as divide where places are split.
            factor = count * math.lcm(4, ways("capacity")) / (4 * top_k)
        elif ways("capacity") > 1:
            factor = count * ways("capacity") / (4 * top_k)
        return replace(
            self,
            count=count,
            top_k=top_k,
            ffn=min(self.ffn, ways("ffn", 8)),
            shared=min(self.shared, 1),
            dense_layers=min(self.dense_layers, 1, layers - 1),
            every=min(self.every, layers),
            groups=groups,
            kept_groups=kept,
            group_best=min(self.group_best, count // groups),
            capacity_factor=factor,
            padded=True,
        )

    def write(self, build: BlockBuilder, x: str, hidden: int, activation: str, *, bias: bool = False) -> str:
        """The operators between norm and residual connection, x [batch, seq, hidden] to the same.

        With ``bias`` the router and projections have biases, that of an expert's last one weighed like its
        product.
        """
        whole, in_slices = build.values[x].type.shape, self.slices > 1
        capacity = self.capacity(whole[1] // self.slices)
        names = (*token_dims(in_slices=in_slices), "hidden")
        shape = (whole[0], self.slices, whole[1] // self.slices, whole[2]) if in_slices else whole
        rows = build.add("mlp.slices", Reshape(HIDDEN, whole, names, shape), x) if in_slices else x
        router = build.parameter("mlp.router.weight", (hidden, self.count))
        scored = Matmul(names, (("hidden", "experts"),), ((*names[:-1], "experts"),))
        scores = build.add("mlp.router", scored, rows, router)
        if bias:
            added = build.parameter("mlp.router.bias", (self.count,))
            scores = build.add("mlp.router.bias", Bias((*names[:-1], "experts"), ("experts",)), scores, added)
        steering = [build.parameter("mlp.route.bias", (self.count,))] if self.steered else []
        weights, ids = build.adds("mlp.route", self.route, scores, *steering)
        slots = build.add("mlp.slots", ExpertSlots(self.count, capacity, in_slices), ids)
        drops = self.capacity_factor is not None
        filled = SlotFill.ALL if drops and self.padded else SlotFill.SOME if drops else SlotFill.MORE
        slotted = build.add("mlp.dispatch", Dispatch(self.count, capacity, filled, in_slices), rows, slots)
        weighing = SlotWeights(self.count, capacity, filled, in_slices)
        weighed = build.add("mlp.weights", weighing, weights, slots)
        # Here what all tokens use is computed while the others travel.
        beside = self._shared(build, x, hidden, activation, bias) if self.shared else None
        computed = self._experts(build, slotted, weighed, hidden, activation, bias)
        y = build.add("mlp.combine", Combine(self.count, capacity, filled, in_slices), computed, slots)
        y = build.add("mlp.joined", Reshape(names, shape, HIDDEN, whole), y) if in_slices else y
        return y if beside is None else build.add("mlp.sum", Add(HIDDEN), y, beside)

    def _experts(
        self, build: BlockBuilder, x: str, weights: str, hidden: int, activation: str, biased: bool
    ) -> str:
        """What every expert makes of the tokens in its places, times their weights."""
        up, down = ("experts", "hidden", "ffn"), ("experts", "ffn", "hidden")
        places = slot_dims(in_slices=self.slices > 1)
        slotted, inner = (*places, "hidden"), (*places, "ffn")
        parts = ("gate", "up") if activation in GATED else ("up",)
        shape = (self.count, hidden, self.ffn)
        rising = [build.parameter(f"mlp.experts.{part}.weight", shape) for part in parts]
        rising_product = Matmul(slotted, (up,) * len(parts), (inner,) * len(parts), grouped=True)
        made = build.adds("mlp.experts.up", rising_product, x, *rising)
        if biased:
            added = [build.parameter(f"mlp.experts.{part}.bias", (self.count, self.ffn)) for part in parts]
            made = tuple(
                build.add(f"mlp.experts.{part}.bias", Bias(inner, ("experts", "ffn")), product, bias)
                for part, product, bias in zip(parts, made, added, strict=True)
            )
        function = (GATED if activation in GATED else PLAIN)[activation](inner)
        assert isinstance(function, (Activation, Gate))
        y = build.add("mlp.experts.activation", RouterWeighted(function, places), *made, weights)
        falling = build.parameter("mlp.experts.down.weight", (self.count, self.ffn, hidden))
        y = build.add("mlp.experts.down", Matmul(inner, (down,), (slotted,), grouped=True), y, falling)
        if not biased:
            return y
        bias = build.parameter("mlp.experts.down.bias", (self.count, hidden))
        weighed = WeighedBias(slotted, ("experts", "hidden"), places)
        return build.add("mlp.experts.down.bias", weighed, y, bias, weights)

    def _shared(self, build: BlockBuilder, x: str, hidden: int, activation: str, bias: bool) -> str:
        """The experts of all tokens, side by side as one MLP."""
        sizes = {"hidden": hidden, "ffn": self.shared * self.ffn}
        parts = ("gate", "up") if activation in GATED else ("",)
        up = dict.fromkeys(parts, ("hidden", "ffn"))
        made = linear(build, "mlp.shared.up", x, HIDDEN, up, sizes, bias=bias)
        function = (GATED if activation in GATED else PLAIN)[activation](FFN)
        y = build.add("mlp.shared.activation", function, *made)
        down = {"": ("ffn", "hidden")}
        return linear(build, "mlp.shared.down", y, FFN, down, sizes, bias=bias)[0]
