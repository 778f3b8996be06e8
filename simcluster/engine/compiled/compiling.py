"""How functions are compiled and kept: in a folder of this version, or nowhere if none can be written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import numba
import numpy as np

from simcluster.engine.compiled.arrays import RECORDS, Arrays
from simcluster.engine.compiled.lanes import LANES_RECORDS, Lanes
from simcluster.engine.implementation import READY, cache_folder

try:
    import fcntl
except ImportError:  # no such locks on this system: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

compiler: Any = numba
"""Its types leave out the options that are used here."""

Function = TypeVar("Function", bound=Callable[..., Any])

_TYPES = {
    "Arrays": compiler.typeof(Arrays(*(np.zeros(1, dtype=kind) for kind in RECORDS))),
    "Lanes": compiler.typeof(Lanes(*(np.zeros(1, dtype=kind) for kind in LANES_RECORDS))),
    "int": compiler.int64,
    "bool": compiler.boolean,
}
"""What the parameters of functions are that Python calls, by their annotations."""


def compiled(function: Function) -> Function:
    """The function as machine code, for other such functions to call.

    Integers wrap and floats are those of IEEE 754, in the order in which they are written. References are not
    counted, so a function makes no arrays.
    """
    return _compiled(function, no_cpython_wrapper=True)


def compiled_for_python(function: Function) -> Function:
    """The same, made at once for what its annotations say; Python calls it."""
    parameters = tuple(_TYPES[kind] for name, kind in function.__annotations__.items() if name != "return")
    folder = cache_folder()
    if folder is None:
        made = _compiled(function)
        made.compile(parameters)
        return made
    with _alone():
        made = _compiled(function)
        try:
            made.compile(parameters)
        except OSError:  # a full disk, say: compiled once more, and not kept
            made = _compiled(function, keep=False)
            made.compile(parameters)
    return made


def _compiled(function: Any, *, keep: bool = True, no_cpython_wrapper: bool = False) -> Any:
    folder = cache_folder()
    before = compiler.config.CACHE_DIR
    try:
        compiler.config.CACHE_DIR = str(folder) if folder else before
        decorated = compiler.njit(
            cache=keep and folder is not None,
            error_model="numpy",
            no_cpython_wrapper=no_cpython_wrapper,
            no_cfunc_wrapper=True,
            _nrt=False,
        )
        return decorated(function)
    finally:
        compiler.config.CACHE_DIR = before


@contextmanager
def _alone() -> Iterator[None]:
    """Keeps other processes from compiling the same at the same time: they wait, and load what was made."""
    folder = cache_folder()
    if fcntl is None or folder is None or (folder / READY).exists():
        yield
        return
    try:
        lock = (folder / "lock").open("w")
    except OSError:
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / READY).exists():
            _say_once()
        yield


@cache
def _say_once() -> None:
    """Says on stderr what takes so long."""
    print("compiling the engine, once for this version: some 15 s", file=sys.stderr, flush=True)


def mark_ready() -> None:
    """Notes that everything has been compiled and kept."""
    folder = cache_folder()
    if folder is not None:
        try:
            (folder / READY).touch()
        except OSError:
            return  # the next process compiles what is missing
