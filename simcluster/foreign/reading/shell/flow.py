"""Which statements of a script run: blocks and lists of commands, where their conditions are known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from simcluster.deferred_dataclass import dataclass
from simcluster.foreign.reading.shell.conditions import Truth, conjunction, disjunction, negated


@dataclass
class _Block:
    """An open block: whether it is come to, whether what stands here runs, and whether a branch has run."""

    kind: str
    reached: Truth = True
    runs: Truth = True
    done: Truth = False
    on: tuple[str, ...] = ()


class ControlFlow:
    """Follows keywords and the results of commands.

    ``status`` is whether the last command succeeded. A block whose condition is open has ``on``, the names
    of what the condition asks for.
    """

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.status: Truth = None
        self.asked: tuple[str, ...] = ()

    @contextmanager
    def inside(self, *, sure: bool, on: tuple[str, ...]) -> Iterator[None]:
        """Blocks of a function, or of another script; ``sure``: whether that is come to."""
        around = len(self.blocks)
        self.blocks.append(_Block("inner", runs=True if sure else None, on=on))
        yield
        del self.blocks[around:]

    def runs(self, joined: str) -> Truth:
        """Whether a command runs that stands behind ``joined`` (``&&``, ``||``, or anything else)."""
        runs: Truth = True
        for block in self.blocks:
            runs = conjunction(runs, conjunction(block.reached, block.runs))
        if joined == "&&":
            runs = conjunction(runs, self.status)
        elif joined == "||":
            runs = conjunction(runs, negated(self.status))
        return runs

    def on(self, joined: str) -> tuple[str, ...]:
        """What the open conditions around a command ask for that stands behind ``joined``."""
        open_ = [block for block in self.blocks if conjunction(block.reached, block.runs) is None]
        names = [name for block in open_ for name in block.on]
        return tuple(dict.fromkeys([*names, *(self.asked if joined else ())]))

    def ended(self, result: Truth, joined: str, asked: tuple[str, ...]) -> None:
        """Takes note of a command's result; ``asked`` are names that it depends on."""
        if joined == "&&":
            result = conjunction(self.status, result)
        elif joined == "||":
            result = disjunction(self.status, result)
        joins = joined in ("&&", "||")
        self.asked = tuple(dict.fromkeys([*(self.asked if joins else ()), *asked])) if result is None else ()
        self.status = result

    def keyword(self, name: str, joined: str, *, surely: bool = False) -> None:
        """Opens, closes or changes a block; ``surely``: whether what stands in a loop runs, once at least."""
        top = self.blocks[-1] if self.blocks else None
        if name in _CLOSED.values():
            reached = {"&&": self.status, "||": negated(self.status)}.get(joined, True)
            runs = None if name == "loop" and not surely else True
            self.blocks.append(_Block(name, reached, runs, on=self.asked if joined else ()))
        elif top is not None and _CLOSED.get(name) == top.kind:
            self.blocks.pop()
        elif top is not None and top.kind == "if" and name == "then":
            self.branch(self.status, self.asked)
        elif top is not None and top.kind == "loop" and name == "do" and self.status is False:
            top.runs = False
        elif top is not None and top.kind == "if" and name in ("elif", "else"):
            top.runs = negated(top.done)
        if name not in ("}", ")"):
            self.asked = ()

    def branch(self, holds: Truth, asked: tuple[str, ...]) -> None:
        """Enters a branch of the innermost block whose condition holds, if none before it did."""
        if not self.blocks:
            return
        block = self.blocks[-1]
        block.runs = conjunction(negated(block.done), holds)
        block.done = disjunction(block.done, holds)
        block.on = tuple(dict.fromkeys([*block.on, *asked]))


_CLOSED = {"fi": "if", "esac": "case", "done": "loop", "}": "{", ")": "("}
