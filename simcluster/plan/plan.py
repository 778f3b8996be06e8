"""A Plan: the sharded graph of one micro-batch with phases, its timetable, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simcluster.cluster import DispatchTime
from simcluster.collectives import Selection
from simcluster.layout import Mesh
from simcluster.model import Generation, Graph, Rules
from simcluster.plan.data import InputPipeline, MicroBatches
from simcluster.plan.execution import ExecutionPolicy
from simcluster.plan.pass_list import PassList
from simcluster.plan.pipeline import Timetable, VirtualStages
from simcluster.plan.rules import BALANCED_ROUTING, ExpertRouting, OffloadPlan
from simcluster.plan.spec import RecomputeSpec, ShardingChoice
from simcluster.plan.strategies import Strategies
from simcluster.plan.subgraphs import BlockSubgraphs, GraphLaunch
from simcluster.work import DType


@dataclass(frozen=True)
class Plan:
    """Everything a Program is made of.

    ``passes`` made its ``graph``; ``logical`` is the differentiated graph before sharding: what one device
    would compute. ``compute`` is the format of activations, ``matmul`` the one in which matrix units
    multiply. ``chunks`` are the layers of each chunk and stage, ``chain`` the order of these, ``timetables``
    what the stages do, for each number of micro-batches that ``batches`` counts: each of the ``copies`` that
    go abreast is one of its own. ``vocab`` is the padded vocabulary, ``notes`` what the user should be told,
    ``algorithms`` those of collectives that the scenario names; ``call`` is the host's seconds for each call
    of collectives, of which ``reuse`` that are alike are one; ``recompute`` says what is computed again,
    ``inputs`` how ranks get their parts of the batch, if that takes anything. ``pieces`` of blocks are
    graphs, which run as ``graphs`` says. ``assigned`` is the part of a hand-written program that each rank
    runs, ``routing`` how many tokens experts get. With a ``generation`` the graph is that of its passes,
    every one a chunk of the ``chain``, and nothing is trained: no ``update``.
    """

    passes: PassList
    logical: Graph
    mesh: Mesh
    stage_axis: str
    timetables: tuple[Timetable, ...]
    strategies: Strategies
    update: Rules | None
    batches: MicroBatches
    micro_batch: int
    batch_axes: tuple[str, ...]
    chain: VirtualStages
    chunks: tuple[tuple[int, ...], ...]
    vocab: int
    overlapped: bool
    prefetch: int
    dispatch: DispatchTime
    graphs: GraphLaunch
    conduct: ExecutionPolicy
    compute: DType
    gradients: DType
    master: DType | None
    sharding: ShardingChoice
    recipe: str
    notes: tuple[str, ...]
    matmul: DType
    states: Mapping[str, DType]
    clip: float | None
    algorithms: Selection
    call: float
    reuse: int | None
    recompute: RecomputeSpec
    inputs: InputPipeline | None = None
    copies: int = 1
    pieces: BlockSubgraphs = field(default_factory=dict)
    assigned: tuple[int, ...] = ()
    offload: OffloadPlan = OffloadPlan()
    generation: Generation | None = None
    routing: ExpertRouting = BALANCED_ROUTING

    @property
    def graph(self) -> Graph:
        """The graph behind the last pass: what a Program is lowered from."""
        return self.passes.graph

    @property
    def timetable(self) -> Timetable:
        """What the stages do; with unequal shares of the batch, those of the first coordinate."""
        return self.timetables[0]

    @property
    def num_micro_batches(self) -> int:
        """Micro-batches per step of a data-parallel rank; with unequal shares the most of any."""
        return self.batches.most

    @property
    def batch_ways(self) -> int:
        """Data-parallel ways: into how many parts a micro-batch is split."""
        return self.mesh.product(self.batch_axes)

    @property
    def num_stages(self) -> int:
        """Pipeline stages."""
        return self.chain.num_stages

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of each stage, of all its chunks."""
        return tuple(map(sum, zip(*self.chunks, strict=True)))
