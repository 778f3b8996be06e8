from simcluster.draw import Column, Markup, html_legend, html_table, section
from simcluster.draw.tone import BLUE


def test_text_is_escaped_and_markup_is_not():
    found = html_table(["<t>", Column("n", quantity=True)], [["<script>x</script>", Markup("<b>1</b>")]])
    assert "<script>" not in found and "&lt;script&gt;x&lt;/script&gt;" in found
    assert "<b>1</b>" in found and "&lt;t&gt;" in found
    assert isinstance(found, Markup)


def test_quantities_are_flush_right():
    found = html_table(["", Column(quantity=True)], [["a", "5 s"]])
    assert "<th" not in found
    assert found.count("text-align:right") == 1 and found.count("text-align:left") == 1


def test_legend_and_section():
    assert BLUE.colour in html_legend([("a & b", BLUE)])
    assert "a &amp; b" in html_legend([("a & b", BLUE)])
    assert section("T<", "n>", Markup("<i>x</i>")).endswith("<i>x</i>")
