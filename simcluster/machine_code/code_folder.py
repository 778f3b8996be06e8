"""Where machine code is kept: in a folder of these sources' own, or nowhere if none can be written."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

_READY = "ready"
"""The file that says that everything has been compiled."""


@dataclass(frozen=True)
class CodeFolder:
    """The folder of functions that are compiled together."""

    sources: tuple[Path, ...]
    """The files that define them."""

    @property
    def path(self) -> Path | None:
        """The folder; None if nothing can be written there."""
        return _folder(self.sources)

    @property
    def is_ready(self) -> bool:
        """Whether everything has been compiled and kept."""
        return self.path is not None and (self.path / _READY).exists()

    def mark_ready(self) -> None:
        """Notes that everything has been compiled and kept."""
        if self.path is not None:
            try:
                (self.path / _READY).touch()
            except OSError:
                return  # the next process compiles what is missing


@cache
def _folder(sources: tuple[Path, ...]) -> Path | None:
    """Its name holds a digest of the sources: a function's code would not be made anew when another file
    changes.
    """
    digest = hashlib.sha256(f"{version('numba')} {sys.version}".encode())
    for source in (*sources, *sorted(Path(__file__).parent.glob("*.py"))):
        digest.update(source.read_bytes())
    home = _cache_home()
    if home is None:
        return None
    folder = home / "simcluster" / f"compiled-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


def _cache_home() -> Path | None:
    """The folder for what may be made again; None if there is none."""
    names = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA")
    given = next((os.environ[name] for name in names if os.environ.get(name)), "")
    try:
        return Path(given) if given else Path.home() / ".cache"
    except RuntimeError:
        return None
