"""One call of ``simcluster run``: all scenarios are read and planned before the first is simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simcluster.baseline import Bound, ExpectedVerdict, bounds_of, check_bounds, expected_verdict
from simcluster.cli.commands.run.scenario_yaml import scenario_text
from simcluster.cli.output import terminal
from simcluster.cli.output.exit_code import ExitCode
from simcluster.cli.output.progress import progress_line
from simcluster.cli.output.result_files import Outputs, write_bytes
from simcluster.errors import PlanError, Problem, ScenarioError
from simcluster.report import result_json, shortage_text, summary_text, verdict_text
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate
from simcluster.trace import Documents, Run, RunDocument
from simcluster.workers import usable_cpus

MOST_EVENTS = 2**19
"""Entries of streams up to which a page says what better hardware would buy: some seconds."""


@dataclass(frozen=True)
class Replications:
    """How often a job is run, and by how many processes: one for each processor, if not said."""

    count: int = 1
    jobs: int | None = None

    def check(self, scenario: Scenario) -> None:
        """ScenarioError if nothing differs from one run to the next."""
        job = scenario.spec.job
        if self.count > 1 and (job is None or not job.failures.causes):
            why = "has no job" if job is None else "draws nothing: job.failures has no causes"
            raise ScenarioError(
                Problem(
                    f"'{scenario.name}' {why}, so that all runs would be the same",
                    where=f"--replications {self.count}",
                )
            )
        if self.jobs is not None and self.count == 1:
            raise ScenarioError(
                Problem("there is one run to do; add --replications 200", where=f"--jobs {self.jobs}")
            )


@dataclass(frozen=True)
class Session:
    """Scenarios that were read without an error, and where their results go."""

    scenarios: Sequence[Scenario]
    outputs: Outputs
    changes: Sequence[tuple[str, str]]
    unfold: bool
    quiet: bool
    replications: Replications = Replications()
    verbose: bool = False

    @classmethod
    def of(
        cls,
        outputs: Outputs,
        changes: Sequence[tuple[str, str]],
        *,
        unfold: bool,
        quiet: bool,
        replications: Replications = Replications(),
        verbose: bool = False,
    ) -> Session:
        """Reads all scenarios; raises one error with the problems of all, before any of them is run."""
        loaded, problems = [], list[Problem]()
        for path in outputs.scenarios:
            try:
                scenario = Scenario.load(path, changes)
                bounds_of(scenario)
                replications.check(scenario)
                outputs.chosen(scenario.spec.num_ranks)
                if len(outputs.scenarios) > 1:  # one alone is planned when it is simulated
                    build_scenario(scenario, unfold=unfold, search=False)
                loaded.append(scenario)
            except (ScenarioError, PlanError) as error:
                problems += error.problems
        if problems:
            raise ScenarioError(*dict.fromkeys(problems))
        return cls(loaded, outputs, changes, unfold, quiet, replications, verbose)

    def run(self) -> ExitCode:
        """Simulates, prints and writes; the exit code of the worst."""
        worst, results = ExitCode.DONE, []
        for index, scenario in enumerate(self.scenarios):
            with progress_line(scenario.name, wanted=not self.quiet) as progress:
                run = simulate(
                    scenario,
                    unfold=self.unfold,
                    progress=progress,
                    replications=self.replications.count,
                    jobs=self.replications.jobs or usable_cpus(),
                )
                text = scenario_text(scenario, self.changes)
                shown = None if self.outputs.html is None else _with_what_if(scenario, run)
                progress.doing = "writing" if shown is None else "trying better and worse hardware"
                written = self.outputs.write(index, run, text, shown)
            results.append(result_json(run))
            broken = [bound for bound in check_bounds(scenario, run) if not bound.holds]
            self._say(index, run, broken)
            said = verdict_text(run.documents["summary"])
            expected = expected_verdict(scenario)
            if said not in ("fits", expected):
                terminal.print_note(
                    f"what would make it fit: simcluster explain {self.outputs.scenarios[index]}"
                )
            if not self.quiet:
                for path in written:
                    terminal.print_note(f"written: {path}")
            if broken or (said == "does not fit" and expected is None):
                worst = ExitCode.FAILED
        self._write_json(results)
        return worst

    def _say(self, index: int, run: Run, broken: Sequence[Bound | ExpectedVerdict]) -> None:
        """The summary where it is wanted, else only what is wrong."""
        name = run.documents["plan"]["name"]
        if self.quiet or self.outputs.json_to_screen:
            if lacking := shortage_text(run.documents["summary"]):
                terminal.print_note(f"{name}: {lacking}")
        else:
            if index:
                terminal.print_result("")
            text = summary_text(run, colour=terminal.has_colour(), details=self.verbose)
            terminal.print_result(text, drawn=True)
        for bound in broken:
            terminal.print_note(f"{name}: expect: {bound}")

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


def _with_what_if(scenario: Scenario, run: Run) -> Run:
    """The run with what better and worse hardware would make of it, unless that takes too long."""

    def made() -> RunDocument:
        from simcluster.what_if import what_if, what_if_document

        return what_if_document(what_if(build_scenario(scenario)))

    if run.documents["summary"]["num_events"] > MOST_EVENTS:
        terminal.print_note(
            "the page does not say what better hardware would buy, which takes long: simcluster whatif --html"
        )
        return run
    return replace(run, documents=Documents.more(run.documents, {"what_if": made}))
