"""What reports say of a job: where its time went, what broke, how it came back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simcluster import units
from simcluster.draw import (
    BLUE,
    GREEN,
    GREY,
    OLIVE,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    TEAL,
    YELLOW,
    BarPart,
    TimelineBlock,
    Tone,
)
from simcluster.trace import RunDocument

COMING_BACK = "start and load"
"""What phases belong to that have no other name here: those of a start, as the launch calls them."""

_GROUPS: Mapping[str, tuple[str, Tone]] = {
    "progress": ("progress", GREEN),
    "training": ("progress", GREEN),
    "slower steps": ("slower steps", OLIVE),
    "save": ("saves", BLUE),
    "save in memory": ("saves", BLUE),
    "replay": ("replay", ORANGE),
    "cut step": ("cut steps", RED),
    "detect": ("detect", PINK),
    "stop": ("detect", PINK),
    "replace": ("replace hosts", PURPLE),
    "wait for a host": ("replace hosts", PURPLE),
    "queue": ("replace hosts", PURPLE),
    "maintenance": ("maintenance", GREY),
    "retry": ("retry", YELLOW),
    "move keys": ("move keys", YELLOW),
}

LOSS_FIGURES = ("count", "time lost", "share")
"""The titles of what reports say of each cause."""

RECOVERY_FIGURES = ("count", "mean", "lost steps")
"""The titles of what reports say of each way in which a job came back."""

MEMBER_FIGURES = ("at", "workers", "servers", "keys moved", "in")
"""The titles of what reports say of workers and parameter servers that leave, fail, join and come back."""

MOST_ROWS = 24
"""Rows of the picture of the days."""

DAY = 86400.0


def job_parts(job: RunDocument) -> list[BarPart]:
    """Where the time of a job went, in seconds; the parts sum to it."""
    sums: dict[str, BarPart] = {}
    for name, tone in dict.fromkeys([*_GROUPS.values(), (COMING_BACK, TEAL)]):
        time = sum(time for phase, time in job["time_s"].items() if _group(phase)[0] == name)
        if time:
            sums[name] = BarPart(name, time, tone)
    return list(sums.values())


def _group(phase: str) -> tuple[str, Tone]:
    return _GROUPS.get(phase, (COMING_BACK, TEAL))


def job_title(job: RunDocument) -> str:
    """The job in a line: its length, its policy, what breaks."""
    policy = job["policy"] + ("" if job["policy_is_exact"] else " (another result than without failures)")
    every = job["steps_between_checkpoints"]
    saves = f"checkpoint every {every:,} steps" if every else "no checkpoints"
    failures = f", failures of {job['failures']}" if job["failures"] else ""
    return f"{job['steps']:,} steps, {saves}, policy {policy}{failures}"


def job_headline(job: RunDocument) -> list[tuple[str, str]]:
    """(figure, what it is) of those that people quote."""
    figures = [
        (units.seconds(job["wall_s"]), "wall time"),
        (units.percent(job["goodput"]), "goodput"),
        (units.percent(job["effective_training_time_ratio"]), "effective training time"),
    ]
    if job["interruptions"]:
        figures.append(
            (
                f"{job['interruptions']:,}",
                f"{_plural(job['interruptions'])}, one every {units.seconds(job['mtbf_s'])}",
            )
        )
    return figures


def _plural(count: int) -> str:
    return "interruption" if count == 1 else "interruptions"


def job_remarks(job: RunDocument) -> list[str]:
    """What the laws and closed forms say, the bounds that replications give, cost and energy."""
    lines = []
    if expected := job.get("expected"):
        best = expected["best_interval_s"]
        lines.append(
            f"one failure every {units.seconds(expected['mtbf_s'])} on average; with a restart every time, "
            f"goodput {units.percent(expected['goodput_of_restarts'])} (Daly)"
        )
        if best:
            now = units.seconds(expected["interval_s"])
            lines.append(f"best to save every {units.seconds(best)} (Daly); this job saves every {now}")
    if unnoticed := job.get("unnoticed_corruptions"):
        lines.append(f"corruptions that nobody had noticed at the end, in what was trained: {unnoticed:,}")
    if runs := job.get("replications"):
        lines.append(f"{runs['count']:,} runs with other random draws, 95 % bounds of the means:")
        lines += [f"  {name}: {_bounds(runs[key], key)}" for key, name in _REPLICATED.items()]
    if "cost" in job:
        cost, lost = units.amount(job["cost"]), units.amount(job["cost_lost"])
        lines.append(f"cost {cost} {job['currency']}, of it lost {lost}")
    if "energy_j" in job:
        used, lost = units.energy(job["energy_j"]), units.energy(job["energy_lost_j"])
        lines.append(f"energy {used}, of it lost {lost}")
    return lines


_REPLICATED = {
    "goodput": "goodput",
    "effective_training_time_ratio": "effective training time",
    "wall_s": "wall time",
    "interruptions": "interruptions",
}


def _bounds(figure: Mapping[str, Any], key: str) -> str:
    if key == "wall_s":
        text = one = units.seconds
    elif key == "interruptions":
        text, one = _decimals, _whole
    else:
        text = one = _percent
    around = f" ({text(figure['low'])} to {text(figure['high'])})" if figure["low"] is not None else ""
    return f"{text(figure['mean'])}{around}, runs from {one(figure['min'])} to {one(figure['max'])}"


def _decimals(value: float) -> str:
    return f"{value:.1f}"


def _whole(value: float) -> str:
    """A count of one run."""
    return f"{value:,.0f}"


def _percent(value: float) -> str:
    """With a digit more than other shares have: bounds lie close together."""
    return f"{value * 100:.2f} %"


def loss_rows(job: RunDocument, most: int) -> list[list[str]]:
    """Of each cause, the largest first: how often, time lost, its share; the others of many together."""
    counts = {entry["cause"]: entry["count"] for entry in job["incidents"]}
    losses = [(cause or "other", sum(times.values())) for cause, times in job["lost_s"].items()]
    rows = [_loss(cause, counts.get(cause), time, job) for cause, time in losses[:most]]
    if more := losses[most:]:
        count = sum(counts.get(cause, 0) for cause, _ in more)
        rows.append(_loss(f"{len(more)} other causes", count, sum(time for _, time in more), job))
    return rows


def _loss(cause: str, count: int | None, time: float, job: RunDocument) -> list[str]:
    return [cause, f"{count:,}" if count else "", units.seconds(time), units.percent(time / job["wall_s"])]


def recovery_rows(job: RunDocument) -> list[list[str]]:
    """Of each way in which the job came back: how often, how long in the mean, the steps that were lost."""
    return [
        [
            f"{entry['policy']}, state from {entry['state_from']}",
            f"{entry['count']:,}",
            units.seconds(entry["mean_s"]),
            f"{entry['lost_steps']:.1f}",
        ]
        for entry in job["recoveries"]
    ]


def member_rows(job: RunDocument, most: int) -> list[list[str]]:
    """Of workers and parameter servers that leave, fail, join and come back: why, when, who is left, and the
    keys that move for it; those of many that come later are counted.
    """
    members = job.get("members", [])
    rows = [
        [
            entry["cause"] if entry["what"] in entry["cause"] else f"{entry['what']}: {entry['cause']}",
            units.seconds(entry["at_s"]) if entry["at_s"] else "0 s",
            f"{entry['workers']:,}",
            f"{entry['servers']:,}",
            units.size(entry["moved_bytes"]) if entry["moved_bytes"] else "",
            units.seconds(entry["moved_s"]) if entry["moved_bytes"] else "",
        ]
        for entry in members[:most]
    ]
    if len(members) > most:
        rows.append([f"and later: {len(members) - most:,}", *[""] * len(MEMBER_FIGURES)])
    return rows


def day_rows(job: RunDocument) -> tuple[list[tuple[str, Sequence[TimelineBlock]]], float]:
    """Rows of the timeline of a job, each of so many days, and how many seconds a row is.

    Of a timeline that is too long for its document, as far as it goes.
    """
    timeline = job["timeline"]
    end = max((entry[1] for entry in timeline), default=0.0)
    length = end if end <= DAY else DAY * max(1, -(-end // (DAY * MOST_ROWS)))
    rows: list[list[TimelineBlock]] = [[] for _ in range(int(-(-end // length)) if length else 0)]
    for start, stop, phase, cause in timeline:
        name, tone = _group(phase)
        label = f"{phase} ({cause})" if cause else name
        for row in range(int(start // length), min(int(stop // length), len(rows) - 1) + 1):
            block = TimelineBlock(
                max(start - row * length, 0.0), min(stop - row * length, length), label, tone
            )
            if block.end > block.start:
                rows[row].append(block)
    days = round(length / DAY)
    names = [f"day {row * days + 1}" if end > DAY else "" for row in range(len(rows))]
    return list(zip(names, rows, strict=True)), length
