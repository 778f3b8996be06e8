"""What reports say about a result: the same sentences and rows in the terminal and in a notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from simcluster import units
from simcluster.deferred_dataclass import dataclass
from simcluster.report.content.host_memory import overfull_hosts
from simcluster.report.content.memory_verdict import emphasised_verdict, needed_text, tight_text, verdict_text
from simcluster.report.content.stage_peaks import place_title, stage_title
from simcluster.trace import RunDocument

NEGLIGIBLE = 1e-3
"""Collectives with less than this share of an axis' bytes are not named."""


@dataclass(frozen=True)
class MemoryShortage:
    """What does not fit: in one sentence, then where and by how much, then what was alive."""

    sentence: str
    details: tuple[str, ...]
    alive: tuple[str, ...]


def memory_shortage(summary: RunDocument) -> MemoryShortage | None:
    """If devices or hosts have too little memory: which, from when on, by how much, and the largest that was
    alive.
    """
    over = [entry for entry in summary["peak_memory_bytes"] if verdict_text(entry) == "does not fit"]
    hosts = overfull_hosts(summary)
    if not over:
        return MemoryShortage(f"DOES NOT FIT: {hosts}", (), ()) if hosts else None
    worst = max(over, key=lambda entry: entry["excess"])
    ranks = sum(entry["ranks"] for entry in over)
    at, excess, device = worst["exceeded_at_s"], units.size(worst["excess"]), worst["device"]
    since = f"first at {units.seconds(at)}" if at else "from the start"
    return MemoryShortage(
        f"DOES NOT FIT: {ranks:,} of {summary['num_ranks']:,} ranks need more memory than their device has",
        (
            f"worst: class {worst['class']} ({stage_title(worst)}, rank {worst['rank']}) holds "
            f"{units.size(worst['total'])}, {excess} over its {device}, {since}",
            *([needed] if (needed := needed_text(worst)) else ()),
            *([hosts] if hosts else ()),
            f"alive at its peak, {units.seconds(worst['time_s'])} into the run:",
        ),
        tuple(f"{tensor['buffer']} {units.size(tensor['bytes'])}" for tensor in worst["alive"][:4]),
    )


def shortage_text(summary: RunDocument) -> str:
    """One line about the device, or the hosts, that lack memory; nothing if the plan fits."""
    if close := tight_text(summary):
        return "; ".join(close[:2])
    if verdict_text(summary) == "fits":
        return ""
    over = [peak for peak in summary["peak_memory_bytes"] if verdict_text(peak) == "does not fit"]
    if not over:
        return f"does not fit: {overfull_hosts(summary)}"
    worst = max(over, key=lambda peak: peak["excess"])
    needed = worst["total"] + worst.get("fragments", 0)
    return (
        f"does not fit: stage {worst['stage']} needs {units.size(needed)} of "
        f"{units.size(worst['capacity'])} on {worst['device']}"
    )


def fullest_device(documents: RunDocument) -> RunDocument | None:
    """The entry of ``memory`` with the highest share in use; None in files of earlier versions."""
    stages = documents.get("memory", ())
    return max(
        stages, key=lambda stage: (stage["reserved"] + stage["outside"]) / stage["capacity"], default=None
    )


def fragmentation(entry: RunDocument) -> float:
    """Fragmentation: the share of reserved memory that is not allocated at the peak, 0 to 1."""
    return float((entry["reserved"] - entry["allocated"]) / (entry["reserved"] or 1))


def reserved_text(documents: RunDocument) -> str:
    """Reserved memory and fragmentation of the fullest device, if the profile names an allocator."""
    entry = fullest_device(documents)
    if entry is None or entry["allocator"] is None:
        return ""
    kept = f"{units.size(entry['reserved'])} reserved by {entry['allocator']}"
    spent = f"{units.percent(fragmentation(entry))} of it fragments"
    outside = f"{units.size(entry['outside'])} for runtime and communicators"
    same = (own for own in documents.get("classes", ()) if own["stage"] == entry["stage"])
    program = next((own["program"] for own in same if own.get("program")), "")
    where = program or place_title(entry, documents["memory"])
    text = f"{where}: {units.size(entry['allocated'])} of tensors, {kept} ({spent}), {outside}"
    room = entry["capacity"] - entry["outside"]
    if entry["allocated"] <= room < entry["reserved"]:
        text += (
            f"; the allocator must return {units.size(entry['reserved'] - room)} of it to the device to fit"
        )
    return text


