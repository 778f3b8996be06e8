"""What prints as a screen of text, in a notebook: the same screen, not a page of fields."""

from __future__ import annotations

from html import escape

_STYLE = "font-size:12px;line-height:1.35;overflow-x:auto;background:none;color:inherit"


class ShownAsText:
    """Gives a notebook what ``print`` shows; for classes whose text is made to be read."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f'<pre style="{_STYLE}">{escape(str(self))}</pre>'
