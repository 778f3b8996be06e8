"""The catalog at a glance: the title of every entry, read without importing the packages of the entries."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from simcluster.document import Document
from simcluster.draw import Column, render_text, text_table
from simcluster.listings.catalog_folders import FOLDERS
from simcluster.registry import data_files


def titles(families: Sequence[str]) -> dict[str, dict[str, str]]:
    """Family -> name -> title."""
    return {
        family: {name: _title(file.read_text("utf-8"), name) for name, file in data_files(folder).items()}
        for family, folder in FOLDERS.items()
        if family in families
    }


def titles_text(*, colour: bool = False) -> str:
    """The titles of every family."""
    return render_text(*titles_parts(), colour=colour)


def titles_parts() -> list[RenderableType]:
    """The same as tables, for a screen or a notebook."""
    parts: list[RenderableType] = []
    for family, entries in titles(list(FOLDERS)).items():
        parts += [
            Text(family, "bold"),
            text_table([Column(), Column(wraps=True)], list(entries.items()), indent=2),
            "",
        ]
    more = "simcluster catalog FAMILY shows figures, simcluster catalog NAME all of them and their sources"
    return [*parts, Text(more, "dim")]


def _title(text: str, name: str) -> str:
    """The title in an entry's text: its line alone is read, a hundredth of the time that the file takes."""
    lines = [line for line in text.split("\n") if line.startswith("title:")]
    return str(Document.parse(lines[0], f"{name}.yaml").data["title"]) if lines else name
