"""Laws of failures against their closed forms."""

import math
from itertools import takewhile

import numpy as np
import pytest

from simcluster.job.failures import Exponential, FailuresSpec, Lognormal, Weibull, incidents
from tests.support.jobs import SECOND, cause, fleet

LAWS = [Exponential(1000.0), Weibull(1000.0, 0.7), Weibull(1000.0, 2.0), Lognormal(1000.0, 1.0)]


def drawn(causes, until, *, hosts=50, seed=0, devices_each=1):
    stream = incidents(causes, (), (), fleet(hosts, devices_each), [seed], 5000.0)
    return list(takewhile(lambda incident: incident.at_ns < until * SECOND, stream))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_mean_of_lives(law):
    lives = law.lifetimes(40_000, np.random.default_rng(1))
    assert lives.mean() == pytest.approx(law.mean, abs=5 * lives.std() / 200)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_residual_life_is_that_of_a_renewal_process(law):
    """Mean residual life is E[X^2] / (2 E[X]), whatever the law."""
    generator = np.random.default_rng(2)
    lives, residual = law.lifetimes(400_000, generator), law.residual(40_000, generator)
    assert residual.mean() == pytest.approx((lives**2).mean() / 2 / law.mean, rel=0.05)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_components_in_use_fail_at_the_mean_rate_from_the_begin(law):
    """n components over T fail n T / MTBF times in the mean, in the first moment as in any other."""
    counts = [len(drawn([cause(0, law=law)], 200.0, seed=seed)) for seed in range(200)]
    assert np.mean(counts) == pytest.approx(50 * 200 / 1000, abs=5 * np.std(counts) / math.sqrt(200))


def test_counts_of_an_exponential_law_are_poisson():
    counts = [len(drawn([cause(1000.0)], 400.0, seed=seed)) for seed in range(400)]
    assert np.var(counts) == pytest.approx(np.mean(counts), rel=0.25)


def test_first_failure_of_new_weibull_components():
    """The least of n lives is a Weibull with the same shape and scale / n^(1 / shape)."""
    law = Weibull(1000.0, 0.7)
    firsts = [
        next(incidents([cause(0, law=law, is_settled=False)], (), (), fleet(50), [seed], 100.0)).at_ns
        / SECOND
        for seed in range(400)
    ]
    mean = law.scale * 50 ** (-1 / 0.7) * math.gamma(1 + 1 / 0.7)
    assert np.mean(firsts) == pytest.approx(mean, abs=5 * np.std(firsts) / 20)


def test_one_cause_draws_the_same_whatever_others_there_are():
    alone = drawn([cause(1000.0)], 500.0)
    both = drawn([cause(1000.0), cause(700.0, name="other")], 500.0)
    assert [each for each in both if each.cause == "failure"] == alone
    assert [each.at_ns for each in both] == sorted(each.at_ns for each in both)


def test_a_switch_takes_all_hosts_behind_it():
    found = drawn([cause(50.0, "switch", hosts_each=4)], 100.0, hosts=10)
    assert {incident.hosts for incident in found} <= {(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)}


def test_failures_that_spread_hit_another_device_of_the_host():
    spreading = cause(1000.0, "device", spread=1.0, spread_s=10.0)
    failed = drawn([spreading], 2000.0, hosts=4, devices_each=8)
    assert len(failed) > 80
    followed = [
        any(
            each.hosts == other.hosts and each.devices != other.devices
            for other in failed
            if 0 < abs(other.at_ns - each.at_ns) < 10 * SECOND
        )
        for each in failed
    ]
    assert sum(followed) > 0.95 * len(failed)


def test_llama3_preset_gives_its_published_counts():
    """On the cluster it was seen on, 419 failures in 54 days: 7.76 a day."""
    causes = FailuresSpec.load("llama3-405b").built_causes(fleet(2048, 8))
    # 8 network cards a host in the observation, one in this fleet
    counts = {
        each.name: fleet(2048, 8).count(each.component, 1) / each.law.mean * 54 * 86400 for each in causes
    }
    assert counts["faulty GPU, NVLink included"] == pytest.approx(148)
    assert counts["network switch or cable"] == pytest.approx(35 / 8)
    assert counts["power supply"] == pytest.approx(3)


@pytest.mark.parametrize("preset", sorted(FailuresSpec.entries()))
def test_presets_name_their_sources(preset):
    spec = FailuresSpec.sourced(preset)
    assert spec.title and spec.causes


def test_times_of_no_length():
    """A mean of 0 s had no logarithm."""
    for sigma in (0.0, 1.0):
        law = Lognormal(0.0, sigma)
        assert law.lifetimes(2, np.random.default_rng(0)).tolist() == [0.0, 0.0]
        assert law.survival(1.0) == 0.0


@pytest.mark.parametrize("sigma", [1.0, 0.3])
def test_the_share_of_times_that_are_longer(sigma):
    law = Lognormal(20.0, sigma)
    times = law.lifetimes(100_000, np.random.default_rng(0))
    assert law.survival(30.0) == pytest.approx(np.mean(times > 30.0), abs=0.005)
    assert (Lognormal(30.0, 0.0).survival(30.0), Lognormal(31.0, 0.0).survival(30.0)) == (0.0, 1.0)
