"""``simcluster compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster compare plan.yaml other.yaml",
    "simcluster compare plan.yaml other.yaml --html comparison.html",
    "simcluster compare results/run.simrun plan.yaml      a saved run, and a scenario",
    "simcluster compare plan.yaml other.yaml --set cluster.hosts=64 --json",
)


def compare(
    results: Annotated[
        list[str], typer.Argument(metavar="SCENARIO|RUN", help="Scenario files, or runs that were saved.")
    ],
    settings: Settings = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it, as a page for a browser.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> ExitCode:
    """Compare plans: what each gains or costs in time and memory.

    Exit code 1 if one of them does not fit into memory.
    """
    from simcluster.cli.commands.compare.compared_runs import side_by_side
    from simcluster.cli.output.result_files import check_writable, write_text
    from simcluster.cli.output.terminal import has_colour, print_json, print_result
    from simcluster.report import comparison_page, comparison_text, verdict_text

    check_writable("--html", html)
    comparison = side_by_side(results, changes(settings))
    if json:
        import orjson

        print_json(orjson.dumps(comparison.document(), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        print_result(comparison_text(comparison, colour=has_colour()), drawn=True)
    if html is not None:
        write_text(html, comparison_page(comparison))
    over = any(verdict_text(side.summary) == "does not fit" for side in comparison.sides)
    return ExitCode.FAILED if over else ExitCode.DONE
