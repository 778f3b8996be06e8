"""``simcluster advise``."""

from __future__ import annotations

from typing import Annotated

import typer

from simcluster.cli.arguments.options import Dask, Jobs, OneScenario, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster advise plan.yaml",
    "simcluster advise plan.yaml --set training.micro_batch=4 --jobs 8",
    "simcluster advise plan.yaml --json | jq -r '.set[]'",
)


def advise(
    scenario: OneScenario,
    settings: Settings = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    rounds: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Rounds of tips: first for the plan, then for the improved plan, and so on.",
        ),
    ] = 2,
    jobs: Jobs = None,
    dask: Dask = None,
) -> ExitCode:
    """Say what to change in a plan; each change is tried.

    Looks for large pipeline bubbles, exposed communication, free or lacking memory, and groups across hosts.
    Every tip is simulated and shown with its gain in time and memory, the reason, and who recommends it. Then
    tips that gain are combined as long as each helps, and the improved plan is examined in the same way. Exit
    code 1 if the plan does not fit and no tip makes it fit.
    """
    from simcluster.advice import advice_document, advice_text, advise_scenario
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.terminal import has_colour, print_json, print_result
    from simcluster.scenario import Scenario
    from simcluster.workers import chosen_executor

    which = Scenario.load(scenario, changes(settings))
    with (
        progress_line(which.name, doing="trying changes"),
        chosen_executor(jobs, dask) as executor,
    ):
        advice = advise_scenario(which, executor, rounds=rounds)
    if json:
        import orjson

        print_json(orjson.dumps(advice_document(advice), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        print_result(advice_text(advice, colour=has_colour()), drawn=True)
    return ExitCode.FAILED if advice.hopeless else ExitCode.DONE
