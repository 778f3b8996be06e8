"""A fast reader for plainly written YAML: data only, an order of magnitude faster than the full parser.

It knows block mappings and lists, flow ``{...}`` and ``[...]``, one-line plain and quoted scalars, and
comments: what nearly every scenario and catalog file is made of. At the first thing it is not sure of
(an anchor, a tag, a tab, a block scalar, text over several lines, a duplicate key, any mistake) it gives up
and the full parser decides. So it never reports an error, and where it does not give up it must agree with
the full parser: a property test holds that.
"""

from __future__ import annotations

import re
from typing import Any

from simcluster.document.scalar import resolve

MAX_DEPTH = 20

# A colon inside plain text is followed by more text, a hash follows text; neither starts anything there.
_START = r"(?:[A-Za-z0-9_./+~<$(\xa0-\uffff]|-(?=[A-Za-z0-9_.]))"
_BLOCK_TEXT = rf"{_START}(?:[^\n:#]|:(?=[^ \n])|(?<=[^ ])#)*"
_FLOW_TEXT = rf"{_START}(?:[^\n:#,\[\]{{}}]|:(?=//)|(?<=[^ ])#)*"
_QUOTED = r'"(?P<double>[^"\\\n]*)"|' + r"'(?P<single>[^'\n]*)'"
_KEY = r"[A-Za-z0-9_][A-Za-z0-9_.*/+-]{0,200}"

_UNUSUAL = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u2030-\ud7ff\ue000-\ufefe]")
_SKIPPED = re.compile(r"(?: *(?:#[^\n]*)?\n)*(?: *(?:#[^\n]*)?\Z)?")
_HEAD = re.compile(rf"(?P<indent> *)(?P<dash>-(?: +|(?=\n|\Z)))?(?:(?P<key>{_KEY}):(?: +|(?=\n|\Z)))?")
_VALUE = re.compile(rf"(?:(?P<text>{_BLOCK_TEXT})|{_QUOTED}|(?P<open>[\[{{])|(?P<nothing>(?=[#\n]|\Z)))")
_TAIL = re.compile(r" *(?:(?<= )#[^\n]*)?(?:\n|\Z)")
_SPACE = re.compile(r"(?: |\n|(?<=[ \n])#[^\n]*)*")
_ITEM = re.compile(rf"(?:(?P<text>{_FLOW_TEXT})|{_QUOTED}|(?P<mark>[\[\]{{}},]))")


class _GivenUp(Exception):
    """The text needs the full parser."""


def read_plain(text: str) -> dict[Any, Any] | None:
    """The data of a plainly written document, or None when the full parser is needed to tell."""
    if _UNUSUAL.search(text):
        return None
    try:
        return _Reader(text).document()
    except (_GivenUp, ValueError):
        return None


