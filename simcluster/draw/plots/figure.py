"""What all plots share: plotly itself, and the look of a figure on light and dark pages."""

from __future__ import annotations

from functools import cache
from typing import Any

from simcluster.draw.plots.picture import still_picture
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


@cache
def _with_picture(figure_class: Any) -> Any:
    """Plotly's figures that a notebook keeps with a still picture, shown where no scripts run."""

    class NotebookFigure(figure_class):  # type: ignore[misc]
        # They would show, or keep, the interactive figure without the picture.
        _ipython_display_ = None
        _repr_html_ = None

        def _repr_mimebundle_(self, *args: Any, **options: Any) -> dict[str, Any]:
            bundle = super()._repr_mimebundle_(*args, **options)
            told = {"image/svg+xml": still_picture(self), "text/plain": f"Plot: {self.layout.title.text}"}
            return {**bundle, **told}

    return NotebookFigure


def new_figure(title: str, *, height: int, x: str = "", y: str = "") -> Any:
    """An empty figure that takes the colour of the page around it; ``x`` and ``y`` are titles of axes."""
    lines = {"gridcolor": "rgba(128,136,144,.25)", "zerolinecolor": "rgba(128,136,144,.4)"}
    return _with_picture(plotly_objects().Figure)(
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
