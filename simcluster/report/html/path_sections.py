"""What decides the length of a step: the critical path, and what other hardware would change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from simcluster import units
from simcluster.draw import (
    BLUE,
    GREEN,
    GREY,
    OLIVE,
    ORANGE,
    PINK,
    PURPLE,
    RED,
    TEAL,
    YELLOW,
    BarPart,
    Column,
    Markup,
    Tone,
    quantities,
)
from simcluster.report.content import stage_titles
from simcluster.report.html.elements import bar_rows, data_table, folded, key_of, page_section
from simcluster.trace import RunDocument

_KINDS: Mapping[str, Tone] = {
    "arithmetic": BLUE,
    "memory": GREEN,
    "launch": TEAL,
    "slowed": OLIVE,
}
_MOVING = (ORANGE, YELLOW, RED, PINK, PURPLE)
FEW = 16


def critical_path_section(documents: RunDocument) -> Markup:
    """What the longest chain of the step is made of, by kind, by stage and by operator."""
    path = documents.get("critical_path")
    if not path or not path["kinds"]:
        return Markup("")
    tones = _tones(path["kinds"])
    step = path["step_time_s"]
    whole = bar_rows([("the step", _parts(path["kinds"], tones), step, "")], units.seconds)
    titles = stage_titles(documents)
    stages = bar_rows(
        [
            (titles[stage["stage"]], _parts(stage["kinds"], tones), step, units.percent(stage["share"]))
            for stage in path["stages"]
        ],
        units.seconds,
    )
    rows = [
        [
            f"{entry['block']}: {entry['name']}",
            entry["action"],
            entry["axis"],
            units.seconds(entry["seconds"]),
            units.percent(entry["share"]),
            f"{entry['times']:,}",
        ]
        for entry in path["operators"]
    ]
    heads: list[Column | str] = ["operator", "does", "axis", *quantities("on the path", "share", "times")]
    return page_section(
        "path",
        "Critical path",
        "the chain of kernels and transfers that decides when the step ends; each begins when the one "
        "before it ends, so the parts sum to the step",
        key_of(tones.items()),
        whole,
        folded("the part of each stage", stages, opened=len(path["stages"]) <= FEW)
        if len(path["stages"]) > 1
        else "",
        _slack(path["stages"], titles),
        data_table(heads, rows[:FEW]),
        folded(f"{len(rows) - FEW} more operators", data_table(heads, rows[FEW:])),
    )


def _name(entry: Mapping[str, str]) -> str:
    """``tensor communication``, ``arithmetic``: a kind, with its axis where it has one."""
    return f"{entry['axis']} {entry['kind']}" if entry["axis"] else entry["kind"]


def _tones(kinds: Sequence[RunDocument]) -> dict[str, Tone]:
    """A tone for every kind, in their order."""
    names = [_name(entry) for entry in kinds]
    others = [name for name in names if name not in _KINDS]
    return {name: _KINDS.get(name) or _MOVING[others.index(name) % len(_MOVING)] for name in names}


def _parts(kinds: Sequence[RunDocument], tones: Mapping[str, Tone]) -> list[BarPart]:
    return [BarPart(_name(entry), entry["seconds"], tones.get(_name(entry), GREY)) for entry in kinds]


def _slack(stages: Sequence[RunDocument], titles: Mapping[int, str]) -> Markup:
    """How much later what each stage does could end without a longer step."""
    rows = [
        [
            titles[stage["stage"]],
            entry["axis"] or "kernels",
            units.seconds(entry["seconds"]),
            units.seconds(entry["critical_s"]),
            units.seconds(entry["least_slack_s"]),
            units.seconds(entry["median_slack_s"]),
        ]
        for stage in stages
        for entry in stage.get("slack", ())
    ]
    note = '<p class="note">slack: how much later something could end without a longer step</p>'
    heads: list[Column | str] = [
        "",
        "in",
        *quantities("busy", "without slack", "least slack", "median slack"),
    ]
    table = data_table(heads, rows)
    return folded("slack by stage", note, table) if table else Markup("")


def what_if_section(documents: RunDocument) -> Markup:
    """How much longer or shorter the step is with other hardware, the largest difference first."""
    document = documents.get("what_if")
    if document is None:
        note = (
            f"not tried for this page: the run has {documents['summary']['num_events']:,} events, and it "
            "would be timed again for each figure of the cluster"
        )
        command = "<p><code>simcluster run SCENARIO --html FILE --whatif</code> adds it, "
        return page_section(
            "what-if", "What if", note, command + "<code>simcluster whatif SCENARIO</code> prints it</p>"
        )
    if not document["factors"]:
        return Markup("")
    most = max(abs(entry[side]) for entry in document["factors"] for side in ("better", "worse")) or 1.0
    by = units.percent(document["by"]).replace(".0 ", " ")
    bars = "".join(_tornado(entry, most) for entry in document["factors"])
    return page_section(
        "what-if",
        "What if",
        f"how the step changes with one rate {by} higher or lower, or one latency or overhead {by} "
        "smaller or larger, and everything else as it is",
        f'<div class="tornado">{bars}</div>',
        data_table(
            ["", *quantities("better", "change", "worse", "change")],
            [
                [
                    entry["label"],
                    units.seconds(entry["better_s"]),
                    _signed(entry["better"]),
                    units.seconds(entry["worse_s"]),
                    _signed(entry["worse"]),
                ]
                for entry in document["factors"]
            ],
        ),
    )


def _signed(share: float) -> str:
    return f"{100 * share:+.2f} %"


def _tornado(entry: RunDocument, most: float) -> str:
    sides = "".join(
        f'<span class="{side}"><b style="width:{100 * abs(entry[side]) / most:.2f}%" class="{kind}" '
        f'title="{escape(word)}: {_signed(entry[side])}"></b></span>'
        for side, word, kind in (
            ("better", "better", "less" if entry["better"] <= 0 else "more"),
            ("worse", "worse", "more" if entry["worse"] >= 0 else "less"),
        )
    )
    return f'<div><span class="bar-label">{escape(entry["label"])}</span>{sides}</div>'
