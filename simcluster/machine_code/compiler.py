"""How functions are compiled, by Numba, and kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numba

from simcluster.machine_code.code_folder import CodeFolder

try:
    import fcntl
except ImportError:  # no such locks on this system: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

_numba: Any = numba
"""Its types leave out the options that are used here."""

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Compiler:
    """Compiles functions that belong together."""

    code: CodeFolder
    """Where they are kept."""
    examples: Mapping[str, Any]
    """What the parameters of functions are that Python calls, by their annotations: a value of each."""
    notice: str
    """What is said on stderr where this takes its time."""

    def compiled(self, function: Function) -> Function:
        """The function as machine code, for other such functions to call.

        Integers wrap and floats are those of IEEE 754, in the order in which they are written. References are
        not counted, so a function makes no arrays.
        """
        return self._compiled(function, no_cpython_wrapper=True)

    def compiled_for_python(self, function: Function) -> Function:
        """The same, made at once for what its annotations say; Python calls it."""
        kinds = [kind for name, kind in function.__annotations__.items() if name != "return"]
        parameters = tuple(_numba.typeof(self.examples[kind]) for kind in kinds)
        if self.code.path is None:
            _say_once(f"{self.notice}, in every run: there is no folder to keep it in ($XDG_CACHE_HOME)")
            made = self._compiled(function)
            made.compile(parameters)
            return made
        with self._alone():
            made = self._compiled(function)
            try:
                made.compile(parameters)
            except OSError:  # a full disk, say: compiled once more, and not kept
                made = self._compiled(function, keep=False)
                made.compile(parameters)
        return made

    def _compiled(self, function: Any, *, keep: bool = True, no_cpython_wrapper: bool = False) -> Any:
        folder = self.code.path
        before = _numba.config.CACHE_DIR
        try:
            _numba.config.CACHE_DIR = str(folder) if folder else before
            decorated = _numba.njit(
                cache=keep and folder is not None,
                error_model="numpy",
                no_cpython_wrapper=no_cpython_wrapper,
                no_cfunc_wrapper=True,
                _nrt=False,
            )
            return decorated(function)
        finally:
            _numba.config.CACHE_DIR = before

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps other processes from compiling the same at the same time: they wait, and load it."""
        folder = self.code.path
        if fcntl is None or folder is None or self.code.is_ready:
            yield
            return
        try:
            lock = (folder / "lock").open("w")
        except OSError:
            yield
            return
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.code.is_ready:
                _say_once(f"{self.notice}, once for this version")
            yield


@cache
def _say_once(notice: str) -> None:
    """Says on stderr what takes so long."""
    print(notice, file=sys.stderr, flush=True)
