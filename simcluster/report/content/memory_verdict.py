"""Whether a plan fits, is tight, or does not fit, in the words of every report."""

from __future__ import annotations

from simcluster import units
from simcluster.report.content.stage_peaks import place_title, stage_title
from simcluster.trace import RunDocument

NEAR = "#c77700"
"""The colour of what is tight."""


def verdict_text(figures: RunDocument) -> str:
    """``fits``, ``tight`` or ``does not fit``, of a summary or of a device or host in it.

    Files of earlier versions do not tell tight plans apart.
    """
    return str(figures.get("verdict", "fits" if figures["fits"] else "does not fit"))


def emphasised_verdict(figures: RunDocument) -> str:
    """The verdict in capitals where it must not be overlooked: ``fits``, ``TIGHT``, ``DOES NOT FIT``."""
    said = verdict_text(figures)
    return said if said == "fits" else said.upper()


def fullest_entry(summary: RunDocument) -> RunDocument:
    """The entry of ``peak_memory_bytes`` with the highest share of its memory allocated or reserved."""
    return max(summary["peak_memory_bytes"], key=_fullness)


def memory_figure(summary: RunDocument) -> tuple[str, str]:
    """The peak of the fullest device, and what it is: of how much, on which device, and the verdict."""
    entry = fullest_entry(summary)
    device = f", {entry['device']}" if is_mixed(summary) else ""
    label = f"peak memory of {units.size(entry['capacity'])}{device}: {emphasised_verdict(summary)}"
    return units.size(entry["total"]), label


def is_mixed(summary: RunDocument) -> bool:
    """Whether not all ranks run on equal devices."""
    return len({peak["device"] for peak in summary["peak_memory_bytes"]}) > 1


def tight_text(summary: RunDocument) -> tuple[str, ...]:
    """What is tight: in one sentence, then where, with the arithmetic, then the rule; else nothing."""
    if verdict_text(summary) != "tight":
        return ()
    over = [entry for entry in summary["peak_memory_bytes"] if verdict_text(entry) == "tight"]
    ranks = f"{sum(entry['ranks'] for entry in over):,} of {summary['num_ranks']:,} ranks"
    worst = max(over, key=_fullness)
    return (
        f"TIGHT: {ranks} have room for their tensors, but not also for fragments and headroom",
        f"worst: class {worst['class']} ({stage_title(worst)}, rank {worst['rank']}) of {worst['device']}: "
        f"{_sum(worst)}; {_missing(worst)}",
        f"the rule: {summary['verdict_rule']}",
    )


def headroom_text(summary: RunDocument) -> str:
    """What is left where it is fullest, and why that is enough; nothing unless it fits."""
    if verdict_text(summary) != "fits" or "verdict_rule" not in summary:
        return ""
    entry = fullest_entry(summary)
    asked = f"; {_headroom(entry)}" if entry["headroom"] else ""
    return f"Fits: {_where(summary, entry)} needs {_sum(entry)}; {units.size(entry['left'])} left{asked}"


def needed_text(entry: RunDocument) -> str:
    """What a device needs beside what it holds, and lacks in all; nothing where that is all it needs."""
    more = [("of fragments", entry.get("fragments", 0)), ("of headroom", entry.get("headroom", 0))]
    added = [f"{units.size(size)} {what}" for what, size in more if size]
    if not added:
        return ""
    needed = entry["total"] + sum(size for _, size in more)
    lacking = units.size(needed - entry["capacity"])
    return f"with {' and '.join(added)} it needs {units.size(needed)} and lacks {lacking}"


def _where(summary: RunDocument, entry: RunDocument) -> str:
    if is_mixed(summary):
        return f"{stage_title(entry)} on {entry['device']}"
    return place_title(entry, summary["peak_memory_bytes"])


def _sum(entry: RunDocument) -> str:
    """``86.3 GiB of 79.1 GiB``, with the fragments in it where there are any."""
    needed = entry["total"] + entry["fragments"]
    parts = (
        f"{units.size(entry['total'])} held + {units.size(entry['fragments'])} of fragments = "
        if entry["fragments"]
        else ""
    )
    return f"{parts}{units.size(needed)} of {units.size(entry['capacity'])}"


def _missing(entry: RunDocument) -> str:
    """What a tight device lacks."""
    if entry["left"] < 0:
        return (
            f"the allocator must return {units.size(-entry['left'])} to the device, or the run "
            f"ends out of memory; "
            f"{_headroom(entry)}"
        )
    return f"{units.size(entry['left'])} left; {_headroom(entry)}"


def _headroom(entry: RunDocument) -> str:
    return f"headroom {units.size(entry['headroom'])}"


def _fullness(entry: RunDocument) -> float:
    """The share of its memory that a device has taken and reserved."""
    return float(entry["total"] + entry.get("fragments", 0)) / float(entry["capacity"])
