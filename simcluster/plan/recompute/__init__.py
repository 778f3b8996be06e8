"""Activation recomputation (checkpointing): whole layers, chosen operators, and saved activations kept in
parts.
"""
