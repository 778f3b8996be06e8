"""The scenario's ``parallel:`` section."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import AliasChoices, Field, StrictBool, StrictInt, model_validator

from simcluster.document import Name, PositiveInt, Refused, Section
from simcluster.errors import nearest
from simcluster.plan.spec.auto_spec import AutoSpec, SearchMode
from simcluster.plan.spec.communication_fusion import BucketsSpec, Ends, FusionSpec, check_ends
from simcluster.plan.spec.offload_spec import OffloadSpec
from simcluster.plan.spec.optimizer_sharding import Written as WrittenSharding
from simcluster.plan.spec.overlap_spec import OverlapSpec
from simcluster.plan.spec.parameter_server_spec import ParameterServerSpec
from simcluster.plan.spec.program_spec import ProgramSpec
from simcluster.plan.spec.recipe_spec import RecipeSpec
from simcluster.plan.spec.recompute_spec import RecomputeSpec
from simcluster.plan.spec.redistribution_spec import RedistributionSpec
from simcluster.plan.spec.schedule_spec import ScheduleSpec
from simcluster.plan.spec.strategy_spec import Axes, StrategySpec
from simcluster.plan.spec.subgraph_spec import SubgraphSpec

USUAL_REUSE = 1000
"""Collectives of a reusable call where no number is given (MS_COMM_COMPILER_OPT=-1)."""

_MESH = "write the sizes in the mesh: {pipeline: 4, data: 8, tensor: 8}"
_ZERO = "write optimizer_sharding: {zero: 1}; 2 and 3 are other stages"
_SPLITS = ("tensor_parallel", "pipeline_parallel", "data_parallel", "model_parallel")

_FILES = "leave it out: simcluster checkpoint writes strategy and group files"
_FUSED_SEARCH = "leave it out: how gradients are fused is not part of the search; write fusion"

_ELSEWHERE = {
    **dict.fromkeys(("device_num", "global_rank"), "leave it out: the mesh numbers the devices"),
    "gradient_fp32_sync": "write training.precision.gradients: fp32, as is usual, or fp16 or bf16",
    "force_fp32_communication": "gradients travel in training.precision.gradients, all else as computed",
    "loss_repeated_mean": "leave it out: a loss that ranks compute alike counts once",
    **dict.fromkeys(("strategy_ckpt_config", "strategy_ckpt_save_file", "strategy_ckpt_load_file"), _FILES),
    "group_ckpt_save_file": _FILES,
    "costmodel_simplify_cal": "leave it out: costs that cannot win are always left out",
    **{
        f"costmodel_allreduce_fusion_{key}": _FUSED_SEARCH
        for key in (
            "algorithm",
            "times",
            "tail_percent",
            "tail_time",
            "allreduce_inherent_time",
            "allreduce_bandwidth",
            "computation_time_parameter",
        )
    },
    **dict.fromkeys(("sequence_parallel", "use_seq_parallel"), "write recipe: megatron_sp"),
    **dict.fromkeys(("zero", "zero_stage", "zero_optimization"), _ZERO),
    **dict.fromkeys(("fsdp", "fsdp2"), "write optimizer_sharding: fsdp"),
    **dict.fromkeys(("tensor", "pipeline", "data", "expert", "tp", "pp", "dp", "cp", "ep", "mp"), _MESH),
    **dict.fromkeys(_SPLITS, _MESH),
    **dict.fromkeys(("vpp", "virtual_pipeline"), "write schedule: {kind: interleaved, chunks: 2}"),
    **dict.fromkeys(("activation_checkpointing", "recompute_granularity"), "write recompute: all"),
}
"""Keys of other tools that the section does not have, and what it says instead."""

_NOT_MANUAL = (
    "recipe",
    "strategies",
    "context",
    "redistribution",
    "propagate",
    "shard",
    "uneven",
    "optimizer_sharding",
    "gradients_mean",
    "gradients_degree",
    "recompute",
    "parameter_server",
    "offload",
    "host",
    "copies",
    "overlap",
)
"""What asks for something that a hand-written program has in its operators, or not at all."""


class ParallelSpec(Section):
    """How the step is distributed over the ranks."""

    keys_elsewhere: ClassVar[Mapping[str, str]] = _ELSEWHERE

    mode: Literal["data", "semi_auto", "auto", "manual"] = "semi_auto"
    """data: only the batch is split, over the batch axes. semi_auto: strategies, then the recipe, then the
    default of mode data. auto: a search finds the strategies that are not given. manual (MindSpore's hybrid
    parallel): exactly what ``program`` says."""

    search_mode: SearchMode | None = None
    """Mode auto: dynamic_programming is optimal under its cost model; recursive_programming (if absent) is
    almost instant; sharding_propagation propagates from the operators that ``strategies`` configure."""

    auto: AutoSpec = AutoSpec.model_construct()
    """Mode auto: cost model, weights and options of the search."""

    mesh: dict[Name, PositiveInt | Literal["auto"]]
    """Mesh axes with their sizes, outermost first; their product is the number of devices of the cluster. The
    size of one axis may be ``auto``, so that it follows from the others: ``{data: auto, tensor: 8}``."""

    program: ProgramSpec | None = None
    """Mode manual: what every rank runs, including collectives; the model serves as the one-device reference.
    """

    roles: dict[Name, Axes] = {}
    """Role -> axes with this role; by default ``batch: [data, expert]``, ``experts: expert``, ``pipeline:
    pipeline``, ``sequence: context``. Ranks along axes with the role ``repeat`` repeat the work of others.
    """

    recipe: Name | None = None
    """A shipped recipe. Default: megatron if the mesh has a tensor axis, else data; data also with propagate
    or shard."""

    strategies: tuple[StrategySpec, ...] = ()
    """Strategies by operator pattern; they win over the recipe, and later ones over earlier ones."""

    context: Literal["gather", "ring", "ring_masked"] = "gather"
    """Context parallelism: how attention gets keys and values of other parts of the sequences, which are
    split over the axes of the role sequence. gather: by all-gather. ring: blocks travel around the ranks,
    overlapped with attention on those present; scores hidden by the causal mask are not computed.
    ring_masked: the same, but these are computed and masked, which doubles the work, and tokens stay in their
    order (MindSpeed's attention-mask-type general)."""

    uneven: Literal["refuse", "pad"] = "refuse"
    """What to do with a dim that its ranks do not divide evenly: refuse the plan, or pad the dim, so that all
    ranks hold equally much, including padding."""

    redistribution: RedistributionSpec = RedistributionSpec.model_construct()
    """How tensors are converted from one layout to another: by the shortest path, or as MindSpore infers it.
    """

    propagate: StrictBool = False
    """Sharding propagation: operators that are configured neither by strategies nor by an explicitly named
    recipe follow their neighbours; the layouts chosen minimise the time of redistributions and their own
    kernels."""

    shard: tuple[SubgraphSpec, ...] = ()
    """Parts of the network that run as graphs and are sharded by the layouts of their inputs and outputs, as
    with MindSpore's ``shard(fn, ...)``; all other operators are dispatched one by one."""

    schedule: ScheduleSpec = ScheduleSpec.model_construct()
    """The pipeline schedule."""

    copies: PositiveInt = Field(
        default=1, validation_alias=AliasChoices("copies", "micro_batch_interleave_num", "interleave_num")
    )
    """Multi-copy parallelism (MindSpore's MicroBatchInterleaved): every micro-batch is split into this many
    copies that go through the network alternately, so that kernels of one overlap with collectives of
    another. Smaller kernels are less efficient."""

    overlap: dict[Name, OverlapSpec] = {}
    """Axes whose collectives of activations are split into chunks that overlap with their matmuls: ``{tensor:
    4}``, or ``{tensor: {chunks: 4, reductions: forward}}``."""

    optimizer_sharding: WrittenSharding | None = None
    """fsdp, ZeRO stages, MindSpore's levels or the explicit form; if absent, that of the recipe, if any."""

    parameter_broadcast: StrictBool = False
    """Whether initial parameters are broadcast from the first rank before the first step; otherwise all ranks
    initialise them from the same seed. The broadcast is reported separately and is not part of the step."""

    gradients_mean: StrictBool | None = None
    """MindSpore's: every data-parallel rank averages the loss over its own samples, and gradients are summed
    (false, MindSpore's default) or also divided by ``gradients_degree`` (true). Absent: the mean over the
    batch."""

    gradients_degree: PositiveInt | None = None
    """Divisor of summed gradients with gradients_mean. If absent, the number of data-parallel ranks, which
    gives the mean over the batch."""

    parameter_server: ParameterServerSpec | None = None
    """Parameters are stored on servers. The data-parallel workers of the mesh push gradients to them and pull
    weights from them, instead of reducing gradients among themselves."""

    recompute: RecomputeSpec = RecomputeSpec.model_construct()
    """Activation recomputation."""

    offload: OffloadSpec = OffloadSpec.model_construct()
    """What is stored in host memory or on disks instead of on devices."""

    host: tuple[Name, ...] = ()
    """Operators, by patterns of full names, that run on the host's CPUs, as with MindSpore's
    ``set_device("CPU")``: ``embedding.*.tokens``; ``*.update`` are optimizers (``Optimizer.target``). Values
    that only these use are stored in host memory; all others are copied."""

    fusion: FusionSpec = FusionSpec.model_construct()
    """Which gradients and weights share a collective; the framework's choice if absent."""

    comm_subgraph_reuse: StrictBool | StrictInt | None = Field(
        default=None, validation_alias=AliasChoices("comm_subgraph_reuse", "comm_compiler_opt")
    )
    """How many identical collectives of a stream form one reusable call, as with MindSpore's
    MS_COMM_COMPILER_OPT; true and -1: 1,000. This saves host time only; the network is as busy as before."""

    all_reduce_fusion_config: Ends | None = None
    """MindSpore's short form of ``fusion: {all_reduce: {mode: index, config: ...}}``: [20, 35]."""

    @model_validator(mode="after")
    def _is_consistent(self) -> ParallelSpec:
        if self.recipe is not None and self.recipe not in RecipeSpec.entries():
            raise Refused(
                f"unknown recipe '{self.recipe}'",
                path="recipe",
                hint=nearest(self.recipe, RecipeSpec.entries()),
            )
        for name in self.mesh:
            if not name.isidentifier():
                raise Refused(f"'{name}' is not an axis name: use letters, digits and _", path=f"mesh.{name}")
        if len(auto := [name for name, size in self.mesh.items() if size == "auto"]) > 1:
            raise Refused(
                f"'{auto[0]}' and '{auto[1]}' are both auto: one axis can be what the others leave",
                path=f"mesh.{auto[1]}",
            )
        if not self.offload.offloads and not self.host:
            self.offload.refuse_without_effect(path="offload.")
        self._is_written_or_not()
        self._is_searched_or_not()
        self._shares_the_vocabulary_alone()
        if self.mode == "data" and (self.recipe or self.strategies or self.shard):
            given = "recipe" if self.recipe else "strategies" if self.strategies else "shard"
            raise Refused(f"mode data takes no {given}; use mode semi_auto", path=given)
        if self.mode == "data" and self.propagate:
            raise Refused("mode data configures nothing to propagate; use mode semi_auto", path="propagate")
        if self.shard and self.propagate:
            raise Refused(
                "shard propagates inside of its pieces, propagate through the whole network",
                path="propagate",
                hint="leave one of them out",
            )
        number = self.comm_subgraph_reuse
        if number is not None and not isinstance(number, bool) and number != -1 and number < 2:
            raise Refused(
                f"a call of {number} collectives reuses nothing",
                path="comm_subgraph_reuse",
                hint="write a number of at least 2, or true (1,000)",
            )
        if self.gradients_degree is not None and not self.gradients_mean:
            raise Refused(
                "gradients are not divided by anything without gradients_mean",
                path="gradients_degree",
                hint="write gradients_mean: true, or leave gradients_degree out",
            )
        if self.all_reduce_fusion_config is not None:
            path = "all_reduce_fusion_config"
            check_ends(self.all_reduce_fusion_config, path)
            if self.fusion.closed or self.fusion.all_reduce is not None:
                raise Refused("fusion says already what is fused", path=path, hint="leave one of them out")
        return self

    def _is_written_or_not(self) -> None:
        """Refused if a program stands in another mode than manual, or beside what would insert something."""
        if self.mode != "manual":
            if self.program is not None:
                raise Refused(f"mode {self.mode} runs no program", path="program", hint="write mode: manual")
            return
        if self.program is None:
            raise Refused(
                "mode manual runs a program, and there is none", hint="write program: {operators: ...}"
            )
        for name in _NOT_MANUAL:
            if name in self.model_fields_set and getattr(self, name) != type(self).model_fields[name].default:
                raise Refused(
                    f"mode manual inserts nothing: '{name}' has no meaning", path=name, hint="leave it out"
                )
        if self.schedule.stages != "auto":
            raise Refused("the ranks of a stage are those its operators name", path="schedule.stages")
        if self.schedule.p2p is not None:
            raise Refused("transfers are the program's own sends and receives", path="schedule.p2p")

    def _shares_the_vocabulary_alone(self) -> None:
        """Refused beside a vocabulary on all stages what is not known to work with it."""
        if self.schedule.vocabulary is None:
            return
        others = {
            f"mode {self.mode}": self.mode in ("auto", "manual"),
            "propagate": self.propagate,
            "shard": self.shard,
            "copies": self.copies > 1,
            "parameter_server": self.parameter_server,
            "offload": self.offload != OffloadSpec(),
            "host": self.host,
        }
        for name, given in others.items():
            if given:
                raise Refused(
                    f"a vocabulary on all stages does not go with {name} yet",
                    path="schedule.vocabulary",
                    hint="leave one of both out",
                )

    def _is_searched_or_not(self) -> None:
        """Refused if a search is configured in another mode than auto, or beside what it replaces."""
        if self.mode != "auto":
            given = [name for name in ("search_mode", "auto") if name in self.model_fields_set]
            if given and (self.search_mode is not None or self.auto != AutoSpec()):
                raise Refused(f"mode {self.mode} searches nothing", path=given[0], hint="write mode: auto")
            return
        if self.propagate:
            raise Refused(
                "mode auto configures every operator",
                path="propagate",
                hint="leave it out, or write search_mode: sharding_propagation",
            )
        if self.shard:
            raise Refused("mode auto searches the whole network", path="shard", hint="use mode semi_auto")

    def filled(self, devices: int) -> ParallelSpec:
        """The same with an axis that is ``auto`` as large as the others leave of so many devices.

        Refused, with the arithmetic, if they leave no whole number.
        """
        axis = next((name for name, size in self.mesh.items() if size == "auto"), None)
        if axis is None:
            return self
        devices -= self.num_server_ranks
        others = {name: size for name, size in self.mesh.items() if size != "auto"}
        product = math.prod(others.values())
        if devices % product:
            shown = " x ".join(f"{name} {size}" for name, size in others.items())
            message = f"{shown} = {product} leaves no whole number of {devices} devices: "
            raise Refused(f"{message}{devices} / {product} = {devices / product:.6g}", path=f"mesh.{axis}")
        return self.model_copy(update={"mesh": {**self.mesh, axis: devices // product}})

    @property
    def sizes(self) -> dict[str, int]:
        """The axes of the mesh with their sizes, when it is known how many devices there are."""
        assert "auto" not in self.mesh.values(), "the scenario fills what is auto"
        return {name: int(size) for name, size in self.mesh.items()}

    @property
    def num_server_ranks(self) -> int:
        """Ranks behind those of the mesh: parameter servers and their scheduler."""
        return self.parameter_server.num_ranks if self.parameter_server else 0

    def tokens_counted(self, tokens: int, ways: int) -> float:
        """By how many the sum of all tokens' losses is divided, with so many tokens on ``ways`` ranks."""
        if self.gradients_mean is None:
            return tokens
        divided = self.gradients_degree or ways
        return tokens / ways * (divided if self.gradients_mean else 1)

    @property
    def pads(self) -> bool:
        """Whether dims that do not divide are padded."""
        return self.uneven == "pad"

    @property
    def reuse(self) -> int | None:
        """How many collectives that are alike are one call; None: each is one."""
        written = self.comm_subgraph_reuse
        if written is True or written == -1:
            return USUAL_REUSE
        return written or None

    @property
    def fused(self) -> FusionSpec:
        """What the scenario says about fusion, in whichever form."""
        ends = self.all_reduce_fusion_config
        if ends is None:
            return self.fusion
        named = BucketsSpec(mode="index", config=ends)
        return self.fusion.model_copy(update={"all_reduce": named})
