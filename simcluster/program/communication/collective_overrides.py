"""The algorithm, protocol and channels that a scenario asks for, collective by collective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field, replace

from simcluster.collectives import CollectiveRequest, Operation, Selection
from simcluster.deferred_dataclass import dataclass
from simcluster.document import generalised_name
from simcluster.errors import PlanError, nearest
from simcluster.program.isa import BETWEEN_RANKS, Instruction, InstructionBlock, Program


@dataclass(frozen=True, eq=False)
class CollectiveRequests:
    """The requested algorithm, protocol and channels of every collective and transfer of a Program.

    Raises PlanError for an override that fits none of them, or only some of those that run the same code.
    """

    program: Program
    algorithms: Selection
    _found: dict[int, CollectiveRequest] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        overridden: dict[int, CollectiveRequest] = {}
        if self.algorithms.overrides:
            named = list(self._named())
            self._check([name for _, names in named for name in names])
            for instruction, names in named:
                overridden[id(instruction)] = self._one(Operation(instruction.operation), names)
        for code in self.program.codes:
            for instruction in code.instructions:
                if instruction.action in BETWEEN_RANKS:
                    request = overridden.get(id(instruction)) or CollectiveRequest(
                        self.algorithms.of(Operation(instruction.operation))
                    )
                    self._found[id(instruction)] = replace(request, format=_format(code, instruction))

    def of(self, instruction: Instruction) -> CollectiveRequest:
        """The request for an instruction; for one that is not the Program's own without its number format."""
        return self._found.get(id(instruction)) or CollectiveRequest(
            self.algorithms.of(Operation(instruction.operation))
        )

    def _named(self) -> Iterator[tuple[Instruction, list[str]]]:
        """Every collective and transfer, with its name in each instance that runs it."""
        instances: defaultdict[int, dict[str, None]] = defaultdict(dict)
        for part in self.program.parts:
            for code, instance in part.columns.pairs:
                instances[code][instance] = None
        for code, running in instances.items():
            for instruction in self.program.codes[code].instructions:
                if instruction.action in BETWEEN_RANKS:
                    yield instruction, [f"{instance}.{instruction.name}" for instance in running]

    def _one(self, operation: Operation, names: list[str]) -> CollectiveRequest:
        """What is wanted of all these, which run the same code."""
        requests = {self.algorithms.wanted(operation, name): name for name in names}
        if len(requests) > 1:
            one, other = list(requests.values())[:2]
            raise PlanError(
                f"'{one}' and '{other}' run the same code, but only one of them is overridden",
                path="collectives.overrides",
                hint="write a pattern that fits all of them, or none",
            )
        return next(iter(requests))

    def _check(self, names: list[str]) -> None:
        for index in self.algorithms.unmatched(sorted(names)):
            match = self.algorithms.overrides[index].match
            raise PlanError(
                f"no collective has a name that fits '{match}'",
                path=f"collectives.overrides.{index}.match",
                hint=nearest(match, set(map(generalised_name, names))),
            )


def _format(code: InstructionBlock, instruction: Instruction) -> str:
    """The number format of what a collective adds up; nothing where it adds up nothing."""
    if instruction.operation != Operation.ALL_REDUCE:
        return ""
    return code.slots[instruction.calls[0].inputs[0]].type.dtype.label
