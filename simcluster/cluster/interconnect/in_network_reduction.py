"""Switches of a network that add up what passes them (SHARP): what a document says of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Bandwidth, Section

Format = Literal["fp64", "fp32", "fp16", "bf16", "fp8", "int64", "int32", "uint8"]
"""Labels of number formats that are sent as such."""


@dataclass(frozen=True, slots=True)
class SwitchReduction:
    """What a network's switches reduce: collectives, number formats, and bytes/s of one reduction at most.

    The rate is that at which a switch takes in, from each of its ports, what it adds to the rest.
    """

    operations: tuple[str, ...]
    formats: tuple[str, ...]
    rate: float = float("inf")

    def lacks(self, operation: str, number_format: str = "") -> str:
        """What it cannot add up of an operation, in words; nothing if it can. No format stands for any."""
        if operation not in self.operations:
            return f"the network reduces for {', '.join(self.operations)}, not for {operation}"
        if number_format and number_format not in self.formats:
            return f"the network reduces {', '.join(self.formats)}, not {number_format}"
        return ""


class SwitchReductionSpec(Section):
    """Reduction in switches: ``{operations: [all_reduce], formats: [bf16, fp32], rate: 400 Gbps}``."""

    operations: Annotated[tuple[Literal["all_reduce", "barrier"], ...], Field(min_length=1)]
    """Collectives that the switches perform."""

    formats: Annotated[tuple[Format, ...], Field(min_length=1)]
    """Number formats that the switches can add."""

    rate: Bandwidth | None = None
    """Maximum rate at which one reduction takes data from each port of a switch; by default that of the
    links."""

    def build(self) -> SwitchReduction:
        """The reduction."""
        return SwitchReduction(
            self.operations, self.formats, float("inf") if self.rate is None else self.rate
        )
