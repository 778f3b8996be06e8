"""The parts a shell script is read as, and what is wrong with one that cannot be read."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem, ScenarioError


@dataclass(frozen=True, slots=True)
class Literal:
    """Characters that stand for themselves."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Variable:
    """``$NAME``, ``${NAME}``, ``${NAME:-default}``, ``${NAME[@]}``; ``index`` is what stands in brackets.

    ``operator`` says when ``default`` counts: ``:-`` and ``-`` where the variable is empty or not set, ``:=``
    and ``=`` too, which also set it, ``:+`` and ``+`` where it is set.
    """

    name: str
    line: int
    quoted: bool
    index: str = ""
    default: Word | None = None
    operator: str = ""


@dataclass(frozen=True, slots=True)
class ArithmeticExpansion:
    """``$((...))``: arithmetic over variables."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Unexpanded:
    """What only a shell could tell: ``$(...)``, backticks, ``${NAME%suffix}``; kept as it is written."""

    text: str
    line: int


WordPart = Literal | Variable | ArithmeticExpansion | Unexpanded


@dataclass(frozen=True, slots=True)
class Word:
    """Parts without blanks between them; ``quoted`` if any of it was in quotes."""

    parts: tuple[WordPart, ...]
    line: int
    quoted: bool = False

    @property
    def literal(self) -> str:
        """Its text if it is literal throughout, else nothing."""
        texts = [part.text for part in self.parts if isinstance(part, Literal)]
        return "".join(texts) if len(texts) == len(self.parts) else ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """``NAME=value``, ``NAME+=value``, ``NAME=(a b c)``."""

    name: str
    append: bool
    value: Word | tuple[Word, ...]
    line: int


@dataclass(frozen=True, slots=True)
class HereDocument:
    """A here-document: ``cat <<END > target``; in a ``quoted`` one variables are not filled in."""

    target: Word | None
    text: str
    line: int
    quoted: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """One simple command: assignments, then words.

    ``joined`` is what stands before it (``&&``, ``||``, ``|`` or nothing), ``negated`` whether it begins
    with ``!``.
    """

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    line: int
    joined: str = ""
    negated: bool = False
    documents: tuple[HereDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class Keyword:
    """A word of the shell's own: ``if``, ``then``, ``elif``, ``else``, ``fi``, ``loop``, ``do``, ``done``,
    ``case``, ``pattern``, ``esac``, ``{``, ``}``, ``(``, ``)``; ``words`` are those of a case and of its
    patterns, and what a loop goes over.
    """

    name: str
    line: int
    joined: str = ""
    words: tuple[Word, ...] = ()


def syntax_problem(name: str, line: int, message: str) -> ScenarioError:
    """A script that cannot be read, at a line."""
    return ScenarioError(Problem(message, where=f"{name}:{line}"))
