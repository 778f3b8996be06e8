"""Printing: results on standard output, everything else on standard error.

Names, paths and messages come from files, so nothing is printed that a terminal would obey, but for colours
of our own.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO, TextIO

from simcluster.errors import SimclusterError
from simcluster.printable import printable_json, printable_text


def print_result(text: str, *, drawn: bool = False) -> None:
    """Prints a result; one that is ``drawn`` keeps its colours, and has glyphs of ASCII where the locale has
    no others.
    """
    if drawn and not _can_write(sys.stdout, text):
        from simcluster.draw import with_ascii_glyphs

        text = with_ascii_glyphs(text)
    _write(sys.stdout, printable_text(text, styled=drawn) + "\n")


def _can_write(stream: TextIO, text: str) -> bool:
    """Whether a stream has all characters of a text."""
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def print_json(content: bytes) -> None:
    """Writes a result that is JSON, whatever the terminal's encoding."""
    sys.stdout.flush()
    _write(sys.stdout.buffer, printable_json(content))


def print_note(text: str, style: str = "") -> None:
    """Prints a remark that is no part of the result; ``style`` is an ANSI code such as ``1;33``."""
    _write(sys.stderr, _styled(printable_text(text), style) + "\n")


def print_problems(error: SimclusterError | str) -> None:
    """Prints what is wrong, one paragraph per problem."""
    problems = [error] if isinstance(error, str) else error.problems
    for problem in problems:
        located = not isinstance(problem, str) and bool(problem.where)
        prefix = "" if located else _styled("Error:", "1;31") + " "
        _write(sys.stderr, prefix + printable_text(str(problem)) + "\n")


def _styled(text: str, style: str) -> str:
    """Text for standard error in a style, if colours are shown there."""
    return f"\033[{style}m{text}\033[0m" if style and has_colour(sys.stderr) else text


def has_colour(stream: TextIO | None = None) -> bool:
    """Whether a stream (standard output) shows colour; NO_COLOR and FORCE_COLOR have the last word."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def discard_output(stream: TextIO | BinaryIO) -> None:
    """Drops what a stream still holds and will be given: it would fail once more when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _write(stream: TextIO | BinaryIO, content: str | bytes) -> None:
    """Writes at once; when nobody reads any more (``| head``) the rest is dropped and work goes on."""
    try:
        stream.write(content)  # type: ignore[arg-type]
        stream.flush()
    except OSError as error:
        discard_output(stream)
        if not isinstance(error, BrokenPipeError):
            name = "standard error" if stream is sys.stderr else "standard output"
            raise OSError(error.errno, error.strerror, name) from None
