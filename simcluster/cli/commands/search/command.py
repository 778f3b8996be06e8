"""``simcluster search``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import Dask, Jobs, OneScenario, Quiet, Restart, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster search scenarios/quickstart.yaml",
    "simcluster search plan.yaml --over mesh,micro_batch=1,2,4,recompute --top 5",
    "simcluster search plan.yaml --over mesh,axis_order,schedule --limit-memory 0.92 -o best.yaml",
    "simcluster search plan.yaml --over mesh,micro_batch --budget 60s --keep search.journal",
    "simcluster search plan.yaml --set 'cluster.price=2.50 USD per device-hour' --objective cost",
)


def search(
    scenario: OneScenario,
    over: Annotated[
        str | None,
        typer.Option(
            "--over",
            metavar="KEYS",
            help="What to choose: mesh, micro_batch, schedule, chunks, stages, batch_shares, "
            "optimizer_sharding, recompute, offload, context, expert, axis_order; of some the values: "
            "micro_batch=1,2,4. By default mesh, micro_batch, chunks, optimizer_sharding and recompute.",
        ),
    ] = None,
    settings: Settings = None,
    objective: Annotated[
        str, typer.Option(metavar="NAME", help="What to minimise: step_time, cost or memory.")
    ] = "step_time",
    limit_memory: Annotated[
        float | None,
        typer.Option(
            "--limit-memory",
            metavar="SHARE",
            min=0.01,
            max=1.0,
            help="How much of a device's memory a plan may need, such as 0.92; by default what fits, with "
            "the headroom.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Plans to show.")] = 10,
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start no plan after this time, such as 60s; says how sure it is."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the result there, as JSON.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the best plan there, as a scenario."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE of -o if it exists.")] = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep simulated plans there; after an interruption the same command continues.",
        ),
    ] = None,
    restart: Restart = False,
    jobs: Jobs = None,
    dask: Dask = None,
    quiet: Quiet = False,
) -> ExitCode:
    """Find the best plan for a model and cluster, with proof.

    Every plan gets a lower bound on its time and memory, from the costs of its layers. Plans are simulated in
    the order of these bounds until no other plan can be better. So the result is the same as if all plans had
    been simulated. The table says why other plans are slower. Exit code 1 if no plan fits; then the plan that
    came closest is shown.
    """
    from simcluster.cli.commands.search.session import SearchSession

    session = SearchSession.of(
        scenario,
        changes(settings),
        over=over,
        objective=objective,
        limit_memory=limit_memory,
        budget=budget,
        json=json,
        output=output,
        force=force,
        keep=keep,
        restart=restart,
    )
    return session.run(jobs=jobs, dask=dask, top=top, quiet=quiet)
