"""``simcluster run``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import (
    JsonFile,
    PageFile,
    Scenarios,
    Settings,
    TraceFile,
    TraceRanks,
    Verbose,
    changes,
)
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster run scenarios/quickstart.yaml",
    "simcluster run plan.yaml --set parallel.mesh.tensor=4 --set parallel.mesh.data=auto",
    "simcluster run plan.yaml --html report.html",
    "simcluster run plan.yaml --trace trace.json.gz      open it at ui.perfetto.dev",
    "simcluster run plan.yaml --trace trace.json.gz --ranks 0,17,4096-4103",
    "simcluster run plan.yaml --json - | jq .step_time_s",
    "simcluster run job.yaml --replications 200          a job over days, with bounds of its goodput",
    "simcluster run scenarios/*.yaml --out results/      a folder for each",
)


def run(
    context: typer.Context,
    scenarios: Scenarios,
    settings: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write result, summary, report, trace, run and scenario there."),
    ] = None,
    html: PageFile = None,
    whatif: Annotated[
        bool | None,
        typer.Option(
            "--whatif/--no-whatif",
            help="Also say in the report what faster and slower hardware would change; --html does by itself "
            "for runs of up to 3,000 events.",
        ),
    ] = None,
    trace: TraceFile = None,
    ranks: TraceRanks = None,
    json: JsonFile = None,
    replications: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Run a job N times with other random draws: means and bounds."),
    ] = 1,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            metavar="K",
            help="Processes that share scenarios, or the replications of one; one per processor, where there "
            "are replications or four scenarios.",
        ),
    ] = None,
    unfold: Annotated[
        bool, typer.Option("--unfold", help="Simulate every rank, not one of each class of equal ranks.")
    ] = False,
    verbose: Verbose = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary, no progress.")] = False,
) -> ExitCode:
    """Simulate scenarios and say where time, memory and traffic go.

    A scenario with a job is also run over days: what breaks, and which fraction of the time is
    progress. With tenants (other scenarios on the same cluster) the result also says how much slower each
    one is than alone.

    Exit code 1 if one does not fit into memory or breaks its own bounds; one that is tight says so first. The
    JSON of several scenarios is a list.
    """
    # NumPy would start threads for products of matrices, of which a run has none.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from simcluster.cli.commands.run.session import Replications, Session
    from simcluster.cli.output.result_files import Outputs
    from simcluster.cli.output.terminal import has_colour

    origin = None
    if html is not None:
        from simcluster.cli.output.page_files import page_origin

        origin = page_origin(context.obj)
    outputs = Outputs(scenarios, out, trace, json, ranks, html, origin, whatif)
    outputs.check()
    runs = Replications(replications, jobs)
    session = Session(outputs, tuple(changes(settings)), unfold, quiet, runs, has_colour(), verbose)
    return session.run()