class _Reader:
    """One pass over the text.

    ``indent``, ``dash`` and ``key`` describe the line it stands on, ``inner`` the column behind the dash.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.indent = -1
        self.inner = 0
        self.dash = False
        self.key: str | None = None

    def document(self) -> dict[Any, Any]:
        self.next_line()
        if self.indent != 0 or self.dash:
            raise _GivenUp
        data = self.mapping(0, 0)
        if self.indent >= 0:
            raise _GivenUp
        return data

    def next_line(self) -> None:
        """Reads the head of the next line that is not blank; ``indent`` is -1 when there is none."""
        position = _SKIPPED.match(self.text, self.position).end()  # type: ignore[union-attr]
        if position == len(self.text):
            self.indent, self.position = -1, position
            return
        head = _HEAD.match(self.text, position)
        assert head is not None
        self.dash = head["dash"] is not None
        self.key = head["key"]
        self.indent = len(head["indent"])
        self.position = head.end()
        self.inner = self.indent + len(head["dash"] or "")

    def mapping(self, indent: int, depth: int) -> dict[Any, Any]:
        data: dict[Any, Any] = {}
        while self.indent == indent and not self.dash:
            if self.key is None:
                raise _GivenUp
            key = resolve(self.key)
            if key in data:
                raise _GivenUp
            data[key] = self.value(indent, depth, below_dash=False)
        if self.indent >= indent:
            raise _GivenUp
        return data

    def sequence(self, indent: int, depth: int) -> list[Any]:
        data: list[Any] = []
        while self.indent == indent and self.dash:
            if self.key is None:
                data.append(self.value(indent, depth, below_dash=True))
            else:  # "- key: value" opens a mapping where the key stands
                self.indent, self.dash = self.inner, False
                data.append(self.mapping(self.indent, depth + 1))
        if self.indent > indent:
            raise _GivenUp
        return data

    def value(self, indent: int, depth: int, *, below_dash: bool) -> Any:
        """What stands behind a key or a dash at ``indent``; afterwards the reader is on the next line."""
        found = _VALUE.match(self.text, self.position)
        if found is None or depth > MAX_DEPTH:
            raise _GivenUp
        self.position = found.end()
        if found["open"]:
            data = self.flow(found["open"], indent, depth)
        elif found["nothing"] is not None:
            self.end_line()
            return self.below(indent, depth, below_dash=below_dash)
        else:
            data = _scalar(found)
        self.end_line()
        if self.indent > indent:
            raise _GivenUp
        return data

    def end_line(self) -> None:
        tail = _TAIL.match(self.text, self.position)
        if tail is None:
            raise _GivenUp
        self.position = tail.end()
        self.next_line()

    def below(self, indent: int, depth: int, *, below_dash: bool) -> Any:
        """The block under a line that ended at its colon or dash; None when there is none."""
        if self.indent > indent:
            read = self.sequence if self.dash else self.mapping
            return read(self.indent, depth + 1)
        if self.indent == indent and self.dash and not below_dash:  # a list may stand as far left as its key
            data = self.sequence(indent, depth + 1)
            if self.indent == indent and self.dash:
                raise _GivenUp
            return data
        return None

    def flow(self, opened: str, indent: int, depth: int) -> dict[Any, Any] | list[Any]:
        if depth > MAX_DEPTH:
            raise _GivenUp
        mapping: dict[Any, Any] = {}
        items: list[Any] = []
        closing = "}" if opened == "{" else "]"
        while True:
            item = self.flow_item(indent)
            if item["mark"] == closing:
                break
            if opened == "[":
                items.append(self.flow_value(item, indent, depth))
            else:
                if item["mark"] or self.text[self.position : self.position + 1] != ":":
                    raise _GivenUp
                key = _scalar(item)
                if key in mapping or self.text[self.position + 1 : self.position + 2] != " ":
                    raise _GivenUp
                self.position += 1
                mapping[key] = self.flow_value(self.flow_item(indent), indent, depth)
            mark = self.flow_item(indent)["mark"]
            if mark == closing:
                break
            if mark != ",":
                raise _GivenUp
        return mapping if opened == "{" else items

    def flow_item(self, indent: int) -> re.Match[str]:
        """The next scalar, bracket or comma; on a new line it must stand deeper than the block around."""
        start = self.position
        position = _SPACE.match(self.text, start).end()  # type: ignore[union-attr]
        line = self.text.rfind("\n", start, position)
        if line >= 0 and position - line - 1 <= indent:
            raise _GivenUp
        found = _ITEM.match(self.text, position)
        if found is None:
            raise _GivenUp
        self.position = found.end()
        return found

    def flow_value(self, item: re.Match[str], indent: int, depth: int) -> Any:
        mark = item["mark"]
        if mark is None:
            return _scalar(item)
        if mark in "[{":
            return self.flow(mark, indent, depth + 1)
        raise _GivenUp


def _scalar(found: re.Match[str]) -> Any:
    text = found["text"]
    if text is not None:
        return resolve(text.rstrip(" "))
    return found["double"] if found["double"] is not None else found["single"]
