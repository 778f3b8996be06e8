"""The figures of one run of a job, as plain data in SI units."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.job.timeline import PROGRESS, SLOWER, JobRecord, MemberChange, TimelineEntry

NANOSECOND = 1e-9

MOST_ENTRIES = 4000
"""Entries of a timeline in a document; of a longer one, the first, and how many there are."""


def goodput_of(record: JobRecord) -> float:
    """The time that the steps would take on the whole, healthy cluster, over the time that they took."""
    return record.ledger.of_phase(PROGRESS) / record.end_ns


def training_ratio_of(record: JobRecord) -> float:
    """The effective training-time ratio: time in steps that counted, slow ones too, over all time."""
    return (record.ledger.of_phase(PROGRESS) + record.ledger.of_phase(SLOWER)) / record.end_ns


def figures_of_job(record: JobRecord) -> dict[str, Any]:
    """Figures, losses and timeline of a run; times in seconds, from the begin of the job."""
    interruptions = interruptions_of(record)
    spent: defaultdict[str, dict[str, float]] = defaultdict(dict)
    phases: Counter[str] = Counter()
    for (cause, phase), time in sorted(record.ledger.spent.items()):
        phases[phase] += time
        if phase != PROGRESS:
            spent[cause][phase] = time * NANOSECOND
    timeline = record.ledger.timeline
    members = {"members": [_change(change) for change in record.members]} if record.members else {}
    return {
        "wall_s": record.end_ns * NANOSECOND,
        "nominal_step_s": record.nominal.step_ns * NANOSECOND,
        "goodput": goodput_of(record),
        "effective_training_time_ratio": training_ratio_of(record),
        "interruptions": interruptions,
        "mtbf_s": record.end_ns * NANOSECOND / interruptions if interruptions else None,
        "time_s": {phase: time * NANOSECOND for phase, time in phases.most_common()},
        "lost_s": {cause: dict(losses) for cause, losses in sorted(spent.items(), key=_largest)},
        "incidents": [
            {"cause": cause, "effect": effect, "count": count}
            for (cause, effect), count in sorted(
                record.incidents.items(), key=lambda item: (-item[1], item[0])
            )
        ],
        "recoveries": recoveries_of(record),
        "num_checkpoints": record.num_saves,
        "cluster_states": len(record.states),
        "timeline": [_entry(entry) for entry in timeline[:MOST_ENTRIES]],
        "timeline_entries": len(timeline),
        "step_times": [
            [
                entry.start_ns * NANOSECOND,
                entry.end_ns * NANOSECOND,
                entry.step_ns * NANOSECOND,
                entry.samples,
            ]
            for entry in record.ledger.intervals[:MOST_ENTRIES]
        ],
        **members,
        **({"unnoticed_corruptions": record.unnoticed} if record.unnoticed else {}),
    }


def interruptions_of(record: JobRecord) -> int:
    """Failures that stopped the job, or a recovery of it."""
    return len(record.recoveries) + sum(entry.interrupted for entry in record.recoveries)


def recoveries_of(record: JobRecord) -> list[dict[str, Any]]:
    """How often each policy brought the job back, from what, and how long that took in the mean."""
    groups: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for entry in record.recoveries:
        groups[entry.policy, entry.source].append((entry.back_ns - entry.at_ns, entry.lost_samples))
    return [
        {
            "policy": policy,
            "state_from": source,
            "count": len(times),
            "mean_s": _mean([time for time, _ in times]) * NANOSECOND,
            "lost_steps": _mean([lost for _, lost in times]) / record.nominal.samples,
        }
        for (policy, source), times in sorted(groups.items())
    ]


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values)


def _largest(item: tuple[str, Mapping[str, float]]) -> tuple[float, str]:
    return -sum(item[1].values()), item[0]


def _change(change: MemberChange) -> dict[str, Any]:
    return {
        "at_s": change.at_ns * NANOSECOND,
        "what": change.what,
        "cause": change.cause,
        "workers": change.workers,
        "servers": change.servers,
        "moved_bytes": change.moved.num_bytes,
        "moved_s": change.moved.seconds,
    }


def _entry(entry: TimelineEntry) -> list[Any]:
    return [entry.start_ns * NANOSECOND, entry.end_ns * NANOSECOND, entry.phase, entry.cause]
