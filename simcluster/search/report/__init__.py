"""What a search found: a table to read, JSON-able data, and why plans lost."""

from simcluster.search.report.document import search_document
from simcluster.search.report.reasons import why_it_lost
from simcluster.search.report.text import search_html, search_text, verdict

__all__ = ["search_document", "search_html", "search_text", "verdict", "why_it_lost"]
