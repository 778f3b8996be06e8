"""Which implementation of the engine times a run: the reference, or the compiled loop where that ends sooner.

Nothing here imports the compiler: small runs never load it.
"""

from __future__ import annotations

import enum
import hashlib
import os
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

MANY_ENTRIES = 100_000
"""Entries from which on loading the compiled loop (.3 s) costs less than processes do."""

COMPILATION = 1_500_000
"""Entries that the reference times while the loop is compiled for the first time (15 s)."""

READY = "ready"
"""The file that says that everything has been compiled."""


class Implementation(enum.StrEnum):
    """How a Program is timed; both give the same times, to the nanosecond."""

    REFERENCE = "reference"
    COMPILED = "compiled"


def choose_implementation(num_entries: int) -> Implementation:
    """The faster one for so many entries."""
    if "simcluster.engine.compiled" in sys.modules:
        return Implementation.COMPILED
    folder = cache_folder()
    compiled = folder is not None and (folder / READY).exists()
    fewest = MANY_ENTRIES if compiled else COMPILATION
    return Implementation.COMPILED if num_entries >= fewest else Implementation.REFERENCE


@cache
def cache_folder() -> Path | None:
    """Where machine code is kept, a folder of this version's own; None if nothing can be written there.

    Its name holds a digest of the sources: a function's code would not be made anew when another file
    changes.
    """
    digest = hashlib.sha256(f"{version('numba')} {sys.version}".encode())
    for source in sorted((Path(__file__).parent / "compiled").glob("*.py")):
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
