"""The arguments of a launch in a Python program that starts another one (``subprocess.run([...])``)."""

from __future__ import annotations

import re

from simcluster.foreign.reading.python_program import PythonProgram
from simcluster.foreign.reading.shell import Field, Launch, Script, TextPiece, launch_of_words

_OPEN = re.compile(r"\$\{[^}]*\}")


def find_python_launch(text: str, name: str, marks: frozenset[str]) -> Launch | None:
    """What the lists and texts of a program with options in them say together, in their order.

    None if the text is no Python, or has none of the ``marks``.
    """
    if not any(mark in text for mark in marks):
        return None
    program = PythonProgram.parse(text)
    if program is None:
        return None
    parts = [
        [Field((TextPiece(word, line),), tuple(_OPEN.findall(word))) for word, line in words]
        for words in program.word_lists()
        if any(word.startswith("--") for word, _ in words)
    ]
    launch = launch_of_words(parts, [], Script(name))
    return launch if marks & {flag.name for flag in launch.arguments} else None
