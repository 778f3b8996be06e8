"""Files that users name: read whole, where they are regular files of reasonable size."""

from __future__ import annotations

import difflib
import os
import stat
from pathlib import Path

from simcluster import units
from simcluster.document.section import Refused
from simcluster.errors import Problem, ScenarioError

MAX_BYTES = 4 * 2**20
"""The longest text that is read: scenarios and files of other tools have some KiB."""


def text_of(path: str | Path, name: str = "") -> str:
    """The text of a file; ScenarioError, named ``name`` or as the path, if it cannot be read."""
    name = name or str(path)
    try:
        content = content_of(path)
    except Refused as error:
        raise ScenarioError(
            *(Problem(problem.message, hint=problem.hint, where=name) for problem in error.problems)
        ) from None
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        *lines, line = content[: error.start].split(b"\n")
        place = f"{name}:{len(lines) + 1}:{len(line) + 1}"
        raise ScenarioError(Problem("this is not UTF-8 text; save the file as UTF-8", where=place)) from None


def content_of(path: str | Path, most: int = MAX_BYTES) -> bytes:
    """The bytes of a file; Refused if it is none, no regular one, or has more than ``most`` bytes.

    The message does not name the file: callers know what the user calls it.
    """
    check_readable(path, most)
    try:
        with Path(path).open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise Refused(_cannot(error)) from None
    if len(content) > most:  # some files, such as those of /proc, do not say how long they are
        raise Refused(f"the file has more than {units.size(most)}, which is the most that is read")
    return content


def check_readable(path: str | Path, most: int) -> None:
    """Refused if there is no regular file at ``path`` or it has more than ``most`` bytes; nothing is read.

    Devices and pipes are refused: they may have no end, or never send a byte.
    """
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        raise Refused(f"there is no such file{_similar(Path(path))}") from None
    except (OSError, ValueError) as error:
        raise Refused(_cannot(error)) from None
    if stat.S_ISDIR(status.st_mode):
        raise Refused("this is a folder; name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise Refused(
            f"this is {_kind(status.st_mode)}, not a file", hint="write its content to a file first"
        )
    if status.st_size > most:
        raise Refused(f"the file has {units.size(status.st_size)}; at most {units.size(most)} are read")


def names_file(words: str) -> bool:
    """Whether words name a file, not an entry of a catalog: by a folder, by an ending, or as it is there."""
    path = Path(words)
    return bool(path.suffix) or os.sep in words or (os.path.lexists(path) and not path.is_dir())


def real_path(path: str | Path) -> Path:
    """Where a path leads through links; links that lead in a circle are followed no further."""
    return Path(os.path.realpath(path))


def _cannot(error: OSError | ValueError) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return f"the file cannot be read: {reason.lower()}"


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _similar(path: Path) -> str:
    """Words about the file that is named most like the missing one: beside it, or among the scenarios of a
    checkout (``quickstart`` for ``scenarios/quickstart.yaml``).
    """
    suffixes = {".yaml", ".yml", path.suffix}
    shipped = Path("scenarios", path.name).with_suffix(".yaml")
    if len(path.parts) == 1 and shipped.is_file():
        return f"; did you mean '{shipped}'?"
    try:
        known = {sibling.name for sibling in path.parent.iterdir() if sibling.suffix in suffixes}
    except OSError:
        return f", nor a folder '{path.parent}'"
    close = difflib.get_close_matches(path.name, sorted(known), n=1)
    return f"; did you mean '{path.with_name(close[0])}'?" if close else ""
