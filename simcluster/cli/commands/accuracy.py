"""``simcluster accuracy``."""

from __future__ import annotations

from typing import Annotated

import typer

from simcluster.cli.exit_code import ExitCode
from simcluster.cli.options import completed

EXAMPLES = (
    "simcluster accuracy collectives.csv --worst 10",
    "simcluster accuracy collectives.csv --hardware '*H100*' --op all_reduce",
    "simcluster accuracy ours.csv --cluster dgx-h200 --csv > predicted.csv",
    "simcluster accuracy runs.csv --worst 10    runs with a column peak_mem_gib: their memory",
)


def accuracy(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE.csv", help="Measured collectives, or training runs.", show_default=False
        ),
    ],
    hardware: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only rows whose hardware matches, as '*A100*'.")
    ] = None,
    op: Annotated[str | None, typer.Option(metavar="NAME", help="Only rows of this operation.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Predict all rows on this host of the catalog, not on the one their words name.",
            autocompletion=completed("hosts"),
        ),
    ] = None,
    worst: Annotated[
        int, typer.Option(metavar="N", min=0, help="Show the N rows that are farthest off.")
    ] = 0,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print every row with its prediction, comma-separated.")
    ] = False,
) -> ExitCode:
    """Compare published collectives, or the memory of training runs, with their prediction.

    FILE.csv begins with the titles id,source,op,hardware,num_devices,num_hosts,message_bytes,time_us,
    algbw_gb_s,busbw_gb_s,notes; sizes and rates count as in nccl-tests. A row needs a time or a rate;
    a rate without a size is compared at 1 GiB. Rows that cannot be predicted are counted by reason.

    A file with the column peak_mem_gib has training runs: models, clusters and plans by columns. Each is
    simulated, and what its tensors take compared with the peak, by group of rows.
    """
    from simcluster.accuracy import (
        accuracy_csv,
        accuracy_text,
        holds_runs,
        memory_csv,
        memory_text,
        predict,
        predict_memory,
        read_rows,
        read_runs,
    )
    from simcluster.cli.measured import chosen, chosen_runs
    from simcluster.cli.terminal import has_colour, out

    if holds_runs(file):
        if op is not None or cluster is not None:
            raise typer.BadParameter("--op and --cluster are for collectives; the file has training runs")
        runs = predict_memory(chosen_runs(read_runs(file), hardware))
        out(memory_csv(runs) if csv else memory_text(runs, worst, colour=has_colour()))
        return ExitCode.DONE
    found = predict(chosen(read_rows(file), hardware, op), cluster)
    out(accuracy_csv(found) if csv else accuracy_text(found, worst, colour=has_colour()))
    return ExitCode.DONE
