"""What publishers call things, in the words of a scenario: the table ``words.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from simcluster.accuracy.runs.scenarios.word_entries import (
    AdapterWords,
    ContextWords,
    FlopWords,
    FrameworkWords,
    MemoryWords,
    ModelWords,
    OffloadWords,
    OverlapWords,
    PracticeWords,
    PrecisionWords,
    RecomputedPartWords,
    RecomputeWords,
    UnsupportedWords,
)
from simcluster.document import Document, Section, matches, validate
from simcluster.registry import data_files


class Words(Section):
    """The table ``words.yaml``: one list of entries for each kind of words."""

    models: tuple[ModelWords, ...]
    """Models by what they are called."""

    frameworks: tuple[FrameworkWords, ...]
    """Framework profiles."""

    practices: tuple[PracticeWords, ...]
    """What is done though rows do not state it."""

    unsupported: tuple[UnsupportedWords, ...]
    """What is not simulated."""

    overlaps: tuple[OverlapWords, ...]
    """Collectives beside matmuls."""

    contexts: tuple[ContextWords, ...]
    """Sequences in parts."""

    flops: tuple[FlopWords, ...]
    """FLOPs as frameworks count them."""

    memories: tuple[MemoryWords, ...]
    """Memory that is not that of tensors."""

    precisions: tuple[PrecisionWords, ...]
    """Number formats."""

    recompute: tuple[RecomputeWords, ...]
    """What is computed again."""

    recomputed_parts: tuple[RecomputedPartWords, ...]
    """Parts of layers that are."""

    offloads: tuple[OffloadWords, ...]
    """Offloading to hosts."""

    adapters: tuple[AdapterWords, ...]
    """Low-rank adapters."""

    def adapters_of(self, framework: str) -> AdapterWords:
        """The usual adapters under a framework profile; the last entry is for all."""
        return next(entry for entry in self.adapters if _fits(entry.frameworks, framework))

    def offload(self, framework: str, words: str) -> OffloadWords | None:
        """What is offloaded (``parallel.offload``), or None if the words are not known."""
        entries = (entry for entry in self.offloads if _fits(entry.frameworks, framework))
        return next((entry for entry in entries if _fits(entry.words, words or "none")), None)

    def model(self, words: str, notes: str) -> tuple[dict[str, Any], bool] | None:
        """The ``model:`` section of a model, and whether the row's sizes replace its own; None if unknown."""
        entries = [
            entry for entry in self.models if _fits(entry.words, words) and matches(entry.notes, notes or "-")
        ]
        if not entries:
            return None
        merged: dict[str, Any] = {}
        for entry in entries:
            merged |= entry.model
        return merged, all(entry.sizes for entry in entries)

    def unsupported_reason(self, notes: str, model: str, precision: str) -> str:
        """Why no scenario can express a row; empty if one can."""
        said = (notes or "-", model, precision)
        for entry in self.unsupported:
            patterns = (entry.notes, entry.models, entry.precisions)
            if all(_fits(pattern, text) for pattern, text in zip(patterns, said, strict=True)):
                return entry.why
        return ""

    def framework(self, words: Mapping[str, str]) -> FrameworkWords | None:
        """The framework profile of a row, and which ranks' memory it states; None if it is unknown."""
        for entry in self.frameworks:
            said = (
                (entry.words, words["framework"]),
                (entry.models, words["model"]),
                (entry.sources, words.get("source", "")),
                (entry.notes, words.get("notes", "")),
                (entry.hardware, words["hardware"]),
            )
            if all(_fits(pattern, text or "-") for pattern, text in said):
                return entry
        return None

    def practices_of(
        self, words: Mapping[str, str], seq_len: int, profile: str = "-"
    ) -> Iterator[PracticeWords]:
        """The practices of a row under a framework profile, in order."""
        for entry in self.practices:
            said = (
                (entry.frameworks, words.get("framework", "")),
                (entry.profiles, profile),
                (entry.models, words.get("model", "")),
                (entry.sources, words.get("source", "")),
                (entry.notes, words.get("notes", "")),
                (entry.precisions, words.get("precision", "")),
                (entry.hardware, words.get("hardware", "")),
                (entry.zero_stage, words.get("zero_stage", "")),
                (entry.tensor, words.get("tensor", "")),
                (entry.schedules, words.get("schedule", "")),
            )
            fits = all(_fits(pattern, text or "-") for pattern, text in said)
            others = ((entry.except_models, "model"), (entry.except_notes, "notes"))
            fits &= not any(pattern and _fits(pattern, words.get(column, "")) for pattern, column in others)
            if fits and entry.seq_len in (None, seq_len):
                yield entry

    def overlap(self, notes: str, model: str, ranks: int) -> dict[str, Any] | None:
        """``parallel.overlap`` for a number of tensor ranks; None if collectives are not cut into chunks."""
        overlaps = (
            entry.overlap
            for entry in self.overlaps
            if _fits(entry.notes, notes or "-") and _fits(entry.models, model or "-")
        )
        said = next(overlaps, None)
        return None if said is None or ranks == 1 else {"chunks": ranks, **said}

    def context(self, framework: str, model: str, notes: str) -> ContextWords:
        """The context-parallel algorithm (``parallel.context``)."""
        return next(
            entry
            for entry in self.contexts
            if _fits(entry.frameworks, framework or "-")
            and _fits(entry.models, model or "-")
            and _fits(entry.notes, notes or "-")
        )

    def counted_flops(self, words: Mapping[str, str]) -> FlopWords:
        """How a row counts FLOPs."""
        said = _together(words, "framework", "source", "notes")
        return next(
            entry
            for entry in self.flops
            if _fits(entry.frameworks, words["framework"]) and _fits(entry.said, said)
        )

    def counted_memory(self, words: Mapping[str, str]) -> str:
        """Which memory a row states: allocated, reserved or device."""
        said = _together(words, "metric", "source", "notes")
        return next((entry.counted for entry in self.memories if _fits(entry.said, said)), "allocated")

    def precision(self, words: Mapping[str, str]) -> PrecisionWords | None:
        """The number formats of a row, or None if they are not known."""
        for entry in self.precisions:
            said = (
                (entry.words, words["precision"]),
                (entry.notes, words.get("notes", "")),
                (entry.hardware, words["hardware"]),
            )
            if all(_fits(pattern, text or "-") for pattern, text in said):
                return entry
        return None

    def recomputation(self, words: str) -> Mapping[str, Any] | None:
        """``parallel.recompute`` for these words, or None if they are not known."""
        return next((entry.recompute for entry in self.recompute if _fits(entry.words, words)), None)

    def recomputed_part(self, words: str) -> RecomputedPartWords | None:
        """The part of a layer that is called so, or None if it is not known."""
        return next((part for part in self.recomputed_parts if _fits(part.words, words)), None)


def _together(words: Mapping[str, str], *columns: str) -> str:
    return "; ".join(words.get(column, "") for column in columns)


def _fits(pattern: str, words: str) -> bool:
    return matches(pattern.lower(), words.lower())


@cache
def known_words() -> Words:
    """The shipped table."""
    text = data_files("simcluster.accuracy.runs.scenarios")["words"].read_text(encoding="utf-8")
    return validate(Document.parse(text, "words.yaml"), Words)
