"""From a measured run to the scenario that predicts it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.accuracy.hardware import HardwareSpec, named_hardware
from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.accuracy.runs.scenarios.adapters import adapters_of
from simcluster.accuracy.runs.scenarios.architecture import architecture_of, with_known_sizes
from simcluster.accuracy.runs.scenarios.cluster_section import stated_cluster
from simcluster.accuracy.runs.scenarios.offloading import offloading_of
from simcluster.accuracy.runs.scenarios.parallel_section import parallel_plan
from simcluster.accuracy.runs.scenarios.recomputation import recomputation_of
from simcluster.accuracy.runs.scenarios.word_entries import FrameworkWords, PracticeWords
from simcluster.accuracy.runs.scenarios.words import known_words
from simcluster.deferred_dataclass import dataclass
from simcluster.document import merged_data
from simcluster.errors import PlanError
from simcluster.plan import FrameworkSpec
from simcluster.scenario import commented_yaml

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
    if reason := words.unsupported_reason(notes, run.words["model"], run.words["precision"]):
        raise PlanError(reason)
    run = with_known_sizes(run)
    _check(run)
    framework = framework_of(run)
    precision = words.precision(run.words)
    if precision is None:
        raise PlanError(f"the precision '{run.words['precision']}' is unknown")
    architecture, again = architecture_of(run), recomputation_of(run, framework.block)
    offloading, adapters = offloading_of(run), adapters_of(run, framework.profile)
    called = precision.called or run.words["precision"]
    rule, of_rule = _update_rule(notes)
    practices = _Practices.of(run, framework.profile, called, rule)
    parallel = parallel_plan(
        run, framework.profile, mtp=architecture.has_mtp_layers, sparse=architecture.is_sparse
    )
    data = {
        "simcluster": 1,
        "name": run.name,
        "cluster": stated_cluster(run, entry),
        "framework": practices.framework,
        "model": practices.with_model(architecture.model),
        "training": {
            "global_batch": run.counts["global_batch"],
            "micro_batch": run.counts["micro_batch"],
            "seq_len": run.counts["seq_len"],
            "precision": precision.precision,
            "optimizer": practices.optimizer,
            **practices.training,
            **adapters.training,
        },
        "parallel": {
            **parallel.data,
            **offloading.parallel,
            **({"recompute": dict(again.recompute)} if again.recompute else {}),
        },
        **({"run": dict(practices.run)} if practices.run else {}),
    }
    nearest = (framework.why,) if framework.nearest and framework.why else ()
    format_assumed = (precision.why,) if precision.why else ()
    of_plan = (
        *parallel.assumed,
        *again.assumed,
        *offloading.assumed,
        *practices.assumed,
        *adapters.assumed,
        *of_rule,
    )
    return RunScenario(data, (*nearest, *format_assumed, *architecture.assumed, *of_plan))


_OTHER_RULES = re.compile(
    r"\b(adafactor|sophia|shampoo|lars|galore|adam-mini|lion optimizer|optimizer lion)\b", re.IGNORECASE
)


def _update_rule(notes: str) -> tuple[str, tuple[str, ...]]:
    """The update rule that notes name, else AdamW; and what is assumed where there is none of that name."""
    if "LAMB" in notes:
        return "lamb", ()
    if re.search(r"\bSGD\b", notes):
        return "momentum", ()
    if other := _OTHER_RULES.search(notes):
        return "adamw", (f"the update is simulated as AdamW's: there is no rule for {other[1]}",)
    return "adamw", ()


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
    def of(cls, run: MeasuredRun, profile: str, precision: str, rule: str) -> _Practices:
        """Those of a row that runs under a framework profile in a number format, with an update rule."""
        framework: dict[str, Any] = {}
        model: dict[str, Any] = {}
        optimizer: dict[str, Any] = {}
        training: dict[str, Any] = {}
        steps: dict[str, Any] = {}
        framework_words = profile if profile in _CALLED_ALIKE else run.words["framework"]
        words = {**run.words, "framework": framework_words, "precision": precision}
        practices = list(known_words().practices_of(words, run.counts["seq_len"], profile))
        for practice in practices:
            framework |= merged_data(framework, practice.framework)
            model |= practice.model
            optimizer |= practice.optimizer
            training |= practice.training
            steps |= practice.run
        assumed = _reasons(practices)
        if run.count("context") > 1 and FrameworkSpec.entry(profile).get("attention") == "unfused":
            framework |= {"attention": "flash"}
            assumed.append("fused attention: only that is simulated where ranks share sequences")
        if framework:
            own = FrameworkSpec.entry(profile)
            framework = {"use": profile, **merged_data({key: own.get(key) for key in framework}, framework)}
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


def _reasons(practices: Sequence[PracticeWords]) -> list[str]:
    """Why what rows do not state is assumed; not of a practice whose every key later ones set.

    Keys of profiles count as set by all that name them: sections within them are merged.
    """
    later: set[tuple[str, str]] = set()
    reasons = []
    for practice in reversed(practices):
        sections = {name: getattr(practice, name) for name in ("model", "optimizer", "training", "run")}
        own = {(name, key) for name, section in sections.items() for key in section}
        if not practice.stated and (practice.framework or not own or own - later):
            reasons.append(practice.why)
        later |= own
    return reasons[::-1]


def framework_of(run: MeasuredRun) -> FrameworkWords:
    """What is known of a run's framework; the nearest profile where nothing is."""
    return known_words().framework(run.words) or _nearest_framework(run)


def _nearest_framework(run: MeasuredRun) -> FrameworkWords:
    """The profile of those who train in the same way: FSDP where weights are sharded and no stages are there,
    Megatron for other models in parts, and where optimizer states are sharded, as its distributed optimizer
    does; DeepSpeed where gradients are, too; else DDP.
    """
    stage = run.words["zero_stage"]
    parts = run.count("tensor") * run.count("pipeline") * run.count("context") * run.count("expert")
    if stage == "3" and run.count("pipeline") == 1:
        nearest = "fsdp"
    elif parts > 1 or stage.startswith("1"):
        nearest = "megatron-core"
    else:
        nearest = "deepspeed-zero" if stage == "2" else "ddp"
    named = run.words["framework"]
    why = f"the framework profile is {nearest}: there is none for '{named}'"
    return FrameworkWords(words=named or "-", profile=nearest, why=why, nearest=True)


def _check(run: MeasuredRun) -> None:
    lacking = [name for name in _NEEDED if name not in run.counts]
    if lacking:
        raise PlanError(f"the row does not state {', '.join(lacking)}")


def run_scenario_yaml(run: MeasuredRun, cluster: str | None = None) -> str:
    """The scenario of a run as YAML; what was measured and what was assumed stand above it.

    ``cluster`` names a host of the catalog, instead of the table's. ScenarioError where the run cannot be
    predicted, with the reason.
    """
    scenario = scenario_of(run, named_hardware(cluster) if cluster else None)
    words = run.words
    head = [
        f"Measured: {words['metric']} {words['value']} {words.get('unit', '')}".rstrip(),
        *(f"Source: {source}" for source in (words.get("source"),) if source),
        *(f"Assumed: {text}" for text in scenario.assumed),
    ]
    return commented_yaml(dict(scenario.data), {}, head=head, tail=[])
