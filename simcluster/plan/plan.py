"""A Plan: the sharded graph of one micro-batch, its schedule, and every decision about it."""

from __future__ import annotations

from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Mesh
from simcluster.model import Generation, Graph, Rules
from simcluster.plan.data import InputPipeline, MicroBatches
from simcluster.plan.execution import FREE_EXECUTION, ExecutionPolicy
from simcluster.plan.optimizer import OptimizerPlan
from simcluster.plan.parameter_server import ServerPlan
from simcluster.plan.pass_list import PassList
from simcluster.plan.pipeline import Timetable, VirtualStages
from simcluster.plan.precision import Numerics
from simcluster.plan.rules import BALANCED_ROUTING, BATCH, PIPELINE, AxisRoles, ExpertRouting, OffloadPlan
from simcluster.plan.search_report import SearchReport
from simcluster.plan.spec import RecomputeSpec, ShardingChoice
from simcluster.plan.strategies import Strategies
from simcluster.plan.subgraphs import BlockSubgraphs


@dataclass(frozen=True, slots=True)
class Placement:
    """The mesh of ranks and what its axes are for."""

    mesh: Mesh
    """The mesh of all ranks."""
    stage_axis: str
    """The axis of pipeline stages."""
    roles: AxisRoles = AxisRoles({})
    """Role -> axes."""
    batch_axes: tuple[str, ...] = ()
    """The axes that split a micro-batch."""
    part_of_rank: tuple[int, ...] = ()
    """The part of a hand-written program that each rank runs; then no axis is one of stages."""

    @classmethod
    def of(cls, mesh: Mesh, roles: AxisRoles) -> Placement:
        """What the axes of a mesh are for; PlanError unless one of them has the pipeline role."""
        axes = roles.axes[PIPELINE]
        if len(axes) != 1:
            raise PlanError("one axis carries the pipeline", path="parallel.roles.pipeline")
        return cls(mesh, axes[0], roles, roles.resolve((BATCH,), mesh))

    @property
    def batch_ways(self) -> int:
        """Data-parallel ways: the number of parts that a micro-batch is split into."""
        return self.mesh.product(self.batch_axes)


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """Micro-batches, layers and timetables of the pipeline stages."""

    chain: VirtualStages
    """The order of virtual stages over the stages."""
    timetables: tuple[Timetable, ...]
    """The actions of every stage, for each number of micro-batches in ``batches``."""
    batches: MicroBatches
    """Micro-batches of a step."""
    micro_batch: int = 1
    """Samples of a micro-batch on a data-parallel rank."""
    layers: tuple[int, ...] = ()
    """Layers of every virtual stage, in one pass through the model."""
    chunks: tuple[tuple[int, ...], ...] = ()
    """Layers for each chunk and stage."""
    micro_batch_interleave: int = 1
    """Copies of each micro-batch that are interleaved; each counts as a micro-batch."""
    slices: int = 1
    """Slices of its sequences that every micro-batch is computed in."""
    overlapped: bool = False
    """Receives are posted one action ahead."""
    inputs: InputPipeline | None = None
    """The input pipeline, if there is one."""
    generation: Generation | None = None
    """Prompts and tokens to generate; then every pass is a chunk of the chain, and nothing is trained."""

    @property
    def num_passes(self) -> int:
        """Passes through the layers per micro-batch; several when tokens are generated."""
        return self.generation.num_passes if self.generation else 1

    @property
    def num_terms(self) -> int:
        """Micro-batches times slices: the terms of the largest gradient sum."""
        return self.batches.most * self.slices

    @property
    def layers_of_stages(self) -> tuple[int, ...]:
        """Layers of each stage, over all its chunks."""
        return tuple(map(sum, zip(*self.chunks, strict=True)))


@dataclass(frozen=True)
class Plan:
    """A plan: what a Program is lowered from, and what is reported of it."""

    passes: PassList
    """The passes that made the graph, and the graph behind the last one."""
    logical: Graph
    """The differentiated graph before sharding: what one device would compute."""
    placement: Placement
    """The mesh, with its axes for stages and for the batch."""
    pipeline: PipelinePlan
    """Micro-batches, layers and timetables of the stages."""
    numerics: Numerics
    """The number formats."""
    strategies: Strategies
    """The strategy of every operator."""
    optimizer: OptimizerPlan | None = None
    """How parameters are updated; None: nothing is trained."""
    sharding: ShardingChoice = ShardingChoice()
    """Which parameters, gradients and optimizer states are sharded over ranks that replicate them."""
    execution: ExecutionPolicy = FREE_EXECUTION
    """What overlaps, what waits, and which collectives are fused."""
    recompute: RecomputeSpec = field(default_factory=RecomputeSpec)
    """What is recomputed in the backward."""
    offload: OffloadPlan = OffloadPlan()
    """What is offloaded."""
    routing: ExpertRouting = BALANCED_ROUTING
    """The law of expert routing."""
    pieces: BlockSubgraphs = field(default_factory=dict)
    """Block -> the subgraphs of it that run as one graph launch each."""
    recipe: str = ""
    """The name of the recipe that is used; empty for a program that is written by hand."""
    vocab: int = 0
    """The vocabulary size, padded."""
    search: SearchReport | None = None
    """How strategies were found; None: nothing was searched."""
    notes: tuple[str, ...] = ()
    """Notes for the user."""
    servers: ServerPlan | None = None
    """Parameter servers; None: there are none."""

    @property
    def graph(self) -> Graph:
        """The graph after the last pass, which is lowered to a Program."""
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
        """The update rules, if anything is trained."""
        return self.optimizer.rules if self.optimizer else None

    @property
    def timetable(self) -> Timetable:
        """The actions of every stage; with unequal batch shares, those at the first coordinate."""
        return self.pipeline.timetables[0]

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches per step of a data-parallel rank; with unequal shares the largest number."""
        return self.pipeline.batches.most

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return self.pipeline.chain.num_stages
