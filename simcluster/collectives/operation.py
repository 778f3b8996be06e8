"""The operations that move data between the ranks of a group, and what their byte counts mean."""

from __future__ import annotations

import enum


class Operation(enum.StrEnum):
    """A collective, or the point-to-point transfer.

    Bytes S are counted as nccl-tests does, for a group of n ranks and arrays cut along their first dim:

    ==============  ============================================  ==========================
    operation       every rank ends with                          S
    ==============  ============================================  ==========================
    all_reduce      the elementwise sum (or maximum) of all       one rank's array
    all_gather      all arrays, one after the other               the result
    reduce_scatter  its n-th part of the elementwise sum          one rank's array
    all_to_all      part i of every rank's array, for rank i      one rank's array
    broadcast       the array of the first rank                   that array
    send_receive    the second rank has the first one's array     that array
    ==============  ============================================  ==========================
    """

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    SEND_RECEIVE = "send_receive"

    def bus_factor(self, num_ranks: int) -> float:
        """The ratio of busbw to algbw for a group of ``num_ranks``.

        As nccl-tests defines it (``doc/PERFORMANCE.md``): what each rank must send at least, in units of S.
        It makes rates comparable to a link's, whatever the operation and the number of ranks.
        """
        match self:
            case Operation.ALL_REDUCE:
                return 2 * (num_ranks - 1) / num_ranks
            case Operation.ALL_GATHER | Operation.REDUCE_SCATTER | Operation.ALL_TO_ALL:
                return (num_ranks - 1) / num_ranks
            case Operation.BROADCAST | Operation.SEND_RECEIVE:
                return 1.0
