"""What large runs cost, phase by phase: ``python -m tests.benchmarks.bench_engine [ROW ...]``, or ``--list``.

Every row is a process of its own, on a scenario that is frozen (frozen_scenarios.py): seconds of CPU time,
entries, and the most memory that the process had. Phases are those of ``simulate``:

    planning    the graph, its passes and layouts, the timetable
    building    the Program and its classes of equal ranks
    linking     what instructions take, who waits for whom, the tables of the loop
    loop        the events
    following   what is made of the times: account, breakdown, documents

Entries are those of the run that ``loop`` is about: of tenants, those of all together. What is run besides,
each tenant alone or the cluster without its changes, is in ``linking`` and ``following``.

Re-solves are how often rates of flows that share links were worked out; ``mean solve`` is how many flows hung
together then.

Machine code is compiled before, if it is not kept yet. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from simcluster.analysis.memory_usage.caching_allocator import POOL_CODE
from simcluster.engine.implementation import LOOP
from tests.benchmarks.frozen_scenarios import (
    DIFFERENT,
    ONE_SLOW,
    SHARED,
    deepseek,
    gpt3,
    gpt3_of_many_micro_batches,
    llama_70b,
    llama_405b,
    megatron_1t,
    qwen,
    seqpipe,
    tenants,
    tensor_overlap,
    turing,
)

PHASES = ("planning", "building", "linking", "loop", "following", "trace")


@dataclass(frozen=True)
class Row:
    """What is measured: a scenario, and what is done with it.

    ``loaded``: the loop is loaded before. ``process``: the command line runs it, trace included. ``trace``:
    its trace is written behind the simulation.
    """

    scenario: Callable[[], dict[str, Any]]
    loaded: bool = False
    process: bool = False
    trace: bool = False


ROWS = {
    "quickstart": Row(partial(llama_70b, "dgx-h100", 8, 32), process=True),
    "405b-16384": Row(partial(llama_405b, 128)),
    "405b-16384-loaded": Row(partial(llama_405b, 128), loaded=True),
    "405b-131072": Row(partial(llama_405b, 1024)),
    "405b-16384-one-slow": Row(partial(llama_405b, 128, changes=ONE_SLOW)),
    "1t-2048-1f1b": Row(partial(megatron_1t, "1f1b")),
    "1t-2048-zb-v": Row(partial(megatron_1t, "zb_v")),
    "deepseek-v3-2048": Row(deepseek),
    "gpt3-1024": Row(gpt3),
    "70b-64-seqpipe": Row(seqpipe),
    "70b-64-overlap": Row(tensor_overlap),
    "turing-2240": Row(turing),
    "gpt3-128-1536-micro-batches": Row(gpt3_of_many_micro_batches),
    "70b-256-different-shared": Row(partial(llama_70b, "dgx-h100", 8, 8, changes=DIFFERENT, network=SHARED)),
    "70b-1024-different-shared": Row(
        partial(llama_70b, "dgx-h100", 32, 8, changes=DIFFERENT, network=SHARED)
    ),
    "70b-1024-different": Row(partial(llama_70b, "dgx-h100", 32, 32, changes=DIFFERENT)),
    "70b-16384-different-ascend": Row(partial(llama_70b, "atlas-800t-a2", 512, 32, changes=DIFFERENT)),
    "qwen3-1024-zipf": Row(qwen),
    "tenants-576": Row(tenants),
    "tenants-576-loaded": Row(tenants, loaded=True),
    "perfetto": Row(partial(turing, 480), trace=True),
}


class Clock:
    """CPU seconds by phase: time goes to the phase that was entered last."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.phase, self.since = "", time.process_time()

    def enter(self, phase: str) -> None:
        """The phase so far is over."""
        now = time.process_time()
        self.seconds[self.phase] += now - self.since
        self.phase, self.since = phase, now

    def within(self, module: str, name: str, phase: str, then: str) -> AbstractContextManager[Any]:
        """Has a function of a module be a phase, behind which another goes on."""
        whole: Callable[..., Any] = getattr(sys.modules[module], name)

        def timed(*arguments: Any, **options: Any) -> Any:
            self.enter(phase)
            try:
                return whole(*arguments, **options)
            finally:
                self.enter(then)

        return patch.object(sys.modules[module], name, timed)


