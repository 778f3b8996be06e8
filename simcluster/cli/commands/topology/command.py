"""``simcluster topology``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import complete_names
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster topology dgx-h100 --hosts 64",
    "simcluster topology dgx-1v --path 0,5",
    "simcluster topology scenarios/quickstart.yaml --html topology.html",
)


def topology(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|SCENARIO",
            help="A host of the catalog, or a scenario file.",
            autocompletion=complete_names("hosts"),
            show_default=False,
        ),
    ],
    hosts: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="How many hosts; 1, or as many as the scenario has."),
    ] = None,
    path: Annotated[
        str | None, typer.Option(metavar="A,B", help="Also show the way from rank A to rank B.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it, as a page for a browser.")
    ] = None,
) -> ExitCode:
    """Show the links of a cluster, their rates and their sources.

    cluster.changes may use the names of links, with * for any number. The bisection bandwidth
    is what half of the devices can send to the other half at once.
    """
    from simcluster.cli.commands.topology.topology_tables import TopologyView, topology_text
    from simcluster.cli.output.result_files import check_writable, write_text
    from simcluster.cli.output.terminal import has_colour, print_result

    check_writable("--html", html)
    drawn = TopologyView.of(name, hosts, path)
    print_result(topology_text(drawn, colour=has_colour()), drawn=True)
    if html is not None:
        from simcluster.cli.commands.topology.topology_drawing import topology_page

        write_text(html, topology_page(drawn))
    return ExitCode.DONE
