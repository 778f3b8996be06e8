"""Another tool's file, read and translated, and what is said about it."""

from __future__ import annotations

from pathlib import Path

from simcluster.cli.output.exit_code import ExitCode
from simcluster.cli.output.scenario_target import Target
from simcluster.cli.output.terminal import note
from simcluster.document import text_of
from simcluster.errors import SimclusterError
from simcluster.foreign import (
    Fate,
    Given,
    Imported,
    importer,
    told,
    translate,
    translated_text,
)
from simcluster.scenario import Scenario
from simcluster.simulation import prepare

_COLOURS: dict[Fate | None, str] = {Fate.UNSUPPORTED: "1;33", Fate.UNKNOWN: "33"}


def import_file(kind: str, path: str, given: Given, target: Target) -> ExitCode:
    """Translates a file, plans the scenario to see that it is possible, and writes it.

    Raises ScenarioError and PlanError with places in the file.
    """
    found = importer(kind)
    imported = translate(found, text_of(path), path, given)
    try:
        prepare(Scenario.of(imported.data), search=False)
    except SimclusterError as error:
        _say(imported)
        raise imported.located(error) from None
    target.write(translated_text(imported, found, Path(path).name))
    _say(imported)
    return ExitCode.DONE


def _say(imported: Imported) -> None:
    """What is not as the file says, the gravest first, and what was worked out."""
    for fate, title, lines in told(imported):
        note(title, _COLOURS.get(fate, ""))
        for line in lines:
            note(f"  {line}")
