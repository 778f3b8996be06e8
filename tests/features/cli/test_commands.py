"""lint, layouts, check, catalog, schema, and what all commands share."""

from __future__ import annotations

import json

import pytest

from simcluster._version import __version__
from simcluster.listings import FAMILIES, FOLDERS, titles
from simcluster.scenario import Scenario, scenario_schema
from simcluster.simulation import Verification, build_scenario
from tests.support.scenario_texts import CRAMPED, SMALL, but

NAMES = (
    "run",
    "init",
    "import",
    "lint",
    "verify",
    "layouts",
    "explain",
    "advise",
    "check",
    "collective",
    "topology",
    "schedule",
    "catalog",
    "schema",
)


def test_version(simcluster):
    assert simcluster("--version") == (0, f"simcluster {__version__}\n", "")


def test_help_lists_the_commands_and_exit_codes(simcluster):
    code, out, err = simcluster("--help")
    assert (code, err) == (0, "")
    assert all(f"  {name} " in out for name in NAMES)
    assert "130 interrupted" in out


def test_help_shows_first_lines_whole(simcluster, monkeypatch):
    """On a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = simcluster("--help").out.splitlines()
    cut = [line.split()[0] for line in lines if line.startswith("  ") and line.endswith("...")]
    assert cut == []


@pytest.mark.parametrize("name", NAMES)
def test_help_has_examples_and_fits(simcluster, name):
    code, out, err = simcluster(name, "--help")
    assert (code, err) == (0, "")
    assert f"  Examples:\n    simcluster {name}" in out
    assert all(len(line) <= 100 for line in out.splitlines())
    assert simcluster(name, "-h").out == out


def test_lint_says_what_follows(simcluster, small):
    code, out, err = simcluster("lint", small)
    assert (code, err) == (0, "")
    assert out.startswith("small.yaml: ok\n")
    for words in (
        "8 in 2 classes",
        "2 + 2 = 4 in 2 stages",
        "4 micro-batches",
        "vocabulary",
        "without a strategy",
    ):
        assert words in out or words == "vocabulary"


def test_lint_goes_on_after_a_wrong_scenario(simcluster, small, here):
    (here / "wrong.yaml").write_text(but("data: 2", "data: 4"))
    code, out, err = simcluster("lint", "wrong.yaml", small)
    assert code == 2
    assert out.startswith("small.yaml: ok\n")
    assert err.startswith("wrong.yaml:8:3")


def test_layouts(simcluster, small):
    code, out, err = simcluster("layouts", small)
    assert (code, err) == (0, "")
    assert "layers.0 .. layers.3" in out
    some = simcluster("layouts", small, "--operator", "layers.*.mlp.up").out
    assert "mlp.up" in some
    assert "attention" not in some


def test_layouts_after_a_pass(simcluster, small):
    code, out, err = simcluster("layouts", small, "--after", "differentiate", "--operator", "layers.*.mlp.up")
    assert (code, err) == (0, "")
    assert "[" in out and "data" not in out
    sharded = simcluster("layouts", small, "--after", "shard", "--tensor-maps").out
    assert "device matrix" in sharded and "weight.all_gather" not in sharded


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--after", "fsue"), "did you mean 'fuse'? this plan runs: group_batch_statistics, "),
        (("--after", "place", "--tensor-maps"), "before pass 'shard' nothing has a tensor map"),
        (("--after", "place", "--predict"), "leave out --after"),
        (("--after", "place", "--as-strategies"), "leave out --after"),
        (("--after", "place", "--operator", "*.up.dgrad"), "no operator is called '*.up.dgrad'"),
    ],
)
def test_layouts_after_what_cannot_be_shown(simcluster, small, words, message):
    code, _, err = simcluster("layouts", small, *words)
    assert code == 2 and message in " ".join(err.split())


def test_layouts_of_no_operator(simcluster, small):
    code, out, err = simcluster("layouts", small, "--operator", "mlp.up")
    assert (code, out) == (2, "")
    assert "no operator is called 'mlp.up'" in err


@pytest.mark.parametrize("recipe", ["megatron", "megatron_sp"])
def test_printed_strategies_give_the_same_program(simcluster, small, here, recipe):
    (here / "given.yaml").write_text(but("tensor: 2}", f"tensor: 2}}\n  recipe: {recipe}"))
    code, out, _ = simcluster("layouts", "given.yaml", "--as-strategies")
    assert code == 0
    (here / "pasted.yaml").write_text(SMALL + "  strategies:\n" + out)
    digests = [build_scenario(Scenario.load(name)).program.digest() for name in ("given.yaml", "pasted.yaml")]
    assert digests[0] == digests[1]
    assert build_scenario(Scenario.load(small)).program.digest() in digests or recipe == "megatron_sp"


def test_verify_agrees(simcluster, small):
    code, out, err = simcluster("verify", small)
    assert (code, err) == (0, "")
    assert "agrees with one device" in out
    assert "float64" in out
    fewer = ("--set", "parallel.mesh={data: 2}", "--set", "cluster.hosts=1")
    assert "float32" in simcluster("verify", small, "--dtype", "float32", "--set", "run.seed=1", *fewer).out


def test_verify_fails_where_values_differ(simcluster, small, monkeypatch):
    found = Verification("small", "float64", 8, (), (), fault="buffer x is read before it is written")
    monkeypatch.setattr("simcluster.simulation.verify", lambda *args, **kwargs: found)
    code, out, err = simcluster("verify", small)
    assert (code, err) == (1, "")
    assert "DIFFERS" in out
    assert "buffer x is read before it is written" in out


def test_check_makes_a_baseline_and_holds_runs_against_it(simcluster, small, here):
    code, out, err = simcluster("check", small, "--baseline", "base.json")
    assert (code, out) == (2, "")
    assert "create it: simcluster check small.yaml --baseline base.json --update" in err
    code, out, _ = simcluster("check", small, "--baseline", "base.json", "--update")
    assert code == 0
    assert "base.json is written" in out
    code, out, err = simcluster("check", "--baseline", "base.json", "--tolerance", "step_time=1%,mfu=1%")
    assert (code, err) == (0, "")
    assert "1 scenario: 1 unchanged" in out


def test_check_fails_on_a_regression(simcluster, small, here):
    simcluster("check", small, "--baseline", "base.json", "--update")
    (here / small).write_text(but("seq_len: 16", "seq_len: 64"))
    code, out, err = simcluster("check", small, "--baseline", "base.json")
    assert (code, err) == (1, "")
    assert "worse" in out
    (here / small).write_text(CRAMPED)
    code, out, _ = simcluster("check", small, "--baseline", "base.json")
    assert code == 1
    assert "no longer fits" in out


def test_check_says_on_standard_error_what_is_wrong(simcluster, small, here):
    simcluster("check", small, "--baseline", "base.json", "--update")
    (here / small).write_text(SMALL + "x: 1\n")
    code, out, err = simcluster("check", small, "--baseline", "base.json")
    assert code == 2
    assert err.startswith("small.yaml:9:1")
    assert "small.yaml:9:1" not in out
    assert "1 wrong" in out


def test_check_says_what_made_a_step_longer(simcluster, small, here):
    simcluster("check", small, "--baseline", "base.json", "--update")
    code, out, err = simcluster(
        "check", small, "--baseline", "base.json", "--set", "training.seq_len=64", "--report", "json=o.json"
    )
    assert code == 1 and err == "written: o.json\n"
    assert "step: compute +" in out and "operators: layers.*.attention.core.grad +" in out
    causes = json.loads((here / "o.json").read_text())["scenarios"][0]["causes"]
    step = [cause for cause in causes if cause["kind"] == "step"]
    assert step and sum(cause["change"] for cause in step) > 0


@pytest.mark.thorough
def test_check_shares_scenarios_among_processes(simcluster, small, here):
    (here / "other.yaml").write_text(but("name: small", "name: other"))
    (here / "wrong.yaml").write_text(SMALL + "x: 1\n")
    one, two = (
        simcluster("check", ".", "--baseline", f"{jobs}.json", "--update", "--jobs", jobs) for jobs in "12"
    )
    assert one.code == two.code == 2
    assert one.out.replace("1.json", "N.json") == two.out.replace("2.json", "N.json") and one.err == two.err


def test_a_plan_that_is_to_run_out_of_memory_passes(simcluster, here):
    (here / "cramped.yaml").write_text(CRAMPED + "expect: {memory: {verdict: does not fit}}\n")
    assert simcluster("run", "cramped.yaml", "-q").code == 0
    assert simcluster("check", "cramped.yaml", "--baseline", "base.json", "--update").code == 0
    (here / "cramped.yaml").write_text(SMALL + "expect: {memory: {verdict: does not fit}}\n")
    code, _, err = simcluster("run", "cramped.yaml", "-q")
    assert code == 1 and "expect: its memory: fits, expected: does not fit" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--against", "main"), "give either --baseline or --against"),
        (("--report", "html"), "there is no format 'html'"),
        (("--report", "md", "--report", "json"), "standard output can have one format"),
        (("--report", "md="), "name the file behind the '='"),
        (("--report", "md=none/o.md"), "there is no folder 'none'"),
        (("--tolerance", "speed=1%"), "no figure is called 'speed'"),
        (("--tolerance", "step_time=fast"), "tolerance 'step_time=fast'"),
        (("--baseline", "none/base.json", "--update"), "there is no folder 'none'"),
        (("--baseline", ".", "--update"), "this is a folder; name a file in it"),
        (("--baseline", "."), "this is a folder"),
        (("--baseline", "small.yaml"), "small.yaml"),
    ],
)
def test_check_refuses(simcluster, small, arguments, message):
    simcluster("check", small, "--baseline", "base.json", "--update")
    code, out, err = simcluster("check", small, "--baseline", "base.json", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_check_of_an_empty_folder(simcluster, small, here):
    simcluster("check", small, "--baseline", "base.json", "--update")
    (here / "empty").mkdir()
    code, _, err = simcluster("check", "empty", "--baseline", "base.json")
    assert code == 2
    assert "empty: no scenario in this folder" in err


def test_the_catalog_has_every_family():
    """Completion knows the folders without importing their modules."""
    assert list(FOLDERS) == list(FAMILIES)
    from simcluster.registry import data_files

    for family, section in FAMILIES.items():
        assert list(data_files(FOLDERS[family])) == list(section.entries())


def test_titles_are_those_of_the_whole_files():
    read = {
        family: {name: section.document(name).data["title"] for name in section.entries()}
        for family, section in FAMILIES.items()
    }
    assert titles(list(FAMILIES)) == read
    assert all(len(set(entries.values())) == len(entries) for entries in read.values())


def test_an_entry_shows_what_it_takes_over(simcluster):
    out = simcluster("catalog", "devices", "v100-pcie-32").out
    assert "Starts from v100-pcie-16 (NVIDIA V100 PCIe 16 GB)." in out
    assert "what is left unchanged is assumed: no table of V100 kernels is published" in " ".join(out.split())
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines() if line.strip()}
    assert rows["memory"].startswith("31.75 GiB vendor total that the driver")
    assert rows["peak.fp16"].startswith("112 TFLOP/s vendor Tesla V100 datasheet")
    assert rows["gemm.traffic"].startswith("43.8 assumed no table of V100")
    assert "links" not in out and "bf16" not in " ".join(rows)


def test_catalog_lists(simcluster):
    code, out, err = simcluster("catalog")
    assert (code, err) == (0, "")
    for section in FAMILIES.values():
        assert all(f"  {name} " in out for name in section.entries())
    assert "llama3-70b" not in simcluster("catalog", "devices").out
    assert json.loads(simcluster("catalog", "--json").out)["devices"]["h100-sxm"].startswith("NVIDIA H100")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family, section in FAMILIES.items() for name in section.entries()]
)
def test_catalog_shows_every_entry(simcluster, family, name):
    code, out, err = simcluster("catalog", family, name)
    assert (code, err) == (0, "")
    assert out.startswith(name)
    found = json.loads(simcluster("catalog", family, name, "--json").out)
    assert found["title"] in out.replace("\n", " ")


def test_catalog_shows_values_with_their_sources(simcluster):
    out = simcluster("catalog", "h100-sxm").out
    assert "vLLM GEMM tables" in out.split("\n\n")[-1]
    line = next(line for line in out.splitlines() if line.startswith("memory_bandwidth"))
    assert line.split()[1:] == ["3352", "GB/s", "vendor", "H100", "datasheet"]
    data = json.loads(simcluster("catalog", "h100-sxm", "--json").out)
    figure = {"value": 3.352e12, "source": "H100 datasheet", "provenance": "vendor"}
    assert data["memory_bandwidth"] == figure


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("h100",), "did you mean 'h100-sxm'?"),
        (("device",), "did you mean 'devices'?"),
        (("models", "lama3-8b"), "unknown model 'lama3-8b'"),
        (("things", "h100-sxm"), "the catalog has no family 'things'"),
    ],
)
def test_catalog_knows_the_nearest(simcluster, arguments, message):
    code, out, err = simcluster("catalog", *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_schema(simcluster):
    code, out, _ = simcluster("schema")
    assert code == 0
    assert json.loads(out) == scenario_schema()


@pytest.mark.parametrize("command", ["run", "compare", "catalog", "export"])
def test_help_has_no_types_of_python(simcluster, command):
    code, out, _ = simcluster(command, "--help")
    assert code == 0
    assert "<str>" not in out and "<list" not in out
