"""Number formats of a plan, and update rules with the formats of their states."""

from __future__ import annotations

from dataclasses import fields

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, nearest
from simcluster.model import Update, update_kinds
from simcluster.plan.optimizer import ParameterGroup
from simcluster.plan.precision.fp8_matmuls import Fp8Plan
from simcluster.plan.spec import (
    BEHIND_GATHERS,
    FrameworkSpec,
    OptimizerSpec,
    PrecisionSpec,
    RuleSpec,
    ShardingChoice,
)
from simcluster.plan.switches import WeightCopies
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class Numerics:
    """The number formats of a plan."""

    compute: DType
    """Of activations and the weights that they meet."""
    matmul: DType
    """In which matrix units multiply."""
    gradients: DType
    """Of accumulated gradients."""
    master: DType | None
    """Of master copies; None: parameters are their own."""
    cast: bool
    """Parameters are fp32 and cast for use (automatic mixed precision)."""
    cast_whole: bool
    """The same of those that are not sharded though weights are, whose shards are fp32. Not beside copies in
    fp8: a layer that is computed again would make these of casts that are gone."""
    fp8: Fp8Plan | None
    """Which matmuls run in fp8, mxfp8 or nvfp4; None: none."""

    @classmethod
    def of(cls, written: PrecisionSpec, framework: FrameworkSpec, sharding: ShardingChoice) -> Numerics:
        """The scenario's formats, completed by the framework profile."""
        compute, matmul = DType.of(written.compute), DType.of(written.multiplied)
        mixed = compute is not DType.FP32
        default = "fp32" if framework.gradients_in(written.compute) == "fp32" else written.compute
        casts = mixed and written.master is None and framework.weights is not WeightCopies.COPIED
        cast = casts and not sharding.weights
        quantised = _quantised(written, framework)
        master = written.master or ("fp32" if mixed and not cast else "none")
        return cls(
            compute,
            matmul,
            DType.of(written.gradients or default),
            None if master == "none" else DType.of(master),
            cast,
            casts and sharding.weights and not sharding.keep_cast and quantised is None,
            quantised,
        )


def _quantised(precision: PrecisionSpec, framework: FrameworkSpec) -> Fp8Plan | None:
    """Which matmuls run on narrow copies; None: none."""
    written = precision.quantised
    if written is None:
        return None
    narrow, sent = DType.of(precision.multiplied), written.communication
    return Fp8Plan(
        format=narrow,
        operators=written.operators,
        gathers=framework.quantised_gathers if sent is None else sent != "compute",
        exchanges=sent not in (None, "compute"),
        keep=written.saved != "compute",
        # Blocks with a scale lie along the summed dim, which is another one in the backward.
        transposed=narrow is not DType.FP8 or bool(framework.fp8_transposes),
        behind_gathers=narrow is DType.FP8 and framework.fp8_transposes == BEHIND_GATHERS,
    )


def update_of(spec: RuleSpec) -> Update:
    """The update rule of an optimizer section."""
    rule = update_kinds()[spec.kind]
    constants = (constant.name for constant in fields(rule) if constant.name in RuleSpec.model_fields)
    return rule(**{name: getattr(spec, name) for name in constants})


def groups_of(spec: OptimizerSpec) -> tuple[ParameterGroup, ...]:
    """Groups of parameters with their update rules."""
    groups = []
    for index, group in enumerate(spec.groups):
        update = update_of(group)
        states = states_of(update, group, f"training.optimizer.groups.{index}")
        groups.append(ParameterGroup(group.match, update, states))
    return tuple(groups)


def states_of(update: Update, spec: RuleSpec, path: str = "training.optimizer") -> dict[str, DType]:
    """State -> format, in the rule's order; fp32 for those that are not named."""
    written = spec.states
    if not update.all_states and "states" in spec.model_fields_set:
        raise PlanError(f"{update.kind} keeps no states", path=f"{path}.states", hint="leave it out")
    formats = dict.fromkeys(update.all_states, written) if isinstance(written, str) else dict(written)
    for name in formats:
        if name not in update.all_states:
            raise PlanError(
                f"{update.kind} keeps no state '{name}'",
                path=f"{path}.states.{name}",
                hint=nearest(name, update.all_states),
            )
    return {name: DType.of(formats.get(name, "fp32")) for name in update.all_states}
