"""What the entries of a communication stream do: few different things, many times over."""

from __future__ import annotations

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.linking.code_entries import NOTHING
from simcluster.number_arrays import Ints
from simcluster.program import Program


@dataclass(frozen=True, slots=True)
class EntryTypes:
    """The entries of one stream by what they do.

    ``places`` [kinds] are (code, instruction). ``which`` [entries] of these each does (``NOTHING``: it only
    waits), and its ``ordinals`` [entries]: those who meet in it meet for so many-th time on this stream, from
    0.
    """

    places: list[tuple[int, int]]
    which: Ints
    ordinals: Ints

    @classmethod
    def of(cls, program: Program, code_of: Ints, execution: Ints, instruction: Ints) -> EntryTypes:
        """Those of a stream whose entries do an ``instruction`` (``NOTHING``: they only wait) of the code of
        an ``execution``; ``code_of`` has those of all executions.
        """
        meeting = np.flatnonzero(instruction != NOTHING)
        used, codes = np.unique(code_of, return_inverse=True)
        longest = int(instruction.max(initial=0)) + 1
        keys = codes[execution[meeting]] * longest + instruction[meeting]
        # Kinds are numbered as they come: of equal keys the first, written last, stays.
        first = np.full(len(used) * longest, len(keys))
        first[keys[::-1]] = np.arange(len(keys))[::-1]
        known = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(keys))]
        number_of = np.empty_like(first)
        number_of[known] = np.arange(len(known))
        places = list(zip(used[known // longest].tolist(), (known % longest).tolist(), strict=True))
        which = np.full(len(instruction), NOTHING, dtype=np.int64)
        which[meeting] = number_of[keys]
        ordinals = np.zeros(len(instruction), dtype=np.int64)
        axes = [program.codes[code].instructions[index].group for code, index in places]
        numbers = {group: number for number, group in enumerate(dict.fromkeys(axes))}
        group_of = np.array([numbers[group] for group in axes], dtype=np.int64)[which[meeting]]
        for group in range(len(numbers)):
            own = meeting[group_of == group]
            ordinals[own] = np.arange(len(own))
        return cls(places, which, ordinals)
