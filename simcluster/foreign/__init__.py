"""Reading the files of other tools: what all formats share.

The formats themselves are in ``simcluster.foreign.formats``.
"""

from simcluster.foreign.file_translation import describe_untranslated, translate_file, translated_text
from simcluster.foreign.importer_interface import (
    Imported,
    Importer,
    UserAdditions,
    importer,
    importers,
    model_key,
)
from simcluster.foreign.reading import Flag, TranslationStatus, Untranslated

__all__ = [
    "Flag",
    "Imported",
    "Importer",
    "TranslationStatus",
    "Untranslated",
    "UserAdditions",
    "describe_untranslated",
    "importer",
    "importers",
    "model_key",
    "translate_file",
    "translated_text",
]
