"""Functions as machine code: how they are compiled, and where that is kept. Numba comes with ``Compiler``."""

import sys
from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily
from simcluster.machine_code.code_folder import CodeFolder

if TYPE_CHECKING:
    from simcluster.machine_code.compiler import Compiler
    from simcluster.machine_code.references import pass_by_reference
else:
    __getattr__ = exported_lazily(__name__, {"compiler": "Compiler", "references": "pass_by_reference"})

__all__ = ["CodeFolder", "Compiler", "is_compiler_loaded", "pass_by_reference"]


def is_compiler_loaded() -> bool:
    """Whether something has been compiled, or loaded, in this process."""
    return "simcluster.machine_code.compiler" in sys.modules
