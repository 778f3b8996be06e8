"""What reports read in the documents of a run, and nothing else writes."""

from simcluster.simulation.views.run_documents import ranks_text


def test_members_are_named_in_runs():
    assert ranks_text([0]) == "0"
    assert ranks_text(list(range(64))) == "0..63"
    assert ranks_text([0, 1, 4, 5]) == "0..1, 4..5"
    assert ranks_text([0, 2, 4]) == "0, 2, 4"
    assert ranks_text([0, 2, 4, 6]) == "0, 2, 4, ..."


def test_classes_say_who_is_in_them_and_who_comes_next(run, unfolded):
    classes = run.documents["classes"]
    assert [each["members"] for each in classes] == ["0..3", "4..7", "8..11", "12..15"]
    assert [each["next_class"] for each in classes] == [1, 2, 3, None]
    classes = unfolded.documents["classes"]
    assert [each["members"] for each in classes] == [str(rank) for rank in range(8)]
    assert [each["next_class"] for each in classes] == [4, 5, 6, 7, None, None, None, None]


def test_blocks_name_their_instances(run):
    names = {block["block"]: block["names"] for block in run.documents["layouts"]}
    assert [f"layers.{layer}" for layer in range(8)] in names.values()
    assert all(len(block["names"]) == block["count"] for block in run.documents["layouts"])


def test_what_was_alive_is_taken_together_over_layers(misfit):
    worst = max(misfit.documents["summary"]["peak_memory_bytes"], key=lambda entry: entry["total"])
    names = [each["buffer"] for each in worst["alive"]]
    assert len(set(names)) == len(names)
    assert any(name.startswith("layers.*.") for name in names)
    assert not any(part.isdigit() for name in names for part in name.split("."))
    sizes = [each["bytes"] for each in worst["alive"]]
    assert sizes == sorted(sizes, reverse=True) and sum(sizes) <= worst["total"]
