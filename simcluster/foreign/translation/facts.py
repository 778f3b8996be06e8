"""The settings of another tool's file in the words of a scenario, and a list of those that are not in it.

For every setting of a file an importer calls exactly one of these methods of ``Facts``, so that none is lost:

    say            it is translated: a key path of the scenario, or a fact for ``assemble_scenario``
    refuse         no scenario can say it, and without it another model or program would be simulated
                   (``UnsupportedFeature``): the import ends with exit code 2
    unsupported    it changes time or memory and is not translated: listed first, in the terminal and at the
                   top of the written scenario, with what is simulated in its place
    unknown        simcluster does not know it: listed as that, below
    profiled       the framework profile decides it as a whole
    effectless     times and bytes do not depend on it: listed last and shortly. A setting that is merely
                   unheard of, or that changes a little, does not belong here

Which program a file starts decides the family (``say("model.family", ...)``, then ``adapt_to_family``) and
the task: ``say("task", "inference", flag)`` makes ``assemble_scenario`` write an ``inference`` section from
``inference.batch``, ``inference.prompt`` and ``inference.tokens``, asking for those that nobody says.
A file without any setting of its format is refused by ``Importer.expect``, which every importer calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem
from simcluster.foreign.reading import Flag, TranslationStatus, Untranslated
from simcluster.foreign.translation.unsupported_features import UnsupportedFeature
from simcluster.foreign.translation.user_overrides import fact_path, user_value_for


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Forms of one value, the most accurate first: the first that the scenario's schema accepts is written.

    ``lost`` says how the result differs if that is not the first; None stands for leaving the key out.
    """

    candidates: tuple[Any, ...]
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A value and the setting that says it."""

    value: Any
    flag: Flag


@dataclass
class Facts:
    """Everything read from one file.

    Facts are named by key paths of the scenario (``model.layers``), or by a word where the value has to be
    worked out (``tensor``, ``world``, ``accumulation``; see ``scenario_assembly``). ``settings`` are the
    ``--set`` options, as text by key path.
    """

    known: dict[str, Fact] = field(default_factory=dict)
    untranslated: list[Untranslated] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)
    refused: list[UnsupportedFeature] = field(default_factory=list)
    settings: Mapping[str, str] = field(default_factory=dict)

    def say(self, name: str, value: Any, flag: Flag) -> None:
        """States a fact; the last statement counts, with a remark if it contradicts an earlier one."""
        before = self.known.get(name)
        if before is not None and before.value != value and before.flag.where:
            self.remark(f"{flag.where}: {flag} replaces {before.flag} of {before.flag.where}")
        self.known[name] = Fact(value, flag)

    def say_if(self, counts: bool, name: str, value: Any, flag: Flag, otherwise: str) -> None:
        """States a fact if its setting ``counts``; else lists the setting without effect: ``otherwise``."""
        if counts:
            self.say(name, value, flag)
        else:
            self.effectless(flag, otherwise)

    def replace(self, name: str, value: Any, flag: Flag) -> None:
        """States a fact in the place of what was said of it before, without a remark."""
        self.known.pop(name, None)
        self.say(name, value, flag)

    def use(self, name: str, path: str, *, counts: bool = True, otherwise: str = "") -> None:
        """States a fact, if it is known, as the key path ``path``, which takes its place if it ``counts``.

        If not, its setting is listed without effect: ``otherwise``.
        """
        if name in self.known:
            value, flag = self.get(name), self.drop(name) if counts else self.flag(name)
            self.say_if(counts, path, value, flag, otherwise)

    def default(self, name: str, value: Any, text: str) -> None:
        """States what the tool does where its file says nothing; ``text`` is shown as the setting."""
        if name not in self.known:
            self.known[name] = Fact(value, Flag(text, value, text))

    def get(self, name: str, otherwise: Any = None) -> Any:
        """The value of a fact."""
        return self.known[name].value if name in self.known else otherwise

    def flag(self, name: str) -> Flag:
        """The setting behind a fact; one without a place if nothing is known."""
        return self.known[name].flag if name in self.known else Flag(name, None, name)

    def drop(self, name: str) -> Flag:
        """Takes a fact away and gives the setting behind it."""
        return self.known.pop(name).flag

    def is_listed(self, flag: Flag) -> bool:
        """Whether a setting has a place in the list of what is not in the scenario."""
        return any(entry.flag == flag for entry in self.untranslated)

    def effectless(self, flag: Flag, reason: str = "") -> None:
        """Lists a setting that changes neither time nor memory."""
        self.untranslated.append(Untranslated(flag, TranslationStatus.EFFECTLESS, reason))

    def drop_effectless(self, names: Iterable[str], reason: str) -> None:
        """Lists the settings behind those of these facts that are known without effect, and forgets them."""
        for name in names:
            if name in self.known:
                self.effectless(self.drop(name), reason)

    def unsupported(self, flag: Flag, reason: str) -> None:
        """Lists a setting that changes the result; ``reason`` says what is simulated instead."""
        self.untranslated.append(Untranslated(flag, TranslationStatus.UNSUPPORTED, reason))

    def compare(self, flag: Flag, same: bool, otherwise: str, reason: str = "") -> None:
        """Lists a setting: without effect where the ``same`` is simulated, else as changing the result."""
        if same:
            self.effectless(flag, reason)
        else:
            self.unsupported(flag, otherwise)

    def refuse(self, flag: Flag, beyond: UnsupportedFeature) -> None:
        """Refuses the file for what no scenario can say, once, at the first setting that asks for it."""
        if beyond in self.refused:
            self.absorb(flag)
        else:
            self.refused.append(beyond)
            self.wrong(flag, beyond.message, beyond.hint)

    def profiled(self, flag: Flag) -> None:
        """Lists a setting about fusion, overlap or buckets, which a framework profile decides as a whole."""
        self.untranslated.append(Untranslated(flag, TranslationStatus.PROFILE))

    def unknown(self, flag: Flag, reason: str = "") -> None:
        """Lists a setting of which nothing is known here but the reason, if there is one."""
        reason = reason or flag.condition or flag.missing
        self.untranslated.append(Untranslated(flag, TranslationStatus.UNKNOWN, reason))

    def remark(self, text: str) -> None:
        """Notes something that the user should know, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def wrong(self, flag: Flag, message: str, hint: str = "") -> None:
        """Notes a mistake in the file, at the setting."""
        place = f"{flag.where}: " if flag.where else ""
        self.problems.append(Problem(f"{flag}: {message}", where=place.removesuffix(": "), hint=hint))

    def leave_open(self, name: str, flag: Flag) -> None:
        """Takes fact ``name`` from ``--set`` for a setting without a value; without it, that is a mistake."""
        given = user_value_for(name, self.settings)
        if given is None:
            path = fact_path(name)
            self.wrong(flag, flag.missing, f"--set {path}=... says it" if path else "")
            return
        self.absorb(flag)
        option, value = given
        if value is not None:
            self.say(name, value, Flag("--set", value, option))

    def absorb(self, flag: Flag) -> None:
        """Lists a setting that other values were worked out from."""
        self.untranslated.append(Untranslated(flag, TranslationStatus.ABSORBED))

    def understand(self, flags: Iterable[Flag], meaning_of: Callable[[str], Meaning | None]) -> None:
        """Gives every setting its meaning; those without one are listed as unknown.

        A setting that may not be there, as a condition decides on it, is a mistake if it has any effect.
        """
        for flag in flags:
            self.flags.append(flag)
            meaning = meaning_of(flag.name)
            if meaning is None and flag.value is None and not flag.missing:
                self.effectless(flag, "not set")
            elif meaning is None:
                self.unknown(flag)
            elif flag.condition and not without_effect(meaning, flag):
                hint = "" if "--var" in flag.condition else "give --var for the variable that holds it"
                self.wrong(flag, f"{flag.condition}, and it changes the result", hint)
            else:
                meaning(self, flag)


def without_effect(meaning: Meaning, flag: Flag) -> bool:
    """Whether a setting would only be listed, as one that changes nothing or that a profile decides."""
    trial = Facts()
    meaning(trial, flag)
    harmless = all(
        entry.status in (TranslationStatus.EFFECTLESS, TranslationStatus.PROFILE)
        for entry in trial.untranslated
    )
    return harmless and not trial.known and not trial.problems


Meaning = Callable[[Facts, Flag], None]
"""What a setting means: states facts, or lists the setting as not translated."""
