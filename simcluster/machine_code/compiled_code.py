"""Functions that are compiled together. Python calls some of them, and they are loaded when it first does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from ctypes import CFUNCTYPE, addressof, byref, c_int32, c_int64, c_void_p
from dataclasses import field
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from simcluster.deferred_dataclass import dataclass
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
    """What only machine code calls."""
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

        It does if it is loaded, or if it is kept and loading it takes no longer than what this process did
        without it. If it is not kept, what is done without it is counted, over all processes: it is compiled
        once that took as long as compiling takes.
        """
        if self.is_loaded:
            return True
        self._without += seconds
        if self._without < LOADING:
            return False
        return self.file.is_kept or self.file.count(seconds) >= self.seconds

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
        kinds = [kind for parameter, kind in function.__annotations__.items() if parameter != "return"]

        @wraps(function)
        def call(*arguments: Any) -> Any:
            words: list[int] = []
            tables = []
            for argument, kind in zip(arguments, kinds, strict=True):
                if kind in self.by_reference:
                    tables.append(_table(argument, self.examples[kind]))
                    words.append(addressof(tables[-1]))
                else:
                    words += _words(argument, self.examples[kind])
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


def _table(arrays: tuple[Any, ...], like: tuple[Any, ...]) -> Any:
    """Where the elements of every array lie, and how many they are."""
    words = []
    for array, example in zip(arrays, like, strict=True):
        words += [_place(array, example), array.size]
    return (c_int64 * len(words))(*words)


def _words(value: Any, like: Any) -> list[int]:
    """What a function is handed of a number, an array of one dimension, or a tuple of such."""
    if isinstance(like, tuple):
        return [word for one, example in zip(value, like, strict=True) for word in _words(one, example)]
    if isinstance(like, np.ndarray):
        return [0, 0, value.size, value.itemsize, _place(value, like), value.size, value.itemsize]
    return [int(value)]


def _place(array: Any, like: Any) -> int:
    """Where the elements of an array lie, one after another: machine code would write anywhere."""
    if array.ndim != 1 or array.dtype != like.dtype or not array.flags.c_contiguous:
        raise TypeError(f"machine code takes arrays of one dimension of {like.dtype}, not {array.dtype}")
    return int(array.ctypes.data)
