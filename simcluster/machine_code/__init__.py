"""Functions as machine code: compiled by Numba, kept in a file, and loaded from it without Numba."""

from simcluster.machine_code.compiled_code import CompiledCode

__all__ = ["CompiledCode"]
