"""Scenarios as text."""

SMALL = """\
# A comment to keep.
simcluster: 1
name: small
cluster: {use: cpu-server, hosts: 4}
model: {layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 128, vocab: 256}
training: {global_batch: 8, micro_batch: 1, seq_len: 16, precision: fp32}
parallel:
  mesh: {pipeline: 2, data: 2, tensor: 2}
"""

CRAMPED = SMALL.replace("use: cpu-server", "host: {use: cpu-server, device: {memory: 1 MiB}}")
"""The same on devices that are too small."""


def but(old, new, text=SMALL):
    """The small scenario with one thing changed."""
    assert text.count(old) == 1, old
    return text.replace(old, new)
