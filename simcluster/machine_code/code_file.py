"""Where machine code is kept: a file for these sources, versions and this processor, or none."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from simcluster.deferred_dataclass import dataclass

try:
    import fcntl
except ImportError:  # no such locks on this system: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

COUNTED = 100
"""Bytes for a second of what was done without machine code."""


@dataclass(frozen=True)
class CodeFile:
    """The file of functions that are compiled together: a digest of their object code, then that."""

    name: str
    sources: tuple[Path, ...]
    """The files that define them."""

    @cached_property
    def path(self) -> Path | None:
        """Where it is; None if it is not there and nothing can be written."""
        home = _cache_home()
        if home is None:
            return None
        path = home / "simcluster" / f"{self.name}-{self._digest()}.code"
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=path.parent):
                    pass
        except OSError:
            return None
        return path

    @property
    def is_kept(self) -> bool:
        """Whether it is there."""
        return self.path is not None and self.path.exists()

    def read(self) -> bytes:
        """The object code; nothing if it is not there, or damaged."""
        try:
            content = self.path.read_bytes() if self.path else b""
        except OSError:
            return b""
        object_code = content[32:]
        return object_code if hashlib.sha256(object_code).digest() == content[:32] else b""

    def write(self, object_code: bytes) -> None:
        """Keeps the object code, if there is room; readers see all of it or nothing."""
        if self.path is None:
            return
        written = self.path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            try:
                written.write_bytes(hashlib.sha256(object_code).digest() + object_code)
                written.replace(self.path)
                self.path.with_suffix(".count").unlink(missing_ok=True)
            finally:
                written.unlink(missing_ok=True)

    def count(self, seconds: float) -> float:
        """Counts what is done without machine code: seconds in all, or just these if they cannot be kept."""
        if self.path is None:
            return seconds
        try:
            # The length of a file needs no lock: processes append to it side by side.
            with self.path.with_suffix(".count").open("ab") as file:
                file.write(b"." * max(1, round(COUNTED * seconds)))
                return file.tell() / COUNTED
        except OSError:
            return seconds

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other processes from compiling the same at the same time: they wait, and load it."""
        try:
            lock = self.path.with_suffix(".lock").open("w") if fcntl and self.path else None
        except OSError:
            lock = None
        if lock is None:
            yield
            return
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _digest(self) -> str:
        """That of everything on which the object code depends."""
        from simcluster.machine_code.object_code import processor

        versions = version("numba"), version("llvmlite"), sys.version, processor()
        digest = hashlib.sha256(" ".join(versions).encode())
        for source in (*self.sources, *sorted(Path(__file__).parent.glob("*.py"))):
            digest.update(source.read_bytes())
        return digest.hexdigest()[:16]


def _cache_home() -> Path | None:
    """The folder for what may be made again; None if there is none."""
    names = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA")
    given = next((os.environ[name] for name in names if os.environ.get(name)), "")
    try:
        return Path(given) if given else Path.home() / ".cache"
    except RuntimeError:
        return None
