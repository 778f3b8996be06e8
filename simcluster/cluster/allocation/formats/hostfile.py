"""Open MPI's hostfile: a line for every host, with its slots."""

from __future__ import annotations

import re
from typing import ClassVar

from simcluster.cluster.allocation.allocated_site import AllocatedSite
from simcluster.cluster.allocation.allocation import Allocation, MapBy
from simcluster.cluster.allocation.allocation_format import AllocationFormat
from simcluster.errors import PlanError, Problem, ScenarioError, nearest

SLOTS, MOST_SLOTS = "slots", "max_slots"
_WORDS = {"slots": SLOTS, "max_slots": MOST_SLOTS, "max-slots": MOST_SLOTS}


class Hostfile(AllocationFormat):
    """``<host> slots=N``; a comment begins with ``#``. Ranks are dealt to slots in the order of the lines."""

    kind: ClassVar[str] = "hostfile"
    title: ClassVar[str] = "hostfile"
    deals: ClassVar[bool] = True

    def read(self, text: str, name: str, site: AllocatedSite, by: MapBy) -> Allocation:
        """See ``AllocationFormat.read``: a slot is a device."""
        slots: dict[str, int] = {}
        lines: dict[str, int] = {}
        problems: list[Problem] = []
        for number, line in enumerate(text.splitlines(), 1):
            words = line.partition("#")[0]
            if not words.strip():
                continue
            try:
                host, count = _line(words, site)
                if host in slots:
                    raise _Wrong(f"'{host}' stands in line {lines[host]} already", words.index(host))
            except _Wrong as wrong:
                at = wrong.column
                place = f"{name}:{number}:{at + 1}"
                excerpt = f"    {line}\n    {' ' * at}^"
                problems.append(Problem(str(wrong), where=place, excerpt=excerpt))
                continue
            slots[host], lines[host] = count, number
        if not problems and not slots:
            problems.append(Problem("the hostfile names no host; write lines of 'HOST slots=N'", where=name))
        if not problems and site.num_hosts not in (None, len(slots)):
            message = f"{len(slots)} hosts, but cluster.hosts is {site.num_hosts}"
            problems.append(Problem(message, where=name))
        if problems:
            raise ScenarioError(*problems)
        return Allocation.dealt(list(slots), list(slots.values()), sum(slots.values()), by)

    def write(self, allocation: Allocation, site: AllocatedSite, title: str) -> str:
        """See ``AllocationFormat.write``; the order of hosts is that of their ranks."""
        used = [number for number, host in enumerate(allocation.hosts) if host.ranks]
        used.sort(key=lambda number: min(allocation.hosts[number].ranks))
        counts = [len(allocation.hosts[number].ranks) for number in used]
        by = allocation.dealt_by
        if by is None:
            raise PlanError(
                "a hostfile cannot say which rank has which device: mpirun deals ranks to hosts and slots in "
                "order",
                path="cluster",
                hint="write a rank table, or give hosts their ranks in order",
            )
        head = f"# {title}: mpirun -n {allocation.num_ranks} --map-by {by}"
        lines = [
            f"{allocation.hosts[number].name} slots={count}"
            for number, count in zip(used, counts, strict=True)
        ]
        return "\n".join([head, *lines, ""])


class _Wrong(Exception):
    """What is wrong with a line, and in which column."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


def _line(words: str, site: AllocatedSite) -> tuple[str, int]:
    """The host of a line and its slots."""
    parts = re.split(r"\s+", re.sub(r"\s*=\s*", "=", words.strip()))
    host, given = parts[0], dict[str, int]()
    if "=" in host:
        raise _Wrong("the line begins with the name of a host", words.index(host[0]))
    for part in parts[1:]:
        key, sign, value = part.partition("=")
        column = words.find(key)
        if key not in _WORDS or not sign:
            hint = nearest(key, _WORDS)
            raise _Wrong(f"'{part}' says nothing of a host here; {hint}", column)
        if not value.isdecimal() or int(value) < 1:
            raise _Wrong(f"'{value}' are no {key}; write a number from 1", column)
        if _WORDS[key] in given:
            raise _Wrong(f"'{key}' is given twice in the line", column)
        given[_WORDS[key]] = int(value)
    if SLOTS not in given:
        raise _Wrong(f"'{host}' has no slots; write '{host} slots={site.devices_per_host}'", words.find(host))
    if given[SLOTS] > site.devices_per_host:
        message = f"{given[SLOTS]} slots, but {site.host} has {site.devices_per_host} devices"
        raise _Wrong(message, words.find(SLOTS))
    if given.get(MOST_SLOTS, given[SLOTS]) < given[SLOTS]:
        raise _Wrong(f"{given[SLOTS]} slots are more than max_slots", words.find(MOST_SLOTS[:3]))
    return host, given[SLOTS]
