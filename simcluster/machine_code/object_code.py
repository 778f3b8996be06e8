"""Object code for this processor, made and loaded by LLVM; Numba is not imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm

_loaded: list[Any] = []
"""What has been loaded stays as long as the process."""


@cache
def _machine() -> Any:
    """The processor, as LLVM knows it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(llvm.get_host_cpu_name(), features, opt=3, reloc="pic", jit=True)


def processor() -> str:
    """What object code depends on."""
    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


def object_code_of(modules: Sequence[str], entries: Mapping[str, str]) -> bytes:
    """The object code of modules in LLVM's language, in which ``entries`` get names of their own."""
    whole = llvm.parse_assembly(modules[0])
    for module in modules[1:]:
        whole.link_in(llvm.parse_assembly(module))
    for name, symbol in entries.items():
        whole.get_function(symbol).name = name
    return bytes(_machine().emit_object(whole))


def places_in(object_code: bytes, names: Sequence[str]) -> dict[str, int]:
    """Where functions are once their object code is loaded; nothing if it cannot be."""
    if not object_code:
        return {}
    builder = llvm.JITLibraryBuilder().add_object_img(object_code).add_current_process()
    for name in names:
        builder.export_symbol(name)
    try:
        linker = llvm.create_lljit_compiler(_machine(), suppress_errors=True)
        library = builder.link(linker, f"code {len(_loaded)}")
    except RuntimeError:  # it lacks a symbol
        return {}
    _loaded.append((linker, library))
    return {name: library[name] for name in names}
