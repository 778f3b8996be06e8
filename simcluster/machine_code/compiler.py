"""How functions become object code, by Numba."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numba
from numba.extending import register_jitable

from simcluster.deferred_dataclass import dataclass
from simcluster.machine_code.object_code import object_code_of
from simcluster.machine_code.references import reference_to

_numba: Any = numba
"""Its types leave out the options that are used here."""

OPTIONS = {
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}
"""No function fails, makes an array, or is called by way of Python's objects."""


@dataclass(frozen=True)
class Made:
    """Entries as ``object_code``, and the ``places`` where Numba has them."""

    object_code: bytes
    places: dict[str, int]


def compile_code(
    functions: Sequence[Callable[..., Any]],
    entries: Sequence[Callable[..., Any]],
    examples: Mapping[str, Any],
    by_reference: Collection[str],
) -> Made:
    """Compiles entries for values like the ``examples`` by annotation, and the functions that they call."""
    kinds = {
        name: reference_to(value) if name in by_reference else _numba.typeof(value)
        for name, value in examples.items()
    }
    for function in functions:
        register_jitable(**OPTIONS)(function)
    modules, symbols, places = [], {}, {}
    for entry in entries:
        parameters = tuple(kinds[kind] for name, kind in entry.__annotations__.items() if name != "return")
        made = _numba.njit(**OPTIONS)(entry)
        made.compile(parameters)
        modules.append(made.inspect_llvm(parameters))
        overload = made.overloads[parameters]
        symbols[entry.__name__] = symbol = overload.fndesc.llvm_func_name
        places[entry.__name__] = overload.library.get_pointer_to_function(symbol)
    return Made(object_code_of(modules, symbols), places)
