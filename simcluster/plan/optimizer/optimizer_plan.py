"""How parameters are updated: update rules, formats of states and master copies, sharding of the states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches
from simcluster.layout import Movement
from simcluster.model import Block, Graph, Rules, Update, Updates, WeightMatrix
from simcluster.plan.rules import check_patterns
from simcluster.plan.spec import ParameterServerSpec, ShardingChoice
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class WrittenReduction:
    """The reduction of a gradient in a hand-written program: a movement, then a division."""

    movement: Movement
    """The collective."""
    divisor: int = 1
    """What the sum is divided by."""


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters with an update rule of their own."""

    match: str
    """A pattern of their full names."""
    update: Update
    """The rule."""
    states: Mapping[str, DType]
    """State of the rule -> its format."""


@dataclass(frozen=True, slots=True)
class OptimizerPlan:
    """How parameters are updated."""

    update: Update
    """The rule of all parameters that are in no group."""
    master: DType | None
    """The format of master copies; None: parameters are their own."""
    states: Mapping[str, DType]
    """State of the rule -> its format."""
    sharding: ShardingChoice = ShardingChoice()
    """What of parameters, gradients and states is sharded over the ranks that replicate them."""
    main_gradients: bool = False
    """Gradients are copied to the format of the master copy before the update (Megatron's main_grad)."""
    copies: bool = False
    """Gradients are copied into buckets for their reduction."""
    regather: bool = False
    """Blocks that recompute their forward gather sharded weights again for it."""
    written: Mapping[str, WrittenReduction] | None = None
    """Parameter -> the reduction of its gradient, in a hand-written program; None: layouts decide."""
    groups: tuple[ParameterGroup, ...] = ()
    """Parameters with rules of their own; later groups win."""
    clip: float | None = None
    """The largest global norm of the gradients; None: they are not clipped."""
    servers: ParameterServerSpec | None = None
    """The servers that update some parameters: nothing is done about their gradients here."""
    whole_sums: bool = False
    """Gradients are summed on all ranks, also where each updates its shard of the parameters alone."""
    batch_axes: tuple[str, ...] = ()
    """The axes that split a micro-batch."""
    matrices: Mapping[str, WeightMatrix] = field(default_factory=dict)
    """Parameters that are used as matrices, cut into blocks as ranks share them."""

    @property
    def rules(self) -> Rules:
        """The rule of every parameter, by pattern."""
        if not self.groups and not self.needs_matrices:
            return self.update
        groups = tuple((group.match, group.update) for group in self.groups)
        return Updates(self.update, groups, self.matrices)

    def group_of(self, parameter: str) -> ParameterGroup | None:
        """The group that a parameter is in, if it is in one."""
        matching = (candidate for candidate in reversed(self.groups) if matches(candidate.match, parameter))
        return next(matching, None)

    def of(self, parameter: str) -> tuple[Update, Mapping[str, DType]]:
        """The rule of a parameter, and the formats of its states."""
        group = self.group_of(parameter)
        rule, formats = (self.update, self.states) if group is None else (group.update, group.states)
        own = rule.on(self.matrices.get(parameter))
        return (rule, formats) if own is rule else (own, {name: formats[name] for name in own.states})

    @property
    def needs_matrices(self) -> bool:
        """Whether some rule depends on how parameters are used as matrices."""
        return any(rule.on(None) is not rule for rule in (self.update, *(one.update for one in self.groups)))

    def serves(self, parameter: str) -> bool:
        """Whether servers update a parameter."""
        return any(matches(pattern, parameter) for pattern in self.served)

    @property
    def served(self) -> tuple[str, ...]:
        """Patterns of the parameters that servers update."""
        return self.servers.parameters if self.servers else ()

    @property
    def caches_rows(self) -> bool:
        """Whether of served tables whose gradients are rows these are cached, and updated here."""
        return self.servers is not None and self.servers.vocab_cache_size > 0

    @property
    def served_by_rows(self) -> tuple[str, ...]:
        """Patterns of the parameters of which every worker sends its own rows."""
        return () if self.caches_rows else self.served

    def sharding_of(self, block: Block) -> ShardingChoice:
        """How a block's parameters are sharded, and when they are gathered."""
        again = self.regather and block.recomputed and self.sharding.weights
        return replace(self.sharding, regather=True) if again else self.sharding


def parameter_names(graph: Graph) -> list[str]:
    """The full names of all parameters, those of tied copies too."""
    return [
        f"{instance.name}.{name}"
        for instance in graph.instances
        for name in graph.block_of(instance).parameters
    ]


def check_parameter_groups(graph: Graph, plan: OptimizerPlan) -> None:
    """PlanError if the pattern of a group matches no parameter."""
    patterns = [group.match for group in plan.groups]
    check_patterns(patterns, parameter_names(graph), "parameter", "training.optimizer.groups.{}.match")
