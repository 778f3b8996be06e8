"""How a job starts, in words: the phases until the first step, and what happens when a worker dies."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster import units
from simcluster.trace import RunDocument

START_UP_FIGURES = ("begins", "takes")
"""What the table of phases says of each."""


def start_up_title(start: RunDocument) -> str:
    """``Start-up by msrun: 2.52 min, 32 workers on 4 hosts``."""
    hosts, workers = start["hosts"], start["workers"]
    servers = start["parameter_servers"]
    more = f", {servers} parameter server{'s' * (servers != 1)}" if servers else ""
    took = "fails after" if start["failure"] else "takes"
    return (
        f"Start-up by {start['method']} {took} {duration(start['total_s'])}: {workers:,} "
        f"worker{'s' * (workers != 1)}{more} on {hosts:,} host{'s' * (hosts != 1)}"
    )


def start_up_rows(start: RunDocument) -> list[tuple[str, str, str]]:
    """A row per phase: name, when it begins, how long it takes."""
    return [
        (phase["name"], duration(phase["start_s"]), duration(phase["seconds"])) for phase in start["phases"]
    ]


def start_up_remarks(start: RunDocument) -> Iterator[str]:
    """Why it fails or takes too long, who is refused, what a dead worker costs, and how much is assumed."""
    if start["failure"]:
        yield start["failure"]
    if doubt := start.get("doubt"):
        yield doubt
    if refused := start["refused"]:
        were = "was" if refused == 1 else "were"
        yield f"{refused} worker{'s' * (refused != 1)} too many {were} refused"
    recovery = start.get("worker_recovery")
    if recovery:
        phases = ", ".join(f"{phase['name']} {duration(phase['seconds'])}" for phase in recovery["phases"])
        if recovery["survivors"]:
            yield f"a worker that dies is back after {duration(recovery['total_s'])}: {phases}"
        else:
            yield (
                f"when a worker dies the whole job starts again ({recovery['reason']}): "
                f"{duration(recovery['total_s'])}, of which {duration(recovery['phases'][0]['seconds'])} "
                "until it is noticed"
            )
    if assumed := start["assumptions"]:
        yield f"based on {len(assumed)} assumed times (job.launch.costs), listed in the JSON result"


def duration(seconds: float) -> str:
    """A time of starting: ``350 ms``, ``12.5 s``, ``4 min 10 s``, ``1 h 20 min``."""
    if seconds < 100:
        return units.seconds(seconds) if seconds else "0 s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
