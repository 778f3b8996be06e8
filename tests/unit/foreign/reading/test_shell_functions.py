"""Functions, scripts in scripts, files that are read, arrays with keys, sums: what precedes a launch."""

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign.reading import find_launch, read_script


def words(text, *, given=(), files=()):
    """The words of all commands."""
    script = read_script(text, "s.sh", dict(given), dict(files).get)
    return [[field.text for field in command.fields] for command in script.commands]


def flags(text, **files):
    """The arguments of the one launch in a script, by name."""
    script = read_script(text, "s.sh", {}, files.get)
    launch = find_launch(script, text, frozenset(["--num-layers"]), "it")
    return {flag.name: flag.value for flag in (*launch.launcher, *launch.arguments)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f() { a $1 $2; }; f 4 8", [["a", "4", "8"]]),
        ("function f { a $#; }\nf 4 8", [["a", "2"]]),
        (
            "function f() {\n local tp=$1\n shift\n a $tp \"$@\"\n}\nf 4 --x 'b c'",
            [["shift"], ["a", "4", "--x", "b c"]],
        ),
        ("g() { a $1; }; f() { g $2; }; f 1 2", [["a", "2"]]),
        ("f() { f; }; f", []),
        ("f() { a $1; }", [["f"], ["a", "${1}"]]),
        ("f() { X=$1; }; if [ -f y ]; then f 2; fi; a $X", [["[", "-f", "y", "]"], ["a", "${X}"]]),
    ],
)
def test_functions_run_where_they_are_called(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("set -- a 'b c'; x \"$@\" $1", ["x", "a", "b c", "a"]),
        (
            'declare -A H=([7b]=4096 [13b]=5120); S=13b; x ${H[$S]} ${H[7b]} ${H["7b"]}',
            ["x", "5120", "4096", "4096"],
        ),
        ('H[7b]=32; H["8b"]=$((4*9)); x ${H[7b]} ${H[8b]}', ["x", "32", "36"]),
        ("I=1; A=(4 8); x ${A[$I]} ${A[I]}", ["x", "8", "8"]),
        ("let X=3*4; x $X", ["x", "12"]),
        ("for X in 4; do Y=$((X*2)); done; x $X $Y", ["x", "4", "8"]),
        ("for X in 4 8; do Y=5; done; x $Y $X", ["x", "5", "${X}"]),
        ("T=1; while [ $# -gt 0 ]; do T=$2; shift; done; x $T", ["x", "1"]),
        ("while true; do T=1; done; x $T", ["x", "${T}"]),
        ("x $[ 64*32 ]", ["x", "2048"]),
        ('A=3; x $(expr $A \\* 4) `expr 8 + 1` $(echo "$A*5" | bc)', ["x", "12", "9", "15"]),
        ("x $(python -c \"print(int(3*4))\") $(awk 'BEGIN{print 4*1024}')", ["x", "12", "4096"]),
        ("x $(expr 1 + $N)", ["x", "$(expr 1 + $N)"]),
        (
            "M=llama-7b.json; x ${M%.json} ${M##*-} ${M#*-} ${M/llama/a} ${M^^} ${M:0:5} ${#M}",
            ["x", "llama-7b", "7b.json", "7b.json", "a-7b.json", "LLAMA-7B.JSON", "llama", "13"],
        ),
        ("X=$(( N * 16 )); x $X", ["x", "$((${N}*16))"]),
        ("#SBATCH -N 4\n#SBATCH --ntasks-per-node=8\nx $((SLURM_NNODES*8)) $SLURM_NTASKS", ["x", "32", "32"]),
    ],
)
def test_values_that_the_text_tells(text, expected):
    assert words(text)[-1] == expected


@pytest.mark.parametrize("quoted", [True, False])
def test_a_script_handed_to_a_scheduler_is_read(quoted):
    mark, layers = ("'E'", "$L") if quoted else ("E", "\\$L")
    text = (
        f"N=4\nsbatch --nodes=4 <<{mark}\nL=2\npython pretrain.py --num-layers {layers} --hidden-size 8\nE\n"
    )
    assert flags(text) == {"--nodes": ["4"], "--num-layers": ["2"], "--hidden-size": ["8"]}


@pytest.mark.parametrize("start", ["sbatch job.sh", "bash ./job.sh", "./job.sh"])
def test_a_script_that_another_writes_is_read(start):
    text = f"N=6\ncat > job.sh <<E\n#SBATCH --nodes=$N\npython pretrain.py --num-layers $N\nE\n{start}\n"
    assert flags(text) == {"--nodes": ["6"], "--num-layers": ["6"]}


def test_a_file_that_is_read_counts_where_it_is_found():
    text = 'D=$(dirname "$0")\nsource "$D/m.sh"\npython pretrain.py ${ARGS[@]}\n'
    files = {"m.sh": "# sizes\nARGS=(\n --num-layers 2\n)\n"}
    assert flags(text, **files) == {"--num-layers": ["2"]}
    script = read_script(text, "s.sh", {}, files.get)
    assert script.remarks == ["s.sh:2: 'm.sh' is read too"]
    assert script.commands[-1].fields[-1].line == 2
    assert "is not found" in read_script(text, "s.sh", {}).remarks[0]


def test_a_file_that_reads_itself_comes_to_an_end():
    assert words("source a", files={"a": "source a\nx"})[-1] == ["x"]


def test_blanks_behind_a_continued_line_are_told():
    text = 'A="--num-layers 2 \\  \n --hidden-size 8"\npython pretrain.py $A \\ \n --fp16\n'
    assert flags(text) == {"--num-layers": ["2"], "--hidden-size": ["8"], "--fp16": True}
    said = "blanks behind '\\': read as a line that goes on below"
    assert read_script(text, "s.sh", {}).remarks == [f"s.sh:{line}: {said}" for line in (1, 3)]


def test_functions_that_double_come_to_an_end():
    doubling = "".join(f"f{i}() {{ f{i + 1}; f{i + 1}; }}\n" for i in range(19))
    with pytest.raises(ScenarioError, match="more than 100,000 commands"):
        read_script(f"{doubling}f19() {{ a; }}\nf0", "s.sh", {})
