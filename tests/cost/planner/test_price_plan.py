"""`plan price`: money and power of a layout, from its step times or a measured throughput."""

from dataclasses import replace

import pytest

from netgain.cost.known_models import known_shape
from netgain.cost.layout import Layout
from netgain.cost.planner.price_plan import ASSUMED_PRICE, PriceQuestion, plan_price
from netgain.cost.planner.setup import Setup
from netgain.cost.precision import kv_format, weight_format
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue
from netgain.hardware.topologies import for_device
from netgain.report.document import Basis, Cell, Report
from netgain.report.json_form import json_text

DEVICES = shipped_catalogue()


def setup(model: str = "Llama-3.1-8B", device: str = "H100-SXM", tp: int = 1) -> Setup:
    shape = known_shape(model)
    assert shape is not None
    found = DEVICES.device(device)
    topology = for_device(DEVICES, found, tp) if tp > 1 else None
    return Setup(shape, found, weight_format("bf16"), kv_format("bf16"), Layout(tp=tp), topology)


ASKED = PriceQuestion(setup(), 2.5)


def value(report: Report, name: str) -> float:
    found = report.figure(name).value
    assert isinstance(found, int | float)
    return float(found)


def rows(report: Report, name: str) -> list[dict[str, Cell]]:
    return [dict(r) for s in report.sections for t in s.tables if t.name == name for r in t.rows]


def test_a_published_day_s_price_comes_out_of_its_throughput() -> None:
    """R20: 14,800 output tokens/s per node of 8 at $2 are $0.300 per million."""
    node = replace(setup("DeepSeek-V3", "H800", 8), weights=weight_format("fp8"))
    report = plan_price(PriceQuestion(node, 2.0, utilisation=1.0, tokens_per_s=14_800))
    assert value(report, "dollars_per_million_output_tokens") == pytest.approx(16 / 53.28, rel=1e-6)
    assert report.figure("tokens_per_s").basis is Basis.MEASURED


def test_a_million_tokens_cost_devices_over_what_they_put_out() -> None:
    report = plan_price(ASKED)
    tokens = value(report, "tokens_per_s") * 0.6
    assert value(report, "dollars_per_million_output_tokens") == pytest.approx(
        2.5 / 3600 / tokens * 1e6
    )
    whole = value(report, "dollars_per_million_tokens") * (1024 + 256) / 256
    assert whole == pytest.approx(value(report, "dollars_per_million_output_tokens"))


def test_prefill_and_decode_share_the_cost_by_device_time() -> None:
    report = plan_price(ASKED)
    shared = value(report, "dollars_of_prefill") * 1024 / 256 + value(report, "dollars_of_decode")
    assert shared == pytest.approx(value(report, "dollars_per_million_output_tokens"))


def test_what_a_cache_holds_is_not_prefilled_and_not_paid() -> None:
    cached = plan_price(replace(ASKED, cached_tokens=900))
    name = "dollars_per_million_output_tokens"
    assert value(cached, name) < 0.9 * value(plan_price(ASKED), name)


def test_replicas_carry_the_rate_within_their_utilisation_and_spares_are_paid() -> None:
    report = plan_price(replace(ASKED, rate_per_s=40.0, spare_replicas=1))
    each = value(report, "tokens_per_s") / 256
    replicas = value(report, "replicas")
    assert (replicas - 1) * each * 0.6 < 40 <= replicas * each * 0.6
    assert value(report, "utilisation") == pytest.approx(40 / (replicas * each))
    assert value(report, "devices") == replicas + 1
    assert value(report, "dollars_per_day") == pytest.approx((replicas + 1) * 60)
    assert value(report, "dollars_idle") > 0


def test_good_requests_pay_for_the_bad_and_a_task_for_its_retries() -> None:
    all_good = value(plan_price(ASKED), "dollars_per_good_request")
    half = plan_price(replace(ASKED, attainment=0.5, calls_per_task=20, retries=0.1))
    assert value(half, "dollars_per_good_request") == pytest.approx(2 * all_good)
    assert value(half, "dollars_per_task") == pytest.approx(2 * all_good * 20 * 1.1)


