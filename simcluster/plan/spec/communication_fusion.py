"""The scenario's ``fusion``: what travels as one collective, as in MindSpore's ``comm_fusion``.

What is said here wins over the buckets of the framework profile; whether they wait for the backward pass,
and whether gradients are copied into them, remains the profile's to say.

- ``all_reduce`` and ``reduce_scatter`` each concern the gradients that are reduced so. Which these are
  follows from the layouts: a gradient that is reduce-scattered on its way is one of ``reduce_scatter``,
  whatever other steps it takes. If one of the two is not given, its gradients travel as the profile says.
- Gradients that are whole are reduced once per step. Sharded gradients are scattered in every micro-batch,
  each bucket behind the backward that makes the last of them; until then they are held whole, and no more
  than two buckets of a stage are at a time: the backward that would begin a third waits (DeepSpeed's two
  buffers, FSDP's two units). Nothing waits for the next micro-batch.
- Only gradients that take the same steps over the same groups travel together, as in MindSpore. They join
  in the order in which they become ready: the last layer's first, the order of the reductions in MindSpore's
  backward graph and not that of the model's parameters. Every pipeline stage has buckets of its own.
- ``all_gather`` concerns weights: those of a sharded optimizer, gathered once per step, and sharded weights,
  gathered for each use. They join in the order in which they are used. Weights of several layers that travel
  together do so when the first of them would, and each is held until its own last reader is done.
- ``mode: index`` and ``units`` may be said of all three; MindSpore counts all-reduced gradients only.
- ``mode: search``: the simulation tries buckets and keeps the best (``tuning.bucket_search``).
- ``ids`` give parameters a fusion id, as MindSpore's ``Parameter.comm_fusion``: 1 unless said otherwise. Only
  equal ids travel together, 0 never does.
- ``openstate: false``: nothing is fused; every weight that is gathered and every gradient that is reduced is
  a collective of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, model_validator

from simcluster.document import (
    Name,
    NonNegativeInt,
    PositiveInt,
    Refused,
    Section,
    generalised_name,
    matches,
)
from simcluster.errors import PlanError, Problem, nearest
from simcluster.layout import Movement, MovementKind
from simcluster.model import Graph, Phase
from simcluster.plan.spec.optimizer_sharding import ShardingChoice

AUTO_MB = 64
"""The size of a bucket in mode auto (MindSpore's ``comm_fusion``)."""

MB = 2**20
"""Bytes of the MB in which MindSpore counts."""

USUAL = 1
"""The fusion id of a parameter that nobody gave one (MindSpore's default)."""

ALONE = 0
"""The fusion id of what never travels together with anything."""

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather")
"""What has buckets: gradients by how they are reduced, and weights."""

Ends = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
"""``[20, 35]``: the first 20 gradients, the next 15, the rest."""


def check_ends(ends: Ends, path: str) -> None:
    """Refused unless the counts ascend."""
    for before, after in pairwise(ends):
        if after <= before:
            raise Refused(
                f"a bucket cannot end behind number {after} after one that ends behind {before}",
                path=path,
                hint="[20, 35] are the first 20, the next 15, and the rest",
            )


class BucketsSpec(Section):
    """How tensors are grouped into buckets: up to a size, up to a number, or as a search finds best."""

    mode: Literal["auto", "size", "index", "units", "search"]
    """auto: 64 MB. size: config is a size in MB. index: config is a list of cumulative counts of gradients or
    weights. units: one bucket per layer, or per config layers. search: the buckets, among those tried, that
    leave the least of their communication time exposed."""

    config: PositiveInt | Ends | None = None
    """size 25: MB of 2^20 bytes; the tensor that reaches or exceeds this closes the bucket. index [20, 35]:
    the first 20 in communication order, the next 15, the rest. units 2: two layers together."""

    first: PositiveInt | None = None
    """Size of the first bucket in MB, if smaller, so that communication starts early (DDP: 1)."""

    @model_validator(mode="after")
    def _is_complete(self) -> BucketsSpec:
        if self.mode in _SAID and self.config is not None:
            raise Refused(
                f"{_SAID[self.mode]}, so config says nothing", path="config", hint="write mode: size"
            )
        if self.mode in _EXAMPLES and self.config is None:
            raise Refused(f"mode {self.mode} needs a config", hint=_EXAMPLES[self.mode])
        if self.first is not None and self.mode != "size":
            raise Refused(
                f"first is a size beside that of the other buckets, and mode {self.mode} has none",
                path="first",
                hint="write mode: size and config: 25",
            )
        if self.mode == "size" and not isinstance(self.config, int):
            raise Refused("mode size takes one size in MB", path="config", hint="write config: 25")
        if self.mode == "units" and isinstance(self.config, tuple):
            raise Refused("mode units takes one number of layers", path="config", hint="write config: 2")
        if self.mode == "index":
            if not isinstance(self.config, tuple):
                raise Refused(
                    "mode index takes a list of numbers of gradients or weights",
                    path="config",
                    hint="[20, 35] are the first 20, the next 15, and the rest",
                )
            check_ends(self.config, "config")
        return self

    @property
    def num_bytes(self) -> int | None:
        """The size of a bucket in bytes; None if something else closes it."""
        if self.mode == "auto":
            return AUTO_MB * MB
        return self.config * MB if self.mode == "size" and isinstance(self.config, int) else None

    @property
    def first_bytes(self) -> int | None:
        """The size of the first bucket in bytes; None: that of the others."""
        return None if self.first is None else self.first * MB

    @property
    def ends(self) -> tuple[int, ...]:
        """Behind how many gradients or weights a bucket is closed; empty if they are not counted."""
        return self.config if isinstance(self.config, tuple) else ()

    @property
    def units(self) -> int | None:
        """How many layers travel together; None if they are not counted."""
        if self.mode != "units":
            return None
        return self.config if isinstance(self.config, int) else 1


_SAID = {"auto": f"mode auto is {AUTO_MB} MB", "search": "a search finds the buckets"}
_EXAMPLES = {"size": "config: 25", "index": "config: [20]"}


class FusionIdSpec(Section):
    """A fusion id for the parameters whose names match a pattern."""

    match: Name
    """Pattern of parameter names: ``layers.*.mlp.*``, with ``*``, ``?`` and ``{a,b}``."""

    id: NonNegativeInt
    """Only parameters with equal ids are fused; 0 is never fused; 1 is the id of all parameters without an
    entry."""


class FusionSpec(Section):
    """Which gradients and weights share a collective; the framework profile decides what is not given."""

    openstate: bool | None = None
    """false: nothing is fused; every weight and every gradient has its own collective. true: fused as the
    other keys say."""

    all_reduce: BucketsSpec | None = Field(
        default=None, validation_alias=AliasChoices("all_reduce", "allreduce")
    )
    """Gradients that are all-reduced."""

    reduce_scatter: BucketsSpec | None = Field(
        default=None, validation_alias=AliasChoices("reduce_scatter", "reducescatter")
    )
    """Gradients that are reduce-scattered: once per step (ZeRO-1, MindSpore's level1), or in every
    micro-batch if gradients are sharded (ZeRO-2 and 3, FSDP, level2 and 3)."""

    all_gather: BucketsSpec | None = Field(
        default=None, validation_alias=AliasChoices("all_gather", "allgather")
    )
    """Weights that are gathered, once per step or for each use; bucket sizes count the gathered weights."""

    ids: tuple[FusionIdSpec, ...] = ()
    """Fusion ids of parameters by pattern; later entries win. Only equal ids are fused, 0 never."""

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
    "reduce_scatter": "gradients are reduce-scattered",
    "all_gather": "weights are gathered",
}


