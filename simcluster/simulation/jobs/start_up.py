"""How the job of a scenario starts: what is launched, in phases, and the files that launchers read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from simcluster.cluster import MapBy, allocation_formats
from simcluster.errors import PlanError, SimclusterError
from simcluster.job import (
    CommunicatorGroups,
    JobPhase,
    LaunchSetting,
    LaunchSpec,
    StartTimeline,
    StartUp,
    launcher_of,
    recover_worker,
    simulate_start,
)
from simcluster.layout import without_root
from simcluster.program import InstructionKind, Program
from simcluster.simulation.compose import BuiltScenario


def launch_setting(built: BuiltScenario) -> LaunchSetting:
    """What launching sees of a scenario."""
    spec, program = built.scenario.spec, built.program
    alone, every = _graphs(program)
    return LaunchSetting(
        allocation=spec.cluster.allocated(built.cluster),
        num_workers=spec.num_ranks - (spec.num_servers + 1 if spec.num_servers else 0),
        num_servers=spec.num_servers,
        kinds=frozenset(group.host.device.kind for group in built.cluster.groups),
        groups=tuple(_communicators(program)),
        operators=alone,
        unrolled=every,
        file=spec.cluster.file,
    )


def start_timeline(built: BuiltScenario) -> StartTimeline | None:
    """How the job starts, or fails to; None if the scenario does not say how it is launched."""
    job = built.scenario.spec.job
    if job is None or job.launch is None:
        return None
    return simulate_start(job.launch, launch_setting(built), built.scenario.spec.run.seed)


def start_up_document(built: BuiltScenario) -> dict[str, Any] | None:
    """The start as JSON-able data, with the recovery of one worker where the launcher knows of one."""
    timeline, job = start_timeline(built), built.scenario.spec.job
    if timeline is None or job is None or job.launch is None:
        return None
    spec, setting = job.launch, launch_setting(built)
    document: dict[str, Any] = {
        "method": spec.method,
        "total_s": timeline.start_up.seconds,
        "phases": _phases(timeline.start_up.phases),
        "workers": setting.num_workers,
        "parameter_servers": setting.num_servers,
        "hosts": len(setting.hosts),
        "refused": timeline.refused,
        "failure": timeline.failure,
        **({"doubt": timeline.doubt} if timeline.doubt else {}),
        "assumptions": [
            {"name": f"job.launch.costs.{name}", "value": f"{seconds:g} s", "source": why}
            for name, seconds, why in timeline.assumed
        ],
    }
    recovery = None if timeline.failure else recover_worker(spec, setting, built.scenario.spec.run.seed)
    if recovery is not None:
        document["worker_recovery"] = {
            "total_s": recovery.seconds,
            "phases": _phases(recovery.phases),
            "survivors": recovery.survivors,
            "reason": recovery.reason,
        }
    return document


def restart_phases(built: BuiltScenario) -> StartUp | None:
    """How the job starts again after a failure; None if the scenario does not say how it is launched."""
    job = built.scenario.spec.job
    if job is None or job.launch is None:
        return None
    return simulate_start(job.launch.at_restart, launch_setting(built), built.scenario.spec.run.seed).start_up


def rejoin_phases(built: BuiltScenario) -> tuple[JobPhase, ...] | None:
    """What comes behind the detection of a dead worker while all others wait; None where they do not."""
    job = built.scenario.spec.job
    if job is None or job.launch is None:
        return None
    recovery = recover_worker(job.launch, launch_setting(built), built.scenario.spec.run.seed)
    return recovery.phases[1:] if recovery is not None and recovery.survivors else None


def launcher_file(built: BuiltScenario) -> str:
    """The text of the file that the scenario's launcher reads: a rank table, a hostfile, an MSJob.

    Raises PlanError for a launcher that reads none, and where the file cannot say where ranks are.
    """
    launch = _launch(built)
    form = launcher_of(launch).file
    if not form:
        raise _located(built, PlanError(f"{launch.method} reads no file; leave --out out", path="job.launch"))
    spec, setting = built.scenario.spec, launch_setting(built)
    if spec.cluster.groups and form != "msjob":
        raise _located(built, PlanError(f"a {form} is for hosts of one kind, not of groups", path="cluster"))
    site = replace(spec.cluster.site, num_servers=setting.num_servers, num_hosts=None)
    try:
        writer = allocation_formats()[form]()
        text = writer.write(setting.allocation, site, built.scenario.name)
        again = writer.read(text, form, site, setting.allocation.dealt_by or MapBy.SLOT)
        size, pods = site.devices_per_host, site.hosts_per_pod
        ranks = np.arange(setting.allocation.num_ranks)
        if not site.sizes and not np.array_equal(again.devices(size, pods), built.cluster.devices_of(ranks)):
            raise PlanError(
                f"a {writer.title} cannot say where ranks are: hosts of others stand between those of the "
                "job, or pods are not filled one by one",
                path="cluster",
                hint="give the job hosts that are next to each other",
            )
    except SimclusterError as error:
        raise _located(built, error) from None
    return text


def launch_document(built: BuiltScenario, file: str | None = None) -> dict[str, Any]:
    """What is run, and how the job starts; ``file`` is the path of the launcher's file, if it is written."""
    launch, setting = _launch(built), launch_setting(built)
    named = setting.file[1] if setting.file and setting.file[0] == launcher_of(launch).file else ""
    path = file or named or _FILES.get(launcher_of(launch).file, "")
    try:
        processes = launcher_of(launch).processes(launch, setting, path)
    except SimclusterError as error:
        raise _located(built, error) from None
    return {
        "name": built.scenario.name,
        "method": launch.method,
        "file": path,
        "processes": [entry.document() for entry in processes],
        "start_up": start_up_document(built),
    }


