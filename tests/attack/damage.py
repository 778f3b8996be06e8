"""Damage to what is read: to its bytes, to its words, to its structure, by a random generator."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

EXECUTED = "executed"
"""The file that would be there if any text of an input were executed."""

HOSTILE: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2, 3, 7, 0.5, 64.0, 1e-300, 1e308, 2**31, 2**63, 10**30),
    *(
        "",
        " ",
        "auto",
        "none",
        "inf",
        ".nan",
        "-inf",
        "1e999",
        "0x10",
        "1_000",
        "64.0",
        "1..2",
        "5 GX",
        "-5 GB",
    ),
    *(
        [],
        {},
        [[]],
        [1, 2],
        [None],
        {"a": 1},
        {"": ""},
        "\x00",
        "\x1b[31mred\x1b[0m",
        "ä\u202e",
        "\ud7ff",
        "a" * 5000,
    ),
    *(
        f"$(touch {EXECUTED})",
        f"`touch {EXECUTED}`",
        f"; touch {EXECUTED} #",
        f"__import__('os').system('touch {EXECUTED}')",
    ),
    *(
        "../../../../etc/passwd",
        "/dev/null",
        "*",
        "layers.*",
        "{",
        "}",
        "[",
        "&a",
        "*a",
        "%",
        "'",
        '"',
        "\\",
        "!!",
        "<<",
    ),
)
"""Values that some reader may not expect."""

TAG = f'!!python/object/apply:os.system ["touch {EXECUTED}"]'


def of_text(text: str, rng: random.Random) -> bytes:
    """A text with its lines or words damaged, or its bytes."""
    way = rng.choice(_TEXT)
    return way(text, rng)


def of_bytes(content: bytes, rng: random.Random) -> bytes:
    """Bytes of which some are flipped, lost, doubled or zero."""
    found = bytearray(content)
    way = rng.choice(["flip", "flip", "flip", "cut", "lose", "double", "zero", "insert"])
    at = rng.randrange(len(found) + 1)
    span = rng.choice([1, 2, 8, 64, 1000])
    if way == "cut":
        return bytes(found[:at])
    if way == "lose":
        return bytes(found[:at] + found[at + span :])
    if way == "double":
        return bytes(found[: at + span] + found[at:])
    if way == "zero":
        return bytes(found[:at] + bytes(len(found[at : at + span])) + found[at + span :])
    if way == "insert":
        return bytes(found[:at] + rng.randbytes(span) + found[at:])
    for _ in range(rng.choice([1, 1, 3, 20])):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def of_data(data: Any, rng: random.Random, hostile: tuple[Any, ...] = HOSTILE) -> Any:
    """Nested data with values replaced, lost, renamed, wrapped or doubled in one to three places."""
    found = copy.deepcopy(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = [*_places(found)]
        if not places:
            break
        holder, key = rng.choice(places)
        way = rng.choice(["replace", "replace", "replace", "delete", "rename", "wrap", "other", "number"])
        if way == "delete":
            del holder[key]
        elif way == "rename" and isinstance(holder, dict):
            holder[rng.choice([f"{key}s", str(key)[:-1] or "x", str(key).upper(), "\x1b[1m", 5])] = (
                holder.pop(key)
            )
        elif way == "wrap":
            holder[key] = rng.choice([[holder[key]], {"use": holder[key]}, [holder[key], holder[key]]])
        elif way == "other":
            other, name = rng.choice(places)
            holder[key] = copy.deepcopy(other[name]) if name in other or isinstance(other, list) else None
        elif way == "number" and isinstance(holder[key], (int, float)):
            holder[key] = rng.choice(
                [holder[key] * 10**6, -holder[key], holder[key] + 1, holder[key] / 3, str(holder[key])]
            )
        else:
            holder[key] = copy.deepcopy(rng.choice(hostile))
    return found


def nested(depth: int, pair: str = "[]") -> str:
    """So many lists in each other."""
    return pair[0] * depth + pair[1] * depth


def _places(data: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    keys = [*data] if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        found.append((data, key))
        found += _places(data[key])
    return found


def _bytes(text: str, rng: random.Random) -> bytes:
    return of_bytes(text.encode(), rng)


def _line(text: str, rng: random.Random) -> bytes:
    """A line that is lost, doubled, turned around or moved."""
    lines = text.split("\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.choice(["lose", "double", "move", "indent", "halve"])
    if way == "lose":
        del lines[at]
    elif way == "double":
        lines.insert(to, lines[at])
    elif way == "move":
        lines.insert(to, lines.pop(at))
    elif way == "indent":
        lines[at] = rng.choice([" ", "\t", "  - ", "#"]) + lines[at]
    else:
        lines[at] = lines[at][: len(lines[at]) // 2]
    return "\n".join(lines).encode()


def _word(text: str, rng: random.Random) -> bytes:
    """A word in place of which something else stands."""
    words = text.split(" ")
    at = rng.randrange(len(words))
    value = rng.choice(HOSTILE)
    words[at] = value if isinstance(value, str) else json.dumps(value)
    return " ".join(words).encode(errors="replace")


def _ends(text: str, rng: random.Random) -> bytes:
    """Other line ends, other encodings."""
    way = rng.choice(["\r", "\r\n", "utf-16", "latin-1", "bom", "\x0b", "\u2028", "null"])
    if way in ("utf-16", "latin-1"):
        return (text + "é").encode(way, errors="replace")
    if way == "bom":
        return b"\xef\xbb\xbf" + text.encode()
    return text.replace("\n", "\x00" if way == "null" else way).encode()


def _whole(text: str, rng: random.Random) -> bytes:
    """Something else altogether."""
    others = [
        "",
        "\n",
        "\x00" * 64,
        "[]",
        "{}",
        "null",
        "0",
        '"text"',
        "---\n---\n",
        nested(100_000),
        nested(3000, "{}"),
    ]
    others += [
        TAG,
        f"a: {TAG}",
        "&a [*a]",
        '{"a": ' * 2000,
        "%PDF-1.4",
        "PK\x03\x04",
        "a,b\n1,2\n",
        "\x1b[2J",
    ]
    return rng.choice(others).encode()


_TEXT = (_bytes, _bytes, _line, _line, _line, _word, _word, _word, _ends, _whole)
