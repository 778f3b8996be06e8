"""Reading the arguments of a launch out of a shell script: as text, nothing is ever executed."""

from simcluster.foreign.reading.shell.expand import read_script
from simcluster.foreign.reading.shell.field import Field, Script, TextPiece
from simcluster.foreign.reading.shell.launch import Launch, find_launch, launch_of_words

__all__ = ["Field", "Launch", "Script", "TextPiece", "find_launch", "launch_of_words", "read_script"]
