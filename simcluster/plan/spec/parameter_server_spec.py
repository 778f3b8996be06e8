"""``parallel.parameter_server``: parameters on servers, where workers push gradients and pull weights."""

from __future__ import annotations

import enum
from typing import Annotated

from pydantic import AliasChoices, Field, model_validator

from simcluster.document import Name, NonNegativeInt, PositiveInt, Refused, Section


class ServerUpdate(enum.StrEnum):
    """When servers update what they hold."""

    SYNCHRONOUS = "synchronous"
    ASYNCHRONOUS = "asynchronous"
    STALE_SYNCHRONOUS = "stale_synchronous"


_IDS = r"^(uniform|zipf:[0-9]+(\.[0-9]+)?)$"
"""What ``ids`` look like, for the schema."""


class ParameterServerSpec(Section):
    """Parameter servers. Their ranks follow those of the mesh; the rank of their scheduler comes last."""

    servers: PositiveInt = Field(default=1, validation_alias=AliasChoices("servers", "server_num"))
    """Number of servers; each is one rank on a CPU."""

    update: ServerUpdate = ServerUpdate.SYNCHRONOUS
    """synchronous: once per step, when the gradients of all workers have arrived. asynchronous: whenever the
    gradients of one worker have arrived. stale_synchronous: likewise, but the fastest worker waits if it
    would get more than ``staleness`` steps ahead of the slowest."""

    staleness: NonNegativeInt | None = None
    """Of stale_synchronous: how many steps the fastest worker may be ahead of the slowest."""

    parameters: Annotated[
        tuple[Name, ...],
        Field(min_length=1, validation_alias=AliasChoices("parameters", "set_param_ps")),
    ] = ("*",)
    """Which parameters are on servers, by patterns of full names (MindSpore's ``set_param_ps``); gradients of
    all others are all-reduced by the workers, which update them."""

    vocab_cache_size: NonNegativeInt = 0
    """How many rows of each embedding table on servers a worker caches on its device; 0: none."""

    ids: Annotated[Name, Field(json_schema_extra={"pattern": _IDS})] = "uniform"
    """Distribution of the table rows that are looked up: uniform, or zipf with its exponent, as
    ``zipf:1.05``. From it are drawn how many distinct rows a batch has, and how many of these are cached."""

    seed: NonNegativeInt = 0
    """Random seed of that draw."""

    @model_validator(mode="after")
    def _is_consistent(self) -> ParameterServerSpec:
        if self.ids != "uniform" and not self._is_zipf:
            raise Refused(
                f"'{self.ids}' is no distribution of rows",
                path="ids",
                hint="write uniform, or zipf with its exponent: zipf:1.05",
            )
        stale = self.update is ServerUpdate.STALE_SYNCHRONOUS
        if stale and self.staleness is None:
            raise Refused("stale_synchronous needs the steps between fastest and slowest: staleness: 2")
        if self.vocab_cache_size and self.update is not ServerUpdate.SYNCHRONOUS:
            raise Refused(
                "cached rows are updated by all workers together, which then wait for each other",
                path="vocab_cache_size",
                hint="leave it out, or write update: synchronous",
            )
        if not stale and self.staleness is not None:
            raise Refused(
                f"{self.update} updates have no bound of staleness",
                path="staleness",
                hint="write update: stale_synchronous, or leave it out",
            )
        return self

    @property
    def _is_zipf(self) -> bool:
        exponent = self.ids.removeprefix("zipf:")
        digits = exponent.replace(".", "", 1)
        ends_in_digits = not exponent.startswith(".") and not exponent.endswith(".")
        return exponent != self.ids and digits.isascii() and digits.isdecimal() and ends_in_digits

    @property
    def exponent(self) -> float:
        """Of the law of ids; 0: uniform."""
        return float(self.ids.removeprefix("zipf:")) if self.ids != "uniform" else 0.0

    @property
    def num_ranks(self) -> int:
        """Ranks behind those of the mesh: the servers and their scheduler."""
        return self.servers + 1
