"""Another tool's file, read and translated, and what is said about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simcluster.cli.output.exit_code import ExitCode
from simcluster.cli.output.scenario_target import Target
from simcluster.cli.output.terminal import print_note
from simcluster.document import real_path, text_of
from simcluster.errors import SimclusterError
from simcluster.foreign import (
    Imported,
    TranslationStatus,
    UserAdditions,
    describe_untranslated,
    importer,
    model_key,
    translate_file,
    translated_text,
)
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario

_COLOURS: dict[TranslationStatus | None, str] = {
    TranslationStatus.UNSUPPORTED: "1;33",
    TranslationStatus.UNKNOWN: "33",
}


def import_file(kind: str, path: str, given: UserAdditions, target: Target) -> ExitCode:
    """Translates a file, plans the scenario to see that it is possible, and writes it.

    Raises ScenarioError and PlanError with places in the file.
    """
    tool = importer(kind)
    given = replace(
        given,
        referenced=lambda named: _referenced(named, path),
        located=lambda named: _located(named, path),
    )
    if given.model and model_key(given.model) == "hf":
        given = replace(given, model=str(real_path(given.model)))  # wherever the scenario will lie
    imported = translate_file(tool, text_of(path), path, given)
    try:
        build_scenario(Scenario.of(imported.data), search=False)
    except SimclusterError as error:
        _say(imported)
        raise imported.located(error) from None
    target.write(translated_text(imported, tool, Path(path).name))
    _say(imported)
    return ExitCode.DONE


def _referenced(named: str, path: str) -> str | None:
    """The text of a file that the file at ``path`` names; None if it is not found or no text."""
    place = _located(named, path)
    try:
        return None if place is None else text_of(Path(place), named)
    except (OSError, ValueError):
        return None


def _located(named: str, path: str) -> str | None:
    """Where a file lies that the file at ``path`` names: from here, from its folder or one above."""
    try:
        folders = [Path(), *real_path(path).parents]
        file = next((place for folder in folders if (place := folder / named).is_file()), None)
    except (OSError, ValueError):
        return None  # no name of a file
    return None if file is None else str(real_path(file))


def _say(imported: Imported) -> None:
    """What is not as the file says, the gravest first, and what was worked out."""
    for status, title, lines in describe_untranslated(imported):
        print_note(title, _COLOURS.get(status, ""))
        for line in lines:
            print_note(f"  {line}")
