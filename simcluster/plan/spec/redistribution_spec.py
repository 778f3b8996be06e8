"""The scenario's ``parallel.redistribution``: how tensors get from one layout to another."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, Field, StrictBool, model_validator

from simcluster.document import Section


class RedistributionSpec(Section):
    """How activations and their gradients get from layout to layout; ``mindspore`` alone is its usual way.

    What lies in flat buffers, and the gradients of parameters, take the shortest path in any case.
    """

    shorthand: ClassVar[str] = "kind"

    kind: Literal["shortest", "mindspore"] = "shortest"
    """shortest: the cheapest sequence on this cluster. mindspore: the sequence its inference gives, whatever
    that costs; sums that are due are all-reduced first."""

    all_to_all: StrictBool | None = Field(
        default=None, validation_alias=AliasChoices("all_to_all", "enable_alltoall")
    )
    """Whether dims exchange axes by all-to-all; otherwise they gather and slice. By default the shortest path
    does, and mindspore does not, as its enable_alltoall is false unless set."""

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
