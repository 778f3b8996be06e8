"""The scenario's ``training.routing``: who gets how many tokens where nobody asks a router."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from simcluster.collectives import Imbalance
from simcluster.document import Name, NonNegativeFloat, NonNegativeInt, Refused, Section
from simcluster.plan.rules import ExpertRouting

Row = Annotated[tuple[NonNegativeFloat, ...], Field(min_length=1)]


class RoutingSpec(Section):
    """How unevenly tokens are distributed over experts in a timed step: a law, or more settings."""

    shorthand: ClassVar[str] = "law"

    law: Name = "uniform"
    """uniform: every expert gets equally many tokens. zipf:1.2: the k-th most popular expert of a layer is
    chosen k ** -1.2 times as often as the first. normal:0.3: each expert's popularity is drawn from a normal
    distribution with this relative standard deviation. No token goes to the same expert twice."""

    seed: NonNegativeInt = 0
    """Random seed for the popularity of experts."""

    drawn: Literal["layer", "micro_batch"] = "layer"
    """How often popularity is drawn: once per layer for the whole step, or anew for every micro-batch."""

    histogram: Row | Annotated[tuple[Row, ...], Field(min_length=1)] | None = None
    """Instead of a law: how many tokens each expert gets, in any unit; one row for all layers, or one row for
    each layer that has experts."""

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
