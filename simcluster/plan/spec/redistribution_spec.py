"""The scenario's ``parallel.redistribution``: how tensors get from one layout to another."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field, StrictBool, model_validator

from simcluster.document import Section


class RedistributionSpec(Section):
    """How activations and their gradients are converted between layouts; ``mindspore`` alone uses its
    defaults.

    Flat buffers and parameter gradients always take the shortest path.
    """

    shorthand: ClassVar[str] = "kind"

    kind: Literal["shortest", "mindspore"] = "shortest"
    """shortest: the cheapest sequence of operations on this cluster. mindspore: the sequence that MindSpore
    infers, whatever its cost; partial sums are all-reduced first."""

    all_to_all: StrictBool | None = Field(
        default=None, validation_alias=AliasChoices("all_to_all", "enable_alltoall")
    )
    """Whether a mesh axis is moved from one dim to another by all-to-all; otherwise by all-gather and slice.
    Default: true for shortest, false for mindspore, whose enable_alltoall is false unless set."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"kind": written} if isinstance(written, str) else written

    @property
    def infers(self) -> bool:
        """Whether MindSpore's inference is used."""
        return self.kind == "mindspore"

    @property
    def exchanges(self) -> bool:
        """Whether there are all-to-alls."""
        return not self.infers if self.all_to_all is None else self.all_to_all
