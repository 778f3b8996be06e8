"""Python programs read as text: settings, and the words of what they start."""

import pytest

from simcluster.foreign.reading import PythonProgram, find_python_launch, read_python

MARKS = frozenset(["--num-layers"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f()\nc.a.b = 4", ("c", "a", "b")),
        ("N = 4\nf()\nc.a.b = N", ("c", "a", "b")),
        ("def f(n=4):\n  g()\n  c.a.b = n", ("c", "a", "b")),
        ("x.C(b=2 * 2)", ("x.C", "b")),
        ("run.Config(x.C, b=8 // 2)", ("x.C", "b")),
        ("x.C(b=int(os.environ.get('N', '3')) + 1)", None),
    ],
)
def test_settings(text, expected):
    (found,) = [
        each for each in PythonProgram.parse(text).settings() if len(each.path) > 1 and each.path[-1] == "b"
    ]
    assert (found.path, found.value) == (expected, 4) if expected else not found.known


def test_the_default_of_a_variable_of_the_environment_counts():
    (found,) = [
        each for each in PythonProgram.parse("f(b=os.getenv('N', 4))").settings() if each.known and each.value
    ]
    assert found.value == 4


OPEN = [
    "g()",
    "10 ** 100",
    "[1] * 99999999",
    "N",
    "1 / 0",
    "-'a'",
    "f'{3:02d}'",
    "int(1e999)",
    "(1 - 3) ** 0.5",
    f"{'9' * 4000} / 3",
    f"0x{'f' * 5000}",
]
"""Expressions that are not evaluated: calls, numbers beyond bounds, formats of f-strings."""


@pytest.mark.parametrize("value", OPEN)
def test_what_only_a_run_tells_is_open(value):
    (found,) = [each for each in PythonProgram.parse(f"f(b={value})").settings() if each.path == ("f", "b")]
    assert not found.known and found.value is None
    (flag,) = read_python(f"b = {value}", "f.py")
    assert flag.missing and flag.value is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [("2 ** 3", 8), ("'a' + 'b'", "ab"), ("(1, 2)", [1, 2]), ("f'{1}-x'", "1-x"), ("{'k': [1]}", {"k": [1]})],
)
def test_both_readers_evaluate_alike(value, expected):
    (found,) = [each for each in PythonProgram.parse(f"f(b={value})").settings() if each.path == ("f", "b")]
    assert found.known and found.value == expected
    (flag,) = read_python(f"b = [{value}]", "f.py")
    assert flag.value == [expected]


@pytest.mark.parametrize("doubled", ["f'{x}{x}'", "[x, x]", "x + x", "str([x, x])"])
def test_values_that_double_on_every_line_end_at_a_bound(doubled):
    text = "x = 'abcdefgh'\n" + f"x = {doubled}\n" * 60
    (flag,) = read_python(text, "f.py")
    assert flag.missing
    named = "f()\nx0 = 'abcdefgh'\n"
    named += "".join(f"x{i + 1} = {doubled.replace('x', f'x{i}')}\n" for i in range(60))
    assert len(str(PythonProgram.parse(named).names)) < 2**17


def test_names_set_twice_are_open():
    (found,) = PythonProgram.parse("N = 1\nN = 2\nf(b=N)").settings()
    assert not found.known


@pytest.mark.parametrize("text", ["a: 1", "model:\n  x: 1", "f(", "--num-layers 2", "x = 1"])
def test_what_is_no_program(text):
    assert PythonProgram.parse(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "L = 2\nsub.run(['torchrun', '--nnodes', '4', 'pretrain_gpt.py', '--num-layers', str(L), '--bf16'])",
        "a = ['--num-layers', '2']\na += ['--bf16']\nrun(['torchrun', '-N', '4', 'pretrain_gpt.py', *a])",
        "L = 2\nos.system(f'torchrun --nnodes 4 pretrain_gpt.py --num-layers {L} --bf16')",
    ],
)
def test_words_of_a_launch(text):
    launch = find_python_launch(text, "run.py", MARKS)
    said = {flag.name: flag.value for flag in launch.arguments}
    assert said["--num-layers"] == ["2"] and said["--bf16"] is True


def test_open_words_of_a_launch_are_told():
    launch = find_python_launch("run(['pretrain_gpt.py', '--num-layers', str(args.layers)])", "run.py", MARKS)
    (flag,) = launch.arguments
    assert flag.where == "run.py:1" and "args.layers" in flag.missing


def test_long_and_deep_programs_are_read():
    deep = "f(b=" + "+".join(["x"] * 5000) + ")"
    many = "\n".join(f"a{i} = {i}" for i in range(20000)) + "\nf(b=1)"
    for text in (deep, many):
        program = PythonProgram.parse(text)
        assert program is None or [*program.settings()]
    assert len(read_python(many, "f.py")) == 20000


def test_deep_expressions_are_open():
    (flag,) = read_python("b = " + "+".join(["1"] * 500), "f.py")
    assert flag.missing
