"""The way from the text of another tool's file to the text of a scenario."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from simcluster.errors import Problem, ScenarioError
from simcluster.foreign.assemble import assemble
from simcluster.foreign.flag import Fate, Untranslated, plain
from simcluster.foreign.importer import Given, Imported, Importer
from simcluster.scenario.written import commented


def translate(importer: Importer, text: str, name: str, given: Given) -> Imported:
    """The scenario that a file of this format describes; a pure function of its arguments.

    ``name`` is the file's, as the user wrote it; the scenario is called after it. Raises ScenarioError with
    every problem.
    """
    if given.variables and not importer.takes_variables:
        raise ScenarioError(Problem(f"{importer.title} has no shell variables", where="--var"))
    if not text.strip():
        raise ScenarioError(Problem(f"the file is empty; expected {importer.title}", where=name))
    facts = importer.read(text, name, given)
    return assemble(facts, plain(PurePath(name).stem.strip(".")) or importer.kind, given)


def translated_text(imported: Imported, importer: Importer, name: str) -> str:
    """The scenario as YAML: every line with the setting it came from, and what is not in it at the end."""
    remarks = {path: str(flag) for path, flag in imported.origins.items() if flag.text}
    tail: list[str] = [f"- {remark}" for remark in imported.remarks]
    if tail:
        tail.insert(0, "Worked out:")
    for _, title, lines in untranslated_lines(imported.untranslated, folders=False):
        tail += [title, *(f"- {line}" for line in lines)]
    head = [f"Imported from {plain(PurePath(name).name)} ({importer.title})."]
    return commented(imported.data, remarks, head=head, tail=tail)


def untranslated_lines(
    untranslated: Iterable[Untranslated], *, folders: bool = True
) -> Iterator[tuple[Fate, str, list[str]]]:
    """What is not in the scenario by fate, the gravest first: (fate, title, lines).

    One line for each setting that may change the result; those of a profile and those without effect
    together. Without ``folders`` places have only the name of the file.
    """
    found = list(dict.fromkeys(untranslated))
    for fate, title in _TITLES.items():
        of_fate = [each for each in found if each.fate is fate]
        if of_fate and fate not in (Fate.UNSUPPORTED, Fate.UNKNOWN):
            yield fate, title, [", ".join(map(_briefly, of_fate))]
        elif of_fate:
            yield fate, title, [_line(each, folders) for each in of_fate]


_TITLES = {
    Fate.UNSUPPORTED: "Warning: not supported yet; the simulation differs from the file in this:",
    Fate.PROFILE: "Warning: fusion, overlap and buckets are the framework profile's, whatever these say:",
    Fate.UNKNOWN: "Warning: unknown, may change the result:",
    Fate.ABSORBED: "Without a line of their own, worked into other values:",
    Fate.EFFECTLESS: "No effect on time or memory:",
}


def _line(each: Untranslated, folders: bool) -> str:
    where = each.flag.where if folders else PurePath(each.flag.where).name
    place = f"{where}: " if where else ""
    reason = f": {each.reason}" if each.reason else ""
    return f"{place}{each.flag}{reason}"


def _briefly(each: Untranslated) -> str:
    """A setting without effect: its name and line."""
    line = each.flag.where.rpartition(":")[2]
    name = plain(each.flag.name, 60)
    told = ", ".join(part for part in (f"line {line}" if line else "", each.reason) if part)
    return f"{name} ({told})" if told else name
