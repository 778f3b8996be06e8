from simcluster.draw import BLUE, chunk_of


def test_chunks_are_told_apart():
    shades = [BLUE.shaded(number).colour for number in range(8)]
    assert len(set(shades)) == 8 and shades[0] == BLUE.colour
    assert BLUE.shaded(8) == BLUE and BLUE.shaded(1).glyph == BLUE.glyph


def test_labels_name_their_chunk():
    assert [chunk_of(label) for label in ("F0", "F12c3", "B3c1s2", "F3c2&B1", "begin")] == [0, 3, 1, 2, 0]
