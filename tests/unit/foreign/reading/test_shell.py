"""Reading shell scripts: like a shell as far as words go, and never a traceback."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simcluster.errors import ScenarioError
from simcluster.foreign.reading.shell import find_launch, read_script

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
        "case $X in ",
        "a) ",
        ";;",
        "esac\n",
        "[[ ",
        " ]] ",
        "[ -z $X ] ",
        " && { ",
        "}\n",
        "((",
        "))",
        "then ",
        "elif ",
        "else ",
        "done\n",
        "<<E > f\n",
        "${X:=a}",
        "sh -c '$X'",
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
        ("if [ 1 ]; then X=1; else X=2; fi; a $X", [["[", "1", "]"], ["a", "1"]]),
        ("if [ -f x ]; then X=1; else X=2; fi; a $X", [["[", "-f", "x", "]"], ["a", "${X}"]]),
        ("X=3; if [ -f x ]; then X=3; fi; a $X", [["[", "-f", "x", "]"], ["a", "3"]]),
        ("[ -z $Y ] && Y=1; a $Y", [["[", "-z", "${Y}", "]"], ["a", "1"]]),
        ("for i in 1 2; do a $i; done", [["a", "${i}"]]),
        ("f() { a; }; f", [["a"]]),
        ("a\r\nb", [["a"], ["b"]]),
        ('a "b\nc" d', [["a", "b\nc", "d"]]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S=7B; if [ $S = 7B ]; then X=1; fi; a $X", "1"),
        ('S=7B; if [[ "$S" == "13B" ]]; then X=1; elif [ "$S" == 7B ]; then X=2; else X=3; fi; a $X', "2"),
        ("S=70B\nif [ $S = 7B ]\nthen\n X=1\nelse\n X=3\nfi\na $X", "3"),
        ("X=1; if [ -z $S ]; then X=2; fi; a $X", "2"),
        ("if [ -z ${S} ]; then S=2; fi; a $S", "2"),
        ('S=4; if [ -z "$S" ]; then S=2; fi; a $S', "4"),
        ('[ -n "$S" ] || S=3; a $S', "3"),
        ("S=1; [ -n $S ] && X=5; a $X", "5"),
        ("X=1; [ -z $S ] && { X=2; Y=3; }; a $X$Y", "23"),
        ('[ "x$S" = x ] && X=1; a $X', "1"),
        (": ${S:=6}; a $S", "6"),
        ("a ${S:+x}y", "y"),
        ("S=1; a ${S:+x}y", "xy"),
        ('M=a; case "$M" in\n a) X=1 ;;\n b|c) X=2 ;;\n *) X=3;;\nesac; a $X', "1"),
        ("M=c; case $M in (a) X=1 ;; b | c) X=2 ;; *) X=3;; esac; a $X", "2"),
        ("M=d; case $M in a) X=1;; b|c) X=2;; *) X=3; esac; a $X", "3"),
        ("M=llama-7B; case $M in *7B) X=1;; *) X=2;; esac; a $X", "1"),
        ("M=1; case $N in *) X=$M;; esac; a $X", "1"),
        ("N=8; if [ $N -gt 4 ]; then X=1; else X=0; fi; a $X", "1"),
        ("N=8; if (( N >= 8 && N != 9 )); then X=1; else X=0; fi; a $X", "1"),
        ("N=8; ((M = N * 2)); a $M", "16"),
        ("N=8; ((N += 2)); a $N", "10"),
        ("N=8; a $(( ($N > 1) ? 3 : 4 ))$(( N > 9 ? 3 : 4 ))", "34"),
        ("N=8; ((N++)); ((++N)); a $N", "10"),
        ("N=8; ((N <<= 2, M = 1)); a $N", "${N}"),
        ("N=8; let N=N+1; a $N", "9"),
        ("N=8; read N; a $N", "${N}"),
        ("N=8; unset N; a $N", "${N}"),
        ("N=8; unset N; if [ -z $N ]; then N=3; fi; a $N", "3"),
        ("S=a; if [[ $S == a && ( 1 -lt 2 || -z $S ) ]]; then X=1; else X=0; fi; a $X", "1"),
        ("S=a; if ! [ $S = b ]; then X=1; else X=0; fi; a $X", "1"),
        ("if true; then X=1; else X=0; fi; a $X", "1"),
        ("S=a; if [ $S = b -o $S = a ]; then X=1; else X=0; fi; a $X", "1"),
        ("X=1; (X=2; b $X); a $X", "1"),
        ("if [ -f x ]; then X=1; fi; a $X", "${X}"),
        ("if [ $S = 7B ]; then X=1; else X=2; fi; a $X", "${X}"),
        ("case $S in a) X=1;; b) X=2;; esac; a $X", "${X}"),
        ("while true; do X=1; done; a $X", "${X}"),
        ("X=1; if [[ a =~ (a+)+b ]]; then X=2; fi; a $X", "${X}"),
        ("Z=$(nproc); if [ $Z -gt 1 ]; then X=1; else X=2; fi; a $X", "${X}"),
        ("Z=$(nproc); if [ -z $Z ]; then X=1; fi; a $X", "${X}"),
    ],
)
def test_conditions_on_known_words_are_decided(text, expected):
    assert words(text)[-1][-1] == expected


def test_a_given_variable_that_is_not_there_is_refused():
    with pytest.raises(ScenarioError, match="the script has no variable 'NUM_LAYER'") as caught:
        read_script("a --num-layers ${NUM_LAYERS}", "s.sh", {"NUM_LAYER": "2"})
    assert "did you mean 'NUM_LAYERS'?" in str(caught.value)
    for text in (
        "a $X",
        "a ${X[@]}",
        "a $(((X+1)*2))",
        "X=1",
        "X+=(1)",
        "a ${X:-1}",
        "if ((X > 1)); then b; fi",
    ):
        read_script(text, "s.sh", {"X": "2"})


def test_what_a_condition_takes_for_empty_is_remarked():
    script = read_script("[ -z $TP ] && TP=2", "s.sh", {})
    told = "s.sh:1: TP is not set in this file, and taken as empty; --var TP=... sets it"
    assert script.remarks == [told]


def test_a_condition_on_given_words_is_decided():
    text = "if [ $SIZE = 7B ]; then X=1; else X=2; fi; a $X"
    assert words(text, SIZE="7B")[-1][-1] == "1"
    assert words(text, SIZE="8B")[-1][-1] == "2"


def test_what_does_not_run_is_no_command():
    assert words("S=1; if [ $S = 2 ]; then b; else c; fi; [ $S = 2 ] && d") == [
        ["[", "1", "=", "2", "]"],
        ["c"],
        ["[", "1", "=", "2", "]"],
    ]


def test_an_array_keeps_what_it_surely_holds():
    text = "A=(--x 1)\nif [ -f y ]; then A+=(--y 2); fi\nrun a.py --num-layers 1 ${A[@]}"
    launch = find_launch(read_script(text, "s.sh", {}), text, frozenset(["--num-layers"]), "it")
    assert [(flag.name, bool(flag.condition)) for flag in launch.arguments] == [
        ("--num-layers", False),
        ("--x", False),
        ("--y", True),
    ]
    text = text.replace("A=(--x 1)", 'A="--x 1"').replace("A+=(--y 2)", 'A="$A --y 2"')
    launch = find_launch(read_script(text, "s.sh", {}), text, frozenset(["--num-layers"]), "it")
    assert [(flag.name, bool(flag.condition)) for flag in launch.arguments][1:] == [
        ("--x", False),
        ("--y", True),
    ]


WORDS = st.sampled_from(
    ["a", "b", "7B", "12", "3", "$S", '"$S"', "${S}", '"${T:-b}"', "x$S", "${S:-a}", '""']
)
COMPARED = st.sampled_from(["=", "==", "!="])
NUMBERS = st.sampled_from(["1", "12", "3", "$N", "$((N+1))"])
ORDERED = st.sampled_from(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])
SINGLE = st.one_of(
    st.builds("{} {} {}".format, WORDS, COMPARED, WORDS),
    st.builds("{} {} {}".format, NUMBERS, ORDERED, NUMBERS),
    st.builds("{} {}".format, st.sampled_from(["-z", "-n"]), WORDS),
)
TESTS = st.one_of(
    st.builds("[ {} ]".format, SINGLE),
    st.builds("[[ {} ]]".format, SINGLE),
    st.builds("[[ {} {} {} ]]".format, SINGLE, st.sampled_from(["&&", "||"]), SINGLE),
    st.builds("! [ {} ]".format, SINGLE),
    st.builds("(( {} {} {} ))".format, NUMBERS, st.sampled_from(["<", ">=", "==", "!="]), NUMBERS),
    st.sampled_from(["true", "false"]),
)
LISTS = st.builds(
    "{}{}".format, TESTS, st.builds(" {} {}".format, st.sampled_from(["&&", "||"]), TESTS) | st.just("")
)
SETS = st.builds("{}={}".format, st.sampled_from("XYS"), st.sampled_from(["a", "b", "7B", "$S", "${X}1"]))
SUMS = st.builds("(( N {} {} ))".format, st.sampled_from(["=", "+=", "*="]), NUMBERS) | st.just("(( N++ ))")
PATTERNS = st.sampled_from(["a", "b|7B", "*B", "?", "$S", "x*", "*"])
BODIES = st.recursive(
    SETS
    | SUMS
    | st.builds("X+={}".format, st.sampled_from("ab"))
    | st.builds("{} && {}".format, TESTS, SETS),
    lambda inner: st.one_of(
        st.builds("if {}; then {}; else {}; fi".format, LISTS, inner, inner),
        st.builds("if {}; then {}; elif {}; then {}; fi".format, LISTS, inner, LISTS, inner),
        st.builds("case {} in {}) {};; {}) {} ;; esac".format, WORDS, PATTERNS, inner, PATTERNS, inner),
        st.builds("{} || {{ {}; {}; }}".format, LISTS, inner, inner),
        st.builds("{}\n{}".format, inner, inner),
        st.builds("( {} )".format, inner),
    ),
    max_leaves=6,
)


@pytest.mark.skipif(shutil.which("bash") is None, reason="compares with bash")
@settings(max_examples=6, deadline=None)
@given(st.lists(BODIES, min_size=20, max_size=20))
def test_conditions_are_decided_as_bash_does(bodies):
    """Scripts of assignments and tests alone: what they set is what bash sets."""
    start = "S=a; N=3; X=q; Y=r\n"
    texts = [f'{start}{body}\necho "$X,$Y,$S"' for body in bodies]
    alone = "\n".join(f"(\n{text}\n)" for text in texts)
    shown = subprocess.run(["bash", "-c", alone], capture_output=True, text=True, check=False, timeout=60)
    expected = shown.stdout.splitlines()
    assert len(expected) == len(texts), shown.stderr
    assert [words(text)[-1][-1] for text in texts] == expected


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
    assert script.remarks == ["s.sh:1: 'env.sh' is not found; give what it sets with --var"]


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
@example("((`a) a) ")
@example("${")
@example("a.py --num-layers ${X[99999999999]}")
@example("\\")
def test_no_text_crashes_the_reader(text):
    try:
        script = read_script(text, "s.sh", {})
        find_launch(script, text, frozenset(["--num-layers"]), "it")
    except ScenarioError as error:
        assert str(error).startswith("s.sh")
