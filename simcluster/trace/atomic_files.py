"""Files that are written complete or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from simcluster.document import real_path
from simcluster.errors import TraceError


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A path to write to instead of ``path``; the file takes its place at the end, or nothing does.

    A link keeps pointing where it points. A device or a pipe (``/dev/stdout``) is written to directly. Raises
    OSError as writing does, with ``path`` as its file: a full disk is noticed by writes that know no name.
    """
    direct = Path(path).exists() and not Path(path).is_file()
    target = Path(path) if direct else real_path(path)
    if not direct and target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    # The name comes last, so that what looks at its ending sees the same one.
    partial = target if direct else target.with_name(f".{os.getpid()}-{target.name}")
    try:
        yield partial
        if not direct:
            partial.replace(target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(partial)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if not direct:
            partial.unlink(missing_ok=True)


def write_file(path: str | Path, pieces: Iterable[bytes]) -> None:
    """Writes a file piece by piece, complete or not at all. Raises TraceError if it cannot."""
    try:
        with atomic_path(path) as partial, partial.open("wb") as file:
            file.writelines(pieces)
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror or error}") from error
