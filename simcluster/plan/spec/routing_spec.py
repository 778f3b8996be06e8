"""The scenario's ``training.routing``: who gets how many tokens where nobody asks a router."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from simcluster.collectives import Imbalance
from simcluster.document import Name, NonNegativeFloat, NonNegativeInt, Refused, Section
from simcluster.plan.rules import ExpertRouting

Row = Annotated[tuple[NonNegativeFloat, ...], Field(min_length=1)]


class RoutingSpec(Section):
    """How unevenly the experts of a mixture are chosen while a step is timed; a law alone, or more of it."""

    shorthand: ClassVar[str] = "law"

    law: Name = "uniform"
    """uniform: every expert gets equally many tokens. zipf:1.2: the k-th favourite of a layer is chosen
    k ** -1.2 times as often as the first. normal:0.3: experts are chosen around the mean, with this relative
    deviation. No expert gets a token twice."""

    seed: NonNegativeInt = 0
    """Which experts are the favourites of a layer."""

    drawn: Literal["layer", "micro_batch"] = "layer"
    """What has favourites of its own: a layer throughout the step, or every micro-batch in it."""

    histogram: Row | Annotated[tuple[Row, ...], Field(min_length=1)] | None = None
    """In place of a law: how many tokens every expert got, in any unit, for all layers or a row for each that
    has experts."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"law": written} if isinstance(written, str) else written

    @model_validator(mode="after")
    def _is_law(self) -> RoutingSpec:
        if self.histogram is not None:
            for name in ("law", "seed", "drawn"):
                if name in self.model_fields_set:
                    raise Refused("give a histogram or a law, not both", path=name)
        self.build()
        return self

    def build(self) -> ExpertRouting:
        """The routing."""
        if self.histogram is not None:
            rows = self.histogram if isinstance(self.histogram[0], tuple) else (self.histogram,)
            return ExpertRouting(histogram=tuple(tuple(map(float, row)) for row in rows))
        try:
            law = Imbalance.parse(self.law, self.seed)
        except ValueError as error:
            raise Refused(str(error), path="law") from None
        return ExpertRouting(law, each_micro_batch=self.drawn == "micro_batch")
