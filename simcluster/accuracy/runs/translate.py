"""From a measured run to the scenario that predicts it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from simcluster.accuracy.hardware import HardwareSpec, hardware_of
from simcluster.accuracy.runs.architecture import architecture_of
from simcluster.accuracy.runs.inter_host_rate import host_rate
from simcluster.accuracy.runs.parallel_section import parallel_plan
from simcluster.accuracy.runs.recomputation import recomputation_of
from simcluster.accuracy.runs.row import MeasuredRun
from simcluster.accuracy.runs.words import FrameworkWords, known_words
from simcluster.cluster import Host, load_cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.plan import FrameworkSpec

_NEEDED = ("layers", "seq_len", "num_devices", "micro_batch", "global_batch")


@dataclass(frozen=True, slots=True)
class RunScenario:
    """The scenario of a run, as plain data, and what in it the row does not state."""

    data: Mapping[str, Any]
    assumed: tuple[str, ...] = ()


def scenario_of(run: MeasuredRun, entry: HardwareSpec | None = None) -> RunScenario:
    """The scenario of a run; ``entry`` is its hardware, if not that of the table.

    PlanError with the reason where a row leaves something open, or has what no scenario says.
    """
    words, notes = known_words(), run.words.get("notes", "")
    if unsaid := words.unsaid(notes, run.words["model"], run.words["precision"]):
        raise PlanError(unsaid)
    _check(run)
    framework = framework_of(run)
    precision = words.precision(run.words["precision"], notes)
    if precision is None:
        raise PlanError(f"the precision '{run.words['precision']}' is unknown")
    architecture, again = architecture_of(run), recomputation_of(run, framework.block)
    practices = _Practices.of(run, framework.profile, "lamb" if "LAMB" in notes else "adamw")
    parallel = parallel_plan(run, framework.profile, mtp=architecture.has_mtp_layers)
    data = {
        "simcluster": 1,
        "name": run.name,
        "cluster": _cluster(run, entry),
        "framework": practices.framework,
        "model": practices.with_model(architecture.model),
        "training": {
            "global_batch": run.counts["global_batch"],
            "micro_batch": run.counts["micro_batch"],
            "seq_len": run.counts["seq_len"],
            "precision": precision,
            "optimizer": practices.optimizer,
            **practices.training,
        },
        "parallel": {**parallel.data, **({"recompute": dict(again.recompute)} if again.recompute else {})},
        **({"run": dict(practices.run)} if practices.run else {}),
    }
    nearest = (framework.why,) if framework.nearest and framework.why else ()
    return RunScenario(
        data, (*nearest, *architecture.assumed, *parallel.assumed, *again.assumed, *practices.assumed)
    )


_CALLED_ALIKE = ("nemo", "llm-foundry")
"""Profiles whose frameworks rows spell in several ways; practices know them by the profile's name."""


@dataclass(frozen=True, slots=True)
class _Practices:
    """What is done in a run though its row does not state it, as keys of the scenario."""

    framework: Any
    model: Mapping[str, Any]
    optimizer: Any
    training: Mapping[str, Any]
    run: Mapping[str, Any]
    assumed: tuple[str, ...]

    @classmethod
    def of(cls, run: MeasuredRun, profile: str, rule: str) -> _Practices:
        """Those of a row that runs under a framework profile with an update rule."""
        framework: dict[str, Any] = {}
        model: dict[str, Any] = {}
        optimizer: dict[str, Any] = {}
        training: dict[str, Any] = {}
        steps: dict[str, Any] = {}
        assumed = []
        words = {**run.words, "framework": profile} if profile in _CALLED_ALIKE else run.words
        for practice in known_words().practices_of(words, run.counts["seq_len"]):
            framework |= _merged(framework, practice.framework)
            model |= practice.model
            optimizer |= practice.optimizer
            training |= practice.training
            steps |= practice.run
            assumed += [] if practice.stated else [practice.why]
        if framework:
            own = FrameworkSpec.entry(profile)
            framework = {"use": profile, **_merged({key: own.get(key) for key in framework}, framework)}
        return cls(
            framework or profile,
            model,
            {"kind": rule, **optimizer} if optimizer else rule,
            training,
            steps,
            tuple(assumed),
        )

    def with_model(self, model: Mapping[str, Any]) -> dict[str, Any]:
        """The ``model:`` section; what rows or their names say of it wins."""
        return {**self.model, **model}


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others over them, sections within them likewise."""
    merged = dict(one)
    for key, value in other.items():
        before = merged.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(before, value) if both else value  # type: ignore[arg-type]
    return merged


def framework_of(run: MeasuredRun) -> FrameworkWords:
    """What is known of a run's framework; the nearest profile where nothing is."""
    stated = (run.words.get(name, "") for name in ("framework", "model", "source", "notes"))
    return known_words().framework(*stated) or _nearest_framework(run)


