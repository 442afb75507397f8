"""What every report of `plan memory`, `roofline`, `compare-hardware` and `check` keeps to."""

import pytest

from netgain.cost.claim import Claim
from netgain.cost.claim_text import read_claim
from netgain.cost.known_models import known_shape
from netgain.cost.layout import Layout
from netgain.cost.memory import Serving
from netgain.cost.model_shape import ModelShape
from netgain.cost.planner.check_plan import plan_check
from netgain.cost.planner.compare_plan import CompareAsk, plan_comparison
from netgain.cost.planner.memory_ask import MemoryAsk
from netgain.cost.planner.memory_plan import answer_memory
from netgain.cost.planner.roofline_plan import RooflineAsk, plan_roofline
from netgain.cost.precision import kv_format, weight_format
from netgain.errors import CapacityError, ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue
from netgain.report.document import Basis, Report
from netgain.report.json_form import json_text

KNOWN = shipped_catalogue()
BF16 = weight_format("bf16")
KV = kv_format("bf16")


def shape(name: str) -> ModelShape:
    found = known_shape(name)
    assert found is not None
    return found


def memory_of(model: str, device: str | None, tp: int = 1) -> Report:
    ask = MemoryAsk(
        shape(model),
        BF16,
        KV,
        "a config",
        device=KNOWN.device(device) if device else None,
        layout=Layout(tp=tp),
        others=KNOWN.devices,
    )
    return answer_memory(ask).report


def roofline_of(model: str, device: str, tp: int = 1) -> Report:
    ask = RooflineAsk(shape(model), BF16, KV, "a config", KNOWN.device(device), Layout(tp=tp))
    return plan_roofline(ask)


REPORTS = {
    "memory": memory_of("Llama-2-7B", "L40S"),
    "memory without a device": memory_of("gpt-oss-20b", None),
    "memory of a hybrid": memory_of("Qwen3-Next-80B-A3B", "MI300X", tp=2),
    "memory of an SRAM machine": memory_of("Llama-3.1-8B", "Groq-LPU"),
    "roofline": roofline_of("Llama-3.1-8B", "L40S"),
    "roofline of an SRAM machine": roofline_of("Llama-3.1-8B", "Groq-LPU"),
    "comparison": plan_comparison(CompareAsk(KNOWN.devices, shape("Llama-3.1-8B"), BF16, KV)),
    "check": plan_check(read_claim("Llama-3.1-8B bf16 on H100 TPOT 3.5 ms", KNOWN))[0],
}


@pytest.mark.parametrize("name", REPORTS)
def test_every_figure_says_what_it_rests_on(name: str) -> None:
    for section in REPORTS[name].sections:
        for figure in section.figures:
            assert figure.basis in Basis
            assert figure.arithmetic or figure.source, figure.name
            assert figure.source, figure.name


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_has_a_verdict_and_can_be_written(name: str) -> None:
    assert REPORTS[name].verdict
    assert json_text(REPORTS[name])


def test_a_roofline_has_a_roof_and_three_kinds_of_points() -> None:
    charts = {c.name: c for s in REPORTS["roofline"].sections for c in s.charts}
    names = [series.name for series in charts["roofline"].series]
    assert names == ["device memory, bf16", "prefill", "decode", "verify"]
    assert charts["roofline"].x.log
    assert charts["roofline"].y.log


def test_no_point_lies_above_the_roof() -> None:
    report = roofline_of("Llama-3.1-8B", "H100-SXM")
    chart = next(c for s in report.sections for c in s.charts if c.name == "roofline")
    peak, bandwidth = 989e12, 3350e9
    for series in chart.series[1:]:
        for intensity, rate in zip(series.x, series.y, strict=True):
            assert isinstance(intensity, float)
            assert isinstance(rate, float)
            assert rate <= min(peak, intensity * bandwidth)


def test_a_known_cache_bandwidth_makes_a_second_roof() -> None:
    report = roofline_of("Llama-3.1-8B", "MI300X")
    chart = next(c for s in report.sections for c in s.charts if c.name == "roofline")
    assert chart.series[1].name == "Infinity Cache"


def test_collectives_that_are_not_counted_are_mentioned() -> None:
    report = roofline_of("Llama-3.1-70B", "H100-SXM", tp=4)
    assert any("plan links" in warning for warning in report.warnings)


def test_an_sram_machine_says_how_many_chips_one_model_needs() -> None:
    assert REPORTS["roofline of an SRAM machine"].figure("chips_for_one_model").value
    assert REPORTS["memory of an SRAM machine"].figure("chips_for_one_model").value


def test_a_failure_names_the_shortfall_and_three_ways_out() -> None:
    ask = MemoryAsk(
        shape("Llama-3-70B"), BF16, KV, "a config",
        device=KNOWN.device("H100-SXM"), others=KNOWN.devices,
    )  # fmt: skip
    failure = answer_memory(ask).failure
    assert isinstance(failure, CapacityError)
    assert failure.shortfall_bytes > 0
    assert len(failure.ways_out) == 3


def knobs(serving: Serving) -> MemoryAsk:
    return MemoryAsk(
        shape("Llama-2-7B"), BF16, KV, "a config", sequences=16, tokens=4096,
        device=KNOWN.device("H100-SXM"), others=KNOWN.devices, serving=serving,
    )  # fmt: skip


def test_a_length_that_the_engine_refuses_is_not_said_to_fit() -> None:
    with pytest.raises(ConfigurationError, match=r"raise --max-model-len to 4096"):
        answer_memory(knobs(Serving(max_model_len=1024)))


def test_sequences_that_a_knob_makes_wait_are_mentioned() -> None:
    verdict = answer_memory(knobs(Serving(max_num_seqs=4))).report.verdict[0]
    assert "max sequences lets only 4 of 16 sequences run at once" in verdict


def test_the_model_s_own_length_is_warned_of_where_it_would_not_start() -> None:
    report = memory_of("Llama-3.1-8B", "L4")
    assert not any("own 131,072" in warning for warning in report.warnings)  # does not fit at all
    ask = MemoryAsk(
        shape("Llama-3.1-8B"), weight_format("fp8"), KV, "a config", sequences=1,
        device=KNOWN.device("L4"),
    )  # fmt: skip
    assert any("own 131,072" in warning for warning in answer_memory(ask).report.warnings)


@pytest.mark.parametrize(
    "build",
    [
        lambda: MemoryAsk(shape("Llama-2-7B"), BF16, KV, "", sequences=0),
        lambda: CompareAsk(()),
        lambda: CompareAsk(KNOWN.devices, prices={"L4": -1.0}),
        lambda: plan_check(Claim()),
    ],
)
def test_nothing_is_computed_from_nothing(build: object) -> None:
    assert callable(build)
    with pytest.raises(ConfigurationError):
        build()
