"""Money and energy: R20 is the oracle."""

import pytest

from netgain.cost.price import (
    Fleet,
    dollars_per_good_request,
    dollars_per_million_tokens,
    dollars_per_task,
    joules_per_token,
    margin,
    power_dollars,
)
from netgain.errors import ConfigurationError

DEEPSEEK = Fleet(serving=226.75 * 8, dollars_per_device_hour=2.0)


def test_deepseeks_day_costs_what_they_published() -> None:
    """R20: 226.75 nodes of 8 at $2/GPU-hour are $87,072 a day; income $562,027 is 545 %."""
    assert DEEPSEEK.dollars(24) == pytest.approx(87_072)
    assert margin(562_027, DEEPSEEK.dollars(24)) == pytest.approx(5.45, abs=0.01)


def test_deepseeks_nodes_follow_from_their_tokens() -> None:
    """R20: 608e9 in and 168e9 out at 73,700 and 14,800 tokens/s per node are 226.9 nodes."""
    prefill = 608e9 / 86_400 / 73_700
    decode = 168e9 / 86_400 / 14_800
    assert prefill == pytest.approx(95.5, abs=0.05)
    assert decode == pytest.approx(131.4, abs=0.05)
    assert prefill + decode == pytest.approx(226.75, rel=0.002)


def test_a_million_output_tokens_cost_the_day_over_its_tokens() -> None:
    per_million = dollars_per_million_tokens(DEEPSEEK, 168e9 / 86_400)
    assert per_million == pytest.approx(87_072 / 168e9 * 1e6)


def test_idle_time_and_spare_devices_are_paid_by_the_tokens() -> None:
    busy = dollars_per_million_tokens(Fleet(4, 3.0), 1000)
    assert dollars_per_million_tokens(Fleet(4, 3.0), 1000, busy=0.5) == pytest.approx(2 * busy)
    assert dollars_per_million_tokens(Fleet(4, 3.0, spare=2), 1000) == pytest.approx(1.5 * busy)


def test_good_requests_pay_for_the_bad_ones() -> None:
    fleet = Fleet(1, 3.6)
    assert dollars_per_good_request(fleet, 1.0, attainment=0.5) == pytest.approx(0.002)


def test_a_task_costs_its_calls_and_their_retries() -> None:
    assert dollars_per_task(0.01, calls=20, retries=0.1) == pytest.approx(0.22)


def test_energy_is_power_over_throughput() -> None:
    assert joules_per_token(700, 1400) == 0.5
    assert power_dollars(1000, 10, 0.2, overhead=1.2) == pytest.approx(2.4)


@pytest.mark.parametrize("devices", [0, -1])
def test_a_fleet_without_devices_is_refused(devices: float) -> None:
    with pytest.raises(ConfigurationError, match="serving devices"):
        Fleet(devices, 2.0)


def test_no_throughput_and_no_good_requests_have_no_price() -> None:
    with pytest.raises(ConfigurationError, match="tokens_per_s is 0"):
        dollars_per_million_tokens(Fleet(1, 1), 0)
    with pytest.raises(ConfigurationError, match="attainment is 0"):
        dollars_per_good_request(Fleet(1, 1), 1, 0)