def _nearest_framework(run: MeasuredRun) -> FrameworkWords:
    """The profile of those who train in the same way: Megatron for models in parts, else FSDP or DDP."""
    if run.count("tensor") * run.count("pipeline") * run.count("context") * run.count("expert") > 1:
        nearest = "megatron-core"
    else:
        nearest = "fsdp" if run.words["zero_stage"] == "3" else "ddp"
    named = run.words["framework"]
    why = f"the framework profile is {nearest}: there is none for '{named}'"
    return FrameworkWords(words=named or "-", profile=nearest, why=why, nearest=True)


def _check(run: MeasuredRun) -> None:
    lacking = [name for name in _NEEDED if name not in run.counts]
    if lacking:
        raise PlanError(f"the row does not state {', '.join(lacking)}")


def _cluster(run: MeasuredRun, entry: HardwareSpec | None) -> dict[str, Any]:
    hardware = run.words["hardware"]
    stated = run.words.get("inter_link", "") if entry is None else ""
    entry = entry or hardware_of(hardware, run.words.get("notes", ""), stated)
    if entry is None:
        raise PlanError(f"no host of the catalog matches the hardware '{hardware}'")
    devices, host = run.counts["num_devices"], load_cluster(entry.cluster).host
    per_host = min(run.count("devices_per_host", host.num_devices), host.num_devices)
    written: dict[str, Any] = {"use": entry.cluster}
    if entry.device:
        written["device"] = dict(entry.device)
    if devices >= per_host and per_host == host.num_devices:
        if devices % per_host:
            raise PlanError(f"{devices} devices do not fill hosts of {per_host}")
        hosts = devices // per_host
    else:
        hosts = math.ceil(devices / per_host)
        if devices % hosts:
            raise PlanError(f"{devices} devices do not spread evenly over {hosts} hosts")
        written["devices"] = devices // hosts
        written["network"] = {"nics": min(host.network.nics, devices // hosts)}
    if hosts > 1 and (cards := _cards(host, devices // hosts, stated)):
        written["network"] = cards
    if host.pod is not None and (pods := math.ceil(hosts / host.num_hosts_per_pod)) > 1 and hosts % pods == 0:
        # A scheduler gives a job equally many hosts of each (Slurm's --segment): no group of ranks straddles.
        written["pod"] = {"hosts": hosts // pods}
    changes = {"changes": [dict(change) for change in entry.changes]} if entry.changes else {}
    if set(written) == {"use"}:
        return {"use": entry.cluster, "hosts": hosts, **changes}
    return {"host": written, "hosts": hosts, **changes}


def _cards(host: Host, num_devices: int, stated: str) -> dict[str, Any]:
    """The network cards of a host as a row states them; nothing where the catalog has as much.

    Fewer or more of the catalog's cards, if these make up the rate; otherwise as many slower or faster ones.
    """
    rate, network = host_rate(stated, num_devices), host.network
    card_rate = network.link.bandwidth * 8
    if rate is None or rate == card_rate * network.nics:
        return {}
    count = rate / card_rate
    if count >= 1 and count.is_integer() and num_devices % count == 0:
        return {"nics": int(count)}
    cards = min(network.nics, num_devices)
    return {"nics": cards, "bandwidth": f"{rate / cards / 1e9:g} Gbps"}
