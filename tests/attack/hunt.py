"""Looks for what catches a mutant: small scenarios that no longer hold, figures that move, named tests.

Each mutant is planted in a process of its own, forked from one in which everything is imported; that one
reads keys as JSON and writes a line of JSON for each.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tests.attack.mutants import PACKAGES, in_order, named, plant

FOLDER = Path(__file__).parent
TRIALS = FOLDER / "trials"
"""Small scenarios, of which every one computes, times and stores something in another way."""
RECORD = FOLDER / "mutants.json"
"""Key of a mutant that was drawn -> what catches it, or why nothing can."""
GOLDENS = (
    *("tiny-gpt-cpu", "manual-all-reduce-8-ascend-910", "manual-halo-exchange-4-ascend-910"),
    *("resnet-50-8-v100", "wide-deep-8-ascend-910-rows", "llama2-7b-8-ascend-910b-copies", "quickstart"),
    *("mixed-h100-ascend-cpu", "mpt-7b-32-a100"),
)
"""Shipped scenarios whose recorded figures are compared, where no small scenario catches a mutant."""
EQUIVALENT = "equivalent: "
RULES = tuple(f"simcluster.{package}." for package in PACKAGES)
Trace = Callable[[FrameType, str, object], Any]
MOST_SECONDS = 15
"""Of its own time that a process may take for one scenario: one that a mutant makes endless is caught."""


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
    """What is tried, in this order."""
    return [f"trial {path.stem}" for path in sorted(TRIALS.glob("*.yaml"))] + [
        f"golden {name}" for name in GOLDENS
    ]


def running(catcher: str) -> set[tuple[str, int]]:
    """The lines of rules, by module, that a catcher runs."""
    found = set()

    def line(frame: FrameType, event: str, arg: object) -> Trace:
        found.add((frame.f_globals["__name__"], frame.f_lineno))
        return line

    def called(frame: FrameType, event: str, arg: object) -> Trace | None:
        return line if frame.f_globals.get("__name__", "").startswith(RULES) else None

    sys.settrace(called)
    try:
        fault_of(catcher, "")
    finally:
        sys.settrace(None)
    return found


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


def fault_of(catcher: str, key: str) -> str:
    """What one catcher has to say, with the code as it is; of a test: under the mutant."""
    kind, _, name = catcher.partition(" ")
    if kind == "test":
        return _of_test(name, key)
    if kind == "golden":
        from tests.golden import test_goldens as goldens

        expected = json.loads((goldens.FOLDER / f"{name}.json").read_text())
        drift = list(goldens.differences(expected, goldens.figures(Path("scenarios") / f"{name}.yaml")))
        return "; ".join(drift[:3])
    from simcluster.scenario import Scenario
    from simcluster.simulation import prepare
    from simcluster.simulation.simulate import carry_out
    from tests.attack.properties import check_run
    from tests.attack.text import data_of

    built = prepare(Scenario.of(data_of((TRIALS / f"{name}.yaml").read_text())))
    check_run(built, carry_out(built))
    return ""


def _of_test(name: str, key: str) -> str:
    """The last lines of a test that fails under a mutant, run by pytest on its own."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.attack.planted",
        "-q",
        "-x",
        "-n",
        "0",
        *name.split(),
    ]
    environment = {**os.environ, "SIMCLUSTER_MUTANT": key}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return found.stdout[-500:] if found.returncode == 1 else ""


def _hunt(key: str, asked: Sequence[str]) -> Hunted:
    """Plants a mutant in this process and asks one catcher behind the other."""
    plant(named(key))
    for catcher in asked:
        resource.setrlimit(resource.RLIMIT_CPU, (_spent() + MOST_SECONDS, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXCPU, _late)
        try:
            fault = fault_of(catcher, key)
        except Exception as error:
            fault = repr(error)
        if fault:
            return Hunted(key, catcher, fault)
    return Hunted(key, "")


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
    # Everything that a catcher imports is there before the first fork, so that mutants find it all.
    import tests.attack.properties
    import tests.golden.test_goldens  # noqa: F401

    in_order()
    _each(json.load(sys.stdin))
