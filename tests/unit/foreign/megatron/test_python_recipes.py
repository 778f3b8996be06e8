"""Recipes of NeMo 2 and Megatron-Bridge in Python, and callbacks of NeMo 2."""

import pytest

from simcluster.errors import ScenarioError
from simcluster.foreign import TranslationStatus, UserAdditions, importer, translate_file
from tests.support.foreign_samples import text_of

BRIDGE = """
from megatron.bridge.recipes.llama import llama3_8b_pretrain_config

cfg = llama3_8b_pretrain_config(seq_length=8192)
cfg.model.tensor_model_parallel_size = 2
cfg.model.sequence_parallel = True
cfg.train.global_batch_size = 128
cfg.train.micro_batch_size = 1
cfg.mixed_precision = "bf16_with_fp8_current_scaling_mixed"
"""
NEMO = """
def recipe(nodes=4):
    recipe = llm.llama3_70b.pretrain_recipe(name="x", num_nodes=nodes, num_gpus_per_node=8)
    recipe.trainer.strategy.tensor_model_parallel_size = 4
    recipe.trainer.strategy.sequence_parallel = True
    recipe.data.global_batch_size = 128
    recipe.data.micro_batch_size = 1
    recipe.data.seq_length = 4096
    recipe.trainer.callbacks.append(run.Config(MegatronCommOverlapCallback, tp_comm_overlap=True))
    return recipe
"""


def read(text, hosts=None, name="r.py", settings=()):
    return translate_file(importer("nemo"), text, name, UserAdditions("dgx-h100", hosts, None, settings))


def test_a_recipe_of_megatron_bridge():
    found = read(BRIDGE, 2).data
    assert found["model"] == {"use": "llama3-8b"}
    assert found["parallel"]["mesh"] == {"data": 8, "tensor": 2}
    assert found["training"]["precision"]["matmul"] == "fp8"
    assert found["training"]["seq_len"] == 8192


def test_a_recipe_of_nemo():
    found = read(NEMO).data
    assert found["model"] == {"use": "llama3-70b"}
    assert found["cluster"]["hosts"] == 4
    assert found["parallel"]["overlap"] == {"tensor": {"chunks": 4}}


def test_what_a_recipe_leaves_out_is_asked_for():
    with pytest.raises(ScenarioError, match="does not say the micro-batch"):
        read(NEMO.replace("    recipe.data.micro_batch_size = 1\n", ""))


def test_objects_made_in_a_program():
    text = """
data = llm.MockDataModule(seq_length=2048, micro_batch_size=2, global_batch_size=16)
config = llm.GPTConfig(num_layers=6, hidden_size=384, num_attention_heads=6)
strategy = nl.MegatronStrategy(tensor_model_parallel_size=2, pipeline_dtype=torch.bfloat16)
trainer = nl.Trainer(devices=8, num_nodes=1, plugins=nl.MegatronMixedPrecision(precision="bf16-mixed"))
"""
    found = read(text, settings=(("model.vocab", "50304"),)).data
    assert [found["model"][name] for name in ("layers", "hidden", "heads")] == [6, 384, 6]
    assert found["parallel"]["mesh"] == {"data": 4, "tensor": 2}


def test_open_values_of_a_recipe_are_named():
    with pytest.raises(ScenarioError, match=r"r.py:7.*only a run of the program"):
        read(BRIDGE.replace("= 128", "= args.gbs"), 2)


def test_callbacks_of_nemo_count_one_by_one():
    callbacks = """trainer:
  callbacks:
  - _target_: nemo.utils.exp_manager.TimingCallback
  - _target_: nemo.lightning.Strange
  - _target_: nemo.lightning.pytorch.callbacks.megatron_comm_overlap.MegatronCommOverlapCallback
    tp_comm_overlap: true
"""
    text = text_of("llama3_70b_nemo2.yaml").replace("trainer:\n", callbacks, 1)
    found = read(text, name="n.yaml")
    fates = {each.flag.name: each.status for each in found.untranslated if "allback" in each.flag.name}
    assert found.data["parallel"]["overlap"]["tensor"] == {"chunks": 4}
    assert fates["trainer.callbacks.TimingCallback"] is TranslationStatus.EFFECTLESS
    assert fates["trainer.callbacks.Strange"] is TranslationStatus.UNKNOWN
