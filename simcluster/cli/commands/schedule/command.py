"""``simcluster schedule``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster schedule 1f1b --stages 4 --micro-batches 8",
    "simcluster schedule interleaved --stages 4 --micro-batches 8 --chunks 3",
    "simcluster schedule seqpipe --stages 4 --micro-batches 4 --slices 4",
    "simcluster schedule zb_v --stages 4 --micro-batches 8 --times F=3,I=3,W=2 --html zb_v.html",
    "simcluster schedule mine.txt --placement folded",
)


def schedule(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help="1f1b, gpipe, interleaved, zb_h1, zb_v, dualpipe_v, seqpipe or another one; or a text file "
            "with a line for each stage, such as F0 F1 B0 B1.",
            show_default=False,
        ),
    ],
    stages: Annotated[
        int | None, typer.Option(metavar="P", min=1, help="Pipeline stages; 4, or as many as the file has.")
    ] = None,
    micro_batches: Annotated[
        int | None, typer.Option(metavar="M", min=1, help="Micro-batches; 8, or as many as the file has.")
    ] = None,
    chunks: Annotated[
        int | None, typer.Option(metavar="V", min=1, help="Pieces of the model on each stage.")
    ] = None,
    slices: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Parts of every sequence, where it is cut.")
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(metavar="WAY", help="Chunks of a file go over the stages wrapped (default) or folded."),
    ] = None,
    times: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Units of time of a chunk's forward F and of the halves I and W of its backward; B is both.",
        ),
    ] = "F=1,I=1,W=1",
    text: Annotated[bool, typer.Option("--text", help="Print it in the form that a scenario takes.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it, as a page for a browser.")
    ] = None,
) -> ExitCode:
    """Draw a pipeline schedule, its bubble and its activations.

    No model is simulated: all stages take equally long, and transfers take no time. An activation is what
    the forward of one micro-batch (or of one slice of its sequences) leaves in one chunk until its whole
    backward is over. Slices are drawn as equally long, although later ones attend to more keys. The bubble
    is the waiting time of stages divided by their working time.
    """
    from simcluster.cli.commands.schedule.schedule_drawing import DrawnSchedule, schedule_page, schedule_text
    from simcluster.cli.output.result_files import check_writable, write_text
    from simcluster.cli.output.terminal import has_colour, print_result

    check_writable("--html", html)
    drawn = DrawnSchedule.of(name, stages, micro_batches, chunks, placement, times, slices)
    print_result(drawn.text if text else schedule_text(drawn, colour=has_colour()), drawn=not text)
    if html is not None:
        write_text(html, schedule_page(drawn))
    return ExitCode.DONE
