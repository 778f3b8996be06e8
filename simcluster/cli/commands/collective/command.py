"""``simcluster collective``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import complete_names
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster collective all_reduce --cluster dgx-h100 --hosts 16",
    "simcluster collective all_gather --cluster atlas-800t-a2 --sizes 64KiB,64MiB",
    "simcluster collective all_reduce --cluster dgx-a100 --hosts 4 --algorithm tree --csv",
    "simcluster collective all_to_all_v --cluster dgx-h100 --hosts 2 --parts zipf:1.2 --seed 1",
    "simcluster collective send_receive --cluster dgx-h100 --hosts 2 --ranks 0,8",
)


def collective(
    operation: Annotated[
        str,
        typer.Argument(
            metavar="OPERATION",
            help="all_reduce, all_gather, reduce_scatter, all_to_all, all_to_all_v, broadcast, reduce, "
            "gather, scatter, send_receive, neighbor_exchange, shift, rotate or barrier.",
            show_default=False,
        ),
    ],
    cluster: Annotated[
        str,
        typer.Option(metavar="NAME", help="A host of the catalog.", autocompletion=complete_names("hosts")),
    ],
    hosts: Annotated[int, typer.Option(metavar="N", min=1, help="How many of them.")] = 1,
    sizes: Annotated[
        str,
        typer.Option(
            metavar="FROM..TO",
            help="Doubled from FROM as long as TO is not exceeded; or a list: 1KiB,3MiB; or parts: the bytes "
            "that the file of --parts has. K, M and G alone count by 1,024.",
        ),
    ] = "1KiB..8GiB",
    algorithm: Annotated[
        str, typer.Option(metavar="NAME", help="Use this algorithm instead of the fastest one.")
    ] = "auto",
    ranks: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Only these ranks, such as 0,8,16-23; all if not given."),
    ] = None,
    protocol: Annotated[str, typer.Option(metavar="NAME", help="Use this protocol, such as ll128.")] = "auto",
    parts: Annotated[
        str | None,
        typer.Option(
            metavar="LAW|FILE",
            help="Unequal parts of all_to_all_v: zipf:1.2 (some ranks get more), normal:0.3 (each part is "
            "drawn), uniform; or a file of comma-separated numbers, a line for each sender.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Seed for the parts of a law; 0 if not given.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with a plot of busbw and the table.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
) -> ExitCode:
    """Show how long a collective takes, as nccl-tests prints it.

    Sizes count as in nccl-tests: one rank's array; in all_gather the result. algbw is size / time; busbw is
    algbw x 2(n-1)/n for all_reduce, x (n-1)/n for all_gather, reduce_scatter and all_to_all, x 1 for the
    others. Nothing else uses the cluster. In all_to_all_v, size is the mean over ranks; --parts says
    in which proportions it is cut, and each link carries what really passes it.
    """
    from simcluster.cli.commands.collective.benchmark_plot import bench_page
    from simcluster.cli.output.result_files import check_writable, write_bytes
    from simcluster.cli.output.terminal import has_colour, print_result
    from simcluster.listings import CollectiveBenchmark, bench_csv, bench_text

    check_writable("--html", html)
    bench = CollectiveBenchmark.of(operation, cluster, hosts, sizes, algorithm, ranks, protocol, parts, seed)
    if html:
        write_bytes(html, bench_page(bench).encode())
    print_result(bench_csv(bench) if csv else bench_text(bench, colour=has_colour()), drawn=not csv)
    return ExitCode.DONE
