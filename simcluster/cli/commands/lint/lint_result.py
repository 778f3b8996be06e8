"""What lint finds in one scenario: its plan, what is wrong with it, or why it cannot be looked at here.

The process that hands scenarios out to others looks at none itself, and imports no more than it needs.
"""

from __future__ import annotations

from simcluster.cli.output.exit_code import ExitCode
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimclusterError


@dataclass(frozen=True, slots=True)
class LintRequest:
    """A scenario file that is to be looked at, and the changes of the command line."""

    path: str
    changes: tuple[tuple[str, str], ...]
    colour: bool
    details: bool = False
    """Whether what the framework profile changes is listed."""


@dataclass(frozen=True, slots=True)
class LintResult:
    """What follows from a scenario, as text, or the error."""

    text: str = ""
    error: SimclusterError | None = None

    @property
    def is_skipped(self) -> bool:
        """Whether all that is wrong is an optional dependency that is not installed."""
        return self.error is not None and bool(self.error.lacks)

    @property
    def code(self) -> ExitCode:
        """The exit code that it asks for."""
        if self.error is None or self.is_skipped:
            return ExitCode.DONE
        return ExitCode.of(self.error)


def lint_scenario(asked: LintRequest) -> LintResult:
    """A scenario read, planned and lowered; nothing is simulated."""
    from simcluster.garbage import no_collection

    # Around the frame that holds what is built, which is gone before the collector could look through it.
    with no_collection():
        return _looked_at(asked)


def _looked_at(asked: LintRequest) -> LintResult:
    from simcluster.baseline import bounds_of
    from simcluster.cli.commands.lint.plan_summary import planned_text
    from simcluster.scenario import Scenario
    from simcluster.simulation import build_scenario

    try:
        scenario = Scenario.load(asked.path, asked.changes)
        bounds_of(scenario)
        built = build_scenario(scenario, search=False)
    except SimclusterError as error:
        return LintResult(error=error)
    return LintResult(planned_text(asked.path, built, colour=asked.colour, details=asked.details))
