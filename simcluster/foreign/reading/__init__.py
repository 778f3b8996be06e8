"""Files of other tools as they are: flags, settings, references, shell scripts. None is executed."""

from simcluster.foreign.reading.argument_files import read_argument_file, read_configuration_file
from simcluster.foreign.reading.flag import Flag, TranslationStatus, Untranslated, one_line
from simcluster.foreign.reading.kubernetes import Manifest, read_manifest
from simcluster.foreign.reading.python_launch import find_python_launch
from simcluster.foreign.reading.python_program import PythonProgram, PythonSetting
from simcluster.foreign.reading.python_settings import read_python
from simcluster.foreign.reading.settings_files import read_json, read_settings
from simcluster.foreign.reading.shell import Launch, Script, find_launch, launch_of_words, read_script
from simcluster.foreign.reading.toml_settings import read_toml

__all__ = [
    "Flag",
    "Launch",
    "Manifest",
    "PythonProgram",
    "PythonSetting",
    "Script",
    "TranslationStatus",
    "Untranslated",
    "find_launch",
    "find_python_launch",
    "launch_of_words",
    "one_line",
    "read_argument_file",
    "read_configuration_file",
    "read_json",
    "read_manifest",
    "read_python",
    "read_script",
    "read_settings",
    "read_toml",
]