def fusion_ids(entries: Sequence[FusionIdSpec], parameters: Collection[str]) -> Mapping[str, int]:
    """Parameter -> fusion id, for those with another than the usual one; later entries win.

    Tied parameters go by the name under which they count. PlanError with every pattern that matches none.
    """
    ids: dict[str, int] = {}
    problems = []
    for place, entry in enumerate(entries):
        meant = [name for name in parameters if matches(entry.match, name)]
        if not meant:
            path = f"parallel.fusion.ids.{place}.match"
            words = f"no parameter is called '{entry.match}'"
            problems.append(
                Problem(words, path, nearest(entry.match, sorted(set(map(generalised_name, parameters)))))
            )
        ids |= dict.fromkeys(meant, entry.id)
    if problems:
        raise PlanError(*problems)
    return {name: number for name, number in ids.items() if number != USUAL}


def fusible_reductions(graph: Graph) -> set[str]:
    """The operations of FusionSpec by which a sharded graph reduces gradients once per step."""
    operations = set()
    for block in graph.blocks.values():
        gradients = set(block.gradients.values())
        steps: dict[str, set[MovementKind]] = {}
        for node in block.phase(Phase.END):
            moved = isinstance(node.operator, Movement) and node.operator.is_collective
            if moved and node.origin in gradients:
                assert isinstance(node.operator, Movement)
                steps.setdefault(node.origin, set()).add(node.operator.kind)
        for kinds in steps.values():
            operations.add("reduce_scatter" if MovementKind.REDUCE_SCATTER in kinds else "all_reduce")
    return operations