def test_power_is_the_limit_times_devices_and_the_site() -> None:
    report = plan_price(replace(ASKED, site_overhead=1.2))
    assert value(report, "watts") == 700
    assert value(report, "site_watts") == pytest.approx(840)
    joules = 840 / (value(report, "tokens_per_s") * 0.6)
    assert value(report, "joules_per_output_token") == pytest.approx(joules)
    assert value(report, "kwh_per_million_output_tokens") == pytest.approx(joules / 3.6)
    assert value(report, "electricity_dollars") == pytest.approx(joules / 3.6 * 0.1)


def test_a_device_without_known_power_says_so_and_takes_watts() -> None:
    tpu = replace(ASKED, setup=setup(device="TPU-v6e"))
    assert tpu.setup.device.power_w is None
    report = plan_price(tpu)
    assert any("--watts" in line for s in report.sections for line in s.text)
    assert value(plan_price(replace(tpu, watts_per_device=300.0)), "watts") == 300


def test_larger_batches_are_cheaper_and_slower_for_each() -> None:
    found = rows(plan_price(ASKED), "by_batch")
    prices = [float(r["dollars"] or 0) for r in found]
    each = [float(r["user"] or 0) for r in found]
    assert prices == sorted(prices, reverse=True)
    assert each == sorted(each, reverse=True)
    assert [r["fits"] for r in found] == sorted((bool(r["fits"]) for r in found), reverse=True)


def test_a_tenth_of_the_use_is_ten_times_the_price() -> None:
    found = {r["busy"]: float(r["dollars"] or 0) for r in rows(plan_price(ASKED), "by_utilisation")}
    assert found[0.1] == pytest.approx(10 * found[1.0])


def test_collectives_make_tokens_dearer_than_devices_alone_do() -> None:
    one = value(plan_price(ASKED), "dollars_per_million_output_tokens")
    four = value(plan_price(replace(ASKED, setup=setup(tp=4))), "dollars_per_million_output_tokens")
    assert four > 1.2 * one


def test_income_over_cost_is_the_margin() -> None:
    report = plan_price(replace(ASKED, sold_at=1.0))
    cost = value(report, "dollars_per_million_output_tokens")
    assert value(report, "margin") == pytest.approx(1.0 / cost - 1)


def test_too_few_devices_a_full_memory_and_an_assumed_price_are_warned_of() -> None:
    asked = replace(ASKED, rate_per_s=100.0, available=2, batch=2048, price_source=ASSUMED_PRICE)
    warnings = " ".join(plan_price(asked).warnings)
    assert "2 can be had" in warnings
    assert "do not fit" in warnings
    assert "--price-per-hour" in warnings


def test_every_figure_has_arithmetic_or_a_source_and_the_report_can_be_written() -> None:
    report = plan_price(replace(ASKED, sold_at=1.0, rate_per_s=3.0))
    for section in report.sections:
        for figure in section.figures:
            assert figure.source, figure.name
    assert json_text(report)
    assert len({f.name for s in report.sections for f in s.figures}) == sum(
        len(s.figures) for s in report.sections
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"batch": 0}, "batch is 0"),
        ({"utilisation": 0.0}, "utilisation is 0"),
        ({"attainment": 1.5}, "attainment is 1.5"),
        ({"dollars_per_device_hour": -1.0}, "dollars_per_device_hour is -1"),
        ({"rate_per_s": 0.0}, "rate_per_s is 0"),
        ({"cached_tokens": 1024}, "at least one token"),
        ({"site_overhead": 0.5}, "site overhead 0.5"),
    ],
)
def test_impossible_questions_are_refused(wrong: dict[str, float], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        replace(ASKED, **wrong)  # type: ignore[arg-type]
