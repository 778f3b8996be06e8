"""``cluster.changes`` of links: what makes some slower for a while, and what else they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from simcluster.cluster.device import FASTEST, nanoseconds
from simcluster.cluster.interconnect import Numbers
from simcluster.cluster.topology.topology import Topology
from simcluster.deferred_dataclass import dataclass
from simcluster.document import Bandwidth, Duration, Name, Refused, Section
from simcluster.errors import PlanError, nearest
from simcluster.units import bandwidth, seconds


class LinkChangeSpec(Section):
    """A change of links: ``{link: host.3.nic.*, bandwidth: 0.5, latency: +2 us, from: 2 s, until: 5 s}``.

    Or traffic of others on them: ``{link: leaf.0.*, background: 10 GB/s}``.
    """

    link: Name
    """Name of a link, or a pattern for several, as ``simcluster topology`` shows them."""

    bandwidth: Annotated[float, Field(ge=0, le=FASTEST)] | None = None
    """Factor on the bandwidth of these links; 0: the links are down for the whole run."""

    latency: Duration | None = None
    """Latency added to that of these links."""

    background: Bandwidth | None = None
    """Bandwidth that traffic of others takes on each of these links, as one flow: beside others it gets a
    fair share at most."""

    begin: Duration | None = Field(default=None, validation_alias="from")
    """When the change begins; if absent, at the start of the run."""

    until: Duration | None = None
    """When the change ends; if absent, never."""

    @model_validator(mode="after")
    def _is_whole(self) -> LinkChangeSpec:
        if self.bandwidth is None and self.latency is None and self.background is None:
            raise Refused("this changes nothing; write bandwidth: 0.5, latency: +2 us or background: 10 GB/s")
        if self.background is not None and (self.bandwidth is not None or self.latency is not None):
            raise Refused("write background traffic as an entry of its own", path="background")
        if self.bandwidth == 0 and (self.begin or self.until is not None):
            raise Refused("a link is lost for the whole run or not at all", path="bandwidth")
        if self.until is not None and nanoseconds(self.until) <= nanoseconds(self.begin or 0.0):
            raise Refused("it is over before it begins", path="until")
        return self

    @property
    def begin_ns(self) -> int:
        """When it begins."""
        return nanoseconds(self.begin or 0.0)

    @property
    def end_ns(self) -> int | None:
        """When it is over; None for never."""
        return None if self.until is None else nanoseconds(self.until)


@dataclass(frozen=True, slots=True, eq=False)
class LinkChange:
    """From ``begin_ns`` to ``end_ns`` (None: for good) these links carry ``rate`` times as much.

    Messages over them take ``latency`` seconds longer. Where several changes hold, their rates multiply and
    their latencies add up.
    """

    links: Numbers
    rate: float
    latency: float
    begin_ns: int
    end_ns: int | None

    def __str__(self) -> str:
        parts = [f"bandwidth x {self.rate:.4g}"] if self.rate != 1 else []
        parts += [f"latency + {seconds(self.latency)}"] if self.latency else []
        return " and ".join(parts) + _when(self.begin_ns, self.end_ns)


@dataclass(frozen=True, slots=True, eq=False)
class BackgroundTraffic:
    """From ``begin_ns`` to ``end_ns`` (None: for good) others want ``rate`` bytes/s of each link."""

    links: Numbers
    rate: float
    begin_ns: int
    end_ns: int | None

    def __str__(self) -> str:
        return f"others send {bandwidth(self.rate)}" + _when(self.begin_ns, self.end_ns)


@dataclass(frozen=True, slots=True, eq=False)
class LinkChanges:
    """All that is said of a cluster's links; ``dead`` [links] are gone for the whole run."""

    changes: tuple[LinkChange, ...] = ()
    background: tuple[BackgroundTraffic, ...] = ()
    dead: tuple[int, ...] = ()

    @classmethod
    def of(cls, specs: Sequence[tuple[int, LinkChangeSpec]], topology: Topology) -> LinkChanges:
        """The changes of links, each with its index in the list where it is written.

        Raises PlanError, with the nearest names, for a pattern that fits no link.
        """
        changes, background, dead = list[LinkChange](), list[BackgroundTraffic](), list[int]()
        for index, spec in specs:
            links = topology.matching(spec.link)
            if not links.size:
                raise PlanError(
                    f"no link is called '{spec.link}'",
                    path=f"cluster.changes.{index}.link",
                    hint=nearest(spec.link, examples(topology)),
                )
            span = spec.begin_ns, spec.end_ns
            if spec.background is not None:
                background.append(BackgroundTraffic(links, spec.background, *span))
            elif spec.bandwidth == 0:
                if not topology.network.may_lose(links):
                    raise PlanError(
                        f"there is no way around '{spec.link}', so without it ranks cannot reach each other",
                        path=f"cluster.changes.{index}.bandwidth",
                        hint="only a custom network with other ways can lose links; or write a small factor",
                    )
                dead += links.tolist()
            else:
                rate = 1.0 if spec.bandwidth is None else spec.bandwidth
                changes.append(LinkChange(links, rate, spec.latency or 0.0, *span))
        gone = np.unique(np.array(dead, dtype=np.int64))
        if gone.size and not topology.network.may_lose(gone):
            raise PlanError(
                "without the links of bandwidth 0 together some ranks cannot reach each other",
                path="cluster.changes",
            )
        return cls(tuple(changes), tuple(background), tuple(gone.tolist()))


def _when(begin_ns: int, end_ns: int | None) -> str:
    begin = f" from {seconds(begin_ns * 1e-9)}" if begin_ns else ""
    return begin + (f" until {seconds(end_ns * 1e-9)}" if end_ns is not None else "")


def examples(topology: Topology) -> list[str]:
    """Patterns and names of links to propose: each family as a whole, its first and its last link."""
    patterns = []
    for family in topology.families:
        last = family.first + family.size - 1
        patterns += [family.pattern.replace("{}", "*"), family.name(family.first), family.name(last)]
    return list(dict.fromkeys(patterns))
