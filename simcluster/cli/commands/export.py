"""``simcluster export``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster export plan.yaml --to csv -o tables/",
    "simcluster export results/run.simrun --to parquet -o tables/",
    "simcluster export plan.yaml --to chakra -o traces/ --ranks 0-63      one trace per rank",
)


class ExportKind(StrEnum):
    """What a run can be written as."""

    CSV = "csv"
    PARQUET = "parquet"
    CHAKRA = "chakra"


def export(
    result: Annotated[str, typer.Argument(metavar="SCENARIO|RUN", help="A scenario file, or a saved run.")],
    to: Annotated[ExportKind, typer.Option("--to", help="Tables, or Chakra execution traces.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The folder of the files.")],
    ranks: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Only these ranks, such as 0,17,4096-4103. If not given, tables have one of each class of "
            "equal ranks, and there is a trace for every rank.",
        ),
    ] = None,
    settings: Settings = None,
) -> ExitCode:
    """Write a run as CSV, Parquet or Chakra execution traces.

    Tables are those of a Result in Python: spans, transfers, memory and waits, times in seconds. Traces need
    the extra chakra, Parquet the extra notebook. For Perfetto: simcluster run --trace.
    """
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.result_files import check_folder
    from simcluster.cli.output.terminal import print_note
    from simcluster.errors import Problem, ScenarioError
    from simcluster.listings import rank_list
    from simcluster.report import write_chakra, write_tables
    from simcluster.scenario import Scenario
    from simcluster.simulation import simulate
    from simcluster.trace import Run

    check_folder("--out", out)
    if Path(result).suffix == ".simrun":
        if settings:
            raise ScenarioError(Problem("a saved run cannot be changed", where=f"--set {settings[0]}"))
        run = Run.load(result)
    else:
        scenario = Scenario.load(result, changes(settings))
        with progress_line(scenario.name) as progress:
            run = simulate(scenario, progress=progress)
    try:
        chosen = None if ranks is None else rank_list(ranks, len(run.ranks)).tolist()
    except ValueError as error:
        raise ScenarioError(Problem(str(error), where=f"--ranks {ranks}")) from None
    if to is ExportKind.CHAKRA:
        files = write_chakra(run, out, chosen)
        print_note(f"written: {len(files.paths)} traces in {out}")
        if files.untyped:
            print_note(f"{files.untyped} collectives have no comm_type: Chakra has no type for what they do")
    else:
        for path in write_tables(run, out, to, chosen):
            print_note(f"written: {path}")
    return ExitCode.DONE
