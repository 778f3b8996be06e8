"""Windows of attention, and which layers have them, as Transformer Engine and Megatron-Core say it."""

from __future__ import annotations

import re

from simcluster.foreign.reading import Flag
from simcluster.foreign.translation.facts import Facts, Meaning
from simcluster.foreign.translation.flag_readers import read_integer
from simcluster.foreign.translation.layer_pattern import read_layer_pattern

_WINDOW = re.compile(r"\s*[(\[]?\s*(-?[0-9]{1,18})\s*,\s*(-?[0-9]{1,18})\s*[)\]]?\s*")

_WINDOWED_LAYERS = "window_layers"
_CHUNK, _UNROTATED = "attention_chunk", "unrotated_layers"

CHUNKS_AS_WINDOW = (
    "chunks of attention are a sliding window here: the same for sequences within one chunk, up to twice "
    "their attention beyond"
)
"""What is simulated in place of attention within chunks (Llama 4)."""


def read_chunk(facts: Facts, flag: Flag) -> None:
    """Tokens of a chunk, within which attention stays; null is none."""
    if flag.value in (None, "None", "null"):
        facts.effectless(flag, "off")
    elif (tokens := read_integer(facts, flag)) is not None:
        facts.say_if(tokens > 0, _CHUNK, tokens, flag, "off")


def reads_window(facts: Facts, flag: Flag) -> None:
    """Tokens before and behind a token that it sees, as Transformer Engine has it: ``4096, 0``; -1 is all."""
    value = flag.value
    text = ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
    if flag.missing:
        facts.leave_open("model.window", flag)
    elif text in ("", "None", "null"):
        facts.effectless(flag, "off")
    elif (window := _WINDOW.fullmatch(text)) is None:
        facts.wrong(flag, "expected two numbers: tokens before and behind a token")
    else:
        tokens = int(window[1]) + 1  # itself, too
        facts.say_if(tokens > 0, "model.window", tokens, flag, "every token before is seen")


def _reads_layers(name: str, example: str, *off: object) -> Meaning:
    """Every so many layers, or a zero or one for each layer, as fact ``name``; null and ``off`` are none."""

    def meaning(facts: Facts, flag: Flag) -> None:
        if flag.value in (None, "None", "null", *off):
            facts.effectless(flag, "off")
        elif (layers := read_layer_pattern(flag)) is None:
            facts.wrong(flag, f"expected a number of layers, or a list such as {example}")
        else:
            facts.say(name, layers, flag)

    return meaning


read_windowed_layers = _reads_layers(_WINDOWED_LAYERS, "([1,0]*12)")
"""Every so many layers one sees all tokens, or a list with a zero for each that does."""

read_unrotated_layers = _reads_layers(_UNROTATED, "([0,0,0,1]*12)", 0, "0", ["0"])
"""Every so many layers one has no rotary positions, or a list with a one for each that has none."""


def state_windows(facts: Facts) -> None:
    """Which layers have the window: all, every other, or all but every so many.

    Chunks are a window of all layers that have rotary positions, as in Llama 4 (from memory).
    """
    _state_chunks(facts)
    if _WINDOWED_LAYERS not in facts.known:
        return
    layers, flag = facts.get(_WINDOWED_LAYERS), facts.drop(_WINDOWED_LAYERS)
    if "model.window" not in facts.known:
        facts.effectless(flag, "without a window")
    elif layers == 2 or (isinstance(layers, list) and layers == ([1, 0] * len(layers))[: len(layers)]):
        facts.say("model.window_every", 2, flag)
    elif (every := _full_every(layers)) is not None:
        facts.say("model.full_attention_every", every, flag)
    else:
        same = isinstance(layers, list) and all(layers)
        facts.compare(flag, same, "every layer has the window", "every layer has the window")


def _state_chunks(facts: Facts) -> None:
    """States chunks of attention as a window, of the layers with rotary positions."""
    unrotated, chunk = facts.get(_UNROTATED), facts.get(_CHUNK)
    if unrotated is not None:
        flag = facts.drop(_UNROTATED)
        facts.unsupported(flag, "layers without rotary positions are simulated with them")
        if chunk is not None:
            rotated = [1 - mark for mark in unrotated] if isinstance(unrotated, list) else unrotated
            facts.replace(_WINDOWED_LAYERS, rotated, flag)
    if chunk is not None:
        flag = facts.drop(_CHUNK)
        facts.replace("model.window", chunk, flag)
        facts.remark(f"{flag}: {CHUNKS_AS_WINDOW}")


def _full_every(layers: int | list[int]) -> int | None:
    """Every how many layers one sees all tokens, the last of them; None where they do not follow so."""
    if isinstance(layers, int):
        return layers if layers > 0 else None
    every = layers.index(0) + 1 if 0 in layers else 0
    pattern = ([1] * (every - 1) + [0]) * (len(layers) // max(every, 1) + 1)
    return every if every and layers == pattern[: len(layers)] else None
