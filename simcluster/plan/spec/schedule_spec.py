"""The scenario's ``parallel.schedule:`` section."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import AliasChoices, Field, field_validator, model_validator

from simcluster.document import Fraction, Name, NonNegativeInt, PositiveInt, Refused, Section
from simcluster.errors import PlanError, nearest
from simcluster.plan.pipeline import Schedule, VirtualStages, VocabularyMethod, parse
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.registry import kinds

LayerCounts: TypeAlias = tuple[NonNegativeInt, ...]


def schedule_kinds() -> dict[str, type[Schedule]]:
    """The pipeline schedules by kind."""
    return kinds("simcluster.plan.schedules", Schedule)


def _kinds_in_schema(written: dict[str, Any]) -> None:
    """Names the kinds in a JSON schema, beside which any other spelling of them is accepted."""
    spellings = "|".join(
        "".join(f"[{letter}{letter.upper()}]" if letter.isalpha() else letter for letter in kind)
        for kind in sorted(schedule_kinds())
    )
    pattern = f"^({spellings.replace('_', '[-_]')})$"
    written["anyOf"] = [{"enum": sorted(schedule_kinds())}, {"pattern": pattern}]


_INTERLEAVED = "write {kind: interleaved, chunks: 2}"
_KINDS_ELSEWHERE = {
    "vpp": _INTERLEAVED,
    "virtual_pipeline": _INTERLEAVED,
    "zero_bubble": "write zb_h1 or zb_v",
}
"""What to write for names of schedules in other tools."""


class ScheduleSpec(Section):
    """The pipeline schedule."""

    shorthand: ClassVar[str] = "kind"

    kind: Name = Field(default="1f1b", json_schema_extra=_kinds_in_schema)
    """Which schedule orders the forwards and backwards of micro-batches; with ``text``, the key ``text``
    does."""

    chunks: PositiveInt | None = None
    """Of interleaved schedules: model chunks per stage; 2 if absent."""

    slices: PositiveInt | None = Field(
        default=None, validation_alias=AliasChoices("slices", "seq_split_num", "seq_chunks")
    )
    """Of schedules that split sequences (seqpipe): into how many slices; 2 if absent."""

    text: Name | None = None
    """Of kind text: one line per stage, such as F0 F1 B0 ... F0c1 is of chunk 1, F0s1 of the second slice of
    the sequences; I0 and W0 are the halves of B0 (input and weight gradients), R0 is its recomputation."""

    pairs: bool | None = None
    """Of 1f1b and interleaved: whether every backward runs concurrently with the forward that follows it, so
    that communication of one overlaps with computation of the other (Megatron-Core's
    overlap-moe-expert-parallel-comm). false if absent."""

    kept_for_weights: Fraction | None = None
    """Of zb_h1 and zb_h2: the share of a forward's activations that is kept for its weight gradients; 32 h of
    34 h + 5 a s in a GPT with unfused attention. Weight gradients are then delayed as long as activations fit
    into the memory of p forwards (zb_h2: 2 p), as in the schedules found by the paper's search. If absent,
    they are delayed by a fixed number of micro-batches."""

    placement: Literal["wrapped", "folded"] | None = None
    """Of kind text, with chunks: after the last stage the next chunk starts at the first stage again
    (wrapped; if absent), or returns from the last stage to the first (folded)."""

    stages: Literal["auto"] | LayerCounts | tuple[LayerCounts, ...] = "auto"
    """Number of layers of each stage; auto: equal, if divisible. With chunks, one such list per chunk. The
    first stage may have 0 layers and hold only the embedding, and the last one only the head."""

    vocabulary: VocabularyMethod | None = None
    """Of 1f1b and v_half: vocabulary parallelism (arXiv 2411.05288). The embedding and the output layer are
    split by vocabulary over all stages, which then have equally much to do. two_barriers (Vocab-1): the
    passes S (logits) and T (their gradients) of every stage stand between forwards and backwards, and
    collectives overlap with these. one_barrier (Vocab-2, 1f1b alone): the gradients of the hidden states are
    made in pass S, which spares a wait. interlaced (1f1b alone): all stages stop for the output layer of
    every micro-batch, as ranks of tensor parallelism do. If absent, the first stage has the embedding and the
    last one the output layer."""

    p2p: Literal["overlapped", "blocking"] | None = None
    """overlapped: receives are posted one action ahead on separate streams. blocking: kernels wait for
    transfers. The framework's choice if absent (overlapped in the ideal one)."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, written: Any) -> Any:
        return {"kind": written} if isinstance(written, str) else written

    @field_validator("kind", mode="before")
    @classmethod
    def _spelled(cls, written: Any) -> Any:
        """A kind however it is spelled: 1F1B, GPipe, ZB-V."""
        if not isinstance(written, str):
            return written
        kind = written.lower().replace("-", "_")
        return kind if kind in schedule_kinds() else written

    @model_validator(mode="after")
    def _is_known(self) -> ScheduleSpec:
        schedule = schedule_kinds().get(self.kind)
        if schedule is None:
            raise Refused(
                f"unknown schedule '{self.kind}'",
                path="kind",
                hint=_KINDS_ELSEWHERE.get(self.kind) or nearest(self.kind, schedule_kinds()),
            )
        takes = {field.name: field for field in fields(schedule)}
        for name in self._given:
            if name not in takes:
                able = [kind for kind, other in schedule_kinds().items() if name in other.__match_args__]
                raise Refused(
                    f"schedule {self.kind} takes no {name}",
                    path=name,
                    hint=f"leave it out, or take another kind: {', '.join(able)}",
                )
        for name, field in takes.items():
            if field.default is MISSING and name not in self._given:
                raise Refused(
                    f"schedule {self.kind} needs its {name}", path="kind", hint=f"write {name}: ..."
                )
        if self.vocabulary and self.pairs:
            raise Refused("pairs do not share the vocabulary", path="pairs", hint="leave one of both out")
        if self.kind == "v_half" and self.vocabulary not in (None, VocabularyMethod.TWO_BARRIERS):
            raise Refused(
                f"v_half shares no vocabulary with {self.vocabulary}",
                path="vocabulary",
                hint="write two_barriers",
            )
        if self.text is not None:
            try:
                written = parse(self.text)
            except PlanError as error:
                (problem,) = error.problems
                raise Refused(problem.message, path="text", hint=problem.hint) from None
            shared = [action for line in written for action in line if action.chunk < 0]
            if shared:
                raise Refused(
                    f"{shared[0]} is of a vocabulary on all stages, which a written schedule does not have",
                    path="text",
                    hint="write kind: 1f1b or v_half with vocabulary: two_barriers",
                )
        return self

    @property
    def _given(self) -> dict[str, Any]:
        """What the scenario chooses of the schedule."""
        choices = {
            "chunks": self.chunks,
            "slices": self.slices,
            "text": self.text,
            "pairs": self.pairs,
            "kept_for_weights": self.kept_for_weights,
            "placement": self.placement,
            "vocabulary": self.vocabulary,
        }
        return {name: value for name, value in choices.items() if value is not None}

    def build(self) -> Schedule:
        """The schedule."""
        return schedule_kinds()[self.kind](**self._given)

    def overlapped(self, framework: FrameworkSpec, chain: VirtualStages) -> bool:
        """Whether kernels go on beside transfers between stages; PlanError where they have to."""
        interleaved = framework.p2p_interleaved if chain.num_chunks > 1 else None
        overlapped = (self.p2p or interleaved or framework.p2p) == "overlapped"
        if not overlapped and self.build().overlaps(chain.num_stages):
            owner = "" if self.p2p else f"with the framework {framework.title}, "
            raise PlanError(
                f"{owner}kernels wait for transfers: with schedule {self.kind} two stages "
                "would wait for each other",
                path="parallel.schedule.p2p" if self.p2p else "parallel.schedule",
                hint="write p2p: overlapped",
            )
        return overlapped
