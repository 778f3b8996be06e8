"""Reading shell scripts: like a shell as far as words go, and never a traceback."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simcluster.errors import ScenarioError
from simcluster.foreign.shell import find_launch, read_script

PIECES = st.sampled_from(
    [
        *"abc $(){}[]'\"`\\\n#;&|<>=+-*@!:0123 \t",
        "--num-layers",
        "${X}",
        "${X:-1}",
        "$((1+X))",
        "X=",
        "X+=(",
        "if ",
        "fi\n",
        "<<E\n",
        "E\n",
        "a.py ",
        "\\\n",
        "for X in ",
        "${X[@]}",
    ]
)


def words(text, **variables):
    """The words of all commands."""
    script = read_script(text, "s.sh", variables)
    return [[field.text for field in command.fields] for command in script.commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a 'b c' \"d  e\"", [["a", "b c", "d  e"]]),
        ("a \\\n  b", [["a", "b"]]),
        ("a # b\nc", [["a"], ["c"]]),
        ("a#b", [["a#b"]]),
        ("X=1; echo $X ${X}2 '$X'", [["echo", "1", "12", "$X"]]),
        ('X="a b"; c $X "$X"', [["c", "a", "b", "a b"]]),
        ("X=(a 'b c'); d ${X[@]} \"${X[@]}\" ${X[1]}", [["d", "a", "b", "c", "a", "b c", "b", "c"]]),
        ("X=(a); X+=(b); c ${X[*]}", [["c", "a", "b"]]),
        ("X=a; X+=b; c $X", [["c", "ab"]]),
        ("export X=1 Y=2; a $X $Y", [["a", "1", "2"]]),
        ("a ${X:-5} ${Y:-$Z} ${X-b}", [["a", "5", "${Z}", "b"]]),
        ("N=4; a $((N*2+1)) $((7/2)) $(( (1+2)*$N )) $((1<<3))", [["a", "9", "3", "12", "$((1<<3))"]]),
        ("a $(rm -rf /) `ls`", [["a", "$(rm -rf /)", "`ls`"]]),
        ("a > f 2>&1 < g b", [["a", "b"]]),
        ("cat <<E > f\nx --num-layers 1\nE\nb", [["cat"], ["b"]]),
        ("cat <<-'E'\n\tx\n\tE\nb", [["cat"], ["b"]]),
        ("a && b || c; d | e &", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("X=1 a $X", [["a", "${X}"]]),
        ("a --env=X=1 Y=2", [["a", "--env=X=1", "Y=2"]]),
        ("if [ 1 ]; then X=1; else X=2; fi; a $X", [["[", "1", "]"], ["a", "${X}"]]),
        ("X=3; if [ 1 ]; then X=3; fi; a $X", [["[", "1", "]"], ["a", "3"]]),
        ("[ -z $Y ] && Y=1; a $Y", [["[", "-z", "${Y}", "]"], ["a", "${Y}"]]),
        ("for i in 1 2; do a $i; done", [["a", "${i}"]]),
        ("f() { a; }; f", [["f"], ["a"], ["f"]]),
        ("a\r\nb", [["a"], ["b"]]),
        ('a "b\nc" d', [["a", "b\nc", "d"]]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_given_variables_win():
    assert words("X=1; a $X $Y", X="2", Y="3") == [["a", "2", "3"]]


def test_lines_are_those_of_the_text_itself():
    text = 'X="\n  --num-layers 1 \\\n  --b"\nrun a.py $X \\\n  --c=2\n'
    launch = find_launch(read_script(text, "s.sh", {}), text, frozenset(["--num-layers"]), "it")
    assert [(flag.name, flag.value, flag.where) for flag in launch.arguments] == [
        ("--num-layers", ["1"], "s.sh:2"),
        ("--b", True, "s.sh:3"),
        ("--c", ["2"], "s.sh:5"),
    ]


def test_negative_numbers_are_values():
    text = "a.py --num-layers 1 --x -1 -.5 --y"
    launch = find_launch(read_script(text, "s.sh", {}), text, frozenset(["--num-layers"]), "it")
    assert [(flag.name, flag.value) for flag in launch.arguments] == [
        ("--num-layers", ["1"]),
        ("--x", ["-1", "-.5"]),
        ("--y", True),
    ]


def test_what_reads_other_files_is_remarked():
    script = read_script("source env.sh\n", "s.sh", {})
    assert script.remarks == ["s.sh:1: 'env.sh' is not read with it; give what it sets with --var"]


def test_variables_that_double_are_refused():
    text = "X=aaaaaaaa\n" + "X=$X$X\n" * 40
    with pytest.raises(ScenarioError, match="hold more than 1,048,576 characters"):
        read_script(text, "s.sh", {})


def test_deep_nesting_is_refused():
    with pytest.raises(ScenarioError, match="nested more than"):
        read_script("a " + "${X:-" * 60 + "1" + "}" * 60, "s.sh", {})


@given(st.text(alphabet="ab \t'\"-", max_size=30))
def test_words_are_those_of_the_standard_library(text):
    """Blanks and quotes, where both agree on what they mean."""
    try:
        expected = shlex.split(text)
    except ValueError:
        with pytest.raises(ScenarioError, match="is never closed"):
            words(text)
        return
    assert words(text) == ([expected] if expected else [])


@given(st.lists(PIECES, max_size=60).map("".join) | st.text(max_size=80))
@example("$((" + "(" * 100 + "))")
@example("X=$((X))")
@example("$((" + "1" * 150 + "**9))")
@example("$((9**9**9))")
@example("${")
@example("a.py --num-layers ${X[99999999999]}")
@example("\\")
def test_no_text_crashes_the_reader(text):
    try:
        script = read_script(text, "s.sh", {})
        find_launch(script, text, frozenset(["--num-layers"]), "it")
    except ScenarioError as error:
        assert str(error).startswith("s.sh")
