import errno
import os
from pathlib import Path

import pytest

from simcluster.trace.atomic_files import atomic_path


def test_a_file_takes_its_place_at_the_end(tmp_path):
    target = tmp_path / "trace.json.gz"
    target.write_text("old")
    with atomic_path(target) as partial:
        assert partial.parent == tmp_path
        assert partial.name.endswith("trace.json.gz")
        partial.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_happens_if_writing_breaks_off(tmp_path, error):
    (tmp_path / "kept").write_text("old")
    for name in ("kept", "none"):
        with pytest.raises(error), atomic_path(tmp_path / name) as partial:
            partial.write_text("half")
            raise error
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "old"


def test_a_link_keeps_pointing(tmp_path):
    (tmp_path / "link").symlink_to("real")
    for text in ("first", "second"):
        with atomic_path(tmp_path / "link") as partial:
            partial.write_text(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == text


def test_devices_and_pipes_are_written_to(tmp_path):
    with atomic_path(os.devnull) as partial:
        assert str(partial) == os.devnull
    reader, writer = os.pipe()
    with atomic_path(f"/dev/fd/{writer}") as partial, partial.open("w") as file:
        file.write("through")
    os.close(writer)
    with os.fdopen(reader) as file:
        assert file.read() == "through"


@pytest.mark.parametrize("name", [None, "partial", "another"])
def test_an_error_while_writing_names_the_file(tmp_path, name):
    """A write to a full disk knows no name, and nobody asked for the partial file."""
    with pytest.raises(OSError, match="No space left") as caught, atomic_path(tmp_path / "file") as partial:
        raise OSError(errno.ENOSPC, "No space left on device", str(partial) if name == "partial" else name)
    assert caught.value.filename == ("another" if name == "another" else str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_device_is_named():
    with pytest.raises(OSError, match="No space left") as caught, atomic_path("/dev/full") as partial:
        partial.write_bytes(b"x")
    assert caught.value.filename == "/dev/full"


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "none" / "file") as partial:
        partial.write_text("x")
