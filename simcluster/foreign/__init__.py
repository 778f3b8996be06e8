"""Reading the files of other tools: what all formats share.

The formats themselves are in ``simcluster.foreign.formats``.
"""

from simcluster.foreign.flag import Fate, Flag, Untranslated
from simcluster.foreign.importer import Given, Imported, Importer, importer, importers
from simcluster.foreign.translate import told, translate, translated_text

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
