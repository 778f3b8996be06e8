"""The result as JSON: what scripts read."""

from __future__ import annotations

import orjson

from simcluster.trace import Run


def result_json(run: Run) -> bytes:
    """The summary's figures by their names, in SI units, with the scenario's ``name``, the ``plan``, and
    the ``job`` if there is one.

    Keys come in the order of the summary; the text is indented and ends with a newline.
    """
    plan = run.documents["plan"]
    result = {"name": plan["name"], **run.documents["summary"], "plan": plan}
    if "job" in run.documents:
        result["job"] = run.documents["job"]
    return orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
