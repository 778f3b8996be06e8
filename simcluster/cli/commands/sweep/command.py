"""``simcluster sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import Dask, Jobs, OneScenario, Quiet, Restart, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster sweep scenarios/quickstart.yaml --set parallel.mesh.data=auto \\",
    "    --vary parallel.mesh.tensor=1,2,4,8 --vary parallel.mesh.pipeline=2,4,8",
    "simcluster sweep plan.yaml --vary training.micro_batch=1,2,4 --out sweep.csv --plot sweep.html",
    "simcluster sweep plan.yaml --vary 'parallel.mesh={data: 8},{data: 4, tensor: 2}' --objective mfu",
    "simcluster sweep plan.yaml --vary cluster.hosts=8,16,32 --out sweep.csv --dask tcp://10.0.0.1:8786",
)


def sweep(
    scenario: OneScenario,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="KEY=V1,V2",
            help="Values for a key of the scenario, in YAML. May be repeated, for all combinations.",
        ),
    ] = None,
    settings: Settings = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Sort the table by step_time, tokens_per_s, tokens_per_s_per_device, mfu or memory; of an "
            "inference latency, ttft or tpot, too. By default the time of a step, and no sorting.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="The most rows that the table may have.")] = 50,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all rows there: .csv or .parquet. Makes it resumable."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it, as a page for a browser.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
    jobs: Jobs = None,
    dask: Dask = None,
    restart: Restart = False,
    quiet: Quiet = False,
) -> ExitCode:
    """Simulate all combinations of some values; show the best.

    A plan that is impossible, or does not fit, is a row with its reason. With --out, the same command
    continues an interrupted sweep: rows are kept in FILE.journal until FILE is written. Rows are the same
    bytes, in the same order, wherever they are simulated.

    Exit code 1 if no point fits into memory.
    """
    from simcluster.cli.commands.sweep.session import SweepSession

    session = SweepSession.of(
        scenario,
        changes(settings),
        vary or (),
        objective=objective,
        out=out,
        plot=plot,
        restart=restart,
    )
    return session.run(jobs=jobs, dask=dask, top=top, as_json=json, quiet=quiet)
