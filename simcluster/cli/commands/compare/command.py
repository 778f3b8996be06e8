"""``simcluster compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import Settings, Verbose, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster compare plan.yaml other.yaml",
    "simcluster compare plan.yaml other.yaml --html comparison.html",
    "simcluster compare plan.yaml --vary training.micro_batch=2,4",
    "simcluster compare results/run.simrun plan.yaml      a saved run, and a scenario",
    "simcluster compare plan.yaml other.yaml --set cluster.hosts=64 --json",
)


def compare(
    results: Annotated[
        list[str], typer.Argument(metavar="SCENARIO|RUN", help="Scenario files, or runs that were saved.")
    ],
    settings: Settings = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE[,VALUE...]",
            help="Compare one scenario with itself changed, once for each value.",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it, as a page for a browser.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    verbose: Verbose = False,
) -> ExitCode:
    """Compare plans: what each gains or costs in time and memory.

    The difference of two steps is explained by cause: the operators, exposed collectives and waits that take
    more or less. Exit code 1 if one of the plans does not fit into memory.
    """
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.result_files import check_writable, write_text
    from simcluster.cli.output.terminal import has_colour, print_json, print_result
    from simcluster.comparison import compared_files, side_by_side
    from simcluster.report import comparison_page, comparison_text, verdict_text
    from simcluster.sweeps import Variation

    check_writable("--html", html)
    variations = [Variation.parse(setting) for setting in vary or ()]
    varied = [(variation.key, text) for variation in variations for text in variation.texts]
    compared = compared_files(results, tuple(changes(settings)), varied)
    comparison = side_by_side(compared, progress_line)
    if json:
        import orjson

        print_json(orjson.dumps(comparison.document(), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        print_result(comparison_text(comparison, colour=has_colour(), details=verbose), drawn=True)
    if html is not None:
        write_text(html, comparison_page(comparison))
    over = any(verdict_text(side.summary) == "does not fit" for side in comparison.sides)
    return ExitCode.FAILED if over else ExitCode.DONE
