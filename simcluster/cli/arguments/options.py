"""Options and arguments that several commands share, and how their text is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from simcluster.errors import ScenarioError
from simcluster.listings import FOLDERS

Scenarios = Annotated[list[str], typer.Argument(metavar="SCENARIO", help="Scenario files.")]

OneScenario = Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario file.")]

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a value of the scenario; VALUE is YAML. May be repeated.",
    ),
]

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", metavar="N", min=1, help="Processes that simulate; by default one for each processor."
    ),
]

Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Simulate on the workers of a Dask scheduler, such as tcp://10.0.0.1:8786; local starts one "
        "here, with --jobs workers.",
    ),
]

Restart = Annotated[
    bool, typer.Option("--restart", help="Start anew: discard the results of an interrupted call.")
]

PageFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the report there, as a page for a browser.")
]

TraceFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the trace there, for ui.perfetto.dev.")
]

TraceRanks = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Trace these ranks, such as 0,17,4096-4103; by default one of each class of equal ranks.",
    ),
]

JsonFile = Annotated[
    str | None,
    typer.Option(metavar="FILE|-", help="Write the result there; - prints it instead of the summary."),
]

Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also list what the framework profile changes.")
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No table, no progress.")]


def changes(settings: Sequence[str] | None) -> list[tuple[str, str]]:
    """The (key path, YAML text) pairs of ``--set`` options; ScenarioError for one without ``=``."""
    pairs = []
    for setting in settings or ():
        key, equals, text = setting.partition("=")
        if not equals:
            message = f"--set {setting}: expected KEY=VALUE, such as parallel.mesh.tensor=4"
            raise ScenarioError(message)
        pairs.append((key.strip(), text))
    return pairs


def complete_names(family: str) -> Callable[[str], list[str]]:
    """A completion of names of the catalog."""

    def names(incomplete: str) -> list[str]:
        from simcluster.registry import data_files

        return [name for name in data_files(FOLDERS[family]) if name.startswith(incomplete)]

    return names
