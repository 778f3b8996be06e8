"""The compiled implementation of the engine: an event loop over flat arrays, made machine code by Numba.

It does exactly what the reference does, up to millions of entries a second. Nothing imports it before it is
needed.
"""

from simcluster.engine.compiled.run import run_compiled

__all__ = ["run_compiled"]
