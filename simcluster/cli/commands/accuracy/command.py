"""``simcluster accuracy``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simcluster.cli.arguments.options import complete_names
from simcluster.cli.output.exit_code import ExitCode

if TYPE_CHECKING:
    from simcluster.errors import Problem, ScenarioError

EXAMPLES = (
    "simcluster accuracy collectives.csv --worst 10",
    "simcluster accuracy collectives.csv --hardware '*H100*' --op all_reduce",
    "simcluster accuracy collectives.csv --by hosts",
    "simcluster accuracy training.csv --id 'megatron-*' --jobs 2",
    "simcluster accuracy training.csv --by plan",
    "simcluster accuracy training.csv --html picture.html",
    "simcluster accuracy kernels.csv --by device --worst 10",
    "simcluster accuracy training.csv --scenario megatron-sel-0001 > plan.yaml",
    "simcluster accuracy ours.csv --cluster dgx-h200 --csv > predicted.csv",
)


def accuracy(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE.csv", help="Measured collectives, kernels, or runs.", show_default=False
        ),
    ],
    hardware: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only rows whose hardware matches, as '*A100*'.")
    ] = None,
    op: Annotated[str | None, typer.Option(metavar="NAME", help="Only rows of this operation.")] = None,
    id_: Annotated[
        str | None, typer.Option("--id", metavar="PATTERN", help="Only rows whose id matches.")
    ] = None,
    every: Annotated[
        int, typer.Option(metavar="N", min=1, help="Use only every N-th of these rows, for a quick look.")
    ] = 1,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Predict all rows on this host of the catalog, not on the one that they name.",
            autocompletion=complete_names("hosts"),
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Predict all kernels on this device of the catalog, not on the one that they name.",
            autocompletion=complete_names("devices"),
        ),
    ] = None,
    worst: Annotated[
        int, typer.Option(metavar="N", min=0, help="Show the N rows with the largest errors.")
    ] = 0,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Group errors: of runs by source, framework, hardware, model, plan or size; of kernels by "
            "size, kernel, device, dtype, op or source; of collectives by hardware, source, operation, hosts "
            "or algorithm.",
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Only print the scenario of this run, with its assumptions."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes that simulate runs.")] = 1,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write a page that plots predicted against measured runs."),
    ] = None,
    bands: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the table of error bands that results refer to."),
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print every row with its prediction, comma-separated.")
    ] = False,
) -> ExitCode:
    """Compare measurements with predictions.

    Files of three kinds are read. Collectives have the columns id,source,op,hardware,num_devices,num_hosts,
    message_bytes,time_us,algbw_gb_s,busbw_gb_s,notes; sizes and rates are those of nccl-tests, a row needs
    a time or a rate, and a rate without a size is compared at 1 GiB. Kernels have the columns kernel and
    time_us and are predicted from the file of their device. Training runs have the column metric; if others
    are missing, the error message names them. The output lists why rows could not be predicted, and what was
    assumed because rows do not state it. Rows that cannot be read are refused at the end, with exit code 2;
    the others are predicted all the same.
    """
    from simcluster.accuracy import (
        accuracy_csv,
        accuracy_text,
        band_table,
        column_titles,
        kernels_csv,
        kernels_text,
        predict,
        predict_kernels,
        predict_runs,
        read_kernels,
        read_rows,
        read_runs,
        run_scenario_yaml,
        runs_csv,
        runs_html,
        runs_text,
    )
    from simcluster.cli.commands.accuracy.row_filter import (
        collective_grouping,
        kernel_grouping,
        refuse_options_of_runs,
        run_grouping,
        select_rows,
    )
    from simcluster.cli.output.item_progress import counted_progress
    from simcluster.cli.output.result_files import check_writable, write_text
    from simcluster.cli.output.terminal import has_colour, print_result

    titles = column_titles(file)
    if not {"op", "kernel", "metric"} & set(titles):
        raise _of_no_kind(file)
    refused: list[Problem] = []
    if {"kernel", "time_us"} <= set(titles):
        refuse_options_of_runs(
            "kernels", scenario=scenario is not None, html=html is not None, bands=bands is not None
        )
        kernel_by = kernel_grouping(by)
        kernels = predict_kernels(
            select_rows(read_kernels(file, refused), hardware, op, id_, refused)[::every], device
        )
        print_result(
            kernels_csv(kernels) if csv else kernels_text(kernels, worst, kernel_by, colour=has_colour()),
            drawn=not csv,
        )
        return _done(refused)
    check_writable("--html", html)
    check_writable("--bands", bands)
    if "metric" in titles:
        if scenario is not None:
            measured = read_runs(file, refused)
            (run,) = select_rows(measured, None, None, scenario, refused, option="--scenario")[:1]
            print_result(run_scenario_yaml(run, cluster), drawn=False)
            return ExitCode.DONE
        grouping = run_grouping(by)
        runs = select_rows(read_runs(file, refused), hardware, op, id_, refused)[::every]
        with counted_progress(Path(file).name) as watch:
            predictions = predict_runs(runs, cluster, jobs=jobs, watch=watch)
        for path, made in ((html, runs_html), (bands, band_table)):
            if path is not None:
                write_text(path, made(predictions))
        print_result(
            runs_csv(predictions) if csv else runs_text(predictions, worst, grouping, colour=has_colour()),
            drawn=not csv,
        )
        return _done(refused)
    refuse_options_of_runs(
        "collectives",
        scenario=scenario is not None,
        html=html is not None,
        bands=bands is not None,
    )
    collective_by = collective_grouping(by)
    rows = predict(select_rows(read_rows(file, refused), hardware, op, id_, refused)[::every], cluster)
    print_result(
        accuracy_csv(rows) if csv else accuracy_text(rows, worst, collective_by, colour=has_colour()),
        drawn=not csv,
    )
    return _done(refused)


def _of_no_kind(file: str) -> ScenarioError:
    """What is wrong with a file whose columns are none that is known."""
    from simcluster.errors import Problem, ScenarioError

    hint = (
        "the first line has the titles of columns: collectives have one that is called op, kernels have "
        "kernel and time_us, training runs have metric"
    )
    message = "these are neither measured collectives, nor kernels, nor training runs"
    return ScenarioError(Problem(message, hint=hint, where=f"{file}:1"))


def _done(refused: Sequence[Problem]) -> ExitCode:
    """Everything was done, but for rows that were refused: ScenarioError says which."""
    from simcluster.errors import ScenarioError

    if refused:
        raise ScenarioError(*refused)
    return ExitCode.DONE
