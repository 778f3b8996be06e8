"""Number formats of a plan, and the optimizer with the formats of its states."""

from __future__ import annotations

from dataclasses import dataclass, fields

from simcluster.errors import PlanError, nearest
from simcluster.model import Update, update_kinds
from simcluster.plan.optimizer import ParameterGroup
from simcluster.plan.precision.fp8_matmuls import Fp8Plan
from simcluster.plan.spec import (
    Fp8Spec,
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
    """``compute`` is the format of activations, ``matmul`` the one in which matrix units multiply.

    ``master``: that of the master copy, or None if parameters are their own. ``cast``: whole fp32 weights
    are cast for use instead. ``fp8``: which products run in fp8, if any do.
    """

    compute: DType
    matmul: DType
    gradients: DType
    master: DType | None
    cast: bool
    fp8: Fp8Plan | None

    @classmethod
    def of(cls, written: PrecisionSpec, framework: FrameworkSpec, sharding: ShardingChoice) -> Numerics:
        """What a scenario says, and a framework profile where it says nothing."""
        compute, matmul = DType.of(written.compute), DType.of(written.multiplied)
        mixed = compute is not DType.FP32
        default = "fp32" if framework.gradients_in(written.compute) == "fp32" else written.compute
        cast = (
            mixed
            and written.master is None
            and framework.weights is not WeightCopies.COPIED
            and not sharding.weights
        )
        master = written.master or ("fp32" if mixed and not cast else "none")
        return cls(
            compute,
            matmul,
            DType.of(written.gradients or default),
            None if master == "none" else DType.of(master),
            cast,
            _fp8(written.fp8 or Fp8Spec(), framework) if matmul is DType.FP8 else None,
        )


def _fp8(written: Fp8Spec, framework: FrameworkSpec) -> Fp8Plan:
    return Fp8Plan(
        operators=written.operators,
        communicate=written.communication == "fp8",
        keep=written.saved == "fp8",
        transposed=framework.fp8_transposes,
    )


def update_of(spec: RuleSpec) -> Update:
    """The optimizer's update of one parameter."""
    rule = update_kinds()[spec.kind]
    constants = (constant.name for constant in fields(rule) if constant.name in RuleSpec.model_fields)
    return rule(**{name: getattr(spec, name) for name in constants})


def groups_of(spec: OptimizerSpec) -> tuple[ParameterGroup, ...]:
    """The groups of parameters with rules of their own."""
    groups = []
    for index, group in enumerate(spec.groups):
        update = update_of(group)
        states = states_of(update, group, f"training.optimizer.groups.{index}")
        groups.append(ParameterGroup(group.match, update, states))
    return tuple(groups)


def states_of(update: Update, spec: RuleSpec, path: str = "training.optimizer") -> dict[str, DType]:
    """The format of every state, in the optimizer's order; those that are not named are fp32."""
    written = spec.states
    if not update.states and "states" in spec.model_fields_set:
        raise PlanError(f"{update.kind} keeps no states", path=f"{path}.states", hint="leave it out")
    formats = dict.fromkeys(update.states, written) if isinstance(written, str) else dict(written)
    for name in formats:
        if name not in update.states:
            raise PlanError(
                f"{update.kind} keeps no state '{name}'",
                path=f"{path}.states.{name}",
                hint=nearest(name, update.states),
            )
    return {name: DType.of(formats.get(name, "fp32")) for name in update.states}
