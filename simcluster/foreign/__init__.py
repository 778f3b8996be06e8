"""Reading the files of other tools: what all formats share.

The formats themselves are in ``simcluster.foreign.formats``.
"""

from simcluster.foreign.file_translation import told, translate, translated_text
from simcluster.foreign.importer_interface import Given, Imported, Importer, importer, importers
from simcluster.foreign.reading import Fate, Flag, Untranslated

__all__ = [
    "Fate",
    "Flag",
    "Given",
    "Imported",
    "Importer",
    "Untranslated",
    "importer",
    "importers",
    "told",
    "translate",
    "translated_text",
]
