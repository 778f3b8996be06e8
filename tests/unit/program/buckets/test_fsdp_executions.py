from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simcluster.program import BlockExecution, Executions
from simcluster.program.buckets.fsdp_executions import add_unit_executions

PHASES = ("gather", "forward", "regather", "backward", "scatter")


def codes_of(names, phases=PHASES):
    return {
        name: {phase: 10 * index + PHASES.index(phase) for phase in phases}
        for index, name in enumerate(names)
    }


def scheduled(text, codes):
    """``F0 B0``: the forward of all instances in order, the backward in reverse, for micro-batch 0."""
    for action in text.split():
        phase = "forward" if action[0] == "F" else "backward"
        for name in codes if phase == "forward" else reversed(codes):
            yield BlockExecution(codes[name][phase], name, int(action[1:]), action)


def shown(executions, codes):
    names = {code: (name, phase) for name, found in codes.items() for phase, code in found.items()}
    return [f"{names[each.code][1]} {each.instance}{each.micro_batch}" for each in executions]


def test_gathers_stand_one_unit_ahead_and_scatters_right_behind():
    codes = codes_of("abc")
    made = add_unit_executions(Executions.of(scheduled("F0 B0", codes)), codes, prefetch=1).objects
    assert shown(made, codes) == [
        "gather a0",
        "gather b0",
        "forward a0",
        "gather c0",
        "forward b0",
        "regather c0",
        "forward c0",
        "regather b0",
        "backward c0",
        "scatter c0",
        "regather a0",
        "backward b0",
        "scatter b0",
        "backward a0",
        "scatter a0",
    ]
    waits = {shown([each], codes)[0]: each.after for each in made if each.after}
    assert all(ago == 0 for ((_, ago),) in waits.values())
    assert {name: shown([made[after]], codes)[0] for name, ((after, _),) in waits.items()} == {
        "gather c0": "forward a0",
        "regather c0": "forward b0",
        "regather b0": "forward c0",
        "regather a0": "backward c0",
        "backward a0": "scatter c0",
    }


def test_units_gathered_together_stand_where_the_first_of_them_would():
    codes = codes_of("abcd")
    weights = {
        "gather": {
            "a": [BlockExecution(100, "one", -1, "")],
            "b": (),
            "c": [BlockExecution(101, "two", -1, ""), BlockExecution(102, "three", -1, "")],
            "d": (),
        },
        "regather": {"d": [BlockExecution(103, "four", -1, "")], "c": (), "b": (), "a": ()},
    }
    made = add_unit_executions(
        Executions.of(scheduled("F0 B0 F1", codes)), codes, prefetch=1, weights=weights
    ).objects
    names = {100: "one", 101: "two", 102: "three", 103: "four"}
    told = [names.get(each.code) or f"{each.action} {each.instance}" for each in made if each.code % 10 != 4]
    assert told == [
        *("one", "F0 a", "two", "three", "F0 b", "F0 c", "four", "F0 d"),
        *("B0 d", "B0 c", "B0 b", "one", "B0 a"),
        *("F1 a", "two", "three", "F1 b", "F1 c", "F1 d"),
    ]
    waits = [made[each.after[0][0]].instance for each in made if each.instance in ("two", "three", "four")]
    assert waits == ["a", "a", "c", "a", "a"]
    assert {each.micro_batch for each in made if each.action == "F1"} == {1}


def test_without_prefetch_a_gather_waits_for_the_unit_before():
    codes = codes_of("ab")
    made = add_unit_executions(Executions.of(scheduled("F0", codes)), codes, prefetch=0).objects
    assert shown(made, codes) == ["gather a0", "forward a0", "gather b0", "forward b0"]
    assert [each.after for each in made] == [(), (), ((1, 0),), ()]


def test_kept_weights_carry_the_micro_batch_they_were_gathered_for():
    codes = codes_of("a", ("gather", "forward", "backward"))
    made = add_unit_executions(
        Executions.of(scheduled("F0 F1 B0 F2 B1 B2 F3 B3", codes)), codes, prefetch=0
    ).objects
    assert [
        (name, each.weights_of_micro_batch) for name, each in zip(shown(made, codes), made, strict=True)
    ] == [
        ("gather a0", 0),
        ("forward a0", 0),
        ("forward a1", 0),
        ("backward a0", 0),
        ("forward a2", 0),
        ("backward a1", 0),
        ("backward a2", 0),
        ("gather a3", 3),
        ("forward a3", 3),
        ("backward a3", 3),
    ]


def test_weights_gathered_once_serve_the_whole_step():
    codes = codes_of("a", ("gather", "forward", "backward"))
    made = add_unit_executions(
        Executions.of(scheduled("F0 B0 F1 B1", codes)), codes, prefetch=0, once=True
    ).objects
    assert [
        (name, each.weights_of_micro_batch) for name, each in zip(shown(made, codes), made, strict=True)
    ] == [
        ("gather a0", 0),
        ("forward a0", 0),
        ("backward a0", 0),
        ("forward a1", 0),
        ("backward a1", 0),
    ]


def test_what_has_no_units_stays_as_it_is():
    codes = codes_of("ab", ("forward", "backward"))
    executions = list(scheduled("F0 B0 F1 B1", codes))
    assert add_unit_executions(Executions.of(executions), codes, prefetch=1).objects == tuple(executions)


@given(
    units=st.integers(1, 6),
    prefetch=st.integers(0, 4),
    text=st.sampled_from(["F0 B0 F1 B1", "F0 F1 B0 B1", "F0 F1 B1 B0"]),
)
def test_at_most_one_more_unit_than_the_prefetch_depth_can_be_gathered(units, prefetch, text):
    """A copy exists from the end of what its gather waits for to the end of what reads it."""
    codes = codes_of([f"u{index}_" for index in range(units)])
    given_ = list(scheduled(text, codes))
    made = add_unit_executions(Executions.of(given_), codes, prefetch).objects
    names = shown(made, codes)
    users = [index for index, name in enumerate(names) if name.startswith(("forward", "backward"))]
    assert [names[index] for index in users] == shown(given_, codes)
    for number, user in enumerate(users):
        phase, unit = names[user].split()
        gather = names.index(f"{'gather' if phase == 'forward' else 'regather'} {unit}")
        assert gather < user
        bound = ((users[number - prefetch - 1], 0),) if number > prefetch else ()
        assert made[gather].after == bound