def rate_unit(plan: RunDocument) -> str:
    """What throughput counts: tokens, unless the model counts something else."""
    return str(plan.get("throughput_unit", "tokens"))


def throughput_text(documents: RunDocument) -> tuple[str, str, str]:
    """Tokens per second of all and of one device, and what counts: samples, where one is no sequence."""
    summary, unit = documents["summary"], rate_unit(documents["plan"])
    per_device = summary["tokens_per_s_per_device"]
    shown = f"{per_device:,.0f}" if 100 <= per_device < 1e5 else units.count(per_device)
    return units.count(summary["tokens_per_s"]), shown, unit


def useful_work_text(documents: RunDocument) -> str:
    """Model FLOP/s per device, and the peak that MFU is measured against."""
    matmul = documents["plan"]["precision"]["matmul"]
    peak = documents["topology"]["device_peak_flops_per_s"][matmul]
    rate = units.compute(documents["summary"]["model_flops_per_s_per_device"])
    return f"{rate} of model arithmetic per device, of {units.compute(peak)} at its {matmul} peak"


def flop_convention_text(summary: RunDocument) -> str:
    """Which convention MFU and HFU follow, and what they are in the other one; nothing if they agree."""
    mfu, hfu = (summary.get(f"{name}_full_attention", summary[name]) for name in ("mfu", "hfu"))
    if (mfu, hfu) == (summary["mfu"], summary["hfu"]):
        return ""
    full = f"MFU {units.percent(mfu)}, HFU {units.percent(hfu)}"
    return f"causal attention counted as half; as the full square: {full}"


def unequal_devices_text(summary: RunDocument) -> str:
    """What differences between devices cost; nothing where all are equal."""
    if (unequal := summary.get("unequal_devices")) is None:
        return ""
    lost, equal = units.seconds(unequal["lost_s"]), units.seconds(unequal["equal_step_time_s"])
    share = units.percent(unequal["share"])
    return f"devices that are not equally fast cost {lost} of it, {share}: {equal} with all at their mean"


def communication_rows(summary: RunDocument) -> list[list[str]]:
    """Per mesh axis: its name, bytes a rank sends per step, exposed time, its share, the collectives."""
    sent, exposed = summary["communication_bytes"], summary["exposed_communication_s"]
    totals = {axis: sum(sent.get(axis, {}).values()) for axis in {**sent, **exposed}}
    rows = []
    for axis in sorted(totals, key=lambda axis: -totals[axis]):
        operations = sorted(sent.get(axis, {}).items(), key=lambda item: -item[1])
        named = [(name, size) for name, size in operations if size >= NEGLIGIBLE * totals[axis]]
        rows.append(
            [
                axis,
                units.volume(totals[axis]),
                units.seconds(exposed.get(axis, 0.0)),
                units.percent(exposed.get(axis, 0.0) / summary["step_time_s"]),
                ", ".join(f"{name} {units.volume(size)}" for name, size in named),
            ]
        )
    return rows


def host_group_rows(summary: RunDocument) -> list[list[str]]:
    """Per group of hosts of a mixed cluster: its name and ranks, and what these do with the step in the mean.

    Compute, what communication beside it slowed, launches and dispatch, exposed communication, waiting.
    No rows where all hosts are equal.
    """
    names = ("compute_s", "slowed_s", "host_s", "exposed_communication_s", "wait_s")
    return [
        [
            f"{group['host']}, ranks {group['first_rank']:,} to {group['first_rank'] + group['ranks'] - 1:,}",
            *(units.seconds(group[name]) for name in names),
        ]
        for group in summary.get("groups", [])
    ]


def waiting_text(summary: RunDocument) -> str:
    """Which group of hosts waits for which; empty where all hosts are equal."""
    groups = summary.get("groups", [])
    if not groups:
        return ""
    idle = max(groups, key=lambda group: group["wait_s"] + group["exposed_communication_s"])
    busy = max(groups, key=lambda group: group["compute_s"] + group["slowed_s"] + group["host_s"])
    share = units.percent((idle["wait_s"] + idle["exposed_communication_s"]) / summary["step_time_s"])
    most = f"{busy['host']} (group {busy['group']}) has the most to compute"
    if idle is busy:
        return f"{most}, and waits for {share} of the step"
    return f"{idle['host']} (group {idle['group']}) waits for {share} of the step; {most}"


