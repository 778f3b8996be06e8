"""The Program put together: executions of every part, persistent buffers, the input pipeline, prefetch of
what is offloaded; and Programs that move bytes alone.
"""

from simcluster.program.assembly.build_program import build
from simcluster.program.assembly.copy_program import BytesMoved, program_of_copies

__all__ = ["BytesMoved", "build", "program_of_copies"]
