"""Text without control characters: names come from files, and a terminal would execute escape sequences."""

from __future__ import annotations

import re

_COMMANDS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""Control characters but for line feeds and tabs, and what turns the direction of writing around."""

_COMMAND = re.compile(f"[{_COMMANDS}]")
_COMMAND_OR_STYLE = re.compile(rf"\x1b\[[\d;]*m|[{_COMMANDS}]")


def printable_text(text: str, *, styled: bool = False) -> str:
    r"""The text with control characters spelled out: ``\x1b``, ``\u202e``.

    ``styled`` text keeps the codes of colours and weights, which drawing put there.
    """
    return (_COMMAND_OR_STYLE if styled else _COMMAND).sub(_spelled, text)


def printable_json(content: bytes) -> bytes:
    """The same for JSON, which stays the same data."""
    return _COMMAND.sub(lambda match: f"\\u{ord(match[0]):04x}", content.decode()).encode()


def _spelled(match: re.Match[str]) -> str:
    if len(match[0]) > 1:
        return match[0]
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
