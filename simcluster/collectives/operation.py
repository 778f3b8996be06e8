"""The operations that move data between the ranks of a group, and what their byte counts mean."""

from __future__ import annotations

import enum


class Operation(enum.StrEnum):
    """A collective, or the point-to-point transfer.

    Bytes S are counted as nccl-tests does, for a group of n ranks and arrays cut along their first dim; the
    root is the group's first rank:

    =================  ==========================================  ==========================
    operation          what ranks end with                         S
    =================  ==========================================  ==========================
    all_reduce         every: the elementwise sum (or maximum)     one rank's array
    all_gather         every: all arrays, one after the other      the result
    reduce_scatter     every: its n-th part of the elementwise sum one rank's array
    all_to_all         rank i: part i of every rank's array        one rank's array
    all_to_all_v       the same with parts of different sizes      the mean of ranks' arrays
    broadcast          every: the array of the root                that array
    reduce             the root: the elementwise sum               one rank's array
    gather             the root: all arrays, one after the other   the result
    scatter            rank i: part i of the root's array          that array
    send_receive       the second rank: the first one's array      that array
    barrier            nobody goes on before all have come         nothing
    neighbor_exchange  rank i: the second half of rank i-1's,      one rank's array
                       the first half of rank i+1's array
    shift              rank i: the array of rank i-1               one rank's array
    rotate             the same, and rank 0: that of the last      one rank's array
    =================  ==========================================  ==========================

    Shifts and exchanges with neighbours stop at the ends: nobody sends from the last rank to the first, and
    what a rank without a neighbour would have had from it is left to the caller.
    """

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    ALL_TO_ALL_V = "all_to_all_v"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
    SEND_RECEIVE = "send_receive"
    BARRIER = "barrier"
    NEIGHBOR_EXCHANGE = "neighbor_exchange"
    SHIFT = "shift"
    ROTATE = "rotate"

    def bus_factor(self, num_ranks: int) -> float:
        """The ratio of busbw to algbw for a group of ``num_ranks``.

        As nccl-tests defines it (``doc/PERFORMANCE.md``): what the busiest rank must send or receive at
        least, in units of S. It makes rates comparable to a link's, whatever the operation and the number of
        ranks.
        """
        match self:
            case Operation.ALL_REDUCE:
                return 2 * (num_ranks - 1) / num_ranks
            case Operation.BROADCAST | Operation.REDUCE | Operation.SEND_RECEIVE | Operation.BARRIER:
                return 1.0
            case Operation.SHIFT | Operation.ROTATE:
                return 1.0
            case Operation.NEIGHBOR_EXCHANGE:
                return 1.0 if num_ranks > 2 else 0.5
            case _:
                return (num_ranks - 1) / num_ranks

    def copies(self, num_ranks: int) -> float:
        """How often S crosses from one rank to another, all ranks of the group together.

        In a ring or a chain, where nothing crosses twice but what is reduced and then spread. Of an
        all-to-all-v with equal parts; with others, the parts say it.
        """
        match self:
            case Operation.BARRIER:
                return 0.0
            case Operation.ALL_REDUCE:
                return 2.0 * (num_ranks - 1)
            case Operation.SEND_RECEIVE:
                return 1.0
            case Operation.ROTATE:
                return float(num_ranks)
            case Operation.GATHER | Operation.SCATTER:
                return (num_ranks - 1) / num_ranks
            case _:
                return num_ranks - 1.0