COMMUNICATION_FIGURES = ("sent per rank", "exposed", "of step")
"""The titles of the quantities in rows of ``communication_rows``."""

GROUP_FIGURES = ("compute", "slowed", "launches", "exposed", "waits")
"""The titles of the quantities in rows of ``host_group_rows``."""

TENANT_FIGURES = ("alone", "shared", "slowdown")
"""The titles of the quantities in rows of ``tenant_rows``."""


def tenant_rows(summary: RunDocument) -> list[list[str]]:
    """Per scenario on the cluster: name, hosts, step alone and shared, slowdown, what it waits longer for."""
    return [
        [
            tenant["name"] + ("" if verdict_text(tenant) == "fits" else f" ({emphasised_verdict(tenant)})"),
            _hosts(tenant),
            units.seconds(tenant["step_time_alone_s"]),
            units.seconds(tenant["step_time_s"]),
            f"{tenant['slowdown']:.3f} x",
            ", ".join(f"{name} +{units.seconds(more)}" for name, more in _longer(tenant)) or "nothing",
        ]
        for tenant in summary.get("tenants", [])
    ]


def _hosts(tenant: RunDocument) -> str:
    """``0-31``; of hosts that lie apart, how many there are and the first of them."""
    runs = tenant["hosts"].split(", ")
    return ", ".join(runs) if len(runs) <= 3 else f"{tenant['num_hosts']:,}: {', '.join(runs[:3])}, ..."


def _longer(tenant: RunDocument) -> list[tuple[str, float]]:
    """What it waits longer for than alone, and by how many seconds per step; the most first."""
    alone = tenant["waits_alone_s"]
    more = [(name, lost - alone.get(name, 0.0)) for name, lost in tenant["waits_s"].items()]
    most = max((entry for _, entry in more), default=0.0)
    return sorted(
        (entry for entry in more if entry[1] > NEGLIGIBLE * most), key=lambda entry: (-entry[1], entry[0])
    )


def assumptions_text(documents: RunDocument, listed: str = "listed in the JSON result") -> list[str]:
    """How much was simulated, which assumptions it rests on and where they are ``listed``, notes of the
    planner.
    """
    summary = documents["summary"]
    ranks, classes = summary["num_ranks"], summary["num_classes"]
    if ranks == 1:
        simulated = "1 rank"
    elif classes == ranks:
        simulated = f"{ranks:,} ranks, each"
    else:
        simulated = f"{ranks:,} ranks, as {classes:,} class{'es' * (classes > 1)} of equal ranks"
    took = f" in {units.seconds(summary['wall_s'])}" if "wall_s" in summary else ""
    assumptions = summary["assumptions"]
    band = summary.get("error_band") if documents["plan"]["framework"] != "ideal" else None
    return [
        f"Simulated {simulated}: {summary['num_events']:,} events{took}.",
        *([band["words"]] if band else []),
        *_dispatch(summary),
        f"Based on {len(assumptions)} assumptions, {listed}: {_assumed(assumptions)}.",
        *(f"Note: {note}." for note in documents["plan"]["notes"]),
    ]


def _dispatch(summary: RunDocument) -> list[str]:
    """What the host dispatches, where pieces of the network are graphs."""
    dispatch = summary.get("dispatch")
    if dispatch is None:
        return []
    return [
        f"Dispatch: {dispatch['alone']:,.0f} operators by themselves, {dispatch['in_graphs']:,.0f} in "
        f"{dispatch['launches']:,.0f} launches of graphs; "
        f"{units.seconds(dispatch['busy_s'])} of the host per step."
    ]


def _assumed(assumptions: Sequence[Mapping[str, str]]) -> str:
    """``13 of h100-sxm, 2 of dgx-h100, framework, links``."""
    owners = Counter(figure["name"].partition(".")[0] for figure in assumptions)
    names = {figure["name"] for figure in assumptions}
    return ", ".join(owner if owner in names else f"{count} of {owner}" for owner, count in owners.items())
