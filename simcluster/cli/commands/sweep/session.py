"""One call of ``simcluster sweep``: everything is checked before the first point is simulated."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from simcluster.cli.output import terminal
from simcluster.cli.output.exit_code import ExitCode
from simcluster.cli.output.item_progress import progress_bar
from simcluster.cli.output.result_files import check_writable, write_text
from simcluster.deferred_dataclass import dataclass
from simcluster.document import real_path
from simcluster.errors import Problem, ScenarioError
from simcluster.scenario import Scenario
from simcluster.sweeps import (
    SweepFigure,
    SweepFile,
    SweepResult,
    SweepRun,
    SweepSpace,
    Variation,
    check_values,
    objective_of,
    open_journal,
    sweep_text,
)
from simcluster.workers import chosen_executor


@dataclass(frozen=True)
class SweepSession:
    """A scenario and what varies of it, read without an error, and where the results go."""

    scenario: Scenario
    space: SweepSpace
    objective: SweepFigure
    is_ordered: bool
    file: SweepFile | None
    plot: Path | None
    restart: bool

    @classmethod
    def of(
        cls,
        path: str,
        settings: Sequence[tuple[str, str]],
        vary: Sequence[str],
        *,
        objective: str | None,
        out: Path | None,
        plot: Path | None,
        restart: bool,
    ) -> SweepSession:
        """Reads and checks everything; raises ScenarioError before anything is simulated."""
        check_writable("--out", out)
        check_writable("--plot", plot)
        file = None if out is None else SweepFile.of(out)
        taken = {real_path(Path(path)): f"the scenario {path}"}
        for option, target in (("--out", out), ("--plot", plot)):
            if target is not None and (owner := taken.setdefault(real_path(target), option)) != option:
                raise ScenarioError(Problem(f"{target} would replace {owner}", where=option))
        space = SweepSpace.of([Variation.parse(setting) for setting in vary])
        scenario = Scenario.load(path, settings)
        check_values(scenario, space)
        wanted = objective_of(scenario, objective)
        return cls(scenario, space, wanted, objective is not None, file, plot, restart)

    def run(self, *, jobs: int | None, dask: str | None, top: int, as_json: bool, quiet: bool) -> ExitCode:
        """Simulates, prints and writes; what is done is kept, whatever happens."""
        with ExitStack() as stack:
            journal = None
            if self.file is not None:
                journal = stack.enter_context(
                    open_journal(self.file, self.scenario, self.space, restart=self.restart)
                )
            run = SweepRun(self.scenario, self.space, self.objective, journal)
            if run.rows and not quiet:
                terminal.print_note(f"{len(run.rows)} of {self.space.num_points} points were done before")
            try:
                self._simulate(run, jobs, dask, quiet)
            except KeyboardInterrupt:
                self._say_what_is_kept(run, top)
                raise
            result = run.result()
            self._write(result, quiet)
            run.forget()
        if as_json:
            terminal.print_json(result.to_json().encode() + b"\n")
        elif not quiet:
            self._print(result, top)
        return ExitCode.DONE if result.ranked.is_feasible else ExitCode.FAILED

    def _simulate(self, run: SweepRun, jobs: int | None, dask: str | None, quiet: bool) -> None:
        if not run.num_left:
            return
        with chosen_executor(jobs, dask, run.num_left) as executor:
            total = self.space.num_points
            with progress_bar(self.scenario.name, total, len(run.rows), wanted=not quiet) as watch:
                run.run(executor, watch)

    def _write(self, result: SweepResult, quiet: bool) -> None:
        if self.file is not None:
            self.file.write(result)
            if not quiet:
                terminal.print_note(f"written: {self.file.path}")
        if self.plot is not None:
            write_text(self.plot, result.to_html())

    def _print(self, result: SweepResult, top: int) -> None:
        text = sweep_text(result.ranked, top=top, ordered=self.is_ordered, colour=terminal.has_colour())
        terminal.print_result(text, drawn=True)

    def _say_what_is_kept(self, run: SweepRun, top: int) -> None:
        done = f"{len(run.rows)} of {self.space.num_points} points are done"
        if self.file is not None and run.rows:
            terminal.print_note(f"{done} and kept in {self.file.journal}; the same command continues there")
            return
        if run.rows:
            self._print(run.result(), top)
        hint = "" if self.file is not None else "; with --out FILE the same command would go on there"
        terminal.print_note(f"{done}{hint}")
