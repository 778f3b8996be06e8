"""``simcluster calibrate``, and the commands under it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import complete_names
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster calibrate fit kernels.csv --device b200-sxm",
    "simcluster calibrate fit kernels.csv --device h100-sxm --out ours.yaml",
    "simcluster calibrate fit kernels.csv --implementation megatron",
    "simcluster calibrate fit training.csv --jobs 2",
    "simcluster calibrate measure --device cuda --out ours.yaml --host our-host.yaml",
)

HELP = "Fit device files to measurements, or measure a device."

calibrate = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@calibrate.callback()
def _calibrate() -> None:
    """Fit device files to measurements, or measure a device."""


@calibrate.command()
def fit(
    file: Annotated[
        str,
        typer.Argument(metavar="ROWS.csv", help="Measured kernels, or training runs.", show_default=False),
    ],
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The device of the catalog that is fitted to its rows.",
            autocompletion=complete_names("devices"),
        ),
    ] = None,
    implementation: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Instead: the library of memory-bound kernels that is fitted, such as megatron.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.yaml", help="Where the file is written.")] = None,
    every: Annotated[
        int, typer.Option(metavar="N", min=1, help="Use only every N-th training run, for a quick look.")
    ] = 1,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes that simulate runs.")] = 1,
) -> ExitCode:
    """Fit the figures of a device file to measured kernels, or those of an implementation.

    A few physical figures of the device are changed where that reduces the errors of the rows: shares of peak
    and of memory bandwidth, tile sizes, the cost of few rows and short dims. The output has the median errors
    before and after the fit, those on shapes and sources that were left out of it, and by how much each
    figure reduces them.

    For a file of training runs give neither --device nor --implementation. Fitted is then what only whole
    steps show: the clock of each family of devices under a step's load, and the host time per operator,
    collective and step under each framework, as multiples of the values in the files.
    """
    from simcluster.accuracy import column_titles, read_kernels, read_runs
    from simcluster.cli.commands.calibrate.fitted import fitted_device, fitted_implementation, fitted_runs
    from simcluster.cli.output.result_files import check_writable
    from simcluster.cli.output.terminal import has_colour
    from simcluster.errors import Problem, ScenarioError

    check_writable("--out", out)
    if "metric" in column_titles(file):
        if device or implementation:
            hint = "leave out --device and --implementation: every device and framework of the rows is fitted"
            raise ScenarioError(Problem("these are training runs", hint=hint, where="calibrate fit"))
        text, yaml = fitted_runs(read_runs(file)[::every], jobs=jobs, colour=has_colour())
        return _shown(text, yaml, out)
    if (device is None) == (implementation is None):
        hint = "give one of --device NAME and --implementation NAME"
        raise ScenarioError(Problem("what is to be fitted?", hint=hint, where="calibrate fit"))
    rows = read_kernels(file)
    if device is not None:
        text, yaml = fitted_device(rows, device, colour=has_colour())
    else:
        text, yaml = fitted_implementation(rows, str(implementation), colour=has_colour())
    return _shown(text, yaml, out)


def _shown(text: str, yaml: str, out: Path | None) -> ExitCode:
    from simcluster.cli.output.result_files import write_text
    from simcluster.cli.output.terminal import print_result

    print_result(text, drawn=True)
    if out is not None:
        write_text(out, yaml)
    return ExitCode.DONE


@calibrate.command()
def measure(
    device: Annotated[str, typer.Option(metavar="KIND", help="cuda, npu or cpu, as PyTorch calls it.")],
    out: Annotated[Path, typer.Option(metavar="FILE.yaml", help="Where the device file is written.")],
    host: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="Also write a host file, with its devices in it.")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Also write what was measured, a line per kernel.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The device of the catalog that it starts from; found by its name if not given.",
            autocompletion=complete_names("devices"),
        ),
    ] = None,
    like_host: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The host of the catalog that the host file starts from; one with that device if not given.",
            autocompletion=complete_names("hosts"),
        ),
    ] = None,
) -> ExitCode:
    """Time kernels on a device of this machine, and write its device file and its host's.

    Matmuls over shapes and formats, in short runs and in loops that go on until the clock settles; attention,
    forward and backward; memory-bound kernels; launch and host costs; copies between host and device;
    collectives between two and between all devices. Needs PyTorch (pip install 'simcluster[calibrate]'), and
    torch_npu for NPUs. A processor counts as two devices of half its cores each. Figures that nothing here
    shows, such as the network, stay those of the device and the host that the files start from. Scenarios use
    them as device: ./FILE.yaml and host: ./FILE.yaml.
    """
    from simcluster.cli.commands.calibrate.measured import measured_files
    from simcluster.cli.output.result_files import check_writable, write_text
    from simcluster.cli.output.terminal import has_colour, print_result
    from simcluster.errors import Problem, ScenarioError

    if device not in ("cuda", "npu", "cpu"):
        raise ScenarioError(Problem(f"'{device}' is none of cuda, npu and cpu", where="--device"))
    for option, path in (("--out", out), ("--host", host), ("--rows", rows)):
        check_writable(option, path)
    files = measured_files(device, like, like_host, colour=has_colour())
    for path, text in ((out, files.device), (host, files.host), (rows, files.rows)):
        if path is not None:
            write_text(path, text)
    print_result(files.text, drawn=True)
    return ExitCode.DONE
