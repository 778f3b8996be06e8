"""The way from the text of another tool's file to the text of a scenario."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.assembly import assemble_scenario
from simcluster.foreign.importer_interface import Imported, Importer, UserAdditions
from simcluster.foreign.reading import TranslationStatus, Untranslated, one_line
from simcluster.scenario import commented_yaml


def translate_file(importer: Importer, text: str, name: str, given: UserAdditions) -> Imported:
    """The scenario that a file of this format describes; a pure function of its arguments.

    ``name`` is the file's, as the user wrote it; the scenario is called after it. Raises ScenarioError with
    every problem.
    """
    if given.variables and not importer.takes_variables:
        raise ScenarioError(Problem(f"{importer.title} has no shell variables", where="--var"))
    if not text.strip():
        raise ScenarioError(Problem(f"the file is empty; expected {importer.title}", where=name))
    facts = importer.read(text, name, given)
    return assemble_scenario(facts, one_line(PurePath(name).stem.strip(".")) or importer.kind, given)


def translated_text(imported: Imported, importer: Importer, name: str) -> str:
    """The scenario as YAML, with the setting that each line came from.

    What changes the result stands at the top, everything else that is not in the scenario at the end.
    """
    remarks = {path: str(flag) for path, flag in imported.origins.items() if flag.text}
    head = [f"Imported from {one_line(PurePath(name).name)} ({importer.title})."]
    tail: list[str] = []
    for status, title, lines in describe_untranslated(imported, folders=False):
        place = head if status is TranslationStatus.UNSUPPORTED else tail
        place += [title, *(f"- {line}" for line in lines)]
    return commented_yaml(imported.data, remarks, head=head, tail=tail)


def describe_untranslated(
    imported: Imported, *, folders: bool = True
) -> Iterator[tuple[TranslationStatus | None, str, list[str]]]:
    """What of a file is not in the scenario, the most serious first: (status, title, lines).

    First what changes the result, then what is unknown, what was worked out (which has no status), what a
    profile decides, and last what changes nothing. Without ``folders`` places have only the name of the file.
    """
    for status, title in _TITLES.items():
        entries = [entry for entry in dict.fromkeys(imported.untranslated) if entry.status is status]
        if status is None:
            lines = list(imported.remarks)
        elif status in (TranslationStatus.UNSUPPORTED, TranslationStatus.UNKNOWN):
            lines = [_line(entry, folders) for entry in entries]
        else:
            lines = [", ".join(dict.fromkeys(map(_briefly, entries)))] if entries else []
        if lines:
            yield status, title, lines


_TITLES: dict[TranslationStatus | None, str] = {
    TranslationStatus.UNSUPPORTED: "Changes the result: the simulation differs from the file in this:",
    TranslationStatus.UNKNOWN: "Unknown here, may change the result:",
    None: "Worked out:",
    TranslationStatus.PROFILE: "Fusion, overlap and buckets are the framework profile's, whatever these say:",
    TranslationStatus.ABSORBED: "Without a line of their own, worked into other values:",
    TranslationStatus.EFFECTLESS: "No effect on time or memory:",
}


def _line(entry: Untranslated, folders: bool) -> str:
    where = entry.flag.where if folders else PurePath(entry.flag.where).name
    place = f"{where}: " if where else ""
    reason = f": {entry.reason}" if entry.reason else ""
    return f"{place}{entry.flag}{reason}"


def _briefly(entry: Untranslated) -> str:
    """The name of a setting, and why it is listed where that is not plain."""
    name = one_line(entry.flag.name, 60)
    return f"{name} ({entry.reason})" if entry.reason else name