def measured(row: Row) -> dict[str, Any]:
    """The seconds and counts of a row, in this process."""
    from simcluster.engine import Progress, Timing
    from simcluster.report import write_perfetto
    from simcluster.scenario import Scenario
    from simcluster.simulation import simulate

    clock = Clock()

    class Watched(Progress):
        """Notes when the loop begins and how far it came."""

        @property
        def total(self) -> int:  # type: ignore[override]
            return self._total

        @total.setter
        def total(self, total: int) -> None:
            self._total = total
            if total:
                clock.enter("loop")

        def update(self, ended: int, time: int) -> None:
            super().update(ended, time)
            clock.enter("loop" if ended < self.total else "following")

    scenario = Scenario.of(row.scenario())
    if row.loaded:
        LOOP.load()
    composing = "simcluster.simulation.compose.build"
    with ExitStack() as stack:
        stack.enter_context(clock.within(composing, "plan_scenario", "planning", "building"))
        timed = sys.modules[composing].run_together
        timings: list[Timing] = []

        def kept(*arguments: Any, **options: Any) -> list[Timing]:
            found: list[Timing] = timed(*arguments, **options)
            if any(isinstance(argument, Watched) for argument in arguments):
                timings[:] = found
            return found

        stack.enter_context(patch.object(sys.modules[composing], "run_together", kept))
        stack.enter_context(clock.within(composing, "run_together", "linking", "following"))
        clock.enter("building")
        run = simulate(scenario, progress=Watched())
    summary = run.documents["summary"]
    counts = {name: summary[name] for name in ("num_classes", "num_flows", "num_solves")}
    counts["num_events"] = sum(timing.num_events for timing in timings)
    counts["mean_solve"] = max(timing.num_rates / (timing.num_solves or 1) for timing in timings)
    if row.trace:
        clock.enter("trace")
        with tempfile.TemporaryDirectory() as folder:
            write_perfetto(run, Path(folder) / "trace.json.gz")
        counts["num_spans"] = len(run.recording)
    clock.enter("")
    return {"seconds": {phase: clock.seconds[phase] for phase in PHASES}, **counts}


def measured_apart(name: str) -> dict[str, Any]:
    """The same of a row in a process of its own, with its CPU seconds and its peak memory in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.bench_engine", "--inside", name]
        if ROWS[name].process:
            file = Path(folder) / "scenario.yaml"
            document = [sys.executable, "-m", "tests.benchmarks.bench_engine", "--print", name]
            file.write_bytes(subprocess.run(document, check=True, capture_output=True).stdout)
            arguments = ["run", str(file), "--quiet", "--trace", f"{folder}/trace.json.gz"]
            command = [sys.executable, "-m", "simcluster", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
    if process.returncode:
        raise SystemExit(process.returncode)
    found = {} if ROWS[name].process else json.loads(said)
    return {**found, "process": used.ru_utime + used.ru_stime, "mib": used.ru_maxrss // 1024}


HEAD = (
    f"{'row':28}"
    + "".join(f"{phase:>11}" for phase in PHASES[:-1])
    + f"{'simulate':>11}{'process':>11}{'MiB':>7}{'entries':>12}{'loop/s':>12}{'simulate/s':>12}"
    + f"{'flows':>11}{'re-solves':>11}{'mean solve':>11}"
)


def line(name: str, found: dict[str, Any]) -> str:
    """A row of the table."""
    if "seconds" not in found:
        return f"{name:28}{'':66}{found['process']:>11.2f}{found['mib']:>7}"
    seconds, entries = found["seconds"], found["num_events"]
    whole = sum(seconds[phase] for phase in PHASES[:-1])
    text = (
        f"{name:28}"
        + "".join(f"{seconds[phase]:>11.2f}" for phase in PHASES[:-1])
        + f"{whole:>11.2f}{found['process']:>11.2f}{found['mib']:>7}{entries:>12,}"
        + f"{entries / max(seconds['loop'], 1e-9):>12,.0f}{entries / whole:>12,.0f}"
        + f"{found['num_flows']:>11,}{found['num_solves']:>11,}{found['mean_solve']:>11.1f}"
    )
    if "num_spans" in found:
        rate = found["num_spans"] / seconds["trace"]
        text += f"\n{'':28}{found['num_spans']:,} spans in {seconds['trace']:.2f} s: {rate:,.0f} a second"
    return text


def main() -> None:
    """Prints the rows that are asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", choices=[[], *ROWS])
    parser.add_argument("--list", action="store_true", help="the names of all rows")
    parser.add_argument("--print", choices=ROWS, help="the scenario of a row")
    parser.add_argument("--inside", choices=ROWS, help="one row in this process, as JSON")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(ROWS))
    elif asked.print:
        print(json.dumps(ROWS[asked.print].scenario()))
    elif asked.inside:
        print(json.dumps(measured(ROWS[asked.inside])))
    else:
        LOOP.load()
        POOL_CODE.load()
        print(HEAD, flush=True)
        for name in asked.rows or ROWS:
            print(line(name, measured_apart(name)), flush=True)


if __name__ == "__main__":
    main()
