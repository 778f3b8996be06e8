"""One call of ``simcluster search``: everything is checked before the first plan is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import orjson

from simcluster import units
from simcluster.cli.commands.run.scenario_yaml import scenario_text
from simcluster.cli.output import terminal
from simcluster.cli.output.exit_code import ExitCode
from simcluster.cli.output.item_progress import progress_bar
from simcluster.cli.output.result_files import check_writable, write_text
from simcluster.cli.output.scenario_target import Target
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem, ScenarioError, nearest
from simcluster.scenario import Scenario
from simcluster.search import (
    Objective,
    PlanSearch,
    PlanSpace,
    SearchResult,
    search_document,
    search_journal,
    search_text,
    verdict,
)
from simcluster.workers import chosen_executor


@dataclass(frozen=True)
class SearchSession:
    """A search that is ready to run, and where its results go."""

    path: str
    settings: Sequence[tuple[str, str]]
    search: PlanSearch
    json: Path | None
    target: Target | None
    keep: Path | None
    restart: bool

    @classmethod
    def of(
        cls,
        path: str,
        settings: Sequence[tuple[str, str]],
        *,
        over: str | None,
        objective: str,
        limit_memory: float | None,
        budget: str | None,
        json: Path | None,
        output: Path | None,
        force: bool,
        keep: Path | None,
        restart: bool,
    ) -> SearchSession:
        """Reads and checks everything; raises ScenarioError before anything is planned."""
        check_writable("--json", json)
        check_writable("--keep", keep)
        target = None if output is None else Target(output, force)
        if target is not None:
            target.check()
        if objective not in list(Objective):
            raise ScenarioError(
                f"--objective {objective}: there is no such objective",
                hint=nearest(objective, list(Objective)),
            )
        scenario = Scenario.load(path, settings)
        space = PlanSpace.of(scenario, over or "")
        search = PlanSearch(space, Objective(objective), limit_memory, seconds_of(budget))
        search.check()
        return cls(path, settings, search, json, target, keep, restart)

    def run(self, *, jobs: int | None, dask: str | None, top: int, quiet: bool) -> ExitCode:
        """Searches, prints and writes; plans that were simulated are kept, whatever happens."""
        search, space = self.search, self.search.space
        with ExitStack() as stack:
            journal = (
                None
                if self.keep is None
                else stack.enter_context(search_journal(search, self.keep, restart=self.restart))
            )
            executor = stack.enter_context(chosen_executor(jobs, dask, len(space.plans)))
            watch = stack.enter_context(progress_bar(space.scenario.name, len(space.plans), wanted=not quiet))
            search.watch = watch
            try:
                result = search.run(executor, journal)
            except KeyboardInterrupt:
                kept = f"; simulated plans are kept in {self.keep}" if self.keep is not None else ""
                terminal.print_note(f"interrupted{kept or '; with --keep FILE the same command would go on'}")
                raise
        self._write(result)
        if not quiet:
            terminal.print_result(search_text(result, top=top, colour=terminal.has_colour()), drawn=True)
        return ExitCode.DONE if result.best is not None else ExitCode.FAILED

    def _write(self, result: SearchResult) -> None:
        if self.json is not None:
            document = orjson.dumps(search_document(result), option=orjson.OPT_INDENT_2) + b"\n"
            write_text(self.json, document.decode())
        if self.target is None or result.best is None:
            return
        changes = [*self.settings, *result.space.changes_of(result.best.choice)]
        head = "".join(
            f"# {line}\n" for line in (f"Found by simcluster search {self.path}.", verdict(result))
        )
        self.target.write(head + scenario_text(Scenario.load(self.path, changes), changes))


def seconds_of(text: str | None) -> float | None:
    """The seconds of ``--budget``; ScenarioError for what is no time."""
    if text is None:
        return None
    try:
        seconds = units.parse(text, units.Dimension.TIME, "60 s")
    except ValueError as error:
        raise ScenarioError(Problem(str(error), where=f"--budget {text}")) from None
    if seconds <= 0:
        raise ScenarioError(f"--budget {text}: a time above zero is needed", hint="such as 60s")
    return seconds
