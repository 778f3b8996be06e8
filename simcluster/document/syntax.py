"""Mistakes of YAML syntax in plain words: what is wrong, where, and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable

from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from simcluster.document.mark import SourceText
from simcluster.errors import Problem, ScenarioError

# The parser's own name for what it met, where a reader would not guess it.
_MET = {
    "<stream end>": "the end of the file",
    "<document start>": "'---'",
    "<document end>": "'...'",
    "<scalar>": "more text",
    "<block mapping start>": "a key",
    "<block sequence start>": "a list item",
    "<block end>": "the end of the block",
    "<anchor>": "an anchor ('&')",
    "<alias>": "an alias ('*')",
    "<tag>": "a tag ('!')",
    "?": "a key",
    "-": "a list item",
}


def syntax_error(source: SourceText, error: YAMLError) -> ScenarioError:
    """The parser's error with its place, in words for users of YAML."""
    if isinstance(error, ReaderError):
        code = error.character if isinstance(error.character, int) else ord(error.character)
        return error_at(source, error.position, f"the character U+{code:04X} is not allowed in YAML")
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return error_at(source, 0, "this is not valid YAML")
    place = error.problem_mark.index
    opened = error.context_mark.index if error.context_mark is not None else place
    problem = " ".join(str(error.problem).split())
    if source.text[place : place + 1] == "\t" or _indented_with_tab(source, place):
        return error_at(source, place, "a tab where YAML needs spaces; indent and align with spaces only")
    for pattern, words in _WORDS:
        match = re.search(pattern, problem)
        if match:
            return error_at(source, *words(source, place, opened, match))
    return error_at(source, place, f"this is not valid YAML: {problem}")


def error_at(source: SourceText, index: int, message: str) -> ScenarioError:
    """An error at the character with this index."""
    mark = source.mark(index)
    return ScenarioError(Problem(message, where=str(mark), excerpt=mark.excerpt()))


def _indented_with_tab(source: SourceText, place: int) -> bool:
    line = source.text[source.text.rfind("\n", 0, place) + 1 : place]
    return "\t" in line[: len(line) - len(line.lstrip())]


_Words = Callable[[SourceText, int, int, "re.Match[str]"], tuple[int, str]]


def _unexpected_start(source: SourceText, place: int, opened: int, match: re.Match[str]) -> tuple[int, str]:
    character = source.text[place : place + 1]
    return place, f"text cannot start with '{character}'; put it in quotes"


def _second_colon(source: SourceText, place: int, opened: int, match: re.Match[str]) -> tuple[int, str]:
    line_start = source.text.rfind("\n", 0, place) + 1
    if ": " in source.text[line_start:place]:
        return place, "a second ': ' on this line; put text that holds ': ' in quotes"
    key = line_start + len(source.text[line_start:place]) - len(source.text[line_start:place].lstrip())
    return key, "this key does not fit below the line above; align it with the keys it belongs to"


def _no_colon(source: SourceText, place: int, opened: int, match: re.Match[str]) -> tuple[int, str]:
    text = source.text[opened:].split("\n", 1)[0].strip()
    return opened, f"'{_short(text)}' has no value; expected 'key: value'"


def _not_closed(source: SourceText, place: int, opened: int, match: re.Match[str]) -> tuple[int, str]:
    closing = match[1]
    kind, opening = ("list", "[") if closing == "]" else ("mapping", "{")
    line = source.mark(opened).line
    unclosed = f"the {kind} opened with '{opening}'" + (f" on line {line}" if line else "")
    if place >= len(source.text.rstrip()):
        return opened, f"{unclosed} is never closed; expected ',' or '{closing}'"
    return place, f"expected ',' or '{closing}' here: {unclosed} is not closed yet"


def _block_ends(source: SourceText, place: int, opened: int, match: re.Match[str]) -> tuple[int, str]:
    met = match[1]
    if met in ("<block mapping start>", "<block sequence start>"):
        return place, "the indentation fits none of the lines above; align this line with its neighbours"
    if met == "-":
        return place, "a list item among keys; expected 'key: value'"
    if met == "?" and source.text[opened : opened + 1] == "-":
        return place, "a key among list items; expected '- '"
    return place, f"expected the end of the line, but found {_MET.get(met, repr(met))}"


def _no_content(source: SourceText, place: int, opened: int, match: re.Match[str]) -> tuple[int, str]:
    met = match[1]
    if met in ("]", "}") and source.text[opened:place].count("{["["}]".index(met)]) == 0:
        return place, f"a closing '{met}' without its opening '{'[' if met == ']' else '{'}'"
    return place, f"expected a value, but found {_MET.get(met, repr(met))}"


def _saying(message: str, *, where_opened: bool = False) -> _Words:
    """Fixed words; groups of the pattern may be named in them."""

    def words(source: SourceText, place: int, opened: int, match: re.Match[str]) -> tuple[int, str]:
        return opened if where_opened else place, message.format(*match.groups())

    return words


_WORDS: tuple[tuple[str, _Words], ...] = (
    ("that cannot start any token", _unexpected_start),
    ("mapping values are not allowed here", _second_colon),
    ("could not find expected ':'", _no_colon),
    (r"expected ',' or '(.)'", _not_closed),
    (r"expected <block end>, but found '(.*)'", _block_ends),
    (r"expected the node content, but found '(.*)'", _no_content),
    (
        "sequence entries are not allowed here",
        _saying("a list item cannot start here; put '- ' on its own line below the key, or write [a, b]"),
    ),
    ("mapping keys are not allowed here", _saying("text cannot start with '? '; put it in quotes")),
    (
        "found unexpected (?:end of stream|document separator)",
        _saying("the quote opened here is never closed", where_opened=True),
    ),
    (
        r"found unknown escape character '(.+)'",
        _saying(r"'\{0}' is not an escape in double quotes; use single quotes, or write '\\{0}'"),
    ),
    (
        r"expected escape sequence of (\d+) hex",
        _saying(r"this escape needs {0} hexadecimal digits; for a plain '\' use single quotes"),
    ),
    (
        "indentation indicator|a comment or a line break|more indented follow up line",
        _saying("a text block starts on the line after '|' or '>', evenly indented", where_opened=True),
    ),
    ("incompatible YAML document", _saying("this is another version of YAML; simcluster reads YAML 1.2")),
    (
        "expected alphabetic or numeric character",
        _saying(
            "'*' and '&' at the start name an alias or an anchor; put the text in quotes", where_opened=True
        ),
    ),
    (
        "expected '<document start>'",
        _saying("this line does not belong to what is above; check the indentation of the first line"),
    ),
    ("URI|tag handle|expected '>'|expected '!'|expected ' '", _saying("tags ('!') are not accepted")),
)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
