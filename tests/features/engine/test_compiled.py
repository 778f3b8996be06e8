"""The compiled loop gives what the reference gives, to the nanosecond, and is only loaded where it pays."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.analysis.memory_usage.caching_allocator import POOL_CODE
from simcluster.engine import Implementation, Progress, classes_together, run_together
from simcluster.engine.compiled.run import LONG
from simcluster.engine.implementation import ENTRY, LOOP, choose_implementation
from simcluster.simulation import simulate
from simcluster.simulation.compose.build import build_scenario, workload_of
from tests.support.covering import quick
from tests.support.event_equality import assert_same_times
from tests.support.implementations import assert_both_agree, timed
from tests.support.random_runs import random_workload
from tests.support.scenarios import scenario
from tests.support.tenants import shared, tenant_scenario

ROOT = Path(__file__).parents[3]
MESH = {"pipeline": 2, "data": 2, "tensor": 2}


@pytest.mark.parametrize("seed", quick([*range(24), 9_279], *range(12), 9_279))
def test_random_programs(seed):
    assert_both_agree(random_workload(seed))


@pytest.mark.exhaustive
@pytest.mark.parametrize("hundred", range(100))
def test_ten_thousand_random_programs(hundred):
    for seed in range(100 * hundred, 100 * hundred + 100):
        assert_both_agree(random_workload(seed))


@settings(max_examples=8)
@given(data=st.data())
def test_tenants(data):
    """Programs of different length, begun anew until all have ended, on links they share."""
    tenants = [
        tenant_scenario(
            {"data": 16},
            steps=data.draw(st.integers(1, 3)),
            batch=data.draw(st.integers(1, 3)),
        )
        for _ in range(3)
    ]
    which = shared(tenants[0], [0, 2], [(tenants[1], [1, 3]), (tenants[2], [4, 6])])
    every = [built := build_scenario(which), *built.tenants]
    parts = [(each.program, each.cluster, each.plan.execution.algorithms) for each in every]
    together = classes_together(parts, unfold=data.draw(st.booleans()))
    workloads = [
        workload_of(replace(each, classes=classes, fabric=fabric))
        for each, (classes, fabric) in zip(every, together, strict=True)
    ]
    results = (
        run_together(workloads, None, each) for each in (Implementation.COMPILED, Implementation.REFERENCE)
    )
    for compiled, reference in zip(*results, strict=True):
        assert_same_times(compiled, reference)


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_the_scenario_chooses(engine, monkeypatch):
    """``run.engine``; both give the same result."""
    called = []
    places = {
        "reference": "simcluster.engine.reference.run_by_processes",
        "compiled": "simcluster.engine.compiled.run_compiled",
    }
    for name, place in places.items():
        module, _, function = place.rpartition(".")
        whole = getattr(import_module(module), function)
        monkeypatch.setattr(
            place, lambda *arguments, name=name, whole=whole: called.append(name) or whole(*arguments)
        )
    result = simulate(scenario(MESH, run={"engine": engine}))
    assert called == [engine]
    plain = simulate(scenario(MESH))
    for each in (result, plain):
        each.documents["summary"].pop("wall_s")
    assert result.documents["summary"] == plain.documents["summary"]


def test_progress():
    progress = Progress()
    built = build_scenario(scenario(MESH, recipe="megatron_sp"))
    timing = timed(built, Implementation.COMPILED, progress=progress)
    assert progress.done == progress.total == timing.num_events
    assert progress.now == pytest.approx(timing.end * 1e-9)


def test_compiling_is_told(monkeypatch):
    LOOP.load()
    progress, said = Progress(), []
    monkeypatch.setattr(LOOP, "load", lambda: said.append(progress.doing))
    timed(build_scenario(scenario(MESH)), Implementation.COMPILED, progress=progress)
    assert said[0] == "compiling"
    assert progress.doing == ""


def test_few_entries_are_for_the_reference(monkeypatch):
    """Unless the loop is loaded already."""
    LOOP.load()
    assert choose_implementation(1_000) is Implementation.COMPILED
    monkeypatch.setattr(LOOP, "_places", {})
    monkeypatch.setattr(LOOP, "_without", 0.0)
    assert choose_implementation(1_000) is Implementation.REFERENCE
    assert choose_implementation(10_000) is Implementation.COMPILED


def test_program_order_is_for_what_the_reference_never_times():
    """Unless it is asked to: what auto chooses depends on what is kept on this machine."""
    assert LOOP.seconds <= LONG * ENTRY


UNUSED = (
    "numba",
    "simcluster.critical_path.path_document",
    "simcluster.job.timeline",
    "simcluster.plan.auto",
    "simcluster.report.html",
)
"""What a run needs only if it compiles, has a job, searches strategies, or is shown on a page."""


@pytest.mark.parametrize(
    ("arguments", "used"),
    [(["--help"], set()), (["run", "scenarios/quickstart.yaml"], {"simcluster.engine.compiled"})],
)
def test_commands_do_not_import_what_they_do_not_use(arguments, used):
    """Machine code is kept by then: LLVM loads it."""
    LOOP.load()
    POOL_CODE.load()
    code = (
        "import sys; from simcluster.cli.app import command_line; code = command_line(sys.argv[1:]);"
        f"sys.exit(code or {set(UNUSED)} & sys.modules.keys() or {used} - sys.modules.keys() or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
