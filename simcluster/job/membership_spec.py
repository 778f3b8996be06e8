"""``job.membership``: workers and parameter servers that leave and join as planned."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import model_validator

from simcluster.document import Duration, NonNegativeInt, Refused, Section
from simcluster.errors import PlanError
from simcluster.job.failures import NANOSECONDS, FailureEffect, Incident

PATH = "job.membership"


class MembersSpec(Section):
    """Members of the training: ``{workers: [6, 7]}``, ``{servers: [2]}``, or both."""

    workers: tuple[NonNegativeInt, ...] = ()
    """Indices of workers, from 0."""

    servers: tuple[NonNegativeInt, ...] = ()
    """Indices of parameter servers, from 0."""

    @model_validator(mode="after")
    def _are_some(self) -> MembersSpec:
        if not self.workers and not self.servers:
            raise Refused("who? write workers: [6, 7], servers: [2], or both")
        return self


class MembershipChangeSpec(Section):
    """Who leaves or joins, and when: ``{at: 2 h, leave: {workers: [6, 7]}}``."""

    at: Duration
    """Time since the start of the job; members that leave at 0 s are absent from the start."""

    leave: MembersSpec | None = None
    """Who leaves: workers after their current step, servers once others hold their keys."""

    join: MembersSpec | None = None
    """Who joins: their processes start at this time, and take part once they have started."""

    @model_validator(mode="after")
    def _changes_something(self) -> MembershipChangeSpec:
        if self.leave is None and self.join is None:
            raise Refused("what changes? write leave: {workers: [6]}, or join: {servers: [2]}")
        return self


def membership_incidents(
    changes: Sequence[MembershipChangeSpec], num_workers: int, num_servers: int
) -> tuple[Incident, ...]:
    """The changes as what happens to devices, workers before servers, by time.

    PlanError for who is not in the scenario, leaves or joins twice, or is the last to leave.
    """
    away: set[int] = set()
    made = []
    for index, change in sorted(enumerate(changes), key=lambda entry: entry[1].at):
        for key, effect in (("leave", FailureEffect.LEAVE), ("join", FailureEffect.JOIN)):
            members: MembersSpec | None = getattr(change, key)
            if members is None:
                continue
            path = f"{PATH}.{index}.{key}"
            devices = _devices(members.workers, 0, num_workers, "worker", path)
            devices += _devices(members.servers, num_workers, num_servers, "server", path)
            for device in devices:
                _check_place(device, key, away, num_workers, path)
                (away.add if key == "leave" else away.discard)(device)
            if not set(range(num_workers)) - away:
                raise PlanError("no worker would be left", path=path)
            if not set(range(num_workers, num_workers + num_servers)) - away:
                raise PlanError("no server would be left that could hold the keys", path=path)
            at_ns = round(change.at * NANOSECONDS)
            name = f"planned {key}"
            made.append(Incident(at_ns, name, "process", effect, devices=devices, replaces=False))
    return tuple(made)


def _devices(members: Sequence[int], first: int, count: int, what: str, path: str) -> tuple[int, ...]:
    for member in members:
        if member >= count:
            raise PlanError(
                f"there is no {what} {member}; the last is {count - 1}",
                path=f"{path}.{what}s",
                hint="describe the most workers and servers there ever are; who joins later leaves at 0 s",
            )
    return tuple(first + member for member in members)


def _check_place(device: int, key: str, away: set[int], num_workers: int, path: str) -> None:
    if (device in away) == (key == "join"):
        return
    what, number = ("worker", device) if device < num_workers else ("server", device - num_workers)
    said = "has left already" if key == "leave" else "is there already"
    raise PlanError(f"{what} {number} {said}", path=f"{path}.{what}s")
