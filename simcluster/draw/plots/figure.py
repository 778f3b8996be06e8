"""What all plots share: plotly itself, and the look of a figure on light and dark pages."""

from __future__ import annotations

from typing import Any

from simcluster.errors import Problem, SimclusterError

_GREY = "#808890"


def plotly_objects() -> Any:
    """The module ``plotly.graph_objects``.

    Raises SimclusterError, with the command that installs it, where plotly is not installed.
    """
    try:
        import plotly.graph_objects
    except ImportError:
        hint = "install it: pip install 'simcluster[notebook]'"
        raise SimclusterError(
            Problem("plots need plotly, which is not installed", hint=hint, extra="notebook")
        ) from None
    return plotly.graph_objects


def new_figure(title: str, *, height: int, x: str = "", y: str = "") -> Any:
    """An empty figure that takes the colour of the page around it; ``x`` and ``y`` are titles of axes."""
    lines = {"gridcolor": "rgba(128,136,144,.25)", "zerolinecolor": "rgba(128,136,144,.4)"}
    return plotly_objects().Figure(
        layout={
            "title": {"text": title, "font": {"size": 14}},
            "height": height,
            "template": "none",
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": _GREY, "size": 11},
            "margin": {"l": 60, "r": 20, "t": 46, "b": 90},
            "legend": {"orientation": "h", "yref": "container", "y": 0.0, "yanchor": "bottom"},
            "xaxis": {"title": {"text": x, "standoff": 4}, "ticks": "", **lines},
            "yaxis": {"title": {"text": y}, "automargin": True, **lines},
        }
    )
