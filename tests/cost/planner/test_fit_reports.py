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
from netgain.hardware.topologies import for_device
from netgain.report.document import Basis, Cell, Form, Report
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


def roofline_of(model: str, device: str) -> Report:
    return laid_out(model, device, Layout())


def laid_out(model: str, device: str, layout: Layout, weights: str = "bf16") -> Report:
    found = KNOWN.device(device)
    topology = for_device(KNOWN, found, layout.devices) if layout.devices > 1 else None
    return plan_roofline(
        RooflineAsk(
            shape(model), weight_format(weights), KV, "a config", found, layout, topology=topology
        )
    )


REPORTS = {
    "memory": memory_of("Llama-2-7B", "L40S"),
    "memory without a device": memory_of("gpt-oss-20b", None),
    "memory of a hybrid": memory_of("Qwen3-Next-80B-A3B", "MI300X", tp=2),
    "memory of an SRAM machine": memory_of("Llama-3.1-8B", "Groq-LPU"),
    "roofline": roofline_of("Llama-3.1-8B", "L40S"),
    "roofline of an SRAM machine": roofline_of("Llama-3.1-8B", "Groq-LPU"),
    "roofline of a layout": laid_out("DeepSeek-V3", "H200", Layout(dp=8, ep=8), "fp8"),
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


def test_the_runtime_reserve_is_a_sum_that_adds_up() -> None:
    figure = memory_of("Llama-3.1-8B", "H100-SXM", tp=2).figure("reserve_bytes")
    numbers = [
        int(part.split(" B ")[0].replace(",", "")) for part in figure.arithmetic.split(" + ")
    ]
    assert len(numbers) == 2
    assert sum(numbers) == figure.value


def test_where_sources_differ_is_a_note_and_no_warning() -> None:
    report = roofline_of("Llama-3.1-8B", "H100-SXM")
    assert not report.warnings
    noted = [t for s in report.sections for t in s.tables if t.name == "conflicts"]
    assert noted[0].form is Form.NOTES
    assert any("Vidur" in str(row["note"]) for row in noted[0].rows)


def test_a_product_of_4096_climbs_the_roof_with_its_tokens() -> None:
    tables = [t for s in roofline_of("Llama-3.1-8B", "L40S").sections for t in s.tables]
    rows = next(t.rows for t in tables if t.name == "layer_intensity")
    found = {row["tokens"]: row["intensity"] for row in rows}
    assert found[1] == pytest.approx(1.0, abs=0.01)
    assert found[64] == pytest.approx(62.06, abs=0.005)
    assert found[512] == pytest.approx(409.60, abs=0.005)


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


def rows_of(report: Report, table: str) -> list[dict[str, Cell]]:
    found = next(t for s in report.sections for t in s.tables if t.name == table)
    return [dict(row) for row in found.rows]


def figure_of(report: Report, name: str) -> float:
    value = report.figure(name).value
    assert isinstance(value, float | int)
    return float(value)


def test_a_tensor_parallel_step_is_more_than_one_device_s_over_the_ranks() -> None:
    report = laid_out("Llama-3.1-70B", "H100-SXM", Layout(tp=4))
    step = next(row for row in rows_of(report, "points") if row["load"] == "batch 1")
    assert step["phase"] == "decode"
    divided = figure_of(report, "one_device_over_n_s")
    collectives = figure_of(report, "collectives_s")
    assert isinstance(step["step_s"], float)
    assert step["step_s"] > divided + collectives
    assert figure_of(report, "collectives_share") == pytest.approx(collectives / step["step_s"])
    assert any("collectives" in sentence for sentence in report.verdict)


def test_each_exchange_has_a_row_and_together_they_are_the_collectives() -> None:
    report = laid_out("Llama-3.1-70B", "H100-SXM", Layout(tp=4))
    rows = [r for r in rows_of(report, "collectives") if r["step"] == "decode, batch 1"]
    assert [(r["times"], r["size"]) for r in rows] == [(160, 2 * 8192), (1, 2 * 128_256)]
    total = sum(float(r["seconds"] or 0) for r in rows)
    assert total == pytest.approx(figure_of(report, "collectives_s"))
    operations = {r["operation"]: r["seconds"] for r in rows_of(report, "decode_operations")}
    assert operations["collectives"] == pytest.approx(total)


def test_experts_across_copies_are_dispatched_and_combined_in_every_expert_layer() -> None:
    report = laid_out("DeepSeek-V3", "H200", Layout(dp=8, ep=8), "fp8")
    rows = [r for r in rows_of(report, "collectives") if r["step"] == "decode, batch 1"]
    assert [r["exchange"] for r in rows] == [
        "expert dispatch",
        "expert combine",
    ]
    assert {r["times"] for r in rows} == {58}
    # One token's 8 copies in fp8 and back in bf16, 7 of 8 to other ranks.
    assert [r["size"] for r in rows] == [8 * 7168 * 7 / 8, 2 * 8 * 7168 * 7 / 8]


def test_experts_inside_a_tensor_group_need_no_all_to_all() -> None:
    report = laid_out("DeepSeek-V3", "H200", Layout(tp=8, ep=8), "fp8")
    names = {str(r["exchange"]).split(" (")[0] for r in rows_of(report, "collectives")}
    assert names == {"all-reduces", "gather of the logits"}


def test_a_slow_link_makes_the_collectives_of_the_same_step_longer() -> None:
    fast = laid_out("Llama-3.1-8B", "H100-SXM", Layout(tp=2))
    slow = laid_out("Llama-3.1-8B", "L40S", Layout(tp=2))
    assert figure_of(slow, "collectives_s") > 1.1 * figure_of(fast, "collectives_s")


def test_stages_send_activations_once_per_boundary() -> None:
    report = laid_out("Llama-3.1-8B", "H100-SXM", Layout(pp=4))
    rows = [r for r in rows_of(report, "collectives") if r["step"] == "decode, batch 1"]
    assert [(r["exchange"], r["times"], r["size"]) for r in rows] == [
        ("sends between stages", 3, 4096 * 2)
    ]


def test_several_devices_that_nothing_joins_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="name what joins"):
        RooflineAsk(shape("Llama-3.1-8B"), BF16, KV, "x", KNOWN.device("L40S"), Layout(tp=2))


