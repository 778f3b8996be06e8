"""What the exit code of a command says."""

from __future__ import annotations

from enum import IntEnum

from simcluster.errors import SimclusterError, SimulationError


class ExitCode(IntEnum):
    """Exit codes of every command; the worst of several scenarios counts."""

    DONE = 0
    """Everything was done and holds."""

    FAILED = 1
    """A plan does not fit, a check or a verification failed, or a simulation could not be finished."""

    WRONG_INPUT = 2
    """A scenario, an option or an output path is wrong, or a plan is impossible."""

    INTERRUPTED = 130
    """Ctrl-C."""

    @classmethod
    def of(cls, error: SimclusterError) -> ExitCode:
        """The code of an error: a program that went wrong while it ran is not the fault of the input."""
        return cls.FAILED if isinstance(error, SimulationError) else cls.WRONG_INPUT
