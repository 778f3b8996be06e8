"""A Plan: the sharded graph of one micro-batch with phases, its timetable, and what was decided."""

from __future__ import annotations

from dataclasses import dataclass, field

from simcluster.errors import PlanError
from simcluster.layout import Mesh
from simcluster.model import Generation, Graph, Rules
from simcluster.plan.data import InputPipeline, MicroBatches
from simcluster.plan.execution import FREE_EXECUTION, ExecutionPolicy
from simcluster.plan.optimizer import OptimizerPlan
from simcluster.plan.pass_list import PassList
from simcluster.plan.pipeline import Timetable, VirtualStages
from simcluster.plan.precision import Numerics
from simcluster.plan.rules import BALANCED_ROUTING, BATCH, PIPELINE, AxisRoles, ExpertRouting, OffloadPlan
from simcluster.plan.spec import RecomputeSpec, ShardingChoice
from simcluster.plan.strategies import Strategies
from simcluster.plan.subgraphs import BlockSubgraphs


@dataclass(frozen=True, slots=True)
class Placement:
    """The mesh of ranks: ``stage_axis`` is that of pipeline stages, ``batch_axes`` split a micro-batch.

    ``part_of_rank`` is the part of a hand-written program that each rank runs; then no axis is one of stages.
    """

    mesh: Mesh
    stage_axis: str
    roles: AxisRoles = AxisRoles({})
    batch_axes: tuple[str, ...] = ()
    part_of_rank: tuple[int, ...] = ()

    @classmethod
    def of(cls, mesh: Mesh, roles: AxisRoles) -> Placement:
        """What the axes of a mesh are for; PlanError if not one of them carries the pipeline."""
        axes = roles.axes[PIPELINE]
        if len(axes) != 1:
            raise PlanError("one axis carries the pipeline", path="parallel.roles.pipeline")
        return cls(mesh, axes[0], roles, roles.resolve((BATCH,), mesh))

    @property
    def batch_ways(self) -> int:
        """Data-parallel ways: into how many parts a micro-batch is split."""
        return self.mesh.product(self.batch_axes)


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """What the stages do with the micro-batches."""

    chain: VirtualStages
    """The order of virtual stages over the stages."""
    timetables: tuple[Timetable, ...]
    """What the stages do, for each number of micro-batches that ``batches`` counts."""
    batches: MicroBatches
    """Micro-batches of a step."""
    micro_batch: int = 1
    """Samples of a micro-batch on a data-parallel rank."""
    layers: tuple[int, ...] = ()
    """Layers of every virtual stage, in one pass through the model."""
    chunks: tuple[tuple[int, ...], ...] = ()
    """Layers for each chunk and stage."""
    micro_batch_interleave: int = 1
    """Micro-batches that are interleaved; each counts as one of its own."""
    slices: int = 1
    """Slices of its sequences that every micro-batch is computed in."""
    overlapped: bool = False
    """Receives are posted one action ahead."""
    inputs: InputPipeline | None = None
    """How ranks get their parts of the batch, if that takes anything."""
    generation: Generation | None = None
    """What is generated; then every pass is a chunk of the chain, and nothing is trained."""

    @property
    def num_passes(self) -> int:
        """Passes through the layers for every micro-batch."""
        return self.generation.num_passes if self.generation else 1

    @property
    def num_terms(self) -> int:
        """Micro-batches and slices whose gradients are added up, at most."""
        return self.batches.most * self.slices

    @property
    def layers_of_stages(self) -> tuple[int, ...]:
        """Layers of each stage, of all its chunks."""
        return tuple(map(sum, zip(*self.chunks, strict=True)))


@dataclass(frozen=True)
class Plan:
    """Everything a Program is made of."""

    passes: PassList
    """The passes that made the graph, and the graph behind the last one."""
    logical: Graph
    """The differentiated graph before sharding: what one device would compute."""
    placement: Placement
    """The mesh, and which of its axes are for stages and for the batch."""
    pipeline: PipelinePlan
    """What the stages do with the micro-batches."""
    numerics: Numerics
    """The number formats."""
    strategies: Strategies
    """How operators are split."""
    optimizer: OptimizerPlan | None = None
    """How parameters are updated; None: nothing is trained."""
    sharding: ShardingChoice = ShardingChoice()
    """What of parameters, gradients and optimizer states lies sharded."""
    execution: ExecutionPolicy = FREE_EXECUTION
    """What overlaps, what waits, and what travels together."""
    recompute: RecomputeSpec = field(default_factory=RecomputeSpec)
    """What is computed again for the backward."""
    offload: OffloadPlan = OffloadPlan()
    """What is kept off the devices."""
    routing: ExpertRouting = BALANCED_ROUTING
    """How many tokens experts get."""
    pieces: BlockSubgraphs = field(default_factory=dict)
    """The functions of blocks that run as graphs."""
    recipe: str = ""
    """The name of the recipe that is used; empty for a program that is written by hand."""
    vocab: int = 0
    """The vocabulary, padded."""
    notes: tuple[str, ...] = ()
    """What the user should be told."""

    @property
    def graph(self) -> Graph:
        """The graph behind the last pass: what a Program is lowered from."""
        return self.passes.graph

    @property
    def mesh(self) -> Mesh:
        """The mesh of all ranks."""
        return self.placement.mesh

    @property
    def stage_axis(self) -> str:
        """The axis of pipeline stages."""
        return self.placement.stage_axis

    @property
    def update(self) -> Rules | None:
        """The rules by which parameters are updated, if any are."""
        return self.optimizer.rules if self.optimizer else None

    @property
    def timetable(self) -> Timetable:
        """What the stages do; with unequal shares of the batch, those of the first coordinate."""
        return self.pipeline.timetables[0]

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches per step of a data-parallel rank; with unequal shares the most of any."""
        return self.pipeline.batches.most

    @property
    def num_stages(self) -> int:
        """PipelinePlan stages."""
        return self.pipeline.chain.num_stages