def test_a_model_with_experts_shows_its_range_and_a_dense_one_none() -> None:
    experts = rows_of(laid_out("gpt-oss-120b", "H200", Layout(), "mxfp4"), "points")
    for row in experts:
        assert (
            float(row["fastest_s"] or 0)
            <= float(row["step_s"] or 0)
            <= float(row["slowest_s"] or 0)
        )
    assert any(float(r["slowest_s"] or 0) > 1.3 * float(r["fastest_s"] or 0) for r in experts)
    report = REPORTS["roofline"]
    points = next(t for s in report.sections for t in s.tables if t.name == "points")
    assert "fastest_s" not in {column.key for column in points.columns}


@pytest.mark.parametrize(
    ("model", "tp", "says"),
    [
        (
            "DeepSeek-V3",
            8,
            "no heads to split: a group stores 562,176 B per token instead of 70,272",
        ),
        ("Qwen3-235B-A22B", 8, "TP 8 is wider than 4 KV heads: a group stores and moves 2 times"),
    ],
)
def test_copies_of_keys_and_values_are_said_rightly_by_memory_and_roofline(
    model: str, tp: int, says: str
) -> None:
    for report in (
        memory_of(model, "H200", tp),
        laid_out(model, "H200", Layout(tp=tp), "fp8"),
    ):
        assert any(says in warning for warning in report.warnings), report.warnings


def test_a_cache_that_is_split_evenly_is_not_warned_of() -> None:
    assert not any("KV" in warning for warning in memory_of("Llama-3-70B", "H200", 8).warnings)
