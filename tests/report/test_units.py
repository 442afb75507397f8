import math

import pytest

from netgain.report.units import exact_count, number, quantity, scale_for


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (34359738368, "bytes", "32 GiB"),
        (524288, "bytes", "512 KiB"),
        (1023, "bytes", "1,023 B"),
        (1024 * 1024 - 1, "bytes", "1 MiB"),
        (0, "bytes", "0 B"),
        (-2048, "bytes", "-2 KiB"),
        (131072, "bytes/token", "128 KiB/token"),
        (3.35e12, "bytes/s", "3.35 TB/s"),
        (999.96e6, "bytes/s", "1 GB/s"),
        (989.4e12, "FLOP/s", "989.4 TFLOP/s"),
        (295.3, "FLOP/byte", "295.3 FLOP/byte"),
        (1400, "W", "1.4 kW"),
        (0.0123456, "s", "12.35 ms"),
        (0.00099999, "s", "1 ms"),
        (4.2e-5, "s", "42 µs"),
        (3e-9, "s", "3 ns"),
        (0.0, "s", "0 s"),
        (599.0, "s", "599 s"),
        (1800.0, "s", "30 min"),
        (7200.0, "s", "2 h"),
        (864000.0, "s", "10 d"),
        (0.031, "s/token", "31 ms/token"),
        (1234567, "tokens", "1,234,567 tokens"),
        (12345.6, "tokens/s", "12,346 tokens/s"),
        (0.873, "fraction", "87.3 %"),
        (0.873, "ratio", "0.873"),
        (0.25, "$/1M tokens", "$0.25/1M tokens"),
        (-3, "$", "-$3"),
        (True, "", "yes"),
        (None, "s", "–"),  # noqa: RUF001
        (math.nan, "s", "–"),  # noqa: RUF001
        (math.inf, "s", "∞ s"),
        ("memory", "bytes", "memory"),
    ],
)
def test_a_quantity_reads_as_people_write_it(
    value: str | float | bool | None, unit: str, shown: str
) -> None:
    assert quantity(value, unit) == shown


def test_four_digits_are_kept_and_whole_numbers_are_never_rounded() -> None:
    assert number(0.123456) == "0.1235"
    assert number(1234.56) == "1,235"
    assert number(123456789) == "123,456,789"
    assert number(0.00001234) == "1.234e-05"
    assert number(1.5e18) == "1.5e18"
    assert number(-math.inf) == "-∞"


def test_a_scale_divides_back_to_the_base_unit() -> None:
    for unit, size in [("bytes", 5e12), ("s", 3e-7), ("FLOP/s", 2e15), ("tokens", 7e6)]:
        scale = scale_for(unit, size)
        assert size / scale.factor >= 1 or scale.factor == 1


def test_only_a_scaled_count_has_an_exact_form() -> None:
    assert exact_count(34359738368, "bytes") == "34,359,738,368 B"
    assert exact_count(131072, "bytes/token") == "131,072 B/token"
    assert exact_count(12, "bytes") == ""
    assert exact_count(12_000_000, "tokens") == ""
    assert exact_count(3.5e9, "bytes") == ""
    assert exact_count(True, "bytes") == ""
