"""NeMo files as they are read."""

from __future__ import annotations

from simcluster.foreign import UserAdditions, importer, translate_file
from tests.support.foreign_samples import text_of

BERT = """\
name: megatron_bert
trainer: {devices: 8, num_nodes: 16, precision: bf16, gradient_clip_val: 1.0}
model:
  micro_batch_size: 4
  global_batch_size: 512
  encoder_seq_length: 512
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 24
  hidden_size: 1024
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 16
  hidden_dropout: 0.1
  attention_dropout: 0.1
  bert_binary_head: True
  tokenizer: {library: megatron, type: BertWordPieceLowerCase}
  data: {seq_length: '${model.encoder_seq_length}', masked_lm_prob: 0.15}
  optim: {name: distributed_fused_adam}
"""

T5 = """\
name: megatron_t5
trainer: {devices: 8, num_nodes: 16, precision: bf16}
model:
  micro_batch_size: 4
  global_batch_size: 512
  seq_length: 512
  share_decoder_tokens_head_embeddings: True
  tokens_head_bias: True
  tokenizer: {library: megatron, type: BertWordPieceCase}
  encoder:
    arch: transformer
    num_layers: 12
    hidden_size: 768
    ffn_hidden_size: 2048
    num_attention_heads: 12
    kv_channels: 64
    hidden_dropout: 0.1
    normalization: rmsnorm
    bias: False
    activation: geglu
    position_embedding_type: relative
    relative_attention_num_buckets: 32
  decoder:
    arch: transformer
    num_layers: 10
    hidden_size: 768
    ffn_hidden_size: 2048
    hidden_dropout: 0.0
  data: {seq_length: '${model.seq_length}', seq_length_dec: 128}
  optim: {name: mcore_distributed_optim}
"""


def read(text, *, settings=(), model=None):
    return translate_file(importer("nemo"), text, "n.yaml", UserAdditions("dgx-h100", 16, model, settings))


def changed(old, new, name="gpt_nemo1.yaml"):
    text = text_of(name)
    assert text.count(old) == 1
    return text.replace(old, new)
