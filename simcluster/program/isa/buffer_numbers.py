"""Numbers for the buffers of a part of a Program, which many instances call by many names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


class BufferNumbers:
    """Numbers of buffers, given when somebody first asks for one; ``buffer`` names that of a slot.

    Most buffers are asked for many times, and are found by the slot's own name then: nothing is put together.
    """

    def __init__(self, buffer: Callable[[str, str], str]) -> None:
        self._buffer = buffer
        self._by_name: dict[str, int] = {}
        self._by_instance: dict[str, _OfInstance] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def of(self, uses: Iterable[tuple[str, Sequence[str]]]) -> list[int]:
        """The numbers of slots of instances, one after the other."""
        numbers: list[int] = []
        for instance, slots in uses:
            own = self._by_instance.get(instance)
            if own is None:
                own = self._by_instance[instance] = _OfInstance(instance, self._buffer, self._by_name)
            numbers += map(own.__getitem__, slots)
        return numbers


class _OfInstance(dict[str, int]):
    """Slot -> number of its buffer, for the slots of one instance; ``by_name`` has those of all."""

    def __init__(self, instance: str, buffer: Callable[[str, str], str], by_name: dict[str, int]) -> None:
        super().__init__()
        self.instance, self.buffer, self.by_name = instance, buffer, by_name

    def __missing__(self, slot: str) -> int:
        name = self.buffer(self.instance, slot)
        number = self[slot] = self.by_name.setdefault(name, len(self.by_name))
        return number
