"""Looks for what catches a mutant: small scenarios that no longer hold, figures that move, named tests.

Each mutant is planted in a process of its own, forked from one in which everything is imported; that one
reads keys as JSON and writes a line of JSON for each.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.simulation.run_scenario import run_built
from tests.attack.mutants import PACKAGES, in_order, named, plant
from tests.attack.properties import check_run
from tests.attack.text import data_of
from tests.support.figures import differences, figures, figures_of

FOLDER = Path(__file__).parent
SHIPPED = FOLDER.parents[1] / "scenarios"
GOLDEN = FOLDER.parent / "golden"
TRIALS = FOLDER / "trials"
"""Small scenarios, of which every one computes, times and stores something in another way, and figures."""
RECORD = FOLDER / "mutants.json"
"""Key of a mutant that was drawn -> what catches it, or why nothing can."""
GOLDENS = (
    *("tiny-gpt-cpu", "manual-all-reduce-8-ascend-910", "manual-halo-exchange-4-ascend-910"),
    *("resnet-50-8-v100", "wide-deep-8-ascend-910-rows", "llama2-7b-8-ascend-910b-copies", "quickstart"),
    *("mixed-h100-ascend-cpu", "mpt-7b-32-a100", "deepseek-v3-4-layers-8-b200", "mixtral-8x7b-64-h100"),
    *("llama2-7b-8-ascend-910b-fine-grained", "llama2-7b-8-ascend-910b-tensor", "megatron-1.7b-32-a100"),
    *("llama3-8b-8-h100-torchtitan", "llama3-8b-16-ascend-910b-sharded", "llama3-8b-atlas-800t-a2"),
    *("llama3-70b-inference-8-ascend-910b", "llama3-70b-inference-8-h100", "ops-shard-8-ascend-910b"),
    *("opt-175b-992-a100", "remote-sensing-16-ascend-910", "resnet-50-8-v100-from-disks"),
    *("wide-deep-1-ascend-910-host", "wide-deep-16-ascend-910-host", "llama2-7b-atlas-900-a2"),
)
"""Shipped scenarios whose recorded figures are compared, where no small scenario catches a mutant."""
EQUIVALENT = "equivalent: "
RULES = tuple(f"simcluster.{package}." for package in PACKAGES)
Trace = Callable[[FrameType, str, object], Any]
ALONE = ("-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Options with which a test runs in a process in which much is imported already."""
MOST_SECONDS = 8
"""Of its own time that a process may take for one scenario: one that a mutant makes endless is caught."""
MOST_BYTES = 4 * 2**30
"""Of memory that it may take besides: one that a mutant makes boundless is caught."""


@dataclass(frozen=True)
class Hunted:
    """A mutant and what was found to catch it, with what it said; nothing if nothing did."""

    key: str
    caught: str
    fault: str = ""


def recorded() -> dict[str, str]:
    """What is known of mutants."""
    known: dict[str, str] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return known


def catchers() -> list[str]:
    """What is tried: recorded figures and properties of small scenarios, then figures of shipped ones."""
    return [
        *(f"figures {name}" for name in trials()),
        *(f"trial {name}" for name in trials()),
        *(f"golden {name}" for name in GOLDENS),
    ]


def trials() -> list[str]:
    """The names of the small scenarios."""
    return sorted(path.stem for path in TRIALS.glob("*.yaml"))


def trial(name: str) -> Scenario:
    """A small scenario."""
    return Scenario.of(data_of((TRIALS / f"{name}.yaml").read_text()))


@dataclass(frozen=True)
class Ran:
    """What a catcher takes, in seconds of processor time, and the lines of rules that it runs, by module."""

    catcher: str
    seconds: float
    lines: set[tuple[str, int]]

    @property
    def rank(self) -> tuple[int, float]:
        """Its place in the order in which catchers are asked: small scenarios first, short ones first."""
        return ("figures", "trial", "golden").index(self.catcher.partition(" ")[0]), self.seconds


