"""Operator families: one file, one family. Kinds are found by listing this folder."""
