"""``simcluster import``: where the scenario goes, what is said, and what is refused."""

from __future__ import annotations

import json

import pytest

from simcluster.cli.commands.import_.command import FORMATS
from simcluster.document import Document
from simcluster.foreign import importers
from tests.support.foreign_samples import text_of

LAUNCH = (
    "torchrun --nproc_per_node 8 --nnodes 1 pretrain_gpt.py --num-layers 4 --hidden-size 64 --wonder 3 \\\n"
    "  --num-attention-heads 8 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1 \\\n"
    "  --global-batch-size 8 --vocab-size 128 --bf16 --tensor-model-parallel-size 2\n"
)


@pytest.fixture
def launch(here):
    (here / "run.sh").write_text(LAUNCH)
    return "run.sh"


def test_the_formats_are_those_of_the_family():
    """Completion and help know them without importing the importers."""
    assert set(FORMATS) == set(importers())


def test_to_standard_output(simcluster, launch, here):
    code, out, err = simcluster("import", "megatron", launch, "--cluster", "dgx-h100")
    assert code == 0
    assert Document.parse(out).data["parallel"]["mesh"] == {"data": 4, "tensor": 2}
    assert "  run.sh:1: --wonder 3" in err
    assert "# - run.sh:1: --wonder 3" in out
    assert [path.name for path in here.iterdir()] == ["run.sh"]


def test_to_a_file_that_lints_and_runs(simcluster, launch, here):
    code, out, err = simcluster("import", "megatron", launch, "--cluster", "dgx-h100", "-o", "s.yaml")
    assert (code, out) == (0, "")
    assert "written: s.yaml" in err
    assert "simcluster schema > scenario.schema.json" in err
    assert simcluster("lint", "s.yaml").code == 0
    assert simcluster("run", "s.yaml").code == 0


def test_a_file_is_never_replaced_unasked(simcluster, launch, here):
    (here / "s.yaml").write_text("mine")
    arguments = ("import", "megatron", launch, "--cluster", "dgx-h100", "-o", "s.yaml")
    code, out, err = simcluster(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("-o s.yaml: this file exists already")
    assert "--force replaces it" in err
    assert (here / "s.yaml").read_text() == "mine"
    assert simcluster(*arguments, "--force").code == 0
    assert (here / "s.yaml").read_text().startswith("# yaml-language-server")


def test_the_file_that_is_read_is_never_replaced(simcluster, launch, here):
    code, _, err = simcluster("import", "megatron", launch, "--cluster", "dgx-h100", "-o", launch, "--force")
    assert code == 2
    assert "would replace the file that is read" in err
    assert (here / launch).read_text() == LAUNCH


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("megatron", "none.sh", "--cluster", "dgx-h100"), "none.sh: there is no such file"),
        (("megatron", ".", "--cluster", "dgx-h100"), ".: this is a folder"),
        (("megatron", "run.sh"), "the file does not say on which machines it runs"),
        (("megatron", "run.sh", "--cluster", "dgx"), "unknown host 'dgx'"),
        (("megatrn", "run.sh", "--cluster", "dgx-h100"), "did you mean 'megatron'?"),
        (("deepspeed", "run.sh", "--cluster", "dgx-h100"), "run.sh:1:1: this is not a JSON object"),
        (("nemo", "binary", "--cluster", "dgx-h100"), "binary:1:1: this is not UTF-8 text"),
        (("megatron", "run.sh", "--cluster", "dgx-h100", "--var", "X"), "--var X: expected NAME=VALUE"),
        (("megatron", "run.sh", "--cluster", "dgx-h100", "--hosts", "0"), "--hosts"),
        (("megatron", "run.sh", "--cluster", "dgx-h100", "-o", "no/s.yaml"), "there is no folder 'no'"),
        (("megatron", "run.sh", "--cluster", "dgx-h100", "-o", "."), "this is a folder"),
        (("megatron", "run.sh", "--cluster", "dgx-h100", "--set", "x"), "--set x: expected KEY=VALUE"),
        (("megatron", "run.sh", "--cluster", "dgx-h100", "--set", "x=1"), "unknown key 'x'"),
        (("nemo", "run.sh", "--cluster", "dgx-h100", "--var", "X=1"), "has no shell variables"),
    ],
)
def test_what_is_refused(simcluster, launch, here, arguments, message):
    (here / "binary").write_bytes(b"\xff\xfe")
    code, out, err = simcluster("import", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_an_impossible_plan_points_into_the_foreign_file(simcluster, here):
    (here / "run.sh").write_text(LAUNCH.replace("--global-batch-size 8", "--global-batch-size 7"))
    code, out, err = simcluster("import", "megatron", "run.sh", "--cluster", "dgx-h100", "-o", "s.yaml")
    assert (code, out) == (2, "")
    assert "run.sh:3: --global-batch-size 7: global batch 7 does not divide" in err
    assert not (here / "s.yaml").exists()


def test_names_and_values_cannot_break_the_comments(simcluster, here):
    """Line ends and control characters of the foreign file stay out of the YAML's structure."""
    text = LAUNCH.replace("--wonder 3", "--wonder 'a\nmesh: {}\x1b[2J\u2028x'")
    (here / "run\n.sh").write_text(text)
    code, out, _ = simcluster("import", "megatron", "run\n.sh", "--cluster", "dgx-h100")
    assert code == 0
    assert "\x1b" not in out
    assert Document.parse(out).data["parallel"]["mesh"] == {"data": 4, "tensor": 2}


def test_a_deepspeed_json_with_everything_given(simcluster, here):
    (here / "ds.json").write_text(text_of("zero2.json"))
    code, out, err = simcluster(
        "import", "deepspeed", "ds.json", "--model", "llama2-7b", "--cluster", "dgx-a100", "--hosts", "4",
        "--set", "training.seq_len=4096",
    )  # fmt: skip
    assert code == 0
    assert "use: llama2-7b" in out
    assert "gradients: host" in out and "offload_optimizer" not in err


def test_a_config_beside_the_script_is_found_by_file_and_by_folder(simcluster, here):
    (here / "scripts").mkdir()
    (here / "sizes").mkdir()
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config = here / "sizes" / "config.json"
    config.write_text(json.dumps({"model_type": "llama", "vocab_size": 128, **sizes}))
    for named in ("sizes", "sizes/config.json"):
        (here / "scripts" / "run.sh").write_text(
            f"torchrun --nproc_per_node 8 run_clm.py --config_name {named} --output_dir x "
            "--per_device_train_batch_size 2 --block_size 128 --bf16\n"
        )
        code, out, _ = simcluster("import", "trainer", "scripts/run.sh", "--cluster", "dgx-h100")
        assert code == 0
        assert Document.parse(out).data["model"] == {"hf": str(config)}
