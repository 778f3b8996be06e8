"""Packages of which most runs need a part only: what they export is imported when it is first used (PEP 562).

Such a package imports its names for readers and type checkers alone, and says in which module each is:

    if TYPE_CHECKING:
        from simcluster.draw.grid import TONES, schedule_grid
    else:
        __getattr__ = exported_lazily(__name__, {"grid": "TONES schedule_grid"})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def exported_lazily(
    package: str, modules: Mapping[str, str], packages: Collection[str] = ()
) -> Callable[[str], object]:
    """The ``__getattr__`` of a package.

    ``modules`` has by module, named from the package on, the names that it defines, separated by blanks;
    ``packages`` are those inside that are exported themselves.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def resolved(name: str) -> object:
        """A name of the package, imported from where it lives and kept there from then on."""
        if name in packages:
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return resolved
