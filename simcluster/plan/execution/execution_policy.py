"""How a framework executes a step: what overlaps, what waits, and which collectives are fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from simcluster.cluster import DispatchTime
from simcluster.collectives import AUTOMATIC, Selection
from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh
from simcluster.plan.execution.fused_softmax import FusedSoftmax
from simcluster.plan.execution.kernel_traffic import implemented_traffic
from simcluster.plan.spec import (
    USUAL,
    BucketSpec,
    BucketsSpec,
    FrameworkMemorySpec,
    FrameworkSpec,
    FusionSpec,
    ShardingChoice,
)
from simcluster.work import Kernel


@dataclass(frozen=True, slots=True)
class Buckets:
    """When a bucket of gradients is full, so that its reduction starts; by default all are one bucket."""

    limit: int | None = None
    """A bucket is closed when it has so many bytes."""
    first: int | None = None
    """The limit of the first bucket, where it differs."""
    in_elements: bool = False
    """The limits count elements, not bytes."""
    ends: tuple[int, ...] = ()
    """Buckets are closed after so many gradients, counted from the first."""
    closed_after: frozenset[str] = frozenset()
    """Buckets are closed after the gradients with these buffers."""
    units: int | None = None
    """A bucket has the gradients of so many units (layers)."""

    @classmethod
    def of(cls, spec: BucketSpec, ways: int) -> Buckets:
        """The buckets of a framework profile for ``ways`` data-parallel ranks."""
        if spec.elements is not None:
            return cls(max(spec.elements, spec.elements_per_rank * ways), None, True)
        assert spec.bytes is not None
        first = None if spec.first_bytes is None else int(spec.first_bytes)
        return cls(int(spec.bytes), first)

    @classmethod
    def said(cls, spec: BucketsSpec) -> Buckets:
        """The buckets of a scenario; every gradient is one as long as a search is to find them."""
        if spec.mode == "search":
            return SINGLE_BUCKET
        return cls(spec.num_bytes, spec.first_bytes, ends=spec.ends, units=spec.units)

    def fill(
        self, sizes: Sequence[int], names: Sequence[str] = (), units: Sequence[str] = ()
    ) -> list[list[int]]:
        """Positions of gradients by bucket: a bucket is closed by the gradient that reaches its limit.

        ``names`` are those of the buffers, read if some of them close buckets; ``units`` are the layers of
        the gradients, read if units are counted.
        """
        buckets: list[list[int]] = []
        full = True
        held = 0
        for position, size in enumerate(sizes):
            if full:
                buckets.append([])
                held = 0
            buckets[-1].append(position)
            held += size
            limit = self.first if self.first is not None and len(buckets) == 1 else self.limit
            full = (limit is not None and held >= limit) or position + 1 in self.ends
            full = full or (bool(self.closed_after) and names[position] in self.closed_after)
            full = full or (self.units is not None and self._ends_unit(units, buckets[-1]))
        return buckets

    def _ends_unit(self, units: Sequence[str], bucket: Sequence[int]) -> bool:
        """Whether a bucket has all of as many units as belong into it."""
        after = units[bucket[-1] + 1 : bucket[-1] + 2]
        return units[bucket[-1]] not in after and len({units[position] for position in bucket}) == self.units

    def num_bytes(self, itemsize: int) -> int:
        """The bytes of a full bucket of elements of ``itemsize`` bytes; 0 without a limit."""
        return (self.limit or 0) * (itemsize if self.in_elements else 1)

    def document(self) -> dict[str, Any]:
        """What closes a bucket, as JSON-able data; empty if nothing does."""
        unit = "elements" if self.in_elements else "bytes"
        told = {
            unit: self.limit,
            "first_bytes": self.first,
            "gradients": list(self.ends),
            "behind": sorted(self.closed_after),
            "units": self.units,
        }
        return {key: value for key, value in told.items() if value}


@dataclass(frozen=True, slots=True)
class GraphLaunch:
    """Cost of subgraphs that run as one graph launch each, and how far ahead their collectives start."""

    launch: float = 1.0
    """Host time of one launch, in multiples of what the host spends on an operator."""
    prefetch: int = 1
    """How many kernels ahead of its first reader a collective of the graph may start."""


@dataclass(frozen=True, slots=True)
class HostWork:
    """What operators cost the host, by kind or family."""

    calls: Mapping[str, float] = field(default_factory=dict)
    """How many operators' time one of them takes; 1 if not named."""
    waits: tuple[str, ...] = ()
    """Operators of forwards for whose results the host waits."""
    group: float = 0.0
    """Of a product of groups, how many operators' time each group takes besides."""


USUAL_GRAPH_LAUNCH = GraphLaunch()
"""A graph is launched like one operator."""