def fusible_collectives(graph: Graph) -> set[str]:
    """The operations of FusionSpec for which a sharded graph has collectives."""
    scatters, gathers = _collective(graph, Phase.SCATTER), _collective(graph, *_GATHERS)
    operations = {"reduce_scatter"} if scatters else set()
    return fusible_reductions(graph) | operations | ({"all_gather"} if gathers else set())


def _collective(graph: Graph, *phases: Phase) -> bool:
    nodes = [node for block in graph.blocks.values() for node in block.phase(*phases)]
    return any(isinstance(node.operator, Movement) and node.operator.is_collective for node in nodes)


def unused_fusion(spec: FusionSpec, graph: Graph, sharding: ShardingChoice) -> list[str]:
    """Notes on settings of the section that change nothing in this plan."""
    operations = fusible_collectives(graph)
    if spec.closed and not operations and not sharding.states:
        return ["fusion.openstate changes nothing: no gradients are reduced and no weights are gathered"]
    notes = [f"fusion.{name} fuses nothing: no {_WHAT[name]}" for name in spec.said if name not in operations]
    return notes + _ends_beyond(spec.all_reduce, graph)


def _ends_beyond(buckets: BucketsSpec | None, graph: Graph) -> list[str]:
    """A note if buckets end behind the last gradient of every stage (MindSpore: invalid fusion index)."""
    if buckets is None or not isinstance(buckets.config, tuple):
        return []
    number = max(_num_all_reduced(graph).values(), default=0)
    beyond = [end for end in buckets.config if end >= number]
    if not number or not beyond:
        return []
    return [
        f"fusion.all_reduce: no gradient comes behind number {beyond[0]}; at most {number} are all-reduced "
        "on a stage, and MindSpore refuses such an index"
    ]


def _num_all_reduced(graph: Graph) -> Counter[int]:
    """Stage -> how many gradients are all-reduced once per step."""
    of_block = {
        name: len(
            {
                node.origin
                for node in block.phase(Phase.END)
                if isinstance(node.operator, Movement)
                and node.operator.kind is MovementKind.ALL_REDUCE
                and node.origin in block.gradients.values()
            }
        )
        for name, block in graph.blocks.items()
    }
    of_stage: Counter[int] = Counter()
    for instance in graph.instances:
        of_stage[instance.stage] += of_block[instance.block]
    return of_stage
