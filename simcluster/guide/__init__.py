"""The guide for users: any Markdown file of this folder is a topic, and what reads them."""

from __future__ import annotations

from simcluster.guide.topic import SUFFIX, Topic, find_topic, topics

__all__ = ["SUFFIX", "Topic", "find_topic", "topics"]