SINGLE_BUCKET = Buckets(1)
"""Buckets of one."""


@dataclass(frozen=True, slots=True)
class Fusion:
    """Buckets of the scenario by collective operation; None: those of the profile.

    A bucket only has tensors that take the same redistribution steps over the same groups and have one fusion
    id.
    """

    all_reduce: Buckets | None = None
    """Of gradients that are all-reduced."""
    reduce_scatter: Buckets | None = None
    """Of gradients that are reduce-scattered."""
    all_gather: Buckets | None = None
    """Of weights that are gathered."""
    ids: Mapping[str, int] = field(default_factory=dict)
    """Parameter -> fusion id, where it is not the usual one."""
    searched: tuple[str, ...] = ()
    """The operations whose buckets a search is to find, or has found."""

    @classmethod
    def of(cls, spec: FusionSpec, ids: Mapping[str, int] = MappingProxyType({})) -> Fusion:
        """The buckets of the scenario's section, with the fusion ids of parameters."""
        given = {name: getattr(spec, name) for name in spec.said}
        searched = tuple(name for name, said in given.items() if said.mode == "search")
        return cls(ids=dict(ids), searched=searched).having(
            {name: Buckets.said(said) for name, said in given.items()}
        )

    def having(self, buckets: Mapping[str, Buckets | None]) -> Fusion:
        """The same with other buckets for some operations."""
        return replace(
            self,
            all_reduce=buckets.get("all_reduce", self.all_reduce),
            reduce_scatter=buckets.get("reduce_scatter", self.reduce_scatter),
            all_gather=buckets.get("all_gather", self.all_gather),
        )

    def of_operation(self, name: str) -> Buckets | None:
        """The buckets of an operation."""
        given = {
            "all_reduce": self.all_reduce,
            "reduce_scatter": self.reduce_scatter,
            "all_gather": self.all_gather,
        }
        return given[name]

    @property
    def reduces(self) -> bool:
        """Whether it has buckets for gradients."""
        return self.all_reduce is not None or self.reduce_scatter is not None

    def id_of(self, parameter: str) -> int:
        """The fusion id of a parameter."""
        return self.ids.get(parameter, USUAL)


