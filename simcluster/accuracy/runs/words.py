"""What publishers call things, in the words of a scenario: the table ``words.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

from simcluster.document import Document, Name, PositiveInt, Section, matches, validate
from simcluster.registry import data_files


class ModelWords(Section):
    """What some rows call a model; entries that match are merged."""

    words: Name
    """A pattern over what rows call it."""

    notes: Name = "*"
    """A pattern over the notes of the row."""

    model: Mapping[str, Any]
    """What a scenario says of it, but for sizes."""

    sizes: bool = True
    """Whether the row's sizes are those of the scenario too."""

    why: Name
    """Why it is this one."""


class FrameworkWords(Section):
    """What some rows call a framework."""

    words: Name
    """A pattern over what rows call it."""

    models: Name = "*"
    """A pattern over the models of these rows."""

    sources: Name = "*"
    """A pattern over the sources of these rows."""

    notes: Name = "*"
    """A pattern over the notes of these rows."""

    hardware: Name = "*"
    """A pattern over the hardware of these rows."""

    profile: Name
    """The framework profile."""

    memory: Literal["fullest", "last", "first_step"] = "fullest"
    """Of which stage they state the memory: that which needs most, or the last one; or that which needs most
    in the first step, in whose forward and backward no moments are there yet."""

    block: Literal["chunk", "stage"] = "chunk"
    """Of what they recompute the first layers (``full (block, n)``): of every chunk, or of every stage."""

    why: Name | None = None
    """What of it is inferred."""

    nearest: bool = False
    """Whether it is another framework's profile, for want of one."""


class PracticeWords(Section):
    """What those who ran some rows do, though the rows do not state it."""

    frameworks: Name = "*"
    """A pattern over the frameworks of these rows."""

    models: Name = "*"
    """A pattern over their models."""

    sources: Name = "*"
    """A pattern over their sources."""

    notes: Name = "*"
    """A pattern over their notes."""

    precisions: Name = "*"
    """A pattern over their number formats."""

    hardware: Name = "*"
    """A pattern over their hardware."""

    zero_stage: Name = "*"
    """A pattern over what of their training state is split."""

    tensor: Name = "*"
    """A pattern over their number of tensor ranks."""

    except_models: Name | None = None
    """A pattern over models; rows with one of these are left out."""

    except_notes: Name | None = None
    """A pattern over notes; rows with such notes are left out."""

    schedules: Name = "*"
    """A pattern over their pipeline schedules."""

    seq_len: PositiveInt | None = None
    """Only rows of this sequence length."""

    framework: Mapping[str, Any] = {}
    """Keys of the framework profile."""

    training: Mapping[str, Any] = {}
    """Keys of ``training``."""

    model: Mapping[str, Any] = {}
    """Keys of ``model``."""

    optimizer: Mapping[str, Any] = {}
    """Keys of ``training.optimizer``."""

    run: Mapping[str, Any] = {}
    """Keys of ``run``."""

    stated: bool = False
    """Whether the row says it, so that nothing is assumed."""

    why: Name
    """Why it is so."""


class UnlikeWords(Section):
    """Rows that no scenario can express, known by their notes and the names of their models."""

    notes: Name = "*"
    """A pattern over the notes."""

    models: Name = "*"
    """A pattern over the models of these rows."""

    precisions: Name = "*"
    """A pattern over their number formats."""

    why: Name
    """What it is."""


class OverlapWords(Section):
    """How some rows overlap tensor-parallel collectives with matmuls."""

    notes: Name
    """A pattern over the notes."""

    overlap: Mapping[str, Any]
    """What ``parallel.overlap`` says of the axis tensor, as many chunks as it has ranks if nothing else."""

    why: Name
    """Why it is so."""


class ContextWords(Section):
    """How ranks of some rows share sequences: the context-parallel algorithm."""

    frameworks: Name = "*"
    """A pattern over the frameworks of these rows."""

    notes: Name = "*"
    """A pattern over their notes."""

    models: Name = "*"
    """A pattern over their models."""

    algorithm: Literal["ring", "ring_masked", "ulysses"]
    """Ring attention, without or with the scores that a causal mask hides, or the all-to-all of Ulysses."""

    assumed: bool = False
    """Whether rows leave it open."""

    why: Name
    """Why it is so."""


class FlopWords(Section):
    """How the FLOPs of some rows are counted."""

    frameworks: Name
    """A pattern over the frameworks of these rows."""

    attention: Literal["full", "causal"]
    """All scores of causal attention, or the half of them that are not masked."""

    peak: Literal["fp16", "bf16"] | None = None
    """Number format whose peak rate an MFU refers to; the run's own if absent."""

    why: Name
    """Why it is so."""


