"""A Program on a cluster with the classes of its ranks: what is timed, and what metrics are made from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from simcluster.cluster import Cluster, Device
from simcluster.deferred_dataclass import dataclass
from simcluster.model import Flops, matrix_flops
from simcluster.program.isa import InstructionBlock, Program
from simcluster.program.symmetry import RankClasses


@dataclass(frozen=True)
class PlacedProgram:
    """A Program, the classes of ranks that behave alike, and the cluster.

    ``num_stages`` are those of the plan: a Program written by hand has programs for stages.
    """

    program: Program
    classes: RankClasses
    cluster: Cluster
    num_stages: int

    @cached_property
    def parts(self) -> list[int]:
        """The part of the Program that each class runs."""
        return [self.program.part_of(rank) for rank in self.classes.representatives]

    @cached_property
    def stages(self) -> list[int]:
        """The stage of each class."""
        return [self.program.stage_of(rank) for rank in self.classes.representatives]

    @cached_property
    def devices(self) -> list[Device]:
        """The device of each class."""
        return [self.cluster.device(rank) for rank in self.classes.representatives]

    @property
    def num_ranks(self) -> int:
        """How many ranks all classes have together."""
        return len(self.classes.of_rank)

    def executions(self, steps: int) -> Iterator[tuple[InstructionBlock, int]]:
        """Every code with how often all ranks together run it in so many steps."""
        ranks = np.zeros(len(self.program.parts), dtype=np.int64)
        np.add.at(ranks, self.parts, self.classes.sizes)
        for runs_by_code, size in zip(self._runs, ranks.tolist(), strict=True):
            for code, runs in runs_by_code:
                yield self.program.codes[code], runs * steps * size

    def flops(self, steps: int) -> Flops:
        """The matrix FLOPs that all ranks execute in so many steps, recomputation included."""
        total = Flops()
        for code, runs in self.executions(steps):
            works = (work for instruction in code.instructions for work in instruction.works)
            total += matrix_flops(works) * runs
        return total

    @cached_property
    def _runs(self) -> list[list[tuple[int, int]]]:
        """By part: every code with how often a step runs it."""
        return [sorted(part.columns.times().items()) for part in self.program.parts]
