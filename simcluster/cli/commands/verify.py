"""``simcluster verify``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from simcluster.cli.arguments.options import Scenarios, Settings, changes
from simcluster.cli.output.exit_code import ExitCode

EXAMPLES = (
    "simcluster verify scenarios/quickstart.yaml",
    "simcluster verify scenarios/tiny-gpt-cpu.yaml --save small",
    "simcluster verify plan.yaml --dtype float32 --set parallel.optimizer_sharding.zero=1",
)


class FloatName(StrEnum):
    """Number formats that values may have."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"


def verify(
    scenarios: Scenarios,
    settings: Settings = None,
    dtype: Annotated[FloatName, typer.Option(help="Number format of the values.")] = FloatName.FLOAT64,
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Save what the ranks of one small plan hold, as a checkpoint."),
    ] = None,
    merged: Annotated[
        bool, typer.Option("--merged", help="Save one file of whole tensors, not one per rank.")
    ] = False,
) -> ExitCode:
    """Check that plans compute what one device computes.

    Each plan is shrunk to at most 64 ranks and run for two steps with real values; loss, gradients and
    updated weights are compared with one device. Exit code 1 if they disagree.
    """
    from simcluster.cli.output.progress import progress_line
    from simcluster.cli.output.result_files import check_folder
    from simcluster.cli.output.terminal import has_colour, print_note, print_problems, print_result
    from simcluster.errors import ScenarioError, SimclusterError
    from simcluster.report import verification_text
    from simcluster.scenario import Scenario
    from simcluster.simulation import save_small_run, verify

    if save is not None and len(scenarios) > 1:
        raise ScenarioError("--save takes one scenario")
    if merged and save is None:
        raise ScenarioError("--merged is about what --save DIR writes")
    check_folder("--save", save)
    changed, worst = changes(settings), ExitCode.DONE
    for index, path in enumerate(scenarios):
        try:
            scenario = Scenario.load(path, changed)
            with progress_line(scenario.name, doing="verifying"):
                verification = (
                    verify(scenario, dtype=dtype.value)
                    if save is None
                    else save_small_run(scenario, save, merged=merged, dtype=dtype.value)
                )
        except SimclusterError as error:
            print_problems(error)
            worst = max(worst, ExitCode.of(error))
            continue
        if index:
            print_result("")
        print_result(verification_text(verification.document(), colour=has_colour()), drawn=True)
        if not verification.agrees:
            worst = max(worst, ExitCode.FAILED)
        elif save is not None:
            print_note(f"written: {save}")
    return worst
