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


class ParameterServerSpec(Section):
    """Servers, and what they do. Their ranks are behind those of the mesh, and behind them is their
    scheduler's.
    """

    servers: PositiveInt = Field(default=1, validation_alias=AliasChoices("servers", "server_num"))
    """How many servers; each is a rank on a processor."""

    update: ServerUpdate = ServerUpdate.SYNCHRONOUS
    """synchronous: once per step, when the gradients of all workers are there. asynchronous: whenever those
    of one worker are. stale_synchronous: so, too, but no worker goes on while another is ``staleness`` steps
    behind."""

    staleness: NonNegativeInt | None = None
    """Of stale_synchronous: how many steps the fastest worker may be ahead of the slowest."""

    parameters: Annotated[
        tuple[Name, ...],
        Field(min_length=1, validation_alias=AliasChoices("parameters", "set_param_ps")),
    ] = ("*",)
    """Which parameters are on servers, by full names, as patterns (MindSpore's ``set_param_ps``); the
    gradients of others are added up by the workers, which update them."""

    vocab_cache_size: NonNegativeInt = 0
    """Rows of every embedding table on servers that a worker keeps on its device; 0: none."""

    ids: Annotated[Name, Field(pattern=r"^(uniform|zipf:[0-9]+(\.[0-9]+)?)$")] = "uniform"
    """How often rows of tables are looked up: uniform, or zipf with its exponent, as ``zipf:1.05``. By
    this law it is drawn how many rows of a batch are different, and in the cache."""

    seed: NonNegativeInt = 0
    """Of that draw."""

    @model_validator(mode="after")
    def _is_consistent(self) -> ParameterServerSpec:
        stale = self.update is ServerUpdate.STALE_SYNCHRONOUS
        if stale and self.staleness is None:
            raise Refused("stale_synchronous needs the steps between fastest and slowest: staleness: 2")
        if not stale and self.staleness is not None:
            raise Refused(
                f"{self.update} updates have no bound of staleness",
                path="staleness",
                hint="write update: stale_synchronous, or leave it out",
            )
        return self

    @property
    def exponent(self) -> float:
        """Of the law of ids; 0: uniform."""
        return float(self.ids.removeprefix("zipf:")) if self.ids != "uniform" else 0.0

    @property
    def num_ranks(self) -> int:
        """Ranks behind those of the mesh: the servers and their scheduler."""
        return self.servers + 1
