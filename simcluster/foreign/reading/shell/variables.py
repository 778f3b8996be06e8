"""The variables of a shell script, and their expansion in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from simcluster.foreign.reading.shell.arithmetic import LONGEST, arithmetic_words, evaluate_arithmetic
from simcluster.foreign.reading.shell.field import Field, Script, TextPiece
from simcluster.foreign.reading.shell.substitutions import substituted
from simcluster.foreign.reading.shell.syntax import (
    ArithmeticExpansion,
    Literal,
    Unexpanded,
    Variable,
    Word,
    WordPart,
    syntax_problem,
)
from simcluster.foreign.reading.shell.words import WordReader

_MOST = 2**20
"""Most characters that all expanded words of a script may have together."""

_ARGUMENTS = {"@", "*"}
_BARE = re.compile(r"(?<!\w)[A-Za-z_][A-Za-z0-9_]*")
_KEY = re.compile(r"\[([^\]]*)\]=(.*)", re.S)


class Variables:
    """What the variables of a script hold; ``given`` are values that win over what it says.

    ``positional`` are the arguments of the function that runs, or those that ``set --`` said; None where
    nothing tells them.
    """

    def __init__(self, name: str, given: Mapping[str, str]) -> None:
        self.given = given
        self.script = Script(name)
        self.branched: dict[str, str] = {}
        self.positional: list[Field] | None = None
        self.size = 0

    def is_unset(self, part: WordPart) -> bool:
        """Whether a part is a variable that neither the script nor anybody else sets."""
        if not isinstance(part, Variable) or part.default is not None or not nameable(part.name):
            return False
        name = part.name
        if name.isdecimal() and self.positional is not None:
            return False
        return name not in self.given and name not in self.branched and name not in self.script.values

    def fields(self, words: Iterable[Word]) -> Iterator[Field]:
        """Words with their variables filled in; unquoted values fall apart at blanks."""
        for word in words:
            whole = self.array_items(word)
            if whole is not None:
                yield from whole
                continue
            joined = self.joined(word)
            if word.quoted or not any(isinstance(part, Variable) for part in word.parts):
                yield joined
            else:
                yield from joined.split()

    def array_items(self, word: Word) -> list[Field] | None:
        """The items of a word that is just ``"${ARRAY[@]}"`` or ``$@``."""
        if len(word.parts) != 1 or not isinstance(word.parts[0], Variable):
            return None
        part = word.parts[0]
        if part.name in _ARGUMENTS and part.name not in self.given:
            if self.positional is None:
                self.arguments(part)
                return []
            self.count_expansion(sum(len(item.text) for item in self.positional), part.line)
            return self.split(self.positional, part)
        if part.index in _ARGUMENTS and part.name not in self.given and self.known(part.name):
            items = self.script.values[part.name]
            self.count_expansion(sum(len(item.text) for item in items), part.line)
            return self.split(items, part)
        return None

    def split(self, items: list[Field], part: Variable) -> list[Field]:
        """The items of an array; without quotes they fall apart at blanks."""
        return list(items) if part.quoted else [piece for item in items for piece in item.split()]

    def joined(self, word: Word) -> Field:
        """A word as one field."""
        pieces: list[TextPiece] = []
        missing: list[str] = []
        for part in word.parts:
            field = self.part(part)
            pieces += field.pieces
            missing += field.missing
        self.count_expansion(sum(len(piece.text) for piece in pieces), word.line)
        return Field(tuple(pieces) or (TextPiece("", word.line),), tuple(dict.fromkeys(missing)))

    def part(self, part: WordPart) -> Field:
        """One part of a word, filled in; as it is written where the text does not tell."""
        match part:
            case Literal(text, line):
                return Field((TextPiece(text, line),))
            case Unexpanded(text, line):
                filled = substituted(text, self.plain, lambda sum_: self.computed(sum_, line))
                if filled is not None:
                    return Field((TextPiece(filled, line),))
                return Field((TextPiece(text, line),), (text,))
            case ArithmeticExpansion(text, line):
                number = self.computed(text, line)
                if number is not None:
                    return Field((TextPiece(str(number), line),))
                return self.uncomputed(text, line)
        return self.variable(part)

    def uncomputed(self, text: str, line: int) -> Field:
        """Arithmetic that cannot be worked out, and the names in it that are not known."""
        bare = "".join(text.split())
        names = [name for name in dict.fromkeys(_BARE.findall(bare)) if self.plain(name) is None]
        shown = f"$(({bare}))"
        missing = tuple(f"${{{name}}}" for name in names)
        for name in names:
            shown = re.sub(rf"(?<![\w{{$]){name}\b|\${name}\b", f"${{{name}}}", shown)
        return Field((TextPiece(shown, line),), missing or (shown,))

    def variable(self, part: Variable) -> Field:
        """The value of a variable, or what stands for it; as it is written where it is not known."""
        known, line = self.value(part), part.line
        if part.operator in (":+", "+") and part.default is not None and part.name not in self.branched:
            filled = known is not None and (bool(known.text) or part.operator == "+")
            return self.joined(part.default) if filled else Field((TextPiece("", line),))
        if known is not None and (known.text or not part.operator.startswith(":")):
            return known
        if part.default is not None and part.name not in self.branched:
            field = self.joined(part.default)
            if part.operator in (":=", "=") and nameable(part.name):
                self.script.values[part.name] = [field]
            return field
        if part.name in _ARGUMENTS:
            return self.arguments(part)
        index = f"[{part.index}]" if part.index else ""
        shown = f"${{{part.name}{index}}}"
        if part.name in self.branched:
            self.script.reasons[shown] = self.branched[part.name]
        return Field((TextPiece(shown, line),), (shown,))

    def value(self, part: Variable) -> Field | None:
        """What is given or set for a variable; None if nothing is known of it."""
        name, line = part.name, part.line
        if self.positional is not None and (name.isdecimal() or name == "#"):
            return self.argument(name, line)
        if name == "#":
            count = max((int(given) for given in self.given if given.isdecimal()), default=0)
            if not count:
                self.remark(line, "the script is taken as called without arguments; --var 1=... gives one")
            return Field((TextPiece(str(count), line),))
        if name in self.given:
            return Field((TextPiece(self.given[name], line),))
        index = self.index(part)
        if index and self.known(entry := f"{name}[{index}]"):
            name, index = entry, ""
        if not self.known(name):
            return None
        items = self.script.values[name]
        if index.isdigit() and len(index) < 6:
            items = items[int(index) : int(index) + 1]
        elif index not in ("", "@", "*"):
            items = []
        elif not index:
            items = items[:1]
        if not items:
            return None
        pieces = [piece for item in items for piece in (TextPiece(" ", line), *item.pieces)][1:]
        return Field(tuple(pieces), tuple(m for item in items for m in item.missing))

    def index(self, part: Variable) -> str:
        """What stands in the brackets of ``${NAME[...]}``, variables filled in."""
        if part.index.isdigit() or part.index in ("", *_ARGUMENTS):
            return part.index
        parts = WordReader(part.index.strip("\"'"), self.script.name, part.line, 1).quoted("\0")
        field = self.joined(Word(tuple(parts), part.line, True))
        bare = "" if field.missing or field.condition else field.text
        return self.plain(bare) or bare if self.known(bare) and bare != part.name else bare

    def argument(self, name: str, line: int) -> Field | None:
        """An argument of the function that runs, or how many it has; ``$0`` is the script's."""
        positional = self.positional or []
        if name == "#":
            return Field((TextPiece(str(len(positional)), line),))
        if name == "0" or len(name) > 3:
            return None
        chosen = positional[int(name) - 1 : int(name)]
        return chosen[0] if chosen else Field((TextPiece("", line),))

    def plain(self, name: str) -> str | None:
        """The text of a variable; None where it is not known for sure."""
        field = self.value(Variable(name, 0, True))
        return None if field is None or field.missing or field.condition else field.text

    def assign_keys(self, name: str, fields: list[Field]) -> bool:
        """Sets the entries of an array with keys (``([a]=1 [b]=2)``); whether these fields are one."""
        entries = [_KEY.fullmatch(field.text) for field in fields]
        if not entries or not all(entries):
            return False
        for field, entry in zip(fields, entries, strict=True):
            if entry is not None:
                text = TextPiece(entry[2], field.line, field.condition)
                self.script.values[f"{name}[{entry[1]}]"] = [Field((text,), field.missing)]
        return True

    def arguments(self, part: Variable) -> Field:
        """The arguments of the script itself, which its text cannot tell."""
        if self.positional is not None:
            pieces = [p for item in self.positional for p in (TextPiece(" ", part.line), *item.pieces)][1:]
            missing = tuple(m for item in self.positional for m in item.missing)
            return Field(tuple(pieces) or (TextPiece("", part.line),), missing)
        self.remark(part.line, f"the arguments that the script is called with (${part.name}) are not known")
        return Field((TextPiece("", part.line),))

    def known(self, name: str) -> bool:
        """Whether the script says what a variable is, without a condition."""
        return name in self.script.values and name not in self.branched

    def computed(self, text: str, line: int) -> int | None:
        """The value of integer arithmetic, or None where the text does not tell."""
        if len(text) > LONGEST:
            return None
        filled = self.joined(Word(tuple(self.inside_arithmetic(text, line)), line))
        if filled.missing or filled.condition:
            return None
        return evaluate_arithmetic(
            arithmetic_words(filled.text), lambda name: self.variable(Variable(name, 0, True)).text
        )

    def inside_arithmetic(self, text: str, line: int) -> Iterator[WordPart]:
        """The parts of the inside of ``$((...))``."""
        if '"' not in text and "\\" not in text:
            yield from WordReader(text, self.script.name, line, depth=1).quoted("\0")

    def count_expansion(self, amount: int, line: int) -> None:
        """Counts what is filled in; a script that doubles its variables again and again is refused."""
        self.size += amount
        if self.size > _MOST:
            raise syntax_problem(
                self.script.name, line, f"the variables of this script hold more than {_MOST:,} characters"
            )

    def remark(self, line: int, text: str) -> None:
        """Something to know of the script, once."""
        said = f"{self.script.name}:{line}: {text}"
        if said not in self.script.remarks:
            self.script.remarks.append(said)


def nameable(name: str) -> bool:
    """Whether --var can say it: a name, or the number of an argument."""
    return name.isidentifier() or name.isdecimal()
