"""MindFormers files as they are read."""

from __future__ import annotations

from ruamel.yaml import YAML

from simcluster.foreign import UserAdditions, importer, translate_file
from tests.support.foreign_samples import text_of

NAME = "llama3_8b_mindformers.yaml"
GLM3 = """\
run_mode: 'finetune'
trainer: {type: CausalLanguageModelingTrainer, model_name: 'glm3_6b'}
runner_config: {epochs: 1, batch_size: 1, sink_mode: True}
use_parallel: True
parallel_config: {data_parallel: 8, model_parallel: 1, pipeline_stage: 1}
optimizer: {type: FP32StateAdamWeightDecay}
model:
  model_config:
    type: ChatGLM2Config
    batch_size: 1
    num_layers: 28
    padded_vocab_size: 65024
    hidden_size: 4096
    kv_channels: 128
    ffn_hidden_size: 13696
    num_attention_heads: 32
    seq_length: 2048
    hidden_dropout: 0.0
    attention_dropout: 0.0
    layernorm_epsilon: 1e-5
    rmsnorm: True
    apply_residual_connection_post_layernorm: False
    post_layer_norm: True
    add_bias_linear: False
    add_qkv_bias: True
    multi_query_attention: True
    multi_query_group_num: 2
    fp32_residual_connection: False
    quantization_bit: 0
    pre_seq_len: None
    compute_dtype: "bfloat16"
    param_init_type: "float32"
    use_flash_attention: True
  arch: {type: ChatGLM2ForConditionalGeneration}
"""
PREDICTION = (
    GLM3.replace("'finetune'", "'predict'")
    .replace("data_parallel: 8", "data_parallel: 4")
    .replace("model_parallel: 1", "model_parallel: 2")
    .replace("batch_size: 1\n", "batch_size: 8\n")
)


def read(**changes):
    """The sample with settings changed (``a__b=c``); None takes one away."""
    import io

    yaml = YAML(typ="safe", pure=True)
    data = yaml.load(text_of(NAME))
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = data
        for key in parents:
            inner = inner.setdefault(key, {})
        if value is None:
            inner.pop(last)
        else:
            inner[last] = value
    stream = io.StringIO()
    yaml.dump(data, stream)
    return translate_file(
        importer("mindformers"), stream.getvalue(), "m.yaml", UserAdditions("atlas-800t-a2")
    )


def listed(found, name):
    return [each.status for each in found.untranslated if each.flag.name.endswith(name)]