class PrecisionWords(Section):
    """What some rows call a number format."""

    words: Name
    """A pattern over what rows call it."""

    notes: Name = "*"
    """A pattern over the notes of the row."""

    precision: Name | Mapping[str, Any]
    """``training.precision``."""

    why: Name | None = None
    """What of it is assumed."""


class RecomputeWords(Section):
    """What some rows say of recomputation."""

    words: Name
    """A pattern over what rows say."""

    recompute: Mapping[str, Any]
    """``parallel.recompute``; empty is none."""


class RecomputedPartWords(Section):
    """What some rows call a part of a layer that is computed again."""

    words: Name
    """A pattern over what rows call it."""

    operators: tuple[Name, ...]
    """Patterns over the names of its operators, as in ``parallel.recompute``."""

    checkpoint: bool = False
    """Whether they run again together, and what others read of them is kept."""


class OffloadWords(Section):
    """How some rows name offloading to hosts."""

    words: Name
    """A pattern over what rows say."""

    frameworks: Name = "*"
    """A pattern over the frameworks of these rows."""

    offload: Mapping[str, Any]
    """``parallel.offload``; empty is none."""

    why: Name | None = None
    """Why these; None: as the words say."""


class AdapterWords(Section):
    """The low-rank adapters that scripts of some frameworks make."""

    frameworks: Name = "*"
    """A pattern over framework profiles."""

    rank: PositiveInt | None = None
    """Their rank where rows state none; None: rows must."""

    alpha: PositiveInt | None = None
    """Their alpha where rows state no rank; None: the rank."""

    targets: tuple[Name, ...]
    """The matmuls with one, as in ``training.lora``."""

    why: Name
    """Why these."""


class Words(Section):
    """The table ``words.yaml``: one list of entries for each kind of words."""

    models: tuple[ModelWords, ...]
    """Models by what they are called."""

    frameworks: tuple[FrameworkWords, ...]
    """Framework profiles."""

    practices: tuple[PracticeWords, ...]
    """What is done though rows do not state it."""

    unlike: tuple[UnlikeWords, ...]
    """What is not simulated."""

    overlaps: tuple[OverlapWords, ...]
    """Collectives beside matmuls."""

    contexts: tuple[ContextWords, ...]
    """Sequences in parts."""

    flops: tuple[FlopWords, ...]
    """FLOPs as frameworks count them."""

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

    def unsaid(self, notes: str, model: str, precision: str) -> str:
        """Why no scenario can express a row; empty if one can."""
        said = (notes or "-", model, precision)
        for entry in self.unlike:
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

    def practices_of(self, words: Mapping[str, str], seq_len: int) -> Iterator[PracticeWords]:
        """The practices of a row, in order."""
        for entry in self.practices:
            said = (
                (entry.frameworks, words.get("framework", "")),
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

    def overlap(self, notes: str, ranks: int) -> dict[str, Any] | None:
        """``parallel.overlap`` for a number of tensor ranks; None if collectives are not cut into chunks."""
        overlaps = (entry.overlap for entry in self.overlaps if _fits(entry.notes, notes or "-"))
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

    def counted_flops(self, framework: str) -> FlopWords:
        """How rows of a framework count FLOPs."""
        return next(entry for entry in self.flops if _fits(entry.frameworks, framework))

    def precision(self, words: str, notes: str) -> PrecisionWords | None:
        """The number formats, or None if they are not known."""
        return next(
            (
                entry
                for entry in self.precisions
                if _fits(entry.words, words or "-") and matches(entry.notes, notes or "-")
            ),
            None,
        )

    def computed_again(self, words: str) -> Mapping[str, Any] | None:
        """``parallel.recompute`` for these words, or None if they are not known."""
        return next((entry.recompute for entry in self.recompute if _fits(entry.words, words)), None)

    def recomputed_part(self, words: str) -> RecomputedPartWords | None:
        """The part of a layer that is called so, or None if it is not known."""
        return next((part for part in self.recomputed_parts if _fits(part.words, words)), None)


def _fits(pattern: str, words: str) -> bool:
    return matches(pattern.lower(), words.lower())


@cache
def known_words() -> Words:
    """The shipped table."""
    text = data_files("simcluster.accuracy.runs")["words"].read_text(encoding="utf-8")
    return validate(Document.parse(text, "words.yaml"), Words)
