"""``simcluster explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from simcluster.cli.arguments.options import OneScenario, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster explain plan.yaml",
    "simcluster explain plan.yaml --set training.micro_batch=4",
    "simcluster explain plan.yaml --json | jq '.critical_path.kinds[0]'",
)


def explain(
    scenario: OneScenario,
    settings: Settings = None,
    thorough: Annotated[
        bool, typer.Option("--all", help="Try all changes, however long it takes, not only some.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> ExitCode:
    """Say where time and memory go, and what would help most.

    Shows time by operator and kernel, the collectives that are exposed, the critical path with its slack, and
    what limits the step. If the plan fits, it tries changes that could make it faster; if not, changes that
    make it fit: of each kind the smallest, several together if none alone is enough. Each change is
    simulated. A plan fits if a device has room for all that is reserved and for the headroom (run.headroom,
    by default the framework profile's). Exit code 1 if the plan does not fit and no change that was tried
    does.
    """
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.terminal import has_colour, print_json, print_result
    from simcluster.explanation import explain_scenario, explanation_document, explanation_text
    from simcluster.scenario import Scenario

    which = Scenario.load(scenario, changes(settings))
    with progress_line(which.name) as progress:
        explanation = explain_scenario(
            which, lambda doing: setattr(progress, "doing", doing), thorough=thorough
        )
        document = explanation_document(explanation) if json else {}
        text = "" if json else explanation_text(explanation, colour=has_colour())
    if json:
        import orjson

        print_json(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    else:
        print_result(text, drawn=True)
    return ExitCode.FAILED if explanation.hopeless else ExitCode.DONE