def running(catcher: str) -> Ran:
    """Runs a catcher twice: to learn what it takes, and with a trace of what has not been seen yet."""
    found = set()
    unseen: dict[CodeType, set[int]] = {}

    def line(frame: FrameType, event: str, arg: object) -> Trace:
        found.add((frame.f_globals["__name__"], frame.f_lineno))
        unseen[frame.f_code].discard(frame.f_lineno)
        return line

    def called(frame: FrameType, event: str, arg: object) -> Trace | None:
        code = frame.f_code
        if code not in unseen:
            rules = frame.f_globals.get("__name__", "").startswith(RULES)
            unseen[code] = {number for *_, number in code.co_lines() if number} if rules else set()
        return line if unseen[code] else None

    before = time.process_time()
    fault_of(catcher)
    seconds = time.process_time() - before
    sys.settrace(called)
    try:
        fault_of(catcher)
    finally:
        sys.settrace(None)
    return Ran(catcher, seconds, found)


def hunted(asked: Mapping[str, Sequence[str]]) -> Iterator[Hunted]:
    """What catches each mutant, given by its key, of what is asked of it, in that order."""
    told = json.dumps([[key, [*each]] for key, each in asked.items()])
    command = [sys.executable, "-m", "tests.attack.hunt"]
    with subprocess.Popen(command, cwd=FOLDER.parents[1], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(told)
        process.stdin.close()
        for line in process.stdout:
            yield Hunted(**json.loads(line))
    assert process.returncode == 0


def fault_of(catcher: str) -> str:
    """What one catcher has to say of the code as it is in this process."""
    kind, _, name = catcher.partition(" ")
    if kind == "test":
        return _of_test(name)
    if kind == "golden":
        return _drift(GOLDEN / f"{name}.json", figures(SHIPPED / f"{name}.yaml"))
    if kind == "figures":
        return _drift(TRIALS / f"{name}.json", figures_of(simulate(trial(name))))
    built = build_scenario(trial(name))
    check_run(built, run_built(built))
    return ""


def _drift(recorded: Path, found: Mapping[str, Any]) -> str:
    """Which figures are not as they are recorded."""
    drift = differences(json.loads(recorded.read_text()), found)
    return "; ".join([*drift][:3])


def _of_test(name: str) -> str:
    """The last lines of a test that fails in this process, where the mutant is."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main([*ALONE, *name.split()])
    assert code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), said.getvalue()
    return said.getvalue()[-500:] if code else ""


def _hunt(key: str, asked: Sequence[str]) -> Hunted:
    """Plants a mutant in this process and asks one catcher behind the other.

    Where figures of a small scenario move and its properties do not hold either, these are what is named.
    """
    plant(named(key))
    _bound_memory()
    for catcher in asked:
        fault = _found_by(catcher)
        if fault:
            properties = catcher.replace("figures ", "trial ")
            better = _found_by(properties) if properties != catcher and properties in asked else ""
            return Hunted(key, properties, better) if better else Hunted(key, catcher, fault)
    return Hunted(key, "")


def _found_by(catcher: str) -> str:
    """What a catcher says or raises in this process, in bounded time."""
    resource.setrlimit(resource.RLIMIT_CPU, (_spent() + MOST_SECONDS, resource.RLIM_INFINITY))
    signal.signal(signal.SIGXCPU, _late)
    try:
        return fault_of(catcher)
    except Exception as error:
        return repr(error)


def _bound_memory() -> None:
    if sys.platform == "linux":
        held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (held + MOST_BYTES, resource.RLIM_INFINITY))


def _spent() -> int:
    return int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))


def _late(number: int, frame: object) -> None:
    raise TimeoutError(f"still busy behind {MOST_SECONDS} s")


def _each(told: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Hunts every mutant in a fork of this process, so that none sees what another has planted."""
    for key, asked in told:
        child = os.fork()
        if child == 0:
            try:
                found = _hunt(key, asked)
            except BaseException as error:
                found = Hunted(key, "", f"hunt: {error!r}")
            print(json.dumps(found.__dict__), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    in_order()
    _each(json.load(sys.stdin))