_FILES = {"rank_table": "hccl.json", "hostfile": "hosts", "msjob": "job.yaml"}
"""What the files of formats are called in commands, where nothing says it."""


def _launch(built: BuiltScenario) -> LaunchSpec:
    job = built.scenario.spec.job
    if job is None or job.launch is None:
        raise PlanError("the scenario does not say how it is launched", path="job.launch")
    return job.launch


def _located(built: BuiltScenario, error: SimclusterError) -> SimclusterError:
    return built.scenario.located(error)


def _phases(phases: Sequence[JobPhase]) -> list[dict[str, Any]]:
    """Phases with their beginnings, one after the other."""
    listed, began = [], 0.0
    for phase in phases:
        listed.append({"name": phase.name, "start_s": began, "seconds": phase.seconds})
        began += phase.seconds
    return listed


def _communicators(program: Program) -> Iterator[CommunicatorGroups]:
    """The communicator of all ranks, and those of the groups that collectives and transfers of the Program
    have.
    """
    mesh = program.mesh
    if mesh.num_on_axes > 1:
        yield CommunicatorGroups("world", mesh.num_on_axes, 1)
    used = {
        tuple(map(without_root, instruction.group)) or (program.stage_axis,)
        for code in program.codes
        for instruction in code.instructions
        if instruction.operation and instruction.action in _BETWEEN_RANKS
    }
    for axes in sorted(used):
        groups = mesh.groups(axes)
        count, size = groups.shape
        if 1 < size < mesh.num_on_axes:
            yield CommunicatorGroups("+".join(axes), size, count)


_BETWEEN_RANKS = (InstructionKind.COLLECTIVE, InstructionKind.SEND, InstructionKind.RECEIVE)
"""What needs a communicator: parameter servers are spoken to without one."""


def _graphs(program: Program) -> tuple[int, int]:
    """Operators of the largest graph of any part: every block once, and every execution of each."""
    sizes = [len(code.instructions) for code in program.codes]
    alone, every = 0, 0
    for part in program.parts:
        times = part.columns.times()
        alone = max(alone, sum(sizes[code] for code in times))
        every = max(every, sum(sizes[code] * count for code, count in times.items()))
    return alone, every
