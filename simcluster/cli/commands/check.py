"""``simcluster check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import Jobs, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster check scenarios/ --against origin/main      beside the files of a commit",
    "simcluster check scenarios/ --baseline baseline.json --update      make or renew it",
    "simcluster check scenarios/ --baseline baseline.json",
    "simcluster check --baseline baseline.json --tolerance step_time=1%,peak_memory=512MiB",
    "simcluster check scenarios/ --against main --report github --report junit=check.xml",
)


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            help="Scenario files, and folders to search; by default what the baseline holds.",
        ),
    ] = None,
    baseline: Annotated[Path | None, typer.Option(metavar="FILE", help="The saved figures.")] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="GITREF",
            help="In place of a baseline: run the files of this commit, branch or tag, too. Nothing is "
            "checked out.",
        ),
    ] = None,
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIGURE=AMOUNT,...",
            help="How far a figure may move: step_time=1%, peak_memory=512MiB, or 1% for all. Default 0.1%.",
        ),
    ] = None,
    settings: Settings = None,
    jobs: Jobs = None,
    report: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT[=FILE]",
            help="md, junit, github or json: into a file, or in place of the text. May be repeated.",
        ),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Write the baseline anew.")] = False,
    allow_new: Annotated[
        bool, typer.Option("--allow-new", help="Pass scenarios that the baseline does not have.")
    ] = False,
) -> ExitCode:
    """Compare scenarios with a baseline or with a commit; for CI.

    Exit code 1 if a scenario became slower, needs more memory, no longer fits, breaks its own bounds, is
    missing, or is not in the baseline. Every change is shown with its cause: parts of the step, operators,
    collectives, kinds of tensors. Changes of other figures are only shown, unless --tolerance names them.
    A scenario sets its own bounds with expect: {step_time: {max: 8.5 s}, mfu: {min: 45 %}}; one that must run
    out of memory has expect: {memory: {verdict: does not fit}}.
    """
    from simcluster.baseline import check
    from simcluster.cli.output.check_reports import ReportTargets
    from simcluster.cli.output.item_progress import counted_progress
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.result_files import check_writable
    from simcluster.cli.output.terminal import print_problems
    from simcluster.errors import Problem, ScenarioError
    from simcluster.scenario import Scenario
    from simcluster.simulation import simulate
    from simcluster.trace import Run
    from simcluster.workers import usable_cpus

    if (baseline is None) == (against is None):
        hint = "--baseline baseline.json for saved figures, --against main for those of a commit"
        raise ScenarioError(Problem("give either --baseline or --against", hint=hint))
    if against is not None and (update or allow_new):
        option = "--update" if update else "--allow-new"
        raise ScenarioError(Problem("this is for a baseline, not for --against", where=option))
    check_writable("--baseline", baseline if update else None)
    targets = ReportTargets.of(report or ())

    def run(scenario: Scenario) -> Run:
        with progress_line(scenario.name) as progress:
            return simulate(scenario, progress=progress)

    with counted_progress("check") as watch:
        outcome = check(
            paths or (),
            baseline,
            tolerance or (),
            against=against,
            update=update,
            allow_new=allow_new,
            changes=changes(settings),
            jobs=jobs or usable_cpus(),
            run=run,
            watch=watch,
        )
    for wrong in outcome.wrong:
        assert wrong.error is not None
        print_problems(wrong.error)
    targets.write(outcome)
    if outcome.wrong:
        return ExitCode.WRONG_INPUT
    return ExitCode.DONE if outcome.passed else ExitCode.FAILED
