"""The scenario's ``fusion``: what travels as one collective, as in MindSpore's ``comm_fusion``.

What is said here wins over the buckets of the framework profile; whether they wait for the backward pass,
and whether gradients are copied into them, remains the profile's to say.

- ``all_reduce`` and ``reduce_scatter`` each concern the gradients that are reduced so, once per step. Which
  these are follows from the layouts: a gradient that is reduce-scattered on its way is one of
  ``reduce_scatter``, whatever other steps it takes. If one of the two is not given, its gradients travel as
  the profile says.
- Only gradients that take the same steps over the same groups travel together, as in MindSpore. They join
  in the order in which they become ready: the last layer's first, the order of the reductions in MindSpore's
  backward graph and not that of the model's parameters. Every pipeline stage has buckets of its own.
- ``all_gather`` concerns weights: those of a sharded optimizer, gathered once per step, and sharded weights,
  gathered for each use. They join in the order in which they are used. Weights of several layers that travel
  together do so when the first of them would, and each is held until its own last reader is done.
- ``mode: search``: the simulation tries buckets and keeps the best (``simulation/bucket_search``).
- ``ids`` give parameters a fusion id, as MindSpore's ``Parameter.comm_fusion``: 1 unless said otherwise. Only
  equal ids travel together, 0 never does.
- ``openstate: false``: nothing is fused; every weight that is gathered and every gradient that is reduced is
  a collective of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, model_validator

from simcluster.document import PositiveInt, Refused, Section
from simcluster.errors import PlanError
from simcluster.layout import Kind, Movement
from simcluster.model import Graph, Phase
from simcluster.plan.fusion_ids import FusionIdSpec
from simcluster.plan.sharding import Sharding

AUTO_MB = 64
"""The size of a bucket in mode auto (MindSpore's ``comm_fusion``)."""

MB = 2**20
"""Bytes of the MB in which MindSpore counts."""

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather")
"""What has buckets: gradients by how they are reduced, and weights."""

Ends = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
"""``[20, 35]``: the first 20 gradients, the next 15, the rest."""


def check_ends(ends: Ends, path: str) -> None:
    """Refused unless every bucket ends behind the one before it."""
    for before, after in pairwise(ends):
        if after <= before:
            raise Refused(
                f"a bucket cannot end behind gradient {after} after one that ends behind {before}",
                path=path,
                hint="[20, 35] are the first 20 gradients, the next 15, and the rest",
            )


class SizeFusionSpec(Section):
    """What travels joins until it is so large together."""

    mode: Literal["auto", "size"]
    """auto: 64 MB. size: what config says."""

    config: PositiveInt | None = None
    """The size in MB of 2^20 bytes: a bucket is closed by what fills it to this or beyond."""

    @model_validator(mode="after")
    def _is_complete(self) -> SizeFusionSpec:
        _check_config(self.mode, self.config is not None)
        return self

    @property
    def num_bytes(self) -> int:
        """The size of a bucket in bytes."""
        return (self.config or AUTO_MB) * MB


class ReduceScatterFusionSpec(Section):
    """Gradients join until they are so large together, or as a search finds best."""

    mode: Literal["auto", "size", "search"]
    """auto: 64 MB. size: what config says. search: the buckets that leave least of their time exposed."""

    config: PositiveInt | None = None
    """The size in MB of 2^20 bytes: a bucket is closed by the gradient that fills it to this or beyond."""

    first: PositiveInt | None = None
    """The size of the first bucket in MB, where it is smaller so that the network starts early (DDP: 1)."""

    @model_validator(mode="after")
    def _is_complete(self) -> ReduceScatterFusionSpec:
        _check_config(self.mode, self.config is not None)
        _check_first(self.mode, self.first is not None)
        return self

    @property
    def num_bytes(self) -> int:
        """The size of a bucket in bytes."""
        return (self.config or AUTO_MB) * MB

    @property
    def first_bytes(self) -> int | None:
        """The size of the first bucket in bytes; None: that of the others."""
        return None if self.first is None else self.first * MB


class AllReduceFusionSpec(Section):
    """Gradients join until they are so large, or so many, together, or as a search finds best."""

    mode: Literal["auto", "size", "index", "search"]
    """auto: 64 MB. size: config is a size in MB. index: config is a list of numbers of gradients. search: the
    buckets that leave least of their time exposed, of those that were looked at."""

    config: PositiveInt | Ends | None = None
    """25: MB of 2^20 bytes; a bucket is closed by the gradient that fills it to this or beyond. [20, 35]: the
    first 20 gradients in the order in which they become ready, the next 15, the rest."""

    first: PositiveInt | None = None
    """The size of the first bucket in MB, where it is smaller so that the network starts early (DDP: 1)."""

    @model_validator(mode="after")
    def _is_complete(self) -> AllReduceFusionSpec:
        _check_config(self.mode, self.config is not None)
        _check_first(self.mode, self.first is not None)
        if self.mode == "size" and not isinstance(self.config, int):
            raise Refused("mode size takes one size in MB", path="config", hint="write config: 25")
        if self.mode == "index":
            if not isinstance(self.config, tuple):
                raise Refused(
                    "mode index takes a list of numbers of gradients",
                    path="config",
                    hint="[20, 35] are the first 20 gradients, the next 15, and the rest",
                )
            check_ends(self.config, "config")
        return self

    @property
    def num_bytes(self) -> int | None:
        """The size of a bucket in bytes; None if gradients are counted."""
        if self.mode == "index":
            return None
        return (self.config if isinstance(self.config, int) else AUTO_MB) * MB

    @property
    def first_bytes(self) -> int | None:
        """The size of the first bucket in bytes; None: that of the others."""
        return None if self.first is None else self.first * MB

    @property
    def ends(self) -> tuple[int, ...]:
        """Behind how many gradients a bucket is closed; empty if their size matters."""
        return self.config if isinstance(self.config, tuple) else ()


def _check_config(mode: str, given: bool) -> None:
    if mode == "auto" and given:
        raise Refused(
            f"mode auto is {AUTO_MB} MB, so config says nothing", path="config", hint="write mode: size"
        )
    if mode == "search" and given:
        raise Refused(
            "a search finds the buckets, so config says nothing", path="config", hint="write mode: size"
        )
    if mode not in ("auto", "search") and not given:
        raise Refused(f"mode {mode} needs a config", hint="config: 25" if mode == "size" else "config: [20]")


def _check_first(mode: str, given: bool) -> None:
    if given and mode != "size":
        raise Refused(
            f"first is a size beside that of the other buckets, and mode {mode} has none",
            path="first",
            hint="write mode: size and config: 25",
        )


class FusionSpec(Section):
    """Which gradients travel as one collective; what is not said is the framework profile's choice."""

    openstate: bool | None = None
    """false: nothing is fused, every weight and every gradient travels by itself. true: as said beside it."""

    all_reduce: AllReduceFusionSpec | None = Field(
        default=None, validation_alias=AliasChoices("all_reduce", "allreduce")
    )
    """Gradients that are all-reduced."""

    reduce_scatter: ReduceScatterFusionSpec | None = Field(
        default=None, validation_alias=AliasChoices("reduce_scatter", "reducescatter")
    )
    """Gradients that are reduce-scattered once per step (ZeRO-1, MindSpore's level1)."""

    all_gather: SizeFusionSpec | None = Field(
        default=None, validation_alias=AliasChoices("all_gather", "allgather")
    )
    """Weights that are gathered, once per step or for each use, by the size they have then; those of several
    layers may travel together."""

    ids: tuple[FusionIdSpec, ...] = ()
    """Fusion ids of parameters by pattern, later entries win: only equal ids travel together, 0 alone."""

    @model_validator(mode="after")
    def _is_consistent(self) -> FusionSpec:
        if self.openstate and not self.said:
            raise Refused(
                "openstate: true says nothing by itself",
                path="openstate",
                hint="say how: all_reduce: {mode: auto}",
            )
        if self.closed and self.said:
            raise Refused(
                f"nothing is fused with openstate: false, so {self.said[0]} says nothing", path=self.said[0]
            )
        if self.ids and not self.said:
            raise Refused(
                "ids say what may travel together, but nothing says how much does",
                path="ids",
                hint="write all_reduce: {mode: auto} beside them",
            )
        return self

    @property
    def closed(self) -> bool:
        """Whether every weight and every gradient travels by itself."""
        return self.openstate is False

    def only(self, used: Collection[str]) -> FusionSpec:
        """The section without the buckets of operations that are not used."""
        return self.model_copy(update={name: None for name in self.said if name not in used})

    @property
    def said(self) -> tuple[str, ...]:
        """The operations whose buckets are given."""
        return tuple(name for name in OPERATIONS if getattr(self, name) is not None)


_GATHERS = (Phase.BEGIN, Phase.GATHER, Phase.REGATHER)
_WHAT = {
    "all_reduce": "gradients are all-reduced once per step",
    "reduce_scatter": "gradients are reduce-scattered once per step",
    "all_gather": "weights are gathered",
}


def reduced_by(graph: Graph) -> set[str]:
    """The operations of FusionSpec that have gradients of a sharded graph to reduce, once per step."""
    found = set()
    for block in graph.blocks.values():
        gradients = set(block.gradients.values())
        steps: dict[str, set[Kind]] = {}
        for node in block.phase(Phase.END):
            moved = isinstance(node.operator, Movement) and node.operator.is_collective
            if moved and node.origin in gradients:
                assert isinstance(node.operator, Movement)
                steps.setdefault(node.origin, set()).add(node.operator.kind)
        for kinds in steps.values():
            found.add("reduce_scatter" if Kind.REDUCE_SCATTER in kinds else "all_reduce")
    return found


def used_by(graph: Graph) -> set[str]:
    """The operations of FusionSpec that a sharded graph has collectives for."""
    nodes = [node for block in graph.blocks.values() for node in block.phase(*_GATHERS)]
    gathers = any(isinstance(node.operator, Movement) and node.operator.is_collective for node in nodes)
    return reduced_by(graph) | ({"all_gather"} if gathers else set())


def idle(spec: FusionSpec, graph: Graph, sharding: Sharding) -> list[str]:
    """What of the section changes nothing in this plan, in words.

    PlanError if it asks for other scatters than those of sharded gradients, which travel unit by unit.
    """
    found = used_by(graph)
    if sharding.gradients and spec.reduce_scatter is not None and "reduce_scatter" not in found:
        raise PlanError(
            "sharded gradients are scattered in every micro-batch, those of a layer together: "
            "other units are not supported yet",
            path="parallel.fusion.reduce_scatter",
            hint="leave it out, or keep gradients whole (zero: 1, mindspore: level1)",
        )
    if spec.closed and not found and not sharding.states:
        return ["fusion.openstate changes nothing: no gradients are reduced and no weights are gathered"]
    return [f"fusion.{name} fuses nothing: no {_WHAT[name]}" for name in spec.said if name not in found]
