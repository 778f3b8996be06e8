import numpy as np

from simcluster.report.content.slices import action_slices, instance_owners, instance_slices, kernel_slices


def test_slices_of_a_class_cover_all_its_kernels(any_run):
    _, owner = instance_owners(any_run)
    for each in any_run.documents["classes"]:
        compute = kernel_slices(any_run.spans, each["class"])
        for found in (action_slices(compute), instance_slices(compute, owner)):
            assert np.all(found.starts[1:] >= found.ends[:-1])
            inside = np.searchsorted(found.starts, compute["start"], side="right") - 1
            assert np.all(inside >= 0)
            assert np.all(compute["end"] <= found.ends[inside])


def test_every_kernel_belongs_to_an_instance(any_run):
    names, owner = instance_owners(any_run)
    operators = any_run.spans.names["operator"]
    for operator in np.unique(any_run.spans["operator"][any_run.spans["kind"] == 0]):
        assert operators[operator].startswith(f"{names[owner[operator]]}.")


def test_transfers_belong_to_none(run):
    _, owner = instance_owners(run)
    names = run.spans.names["operator"]
    transfers = [index for index, name in enumerate(names) if ".send " in name or ".receive " in name]
    assert transfers and np.all(owner[transfers] == -1)


def test_no_kernels_no_slices(run):
    assert len(action_slices(kernel_slices(run.spans, 99))) == 0
