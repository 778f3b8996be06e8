"""One call of ``simcluster run``: all scenarios are read and planned before the first is simulated."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import TypeVar

from simcluster.baseline import bounds_of, check_bounds, expected_verdict
from simcluster.cli.commands.run.scenario_yaml import scenario_text
from simcluster.cli.output import terminal
from simcluster.cli.output.exit_code import ExitCode
from simcluster.cli.output.progress import progress_line
from simcluster.cli.output.result_files import Outputs, write_bytes
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, Problem, ScenarioError, SimulationError
from simcluster.report import result_json, shortage_text, summary_text, verdict_text
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.trace import Run
from simcluster.workers import Failure, in_order, local_executor, run_all, usable_cpus

Outcome = TypeVar("Outcome")


def with_what_if(run: Run, scenario: Scenario) -> Run:
    """The run with the document ``what_if``: its step on a cluster with other figures."""
    from simcluster.what_if import what_if, what_if_document

    answer = what_if_document(what_if(build_scenario(scenario)))
    return replace(run, documents={**run.documents, "what_if": answer})


@dataclass(frozen=True)
class Replications:
    """How often a job is run, and by how many processes: one for each processor, if not said."""

    count: int = 1
    jobs: int | None = None

    def check(self, scenario: Scenario, num_scenarios: int = 1) -> None:
        """ScenarioError if nothing differs from one run to the next, or there is nothing to share."""
        job = scenario.spec.job
        if self.count > 1 and (job is None or not job.failures.causes):
            why = "has no job" if job is None else "draws nothing: job.failures has no causes"
            raise ScenarioError(
                Problem(
                    f"'{scenario.name}' {why}, so that all runs would be the same",
                    where=f"--replications {self.count}",
                )
            )
        if self.jobs is not None and self.count == 1 and num_scenarios == 1:
            raise ScenarioError(
                Problem("there is one run to do; add --replications 200", where=f"--jobs {self.jobs}")
            )


CHEAP_WHAT_IF = 3_000
"""Events of a run up to which its page says what other hardware would change, if nothing else is asked for:
that takes some 14 times as long as timing it.
"""

MANY = 4
"""Scenarios that are shared among processes, one for each processor, if nothing else is said."""


@dataclass(frozen=True)
class ScenarioReport:
    """What a scenario's run has to say: texts, its result as JSON, and whether it failed."""

    summary: str
    notes: tuple[str, ...]
    result: bytes
    failed: bool


