"""``simcluster whatif``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import OneScenario, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster whatif plan.yaml",
    "simcluster whatif plan.yaml --by 50 --html whatif.html",
    "simcluster whatif plan.yaml --json | jq '.factors[0].label'",
)


def whatif(
    scenario: OneScenario,
    settings: Settings = None,
    by: Annotated[
        float, typer.Option(metavar="PERCENT", min=0.1, max=900, help="How much better, and worse.")
    ] = 10.0,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it, as a page for a browser.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> ExitCode:
    """Say what a faster or slower part of the cluster changes.

    Compute rate, memory bandwidth, each level of links, latency, launch overhead: one figure at a time is
    made better, then worse, and the same plan is simulated again. The longest bars show what the step is
    most sensitive to.
    """
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.result_files import check_writable, write_text
    from simcluster.cli.output.terminal import has_colour, print_json, print_result
    from simcluster.scenario import Scenario
    from simcluster.simulation import build_scenario
    from simcluster.what_if import what_if, what_if_document, what_if_page, what_if_text

    check_writable("--html", html)
    which = Scenario.load(scenario, changes(settings))
    with progress_line(which.name) as progress:
        built = build_scenario(which)
        answer = what_if(built, by / 100, lambda figure: setattr(progress, "doing", f"trying {figure}"))
    if json:
        import orjson

        print_json(orjson.dumps(what_if_document(answer), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        print_result(what_if_text(answer, colour=has_colour()), drawn=True)
    if html is not None:
        write_text(html, what_if_page(answer))
    return ExitCode.DONE
