"""Only regular files of reasonable size are read."""

import os

import pytest

from simcluster.document import (
    Refused,
    check_readable,
    content_of,
    json_object,
    names_file,
    real_path,
    text_of,
)
from simcluster.errors import ScenarioError


def test_the_bytes_of_a_file_up_to_the_limit(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    assert content_of(file, 5) == b"12345"
    with pytest.raises(Refused, match=r"the file has 5 B; at most 4 B are read"):
        content_of(file, 4)


def test_a_file_that_does_not_say_how_long_it_is():
    with pytest.raises(Refused, match=r"the file has more than 4 B, which is the most that is read"):
        content_of("/proc/self/status", 4)


def test_what_is_no_regular_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for ever
    for path, message in (
        (tmp_path / "pipe", "this is a pipe, not a file"),
        ("/dev/zero", "this is a device, not a file"),
        (tmp_path, "this is a folder; name a file in it"),
        (tmp_path / "none", "there is no such file"),
        ("a\0b", "the file cannot be read: embedded null byte"),
    ):
        with pytest.raises(Refused, match=message):
            check_readable(path, 2**62)
        with pytest.raises(ScenarioError, match=message):
            text_of(path)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ScenarioError, match=r"huge: the file has 1.00 TiB; at most 4.00 MiB are read"):
        text_of(tmp_path / "huge")


def test_links_that_lead_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c").symlink_to(tmp_path / "d")
    with pytest.raises(ScenarioError, match="too many levels of symbolic links"):
        text_of(tmp_path / "a")
    assert real_path(tmp_path / "a").is_symlink()
    assert real_path(tmp_path / "c") == (tmp_path / "d").resolve()


def test_a_mark_of_the_byte_order_is_no_text(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfid")
    assert text_of(tmp_path / "a") == "id"


def test_words_that_name_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    assert all(names_file(words) for words in ("a.yaml", "./a", "/dev/zero", "plain", "loop"))
    assert not any(names_file(words) for words in ("dgx-h100", "folder", "1f1b", ""))


@pytest.mark.parametrize("depth", [65, 900, 100_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_json_that_nests_deeply_is_refused(tmp_path, depth, begin, end):
    file = tmp_path / "config.json"
    inner = depth - 1
    file.write_text(f'{{"a": {begin * inner}1{end * inner}}}')
    with pytest.raises(Refused, match="its values are nested more than 64 levels deep"):
        json_object(file)


def test_json_of_a_usual_depth(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"a": ' + "[" * 63 + "]" * 63 + "}")
    assert json_object(file)
    file.write_text("[]")
    with pytest.raises(Refused, match="is not JSON object"):
        json_object(file)
