"""The scenario's ``training.optimizer``: an update rule, and others for groups of parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from pydantic import model_validator

from simcluster.document import Fraction, Name, NonNegativeFloat, PositiveFloat, PositiveInt, Section
from simcluster.model import update_kinds

if TYPE_CHECKING:
    RuleKind: TypeAlias = str
else:
    RuleKind = Literal[tuple(update_kinds())]

StateName = Literal["fp32", "fp16", "bf16", "fp8", "int8"]


class RuleSpec(Section):
    """An update rule and its hyperparameters."""

    kind: RuleKind = "adamw"
    """The update rule. lazy_adam and ftrl update only the rows of a table that were looked up, provided its
    gradient comes from a single lookup; all other parameters they update as a whole. muon updates matrices;
    norms, biases, convolutions, embeddings and the output layer it leaves to adamw."""

    states: StateName | dict[Name, StateName] = "fp32"
    """Number format of the optimizer states, for all or for each: ``{moment1: bf16, moment2: fp8}``. int8 is
    quantised block-wise, with one fp32 scale per 2,048 elements."""

    learning_rate: PositiveFloat = 1e-4
    """Learning rate; affects numerical values only, not times."""

    weight_decay: NonNegativeFloat = 0.0
    """Weight decay; affects numerical values only, not times."""

    momentum: Fraction = 0.9
    """Momentum coefficient of the momentum optimizer, and of muon."""

    nesterov: bool = True
    """Whether muon looks one step of momentum ahead."""

    iterations: PositiveInt = 5
    """Newton-Schulz iterations of a muon update: three matrix products each."""

    scaling: Literal["original", "match_rms_adamw", "spectral", "unit_rms_norm"] = "original"
    """Length of muon's step for a matrix of r outputs and c inputs; affects numerical values only. original:
    sqrt(max(1, r / c)); match_rms_adamw: 0.2 sqrt(max(r, c)); spectral: sqrt(max(r, c)); unit_rms_norm:
    sqrt(r / c)."""

    scale_factor: PositiveFloat = 1.0
    """What muon's step is multiplied by besides; affects numerical values only."""

    matrices: Literal["duplicated", "blockwise"] = "duplicated"
    """How muon treats matrices that tensor-parallel ranks hold parts of. duplicated: the momentum is
    all-gathered, and every rank orthogonalises the whole matrix. blockwise: every rank orthogonalises its
    part as if it were a matrix, which is another update rule and needs no communication."""

    beta1: Fraction = 0.9
    """Adam's decay rate of the first moment."""

    beta2: Fraction = 0.999
    """Adam's decay rate of the second moment."""

    eps: PositiveFloat = 1e-8
    """Adam's epsilon, which prevents division by zero."""

    accumulator: PositiveFloat = 1.0
    """Initial value of FTRL's accumulators of squared gradients."""

    l1: NonNegativeFloat = 1e-8
    """FTRL's L1 regularisation strength: the threshold up to which a weight stays 0."""

    l2: NonNegativeFloat = 1e-8
    """FTRL's L2 regularisation strength."""


class GroupSpec(RuleSpec):
    """A parameter group with its own update rule; hyperparameters that are not given have their default
    values.
    """

    match: Name
    """Pattern of full parameter names, such as ``embedding.*.weight``."""


class OptimizerSpec(RuleSpec):
    """The optimizer; ``adamw`` alone means its default hyperparameters."""

    shorthand: ClassVar[str] = "kind"

    groups: tuple[GroupSpec, ...] = ()
    """Parameter groups with their own update rules; later entries win over earlier ones."""

    clip: PositiveFloat | None = None
    """Gradient clipping: gradients are scaled so that their global norm is at most this; absent: no clipping.
    """

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"kind": written} if isinstance(written, str) else written
