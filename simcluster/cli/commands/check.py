"""``simcluster check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster check scenarios/ --baseline baseline.json --update      make or renew it",
    "simcluster check scenarios/ --baseline baseline.json",
    "simcluster check --baseline baseline.json --tolerance step_time=1%,peak_memory=512MiB",
)


def check(
    baseline: Annotated[Path, typer.Option(metavar="FILE", help="The saved figures.")],
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            help="Scenario files, and folders to search; by default what the baseline holds.",
        ),
    ] = None,
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIGURE=AMOUNT,...",
            help="How far a figure may move: step_time=1%, peak_memory=512MiB, or 1% for all. Default 0.1%.",
        ),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Write the baseline anew.")] = False,
    allow_new: Annotated[
        bool, typer.Option("--allow-new", help="Pass scenarios that the baseline does not have.")
    ] = False,
) -> ExitCode:
    """Run scenarios and compare them with a baseline; for CI.

    Exit code 1 if a scenario became slower, needs more memory, no longer fits, breaks its own bounds, is
    missing, or is not in the baseline. Other figures are shown when they move, and judged if they are given a
    tolerance. Bounds stand in a scenario, with units or in SI units: expect: {step_time: {max: 8.5 s}, mfu:
    {min: 45 %}}.
    """
    from simcluster.baseline import check
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.result_files import check_writable
    from simcluster.cli.output.terminal import has_colour, print_problems, print_result
    from simcluster.scenario import Scenario
    from simcluster.simulation import simulate
    from simcluster.trace import Run

    def run(scenario: Scenario) -> Run:
        with progress_line(scenario.name) as progress:
            return simulate(scenario, progress=progress)

    check_writable("--baseline", baseline if update else None)
    report = check(paths or (), baseline, tolerance or (), update=update, allow_new=allow_new, run=run)
    for outcome in report.wrong:
        assert outcome.error is not None
        print_problems(outcome.error)
    print_result(report.text(colour=has_colour(), errors=False), drawn=True)
    if report.wrong:
        return ExitCode.WRONG_INPUT
    return ExitCode.DONE if report.passed else ExitCode.FAILED
