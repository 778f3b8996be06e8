"""``simcluster advise``."""

from __future__ import annotations

from typing import Annotated

import typer

from simcluster.cli.arguments.options import OneScenario, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster advise plan.yaml",
    "simcluster advise plan.yaml --set training.micro_batch=4 --jobs 8",
    "simcluster advise plan.yaml --json | jq -r '.together.set[]'",
)


def advise(
    scenario: OneScenario,
    settings: Settings = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Processes that simulate; by default one for each processor."),
    ] = None,
) -> ExitCode:
    """Say what to change of a plan: tips of the field that its run gives a reason for, each tried.

    A large pipeline bubble, exposed communication, memory that is free or lacking, groups across hosts: every
    tip is simulated and shown with what it gains in time and memory, why, and who advises it; then those
    that gain, put together as long as each helps. Exit code 1 if the plan does not fit and no tip makes it
    fit.
    """
    from simcluster.advise import advice_document, advice_text, advise_scenario
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.terminal import has_colour, print_json, print_result
    from simcluster.scenario import Scenario
    from simcluster.workers import local_executor, usable_cpus

    which = Scenario.load(scenario, changes(settings))
    workers = jobs or usable_cpus()
    with (
        progress_line(which.name, doing="trying changes"),
        local_executor(workers, workers) as executor,
    ):
        advice = advise_scenario(which, executor)
    if json:
        import orjson

        print_json(orjson.dumps(advice_document(advice), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        print_result(advice_text(advice, colour=has_colour()), drawn=True)
    return ExitCode.FAILED if advice.hopeless else ExitCode.DONE
