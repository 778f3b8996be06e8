"""What is said of a job besides its times."""

from __future__ import annotations

import pytest

from simcluster.report.content.job_statements import job_remarks


@pytest.mark.parametrize(
    ("hours", "cost", "energy"),
    [
        (0.1, "cost 0.76 USD, of it lost 0.38", "energy 700 Wh, of it lost 350 Wh"),
        (10, "cost 76.0 USD, of it lost 38.0", "energy 70.0 kWh, of it lost 35.0 kWh"),
        (10_000, "cost 76,000 USD, of it lost 38,000", "energy 70.0 MWh, of it lost 35.0 MWh"),
    ],
)
def test_cost_and_energy_keep_three_digits(hours, cost, energy):
    """A short job costs something, too: 0.76 is neither 1 nor nothing."""
    job = {"cost": 7.6 * hours, "cost_lost": 3.8 * hours, "currency": "USD"}
    job |= {"energy_j": 7000 * 3600 * hours, "energy_lost_j": 3500 * 3600 * hours}
    assert job_remarks(job) == [cost, energy]
