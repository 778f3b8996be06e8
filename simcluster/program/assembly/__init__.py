"""The Program put together: executions of every part, persistent buffers, the input pipeline, prefetch of
what is offloaded.
"""

from simcluster.program.assembly.build_program import build

__all__ = ["build"]
