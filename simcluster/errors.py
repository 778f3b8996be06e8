"""Every exception of simcluster, and how one problem is described.

    SimclusterError
      + ScenarioError      the user's file is wrong
      + PlanError          the file is well formed, the plan is impossible
      + SimulationError    the program went wrong while it ran: a deadlock, a value read too early
      + TraceError         a saved run cannot be read or does not hold what is asked

An error carries key paths (``parallel.mesh.tensor``), never line numbers: whoever holds the document turns
them into ``file:line:column``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from simcluster.deferred_dataclass import dataclass
from simcluster.printable import printable_text


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: what, where (a key path such as ``parallel.mesh.0``) and how to mend it.

    ``where`` and ``excerpt`` (the source line with a caret below the place) are filled in by the document
    once the key path has become ``file:line:column``. ``extra`` is the optional dependency of simcluster that
    is missing, where that is all that is wrong.
    """

    message: str
    path: str = ""
    hint: str = ""
    where: str = ""
    excerpt: str = ""
    extra: str = ""

    def __str__(self) -> str:
        return printable_text(self._text)

    @property
    def _text(self) -> str:
        place = self.where or self.path
        text = f"{place}: {self.message}" if place else self.message
        if self.excerpt:
            return f"{text}; {self.hint}\n{self.excerpt}" if self.hint else f"{text}\n{self.excerpt}"
        return f"{text}\n    {self.hint}" if self.hint else text


class SimclusterError(Exception):
    """Base of every error a user can meet; holds one or more problems, all of them shown together."""

    problems: tuple[Problem, ...]

    def __init__(self, *problems: Problem | str, path: str = "", hint: str = "") -> None:
        self.problems = tuple(
            problem if isinstance(problem, Problem) else Problem(problem, path, hint) for problem in problems
        )
        super().__init__(*self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)

    @property
    def lacks(self) -> tuple[str, ...]:
        """The optional dependencies that would mend all of it; none if something else is wrong, too."""
        extras = tuple(dict.fromkeys(problem.extra for problem in self.problems))
        return extras if all(extras) else ()


class ScenarioError(SimclusterError):
    """The document is wrong: unreadable, unknown keys, values of the wrong form, unknown names."""


class PlanError(SimclusterError):
    """The plan is impossible: axes that do not multiply, dims that do not divide, too many stages."""


class SimulationError(SimclusterError):
    """The program failed while it was run in time or in values."""


class TraceError(SimclusterError):
    """A saved run cannot be read."""


MOST_LISTED = 20
"""Names that a hint lists."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint such as ``did you mean 'h100-sxm'?``; where nothing is near, known names, of many the first."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"known: {', '.join(names[:MOST_LISTED])}{more}" if names else ""
