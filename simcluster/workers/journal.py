"""Results kept in a file while they come, so that an interrupted piece of work goes on where it was."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from simcluster.errors import Problem, ScenarioError

_FORMAT = "simcluster journal 1"


class Journal:
    """A file of JSON lines: the first says what is worked out, every other has (index, result).

    ``kept`` has the results by index, with those of an earlier process, whose last line may be incomplete.
    ``work`` is all that results depend on, by what users call it; where the file is of other work, a
    ScenarioError names what differs. With ``restart`` the file begins anew. While it is open no other
    process can open it; closed with nothing in it, it is deleted.
    """

    def __init__(self, path: Path, work: Mapping[str, Any], *, restart: bool = False) -> None:
        self.path = path
        self.kept: dict[int, Any] = {}
        self._file = path.open("a+b")
        try:
            self._lock()
            self._read({"journal": _FORMAT, **json.loads(json.dumps(work))}, restart)
        except BaseException:
            self._file.close()
            raise

    def add(self, index: int, result: Any) -> None:
        """Writes a result, which JSON can hold; it outlives this process from then on."""
        self._write([index, result])
        self.kept[index] = result

    def remove(self) -> None:
        """Deletes the file: what it kept is somewhere else."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.kept:
            self.remove()
        self._file.close()

    def _write(self, line: Any) -> None:
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        self._file.write(text.encode() + b"\n")
        self._file.flush()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ScenarioError(
                Problem("another process is writing this journal", where=str(self.path))
            ) from None

    def _read(self, head: dict[str, Any], restart: bool) -> None:
        self._file.seek(0)
        *lines, torn = self._file.read().split(b"\n")
        if torn:
            self._file.truncate(sum(len(line) + 1 for line in lines))
        first, self.kept = self._entries(lines) if lines else (head, {})
        changed = [name for name in head if first.get(name) != head[name]]
        if changed and not restart:
            kept = "1 result is" if len(self.kept) == 1 else f"{len(self.kept)} results are"
            raise ScenarioError(
                Problem(
                    f"{kept} kept here of another {' and another '.join(changed)}",
                    where=str(self.path),
                    hint="--restart throws them away; or go on with what they belong to",
                )
            )
        if restart:
            self._file.truncate(0)
            lines, self.kept = [], {}
        if not lines:
            self._write(head)

    def _entries(self, lines: list[bytes]) -> tuple[dict[str, Any], dict[int, Any]]:
        """The head and the results of the lines of a journal; ScenarioError if they are of something else."""
        with suppress(ValueError, TypeError, KeyError):
            first, *entries = [json.loads(line) for line in lines]
            if first["journal"] == _FORMAT:
                return first, {int(index): result for index, result in entries}
        raise ScenarioError(
            Problem("this file exists and is not a journal of simcluster", where=str(self.path))
        )
