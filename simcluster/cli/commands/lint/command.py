"""``simcluster lint``."""

from __future__ import annotations

from typing import Annotated

import typer

from simcluster.cli.arguments.options import Scenarios, Settings, Verbose, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster lint scenarios/*.yaml --jobs 2",
    "simcluster lint plan.yaml --set cluster.hosts=16 --set parallel.mesh.data=auto",
)


def lint(
    scenarios: Scenarios,
    settings: Settings = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes that check scenarios.")] = 1,
    verbose: Verbose = False,
) -> ExitCode:
    """Check scenarios and plan them without running them.

    Prints what follows from each (ranks, micro-batches, layers per stage), or everything that is wrong.
    Choices of 'auto' and 'search', which need simulations, are not made. A scenario that needs an
    optional package which is not installed is skipped with a note.
    """
    from simcluster.cli.commands.lint.lint_result import LintRequest, lint_scenario
    from simcluster.cli.output.terminal import has_colour, print_note, print_problems, print_result
    from simcluster.workers import parallel_map

    changed, worst = tuple(changes(settings)), ExitCode.DONE
    asked = [LintRequest(path, changed, has_colour(), verbose) for path in scenarios]
    for path, result in zip(scenarios, parallel_map(lint_scenario, asked, jobs), strict=True):
        if result is None:
            print_problems(f"{path}: the process that looked at it was killed, twice")
            worst = max(worst, ExitCode.FAILED)
            continue
        worst = max(worst, result.code)
        if result.is_skipped:
            print_note(f"{path}: skipped")
        if result.error is not None:
            print_problems(result.error)
        else:
            print_result(result.text, drawn=True)
    return worst
