"""The scenario's training, inference and parallel sections, and framework profiles, as they are written."""

from simcluster.plan.spec.auto_spec import USUAL_SEARCH, AutoSpec
from simcluster.plan.spec.communication_fusion import (
    ALONE,
    AUTO_MB,
    MB,
    USUAL,
    BucketsSpec,
    FusionSpec,
    fusible_collectives,
    fusible_reductions,
    fusion_ids,
    unused_fusion,
)
from simcluster.plan.spec.framework import (
    BEHIND_GATHERS,
    IDEAL,
    MEGATRON_BUCKETS,
    AllocatorSpec,
    BucketSpec,
    FrameworkMemorySpec,
    FrameworkSpec,
    PoolSpec,
)
from simcluster.plan.spec.inference_spec import InferenceSpec, Task, samples
from simcluster.plan.spec.offload_spec import CategorySpec, OffloadSpec
from simcluster.plan.spec.optimizer_sharding import (
    OptimizerShardingSpec,
    ShardingChoice,
    explicit_sharding,
    mesh_sharding,
    sharding_sub_axes,
)
from simcluster.plan.spec.optimizer_spec import OptimizerSpec, RuleSpec
from simcluster.plan.spec.overlap_spec import OverlapSpec
from simcluster.plan.spec.parallel_spec import ParallelSpec
from simcluster.plan.spec.parameter_server_spec import ParameterServerSpec, ServerUpdate
from simcluster.plan.spec.precision_spec import Fp8Spec, PrecisionSpec
from simcluster.plan.spec.program_spec import WORLD, GradientSpec, GroupName, PartSpec, ProgramSpec
from simcluster.plan.spec.recipe_spec import RecipeSpec
from simcluster.plan.spec.recompute_spec import PATH, Layers, RecomputeSpec, layers_by_block_method
from simcluster.plan.spec.routing_spec import RoutingSpec
from simcluster.plan.spec.schedule_spec import ScheduleSpec, schedule_kinds
from simcluster.plan.spec.strategy_spec import (
    WHOLE_EXPERTS,
    StrategySpec,
    WrittenOperands,
    expert_axes,
    planner_operands,
    read_operands,
    ulysses_entry,
)
from simcluster.plan.spec.subgraph_spec import SubgraphSpec
from simcluster.plan.spec.training_spec import TrainingSpec

__all__ = [
    "ALONE",
    "AUTO_MB",
    "BEHIND_GATHERS",
    "IDEAL",
    "MB",
    "MEGATRON_BUCKETS",
    "PATH",
    "USUAL",
    "USUAL_SEARCH",
    "WHOLE_EXPERTS",
    "WORLD",
    "AllocatorSpec",
    "AutoSpec",
    "BucketSpec",
    "BucketsSpec",
    "CategorySpec",
    "Fp8Spec",
    "FrameworkMemorySpec",
    "FrameworkSpec",
    "FusionSpec",
    "GradientSpec",
    "GroupName",
    "InferenceSpec",
    "Layers",
    "OffloadSpec",
    "OptimizerShardingSpec",
    "OptimizerSpec",
    "OverlapSpec",
    "ParallelSpec",
    "ParameterServerSpec",
    "PartSpec",
    "PoolSpec",
    "PrecisionSpec",
    "ProgramSpec",
    "RecipeSpec",
    "RecomputeSpec",
    "RoutingSpec",
    "RuleSpec",
    "ScheduleSpec",
    "ServerUpdate",
    "ShardingChoice",
    "StrategySpec",
    "SubgraphSpec",
    "Task",
    "TrainingSpec",
    "WrittenOperands",
    "expert_axes",
    "explicit_sharding",
    "fusible_collectives",
    "fusible_reductions",
    "fusion_ids",
    "layers_by_block_method",
    "mesh_sharding",
    "planner_operands",
    "read_operands",
    "samples",
    "schedule_kinds",
    "sharding_sub_axes",
    "ulysses_entry",
    "unused_fusion",
]
