"""``simcluster launch``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import OneScenario, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster launch plan.yaml                                   as job.launch says",
    "simcluster launch plan.yaml --method msrun",
    "simcluster launch plan.yaml --method rank_table --out hccl.json",
    "simcluster launch plan.yaml --method ms_operator --out job.yaml",
    "simcluster launch plan.yaml --method dynamic --set job.launch.started=7    too few: the time-out",
)


class MethodName(StrEnum):
    """Methods to start a job."""

    DYNAMIC = "dynamic"
    MSRUN = "msrun"
    MPIRUN = "mpirun"
    RANK_TABLE = "rank_table"
    MS_OPERATOR = "ms_operator"
    TORCHRUN = "torchrun"


def launch(
    scenario: OneScenario,
    method: Annotated[
        MethodName | None,
        typer.Option(help="How it is launched; by default as job.launch says.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the launcher's file: rank table, hostfile or MSJob."),
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="Write commands and start-up there; - prints them instead."),
    ] = None,
    settings: Settings = None,
) -> ExitCode:
    """Show how a job is launched, and how long it takes to start.

    The file that --out writes can be the cluster of a scenario: cluster: {use: ..., rank_table: hccl.json}.
    Exit code 1 if the job does not start, such as after the time-out of its topology.
    """
    import orjson

    from simcluster.cli.commands.launch.launched_scenario import launched_scenario
    from simcluster.cli.output.result_files import check_writable, write_bytes, write_text
    from simcluster.cli.output.terminal import has_colour, print_json, print_result
    from simcluster.report import launch_text
    from simcluster.simulation import build_scenario, launch_document, launcher_file

    target = None if json in (None, "-") else Path(str(json))
    check_writable("--out", out)
    check_writable("--json", target)
    loaded = launched_scenario(scenario, changes(settings), method)
    built = build_scenario(loaded, search=False)
    written = None if out is None else launcher_file(built)
    document = launch_document(built, None if out is None else str(out))
    content = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if out is not None and written is not None:
        write_text(out, written)
    if target is not None:
        write_bytes(target, content)
    if json == "-":
        print_json(content)
    else:
        print_result(launch_text(document, colour=has_colour()), drawn=True)
    return ExitCode.FAILED if document["start_up"]["failure"] else ExitCode.DONE
