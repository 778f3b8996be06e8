"""``simcluster report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import JsonFile, PageFile, TraceFile, TraceRanks
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster report results/",
    "simcluster report results/run.simrun --html report.html",
    "simcluster report results/ --trace trace.json.gz --ranks 0,17",
    "simcluster report results/ --json - | jq .step_time_s",
)


def report(
    context: typer.Context,
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A saved run, or the folder of run --out that has one.", show_default=False
        ),
    ],
    html: PageFile = None,
    trace: TraceFile = None,
    ranks: TraceRanks = None,
    json: JsonFile = None,
) -> ExitCode:
    """Print or write reports of a saved run.

    Prints the summary and writes the files that are asked for, without simulating again. Runs are saved by
    run --out, and by Result.save in Python.
    """
    from simcluster.cli.output import terminal
    from simcluster.cli.output.page_files import page_origin
    from simcluster.cli.output.result_files import RUN, Outputs, write_bytes
    from simcluster.report import result_json, summary_text
    from simcluster.trace import Run

    outputs = Outputs([], None, trace, json, ranks, html, page_origin(context.obj))
    outputs.check()
    saved = Run.load(run / RUN if run.is_dir() else run)
    written = outputs.write_named(saved)
    if outputs.json_to_screen:
        terminal.print_json(result_json(saved))
    else:
        terminal.print_result(summary_text(saved, colour=terminal.has_colour()), drawn=True)
        if outputs.json_file is not None:
            write_bytes(outputs.json_file, result_json(saved))
            written.append(outputs.json_file)
    for path in written:
        terminal.print_note(f"written: {path}")
    return ExitCode.DONE
