"""The words of ``--parts``: a law, or a file of numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simcluster.collectives import MOST_RANKS, Imbalance, ImbalanceLaw, UnequalParts
from simcluster.deferred_dataclass import dataclass
from simcluster.document import names_file, text_of


@dataclass(frozen=True, slots=True)
class RequestedParts:
    """Parts of an all-to-all-v as asked for; ``mean`` is their mean size where a file gives them in bytes."""

    words: str
    parts: UnequalParts
    mean: float | None = None

    def __str__(self) -> str:
        counts = self.parts.counts
        out, into = (counts.sum(axis=axis) * self.parts.share for axis in (1, 0))
        text = f"a rank has {_range(out)} the mean to send and gets {_range(into)}"
        return f"parts: {self.words}; {text}, what it keeps included"


def read_parts(words: str, seed: int | None, num_ranks: int) -> RequestedParts:
    """The parts for so many ranks: ``zipf:1.2``, or the file ``parts.csv``.

    ValueError says what is wrong, ScenarioError why the file cannot be read.

    A file has a line for each sender with a whole number for each receiver, its own part among them. Lines
    that begin with ``#`` are left out.
    """
    if num_ranks > MOST_RANKS:
        raise ValueError(f"{num_ranks:,} ranks; with unequal parts at most {MOST_RANKS:,}")
    path = Path(words)
    if words.partition(":")[0] in list(ImbalanceLaw) or not names_file(words):
        law = Imbalance.parse(words, seed or 0)
        drawn = "" if law.law is ImbalanceLaw.UNIFORM else f" (seed {law.seed})"
        return RequestedParts(f"{words}{drawn}", law.parts(num_ranks))
    if seed is not None:
        raise ValueError("a seed is for a law, not for a file; leave --seed out")
    lines = text_of(path, f"--parts {words}").splitlines()
    rows = [
        _row(line, f"{path}:{number}", num_ranks)
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]
    if len(rows) != num_ranks:
        raise ValueError(f"{path} has {len(rows)} lines of numbers; {num_ranks} ranks need one each")
    counts = np.array(rows, dtype=np.int64)
    try:
        parts = UnequalParts.of(counts)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return RequestedParts(path.name, parts, 1 / parts.share)


def _row(line: str, where: str, num_ranks: int) -> list[int]:
    sizes = []
    for word in line.split(","):
        if not word.strip().isdecimal() or len(word.strip()) > 16:
            raise ValueError(f"{where}: '{word.strip()}' is not a whole number of bytes")
        sizes.append(int(word))
    if len(sizes) != num_ranks:
        raise ValueError(f"{where}: {len(sizes)} numbers; {num_ranks} ranks need one each")
    return sizes


def _range(shares: np.ndarray) -> str:
    low, high = float(shares.min()), float(shares.max())
    return f"{low:.3g} to {high:.3g} times" if f"{low:.3g}" != f"{high:.3g}" else f"{low:.3g} times"
