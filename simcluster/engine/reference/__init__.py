"""The definition of what happens: a process of SimPy for every stream, meetings, links, and kernels that give
way to communication.
"""

from simcluster.engine.reference.run import run_by_processes

__all__ = ["run_by_processes"]