@dataclass(frozen=True)
class Session:
    """The scenarios of one call, and where their results go; all were read without an error."""

    outputs: Outputs
    changes: tuple[tuple[str, str], ...]
    unfold: bool
    quiet: bool
    replications: Replications = Replications()
    colour: bool = False
    verbose: bool = False

    @property
    def num_processes(self) -> int:
        """Processes that share the scenarios; those of replications are another matter."""
        count = len(self.outputs.scenarios)
        if count == 1:
            return 1
        return self.replications.jobs or (usable_cpus() if count >= MANY else 1)

    def run(self) -> ExitCode:
        """Simulates, prints and writes; the exit code of the worst.

        Several are all read and planned first: one error has the problems of all, before any is run. One
        alone is planned when it is simulated.
        """
        count = len(self.outputs.scenarios)
        worst, results = ExitCode.DONE, list[bytes]()
        with local_executor(self.num_processes, count) as executor:
            if count > 1:
                refused = self._outcomes(self.problems, executor)
                if problems := [problem for of_one in refused for problem in of_one]:
                    raise ScenarioError(*dict.fromkeys(problems))
            for report in self._outcomes(self.report, executor):
                if report.summary:
                    if results:
                        terminal.print_result("")
                    terminal.print_result(report.summary, drawn=True)
                for note in report.notes:
                    terminal.print_note(note)
                results.append(report.result)
                if report.failed:
                    worst = ExitCode.FAILED
        self._write_json(results)
        return worst

    def _outcomes(self, function: Callable[[int], Outcome], executor: Executor) -> Iterator[Outcome]:
        """What a method gives for every scenario, in order; its errors are raised."""
        indices = range(len(self.outputs.scenarios))
        for index, outcome in enumerate(in_order(run_all(function, indices, executor))):
            if not isinstance(outcome, Failure):
                yield outcome
            elif outcome.is_worker_lost:
                path = self.outputs.scenarios[index]
                raise SimulationError(f"{path}: the process that worked on it was killed, twice")
            else:
                raise outcome.error

    def problems(self, index: int) -> tuple[Problem, ...]:
        """What is wrong with a scenario, as it is read and planned."""
        try:
            build_scenario(self._read(index), unfold=self.unfold, search=False)
        except (ScenarioError, PlanError) as error:
            return error.problems
        return ()

    def report(self, index: int) -> ScenarioReport:
        """Simulates a scenario, here or in a process of its own, and writes its files."""
        scenario = self._read(index)
        alone = self.num_processes == 1
        with progress_line(scenario.name, wanted=alone and not self.quiet) as progress:
            run = simulate(
                scenario,
                unfold=self.unfold,
                progress=progress,
                replications=self.replications.count,
                jobs=(self.replications.jobs or usable_cpus()) if alone else 1,
            )
            if self._answers_what_if(run):
                progress.doing = "trying other hardware"
                run = with_what_if(run, scenario)
            written = self.outputs.write(index, run, scenario_text(scenario, self.changes))
        name, said = run.documents["plan"]["name"], verdict_text(run.documents["summary"])
        broken = [bound for bound in check_bounds(scenario, run) if not bound.holds]
        expected = expected_verdict(scenario)
        notes, summary = [], ""
        if self.quiet or self.outputs.json_to_screen:
            if lacking := shortage_text(run.documents["summary"]):
                notes.append(f"{name}: {lacking}")
        else:
            summary = summary_text(run, colour=self.colour, details=self.verbose)
        notes += (f"{name}: expect: {bound}" for bound in broken)
        if said not in ("fits", expected):
            notes.append(f"what would make it fit: {self._explain(index)}")
        if not self.quiet:
            notes += (f"written: {path}" for path in written)
        failed = bool(broken) or (said == "does not fit" and expected is None)
        return ScenarioReport(summary, tuple(notes), result_json(run), failed)

    def _explain(self, index: int) -> str:
        """The command that explains a scenario of this call, with its changes."""
        settings = [part for key, text in self.changes for part in ("--set", f"{key}={text}")]
        return shlex.join(["simcluster", "explain", str(self.outputs.scenarios[index]), *settings])

    def _answers_what_if(self, run: Run) -> bool:
        """Whether the report says what other hardware would change: as asked, else where that is cheap."""
        if self.outputs.whatif is not None:
            return self.outputs.whatif
        return self.outputs.html is not None and run.documents["summary"]["num_events"] <= CHEAP_WHAT_IF

    def _write_json(self, results: Sequence[bytes]) -> None:
        """One object for one scenario, a list of them for several."""
        content = (
            results[0] if len(results) == 1 else b"[\n" + b",\n".join(map(bytes.strip, results)) + b"\n]"
        )
        content = content.rstrip() + b"\n"
        if self.outputs.json_to_screen:
            terminal.print_json(content)
        elif self.outputs.json_file is not None:
            write_bytes(self.outputs.json_file, content)
            if not self.quiet:
                terminal.print_note(f"written: {self.outputs.json_file}")

    def _read(self, index: int) -> Scenario:
        """A scenario of the call; ScenarioError if it, or what is asked of it, is wrong."""
        scenario = Scenario.load(self.outputs.scenarios[index], self.changes)
        bounds_of(scenario)
        self.replications.check(scenario, len(self.outputs.scenarios))
        self.outputs.chosen(scenario.spec.num_ranks)
        return scenario
