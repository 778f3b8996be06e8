"""Functions that are compiled together. Python calls some of them, and they are loaded when it first does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import CFUNCTYPE, addressof, byref, c_int32, c_int64, c_void_p
from dataclasses import dataclass, field
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from simcluster.machine_code.code_file import CodeFile

Function = TypeVar("Function", bound=Callable[..., Any])

LOADING = 0.05
"""Seconds that loading and handing over take, about: LLVM, half of it. Less than that is not worth it."""


@dataclass
class CompiledCode:
    """Functions that are compiled together."""

    name: str
    """What they do."""
    sources: tuple[Path, ...]
    """The files that define them."""
    module: str
    """Importing it adds all of them."""
    seconds: int
    """What compiling them takes."""
    extension: str = ""
    """A module that tells Numba more; only compiling imports it."""
    by_reference: tuple[str, ...] = ()
    """Annotations of named tuples of arrays that are handed on as one pointer (``references``)."""
    examples: dict[str, Any] = field(default_factory=dict)
    """What the parameters of entries are, by their annotations: a value of each."""
    functions: list[Callable[..., Any]] = field(default_factory=list)
    """What only machine code calls; each comes behind those that it calls."""
    entries: list[Callable[..., Any]] = field(default_factory=list)
    """What Python calls."""

    def __post_init__(self) -> None:
        self.file = CodeFile(self.name, self.sources)
        self._places: dict[str, int] = {}
        self._without = 0.0

    @property
    def is_loaded(self) -> bool:
        """Whether they can be called at once."""
        return bool(self._places)

    def pays(self, seconds: float) -> bool:
        """Whether machine code ends sooner than what takes so many ``seconds`` without it.

        It does if it is loaded; or what this process did without it takes longer than loading it, and it is
        kept, or Numba is there already. Else what is done without it is counted, over all processes: it is
        compiled once that took as long as compiling takes.
        """
        if self.is_loaded:
            return True
        self._without += seconds
        if self._without < LOADING:
            return False
        if self.file.is_kept or ("numba" in sys.modules and self.file.path is not None):
            return True
        return self.file.count(seconds) >= self.seconds

    def function(self, function: Function) -> Function:
        """Adds a function that others call.

        As machine code integers wrap and floats are those of IEEE 754, in the order in which they are
        written. References are not counted, so a function makes no arrays.
        """
        self.functions.append(function)
        return function

    def entry(self, function: Function) -> Function:
        """What Python calls instead of a function whose parameters have ``examples``: its machine code."""
        self.entries.append(function)
        name, is_truth = function.__name__, function.__annotations__["return"] == "bool"
        handed_on = [kind in self.by_reference for kind in function.__annotations__.values()][:-1]

        @wraps(function)
        def call(*arguments: Any) -> Any:
            words: list[int] = []
            tables = []
            for argument, by_reference in zip(arguments, handed_on, strict=True):
                if by_reference:
                    tables.append(_table(argument))
                    words.append(addressof(tables[-1]))
                else:
                    words += _words(argument)
            self.load()
            code = _prototype(len(words))(self._places[name])
            result, error = c_int64(), c_void_p()
            if code(byref(result), byref(error), *words):
                raise RuntimeError(f"{name} failed as machine code")
            return bool(result.value) if is_truth else result.value

        return call  # type: ignore[return-value]

    def load(self) -> None:
        """Loads the machine code, or compiles it: then it says so on stderr, and keeps it where it may."""
        if self.is_loaded:
            return
        from simcluster.machine_code.object_code import places_in

        import_module(self.module)
        names = [function.__name__ for function in self.entries]
        self._places = places_in(self.file.read(), names)
        if self._places:
            return
        with self.file.alone():
            # Another process may have made it by now.
            self._places = places_in(self.file.read(), names)
            if self._places:
                return
            when = "once for this version"
            if self.file.path is None:
                when = "in every run: there is no folder to keep it in ($XDG_CACHE_HOME)"
            print(f"compiling the {self.name}: some {self.seconds} s, {when}", file=sys.stderr, flush=True)
            from simcluster.machine_code.compiler import compile_code

            if self.extension:
                import_module(self.extension)
            made = compile_code(self.functions, self.entries, self.examples, self.by_reference)
            self._places = places_in(made.object_code, names)
            if self._places:
                self.file.write(made.object_code)
            else:  # of a system on which only Numba can load it
                self._places = made.places


@cache
def _prototype(num_words: int) -> Any:
    """How Numba's functions are called: with where the result goes, and what an error would be; the status
    is 0 if all went well.
    """
    return CFUNCTYPE(c_int32, c_void_p, c_void_p, *[c_int64] * num_words)


def _table(arrays: tuple[Any, ...]) -> Any:
    """Where the elements of every array lie, and how many they are."""
    words = [word for array in arrays for word in (array.ctypes.data, array.size)]
    return (c_int64 * len(words))(*words)


def _words(value: Any) -> list[int]:
    """What a function is handed of a number, an array of one dimension, or a tuple of such."""
    if isinstance(value, tuple):
        return [word for one in value for word in _words(one)]
    if isinstance(value, np.ndarray):
        size, (stride,) = value.size, value.strides
        return [0, 0, size, value.itemsize, value.ctypes.data, size, stride]
    return [int(value)]
