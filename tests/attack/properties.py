"""What every plan must satisfy that is not refused, and what every refusal must be."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simcluster.engine import classes_on_links
from simcluster.errors import PlanError, ScenarioError
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from simcluster.simulation.compose.build import BuiltScenario
from simcluster.simulation.run_scenario import run_built
from simcluster.simulation.verification.single_device_comparison import verify_plan
from simcluster.trace import Run
from tests.support.folding import assert_every_rank_is_its_class

_WHOLE = ("compute_s", "slowed_s", "host_s", "pipeline_wait_s", "offload_wait_s", "input_wait_s", "idle_s")
MOST_UNFOLDED = 16
"""Ranks up to which every one of them is simulated."""


@dataclass(frozen=True)
class Outcome:
    """What became of a plan: ``refused`` in these words, or simulated, or at ``fault``."""

    refused: str = ""
    fault: str = ""


def outcome(data: dict[str, Any]) -> Outcome:
    """What becomes of a scenario; nothing that is raised gets out."""
    try:
        built = build_scenario(Scenario.of(data))
    except (ScenarioError, PlanError) as error:
        return Outcome(refused=str(error), fault=_unspoken(str(error)))
    except Exception as error:
        return Outcome(fault=f"not refused in words: {error!r}")
    try:
        check(built)
    except Exception as error:
        return Outcome(fault=f"{type(error).__name__}: {error}")
    return Outcome()


def check(built: BuiltScenario) -> None:
    """Raises what is wrong with a plan that was made: AssertionError where a property does not hold."""
    run = run_built(built)
    check_run(built, run)
    assert_same_bytes(run, run_built(build_scenario(built.scenario)))


def check_run(built: BuiltScenario, run: Run) -> None:
    """The same of one run of it."""
    assert_parts_are_the_step(run)
    assert_nothing_below_zero(built, run)
    found = verify_plan(built.scenario, built.plan)
    assert not found.fault, f"verify: {found.fault}"
    assert found.agrees, f"verify: {found.first_difference}"
    if built.program.mesh.num_ranks <= MOST_UNFOLDED:
        assert_folded_is_unfolded(built, run)


def assert_folded_is_unfolded(built: BuiltScenario, folded: Run) -> None:
    """Every rank, simulated by itself, does what the representative of its class did."""
    lone, fabric = classes_on_links(
        built.program, built.cluster, built.plan.execution.algorithms, unfold=True
    )
    unfolded = run_built(replace(built, classes=lone, fabric=fabric), unfold=True)
    assert_every_rank_is_its_class(built.classes, folded, unfolded)


def assert_parts_are_the_step(run: Run) -> None:
    """All parts of the step are there, none is below zero, and they sum to it."""
    summary = run.documents["summary"]
    parts = {name: summary[name] for name in _WHOLE} | dict(summary["exposed_communication_s"])
    assert all(math.isfinite(value) and value >= 0 for value in parts.values()), parts
    assert math.isclose(sum(parts.values()), summary["step_time_s"], rel_tol=1e-9), (
        parts,
        summary["step_time_s"],
    )


def assert_nothing_below_zero(built: BuiltScenario, run: Run) -> None:
    """No category of any class is ever below zero, nor what all of them hold."""
    memory = run.memory
    for number in range(len(built.classes)):
        mine = memory.where(memory["class"] == number)
        for category in np.unique(mine["category"]):
            least = int(np.cumsum(mine["bytes"][mine["category"] == category]).min())
            assert least >= 0, f"class {number}: {memory.names['category'][category]} falls to {least} bytes"


def assert_same_bytes(one: Run, other: Run) -> None:
    """Two runs of one plan recorded the same."""
    assert _documents(one) == _documents(other), "two runs differ in their documents"
    for name in ("spans", "memory", "waits", "ranks"):
        first, second = getattr(one, name), getattr(other, name)
        assert first.names == second.names, f"two runs differ in names of {name}"
        for column in first.columns:
            assert np.array_equal(first[column], second[column]), f"two runs differ in {name}.{column}"


def _documents(run: Run) -> dict[str, Any]:
    summary = {name: value for name, value in run.documents["summary"].items() if name != "wall_s"}
    return {**run.documents, "summary": summary}


def _unspoken(words: str) -> str:
    """What is wrong with a refusal: that it says nothing, or what comes of a number that is none."""
    for each in ("292 years", "nan", "inf ", "Error(", "None "):
        if each in f"{words} ":
            return f"refused without a reason: {words}"
    return "" if words.strip() else "refused without a word"
