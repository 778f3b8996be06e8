"""Files of other tools as they are: flags, settings, references, shell scripts. None is executed."""

from simcluster.foreign.reading.flag import Fate, Flag, Untranslated, plain
from simcluster.foreign.reading.settings_files import read_json, read_settings
from simcluster.foreign.reading.shell import Script, find_launch, read_script

__all__ = [
    "Fate",
    "Flag",
    "Script",
    "Untranslated",
    "find_launch",
    "plain",
    "read_json",
    "read_script",
    "read_settings",
]
