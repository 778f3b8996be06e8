"""Functions that make the meanings of settings; the tables of all formats are written with them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from simcluster.document import choice_phrase
from simcluster.errors import nearest
from simcluster.foreign.reading import Flag
from simcluster.foreign.translation.facts import Facts, Meaning
from simcluster.foreign.translation.unsupported_features import UnsupportedFeature

_INTEGER = re.compile("[+-]?[0-9]{1,18}")

Value = TypeVar("Value")
Reader = Callable[[Facts, Flag], Any]


def _reader(converted: Callable[[Any], Value | None], expected: str) -> Callable[[Facts, Flag], Value | None]:
    """Reads the single value of a setting; None for null, and with a problem where it is not as expected."""

    def read(facts: Facts, flag: Flag) -> Value | None:
        value = _single(facts, flag)
        result = converted(value)
        if result is None and value is not None:
            facts.wrong(flag, f"expected {expected}")
        return result

    return read


def _integer(value: Any) -> int | None:
    if isinstance(value, str):
        value = int(value) if _INTEGER.fullmatch(value) else _float(value)
    # A float holds larger integers than a scenario may: 1e100.
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _finite(value: Any) -> float | None:
    number = _float(value) if isinstance(value, str) else value
    if not isinstance(number, (int, float)) or isinstance(number, bool) or not math.isfinite(number):
        return None
    return float(number)


def _truth(value: Any) -> bool | None:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value if isinstance(value, bool) else None


read_integer = _reader(_integer, "an integer")
"""The integer a setting holds, given as a number or as text; a problem if it holds none."""

read_number = _reader(_finite, "a number")
"""The finite number a setting holds; a problem if it holds none."""

read_boolean = _reader(_truth, "true or false")
"""Whether a switch is on: present on a command line, or true or false."""

read_word = _reader(lambda value: value if isinstance(value, str) else None, "a name")
"""The text a setting holds."""


def as_written(facts: Facts, flag: Flag) -> Any:
    """What a setting holds, whatever it is."""
    return flag.value


def states_value(name: str, read: Reader = read_integer) -> Meaning:
    """The value of the setting is fact ``name``; null says nothing."""

    def meaning(facts: Facts, flag: Flag) -> None:
        value = read(facts, flag)
        if value is not None:
            facts.say(name, value, flag)

    return unless_open(name, meaning)


def switch(name: str, on: Any = True, off: Any = None) -> Meaning:
    """A switch: ``on`` is the fact if it is set, ``off`` (None: nothing is said) if it is not."""

    def meaning(facts: Facts, flag: Flag) -> None:
        value = read_boolean(facts, flag)
        if value is not None:
            stated = on if value else off
            facts.say_if(stated is not None, name, stated, flag, "off")

    return unless_open(name, meaning)


def selects(name: str, options: Mapping[str, Any], lost: str = "", instead: Any = None) -> Meaning:
    """One of several words, each with the value it stands for; others are listed as not supported.

    ``lost`` says what is simulated for those: ``instead``, or (None) what is simulated without the setting.
    """

    def meaning(facts: Facts, flag: Flag) -> None:
        value = read_word(facts, flag)
        if value is None:
            return
        if value.lower() in options:
            facts.say(name, options[value.lower()], flag)
        elif lost:
            facts.unsupported(flag, lost)
            if instead is not None:
                facts.default(name, instead, f"in place of {flag}")
        else:
            facts.wrong(flag, f"expected {choice_phrase(options)}", nearest(value, options))

    return unless_open(name, meaning)


OFF: Collection[Any] = (None, False, 0, 1, "0", "1")
"""Values that leave most settings without an effect."""


def not_expressible(reason: str, *, unless: Collection[Any] = OFF) -> Meaning:
    """A setting that changes the result and cannot be translated; the values ``unless`` change nothing."""

    def meaning(facts: Facts, flag: Flag) -> None:
        harmless = not flag.missing and _among(flag, unless)
        facts.compare(flag, harmless, reason, "off" if _among(flag, (*OFF, 0.0)) else "as is simulated")

    return meaning


def reads_mtp_layers(facts: Facts, flag: Flag) -> None:
    """Layers of multi-token prediction."""
    count = None if flag.missing else read_integer(facts, flag)
    if count:
        facts.say("model.mtp_layers", count, flag)
    else:
        facts.compare(flag, not flag.missing, "no multi-token prediction", "off")


def refuses_setting(
    beyond: UnsupportedFeature, *, unless: Collection[Any] = (None, False, 0, "0")
) -> Meaning:
    """A setting for which the file is refused, unless its value is one of those that switch it off."""

    def meaning(facts: Facts, flag: Flag) -> None:
        if flag.missing:
            facts.wrong(flag, flag.missing)
        elif _among(flag, unless):
            facts.effectless(flag, "off")
        else:
            facts.refuse(flag, beyond)

    return meaning


def _among(flag: Flag, values: Collection[Any]) -> bool:
    """Whether a setting has one of these values; the words null, none and false are those values."""
    value = flag.value[0] if isinstance(flag.value, list) and len(flag.value) == 1 else flag.value
    if isinstance(value, str) and value.lower() in ("null", "none", "false"):
        value = None
    return any(value is other or (type(value) is type(other) and value == other) for other in values)


def has_no_effect(facts: Facts, flag: Flag) -> None:
    """A setting that changes neither time nor memory: names, paths, logging, seeds."""
    facts.effectless(flag)


def _states_if(name: str, counts: Callable[[float], bool], otherwise: str) -> Meaning:
    """A number that is the fact if it ``counts``; others are without effect."""

    def meaning(facts: Facts, flag: Flag) -> None:
        value = read_number(facts, flag)
        if value is not None:
            facts.say_if(counts(value), name, value, flag, otherwise)

    return meaning


reads_clip = _states_if("training.optimizer.clip", bool, "off")
"""The bound on the gradient norm; zero is none."""

reads_rotary_fraction = _states_if("model.rotary_fraction", lambda share: share < 1, "all dims are rotated")
"""The share of a head's dims that is rotated; all of them is what happens anyway."""

reads_embedding_dropout = _states_if("model.embedding_dropout", bool, "off")
"""The rate of dropout behind the embedding; zero is none."""


def reads_betas(facts: Facts, flag: Flag) -> None:
    """Adam's two decays."""
    if isinstance(flag.value, list) and len(flag.value) == 2:
        facts.say("training.optimizer.beta1", flag.value[0], flag)
        facts.say("training.optimizer.beta2", flag.value[1], flag)
    else:
        facts.wrong(flag, "expected two numbers")


def unless_open(name: str, meaning: Meaning) -> Meaning:
    """The meaning where the file says a value; where it leaves that open, ``--set`` may say fact ``name``."""

    def otherwise(facts: Facts, flag: Flag) -> None:
        if flag.missing:
            facts.leave_open(name, flag)
        else:
            meaning(facts, flag)

    return otherwise


def _single(facts: Facts, flag: Flag) -> Any:
    """The one value of a setting; None, with a problem where the file leaves it open."""
    value = flag.value
    if flag.missing:
        facts.wrong(flag, flag.missing)
        return None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, (list, dict)):
        facts.wrong(flag, "expected a single value")
        return None
    return value


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
