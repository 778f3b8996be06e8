"""What the script of a report page reads, read in Python."""

import json
import re
import zlib
from base64 import b64decode

import numpy as np


def piece(page, name):
    """The bytes of a piece of data."""
    found = re.search(rf'<script type="text/plain" id="data-{re.escape(name)}">([^<]*)</script>', page)
    return zlib.decompress(b64decode(found[1]))


def document(page, name):
    """A piece that is JSON."""
    return json.loads(piece(page, name))


def numbers(content):
    """All numbers of packed columns."""
    values, value, place = [], 0, 0
    for group in content:
        value |= (group & 127) << place
        place += 7
        if not group & 128:
            values.append(-(value + 1) // 2 if value & 1 else value // 2)
            value = place = 0
    return np.array(values, dtype=np.int64)


def tracks(page, number):
    """The tracks of a group of the timeline: name -> start, end, kind, context of every block."""
    values, at, found = numbers(piece(page, f"spans.{number}")), 0, {}
    for name, count in document(page, "timeline")["groups"][number]["tracks"]:
        gaps, lengths, kinds, contexts = values[at : at + 4 * count].reshape(4, count)
        ends = np.cumsum(gaps + lengths)
        found[name] = ends - lengths, ends, np.cumsum(kinds), np.cumsum(contexts)
        at += 4 * count
    assert at == len(values)
    return found
