"""The scenario's ``offload``: what lies in the memory or on the disks of hosts instead of on devices."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from simcluster.document import Name, NonNegativeInt, Section
from simcluster.model import Place
from simcluster.plan.offloading import Offload, Offloading

Share = Annotated[float, Field(gt=0.0, le=1.0)]
"""A part of a whole, without nothing."""


class CategorySpec(Section):
    """Where values of one category lie; host or disk alone is ``to``."""

    shorthand: ClassVar[str] = "to"

    to: Literal["host", "disk"]
    """In the memory of the host, or on its disks."""

    match: tuple[Name, ...] = ("*",)
    """Only these: ``layers.*.mlp.*``. States are called as their parameters."""

    fraction: Share = 1.0
    """This share of the bytes of every stage, the first ones of it; in whole tensors, to the nearest."""

    prefetch: NonNegativeInt = 1
    """How many kernels that need something ahead it is brought: so many more hold theirs on the device."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"to": written} if isinstance(written, str) else written

    def build(self) -> Offloading:
        """What it says."""
        return Offloading(Place(self.to), self.match, self.fraction, ahead=self.prefetch)


class GradientsSpec(CategorySpec):
    """Where gradients lie: disks do not add them up."""

    to: Literal["host"]
    """In the memory of the host."""


class OffloadSpec(Section):
    """What is offloaded, by category; nothing if empty."""

    parameters: CategorySpec | None = None
    """Weights, copied for the forward and again for the backward of each block: shards, or what is whole
    anyhow, but not what is gathered once per step."""

    gradients: GradientsSpec | None = None
    """Gradients, which leave behind the backward of each block and are added up there. Those that are reduced
    once per step are on the device for it, and so not these."""

    optimizer_states: CategorySpec | None = None
    """States and master copies of parameters; the update runs on the device, around which they are copied."""

    activations: CategorySpec | None = None
    """What the forward leaves for the backward; with recompute these are the inputs of layers."""

    def build(self) -> Offload:
        """What it says."""
        return Offload(
            parameters=self.parameters.build() if self.parameters else None,
            gradients=self.gradients.build() if self.gradients else None,
            states=self.optimizer_states.build() if self.optimizer_states else None,
            activations=self.activations.build() if self.activations else None,
        )
