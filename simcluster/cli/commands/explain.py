"""``simcluster explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from simcluster.cli.arguments.options import OneScenario, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster explain plan.yaml",
    "simcluster explain plan.yaml --set training.micro_batch=4",
    "simcluster explain plan.yaml --json | jq '.changes[0].set'",
)


def explain(
    scenario: OneScenario,
    settings: Settings = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> ExitCode:
    """Say what memory is made of, and what would make a plan fit.

    Recomputation, optimizer sharding, smaller micro-batches and other meshes: of each the nearest that fits,
    simulated, with its cost in time; several together if none alone is enough. A plan fits if a device has
    room for all that is reserved and for the headroom (run.headroom, by default the framework profile's);
    what is tight is no remedy. Exit code 1 if the plan does not fit and nothing would.
    """
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.terminal import has_colour, print_json, print_result
    from simcluster.explain import explain_scenario, explanation_document, explanation_text
    from simcluster.scenario import Scenario

    which = Scenario.load(scenario, changes(settings))
    with progress_line(which.name, doing="trying changes"):
        explanation = explain_scenario(which)
    if json:
        import orjson

        print_json(orjson.dumps(explanation_document(explanation), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        print_result(explanation_text(explanation, colour=has_colour()), drawn=True)
    return ExitCode.FAILED if explanation.hopeless else ExitCode.DONE
