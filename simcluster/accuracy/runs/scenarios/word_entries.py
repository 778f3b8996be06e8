"""What publishers call one thing each, in the words of a scenario: entries of the table ``words.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from simcluster.document import Name, PositiveInt, Section


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

    profiles: Name = "*"
    """A pattern over the framework profiles that they run under."""

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


class UnsupportedWords(Section):
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

    models: Name = "*"
    """A pattern over the names of models, where notes do not say it."""

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

    algorithm: Literal["ring", "ring_masked", "ulysses", "levels"]
    """Ring attention, without or with the scores that a causal mask hides, the all-to-all of Ulysses, or
    rings of groups that exchange heads."""

    assumed: bool = False
    """Whether rows leave it open."""

    why: Name
    """Why it is so."""


class FlopWords(Section):
    """How the FLOPs of some rows are counted."""

    frameworks: Name
    """A pattern over the frameworks of these rows."""

    said: Name = "*"
    """A pattern over framework, source and notes of these rows together."""

    rate: Literal["mfu", "hfu"] = "mfu"
    """What FLOP/s count that rows call neither the model's nor the hardware's: those of the model, or also
    what is computed again."""

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

    hardware: Name = "*"
    """A pattern over its hardware."""

    called: Name | None = None
    """What practices call it; as the row does if absent."""

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


class MemoryWords(Section):
    """Which memory some rows state, where it is not that of tensors."""

    said: Name
    """A pattern over metric, source and notes of these rows together."""

    counted: Literal["allocated", "reserved", "device"]
    """The bytes of tensors, those that the allocator holds for them, or all that the device has in use."""

    why: Name
    """Why it is so."""


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
