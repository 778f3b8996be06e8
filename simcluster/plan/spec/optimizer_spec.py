"""The scenario's ``training.optimizer``: an update rule, and others for groups of parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pydantic import model_validator

from simcluster.document import Fraction, Name, NonNegativeFloat, PositiveFloat, Section
from simcluster.model import update_kinds

if TYPE_CHECKING:
    RuleKind: TypeAlias = str
else:
    RuleKind = Literal[tuple(update_kinds())]

StateName = Literal["fp32", "fp16", "bf16", "fp8", "int8"]


class RuleSpec(Section):
    """An update rule and its constants."""

    kind: RuleKind = "adamw"
    """Which update rule. lazy_adam and ftrl change only the rows of a table that were looked up, where its
    gradient comes from one lookup alone; other parameters they change as a whole."""

    states: StateName | dict[Name, StateName] = "fp32"
    """Number format of momenta and moments, or of each: ``{moment1: bf16, moment2: fp8}``. int8 is quantised
    block-wise, with an fp32 scale for 2,048 elements."""

    learning_rate: PositiveFloat = 1e-4
    """Step size; matters for values only."""

    weight_decay: NonNegativeFloat = 0.0
    """Decay of the weights; matters for values only."""

    momentum: Fraction = 0.9
    """Of the momentum optimizer."""

    beta1: Fraction = 0.9
    """Adam's first decay."""

    beta2: Fraction = 0.999
    """Adam's second decay."""

    eps: PositiveFloat = 1e-8
    """Adam's guard against division by zero."""

    accumulator: PositiveFloat = 1.0
    """What FTRL's sums of squares begin with."""

    l1: NonNegativeFloat = 1e-8
    """FTRL's: up to this a weight is held at 0."""

    l2: NonNegativeFloat = 1e-8
    """FTRL's second regularisation."""


class GroupSpec(RuleSpec):
    """Parameters with an update rule of their own; a constant that is not written has its usual value."""

    match: Name
    """A pattern of full names, such as ``embedding.*.weight``."""


class OptimizerSpec(RuleSpec):
    """The optimizer; ``adamw`` alone means its usual constants."""

    shorthand: ClassVar[str] = "kind"

    groups: tuple[GroupSpec, ...] = ()
    """Parameters with rules of their own; later ones win over earlier ones."""

    clip: PositiveFloat | None = None
    """Gradients are scaled so that the norm of all of them together is at most this; absent: as they are."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"kind": written} if isinstance(written, str) else written