@dataclass(frozen=True, slots=True)
class ExecutionPolicy:
    """How a framework executes a step: overlap, waiting, fused collectives, host time, memory."""

    buckets: Buckets | None = None
    """The buckets of the gradient reduction; None: the gradients of every layer are one."""
    reduce_after_backward: bool = False
    """Reductions start after the whole backward pass."""
    buffers: float = 0.0
    """Memory for buckets that are being reduced, in buckets."""
    exposed_gather: bool = False
    """No kernel starts before the weights are gathered."""
    blocking_layers: bool = False
    """Kernels wait for collectives of activations."""
    tokens_once: bool = False
    """Tokens go once to every rank with experts of theirs, not once for every expert."""
    exchange_pods: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """Where tokens go once: axes of an exchange -> the pods, or hosts, that its ranks are in."""
    tokens_sorted: bool = False
    """Tokens that came are moved once more, into the order of experts, and back before they return."""
    copied_axes: tuple[str, ...] = ()
    """The axes over which activations are copied where they are gathered or scattered along another dim than
    their first."""
    unit_copies: str = ""
    """Copies of fully sharded weights and gradients: ``flat``, ``by_parameter``, or none."""
    p2p_scatter_axes: tuple[str, ...] = ()
    """The axes over which activations that are equal on all ranks go to the next stage in parts (Megatron's
    scatter-gather)."""
    gather_once: bool = False
    """Sharded weights that are not gathered again serve all micro-batches of a step."""
    fusion: Fusion | None = None
    """The buckets of the scenario, which win over ``buckets``."""
    no_fusion: bool = False
    """Every collective is launched alone: none is fused."""
    storage: FrameworkMemorySpec = FrameworkMemorySpec()
    """How memory is allocated, and what kernels need besides their operands."""
    late_updates: bool = False
    """Updates on hosts start after the whole backward pass."""
    releases: Mapping[Kernel, int] = field(default_factory=dict)
    """Kernel -> its release, for kernels of which a slower one than the newest is used."""
    prefetch: int = 1
    """How many kernels ahead of its first reader a collective may start."""
    dispatch: DispatchTime = DispatchTime()
    """Host time to dispatch an operator."""
    collective_call: float = 0.0
    """Host seconds for every call of a collective."""
    step_overhead: float = 0.0
    """Host seconds of every step for which devices wait, whatever the step does."""
    call_reuse: int | None = None
    """Calls of collectives that are alike run as one in groups of so many; None: each call by itself."""
    traffic: Mapping[str, float] = field(default_factory=dict)
    """How often kernels of an operator, or of its family, move the least bytes; once if not given."""
    fused_softmax: FusedSoftmax = FusedSoftmax()
    """Which scores the fused softmax takes, and what others cost."""
    host_work: HostWork = HostWork()
    """What operators cost the host, where that is not what one operator does."""
    graphs: GraphLaunch = USUAL_GRAPH_LAUNCH
    """Launch of subgraphs that run as one graph."""
    algorithms: Selection = AUTOMATIC
    """The algorithms of collectives that the scenario names."""

    @classmethod
    def of(
        cls,
        framework: FrameworkSpec,
        sharding: ShardingChoice,
        mesh: Mesh,
        batch_axes: Sequence[str],
        stage_axis: str,
        fusion: FusionSpec | None = None,
        ids: Mapping[str, int] = MappingProxyType({}),
    ) -> ExecutionPolicy:
        """The policy that profile, sharding and scenario give on a mesh with these batch and stage axes.

        ``ids`` are the fusion ids of parameters that have another than the usual one.
        """
        reduction = framework.reduction
        buckets = Buckets() if reduction.bucket == "whole" else None
        if reduction.limit is not None:
            buckets = Buckets.of(reduction.limit, mesh.product(batch_axes))
        fusion = FusionSpec() if fusion is None else fusion
        given = Fusion.of(fusion, ids) if fusion.said else None
        if fusion.closed:
            buckets = None
            # Each gradient is reduced when it is ready; sharded ones are so without buckets of their own.
            given = Fusion(SINGLE_BUCKET, None if sharding.gradients else SINGLE_BUCKET)
        limited = buckets is not None and reduction.limit is not None
        if sharding.gradients and limited and fusion.reduce_scatter is None:
            # Each micro-batch's sharded gradients fill the profile's buckets as those of a step would.
            given = (given or Fusion(ids=dict(ids))).having({"reduce_scatter": buckets})
        rest = tuple(axis for axis in mesh.names if axis not in (*batch_axes, stage_axis))
        policy = cls(
            buckets,
            not reduction.overlap,
            reduction.buffers,
            p2p_scatter_axes=rest if framework.p2p_scatter else (),
            copied_axes=rest if framework.collective_copies else (),
            gather_once=sharding.gather_once,
            fusion=given,
            no_fusion=fusion.closed,
            storage=framework.storage,
            prefetch=framework.prefetch,
            dispatch=framework.host,
            collective_call=float(framework.collective_call or 0.0),
            step_overhead=float(framework.step_overhead or 0.0),
            traffic={**implemented_traffic(framework.implementations), **framework.traffic},
            fused_softmax=FusedSoftmax(**dict(framework.fused_softmax)),
            host_work=HostWork(framework.calls, framework.host_waits, framework.group_calls),
        )
        for choice in framework.choices:
            policy = replace(policy, **choice.execution)
        return policy

    @property
    def by_layer(self) -> bool:
        """Whether the gradients of every layer are reduced by themselves, not in buckets."""
        return self.buckets is None and (self.fusion is None or not self.fusion.reduces)

    @property
    def gathers_together(self) -> bool:
        """Whether the scenario has buckets for gathers of weights."""
        return self.fusion is not None and self.fusion.all_gather is not None

    @property
    def scatters_together(self) -> bool:
        """Whether the scenario has buckets for gradients that are reduce-scattered."""
        return self.fusion is not None and self.fusion.reduce_scatter is not None

    def document(self) -> dict[str, Any]:
        """The buckets by operation as JSON-able data: sizes, numbers of gradients, or a word."""
        fusion = self.fusion or Fusion()
        buckets: dict[str, Any] = {
            "all_reduce": self._bucket_setting("all_reduce", self.buckets),
            "reduce_scatter": self._bucket_setting("reduce_scatter", self.buckets),
        }
        if fusion.all_gather is not None or "all_gather" in fusion.searched:
            buckets["all_gather"] = self._bucket_setting("all_gather", None)
        return buckets | ({"ids": dict(sorted(fusion.ids.items()))} if fusion.ids else {})

    def _bucket_setting(self, name: str, usual: Buckets | None) -> dict[str, Any] | str:
        if self.no_fusion:
            return "nothing"
        fusion = self.fusion or Fusion()
        buckets = fusion.of_operation(name) or usual
        told = "layer" if buckets is None else buckets.document() or "everything"
        if name not in fusion.searched:
            return told
        return {"searched": True} | (told if isinstance(told, dict) else {"by": told})


FREE_EXECUTION = ExecutionPolicy()
"""The policy of no delays: everything overlaps, nothing is fused."""
