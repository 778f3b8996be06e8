"""The guide for users: any Markdown file of this folder is a topic, and what reads them."""

from __future__ import annotations

from simcluster.guide.topic import Topic, find_topic, topics

__all__ = ["Topic", "find_topic", "topics"]
