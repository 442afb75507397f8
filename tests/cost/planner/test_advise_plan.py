"""`plan advise`: what SPEC 7 says comes first, with this engine's facts and interactions."""

import shlex
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from netgain.cli.main import app
from netgain.cost.first_hypothesis import BASE_LEVERS, CHECK_ALSO, Goal, Situation
from netgain.cost.known_models import known_shape
from netgain.cost.planner.advise_plan import AdviseQuestion, plan_advise
from netgain.cost.planner.setup import Setup, over_devices
from netgain.cost.precision import kv_format, weight_format
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue
from netgain.hardware.topologies import for_device
from netgain.report.document import Cell, Report
from netgain.report.json_form import json_text

DEVICES = shipped_catalogue()


def setup(model: str = "Llama-3.1-8B", device: str = "H100-SXM", devices: int = 1) -> Setup:
    shape = known_shape(model)
    assert shape is not None
    found = DEVICES.device(device)
    alone = Setup(shape, found, weight_format("fp8"), kv_format("bf16"))
    topology = for_device(DEVICES, found, devices) if devices > 1 else None
    return replace(alone, layout=over_devices(alone, devices), topology=topology)


SLOW_DECODE = AdviseQuestion(setup(), Situation(decode_share=0.9), "llama-3.1-8b")


def rows(report: Report, name: str) -> list[dict[str, Cell]]:
    return [dict(r) for s in report.sections for t in s.tables if t.name == name for r in t.rows]


def first(report: Report) -> str:
    return str(rows(report, "candidates")[0]["technique"])


def test_slow_decode_of_one_request_gets_speculation_and_what_to_check() -> None:
    report = plan_advise(SLOW_DECODE)
    assert first(report) == "speculative decoding"
    assert "acceptance, draft cost, ITL, throughput at load" in str(
        rows(report, "new_costs")[0]["check"]
    )
    assert "speculative decoding" in report.verdict[0]


def test_a_model_over_fast_links_gets_tp_and_over_slow_ones_pp() -> None:
    fast = plan_advise(replace(SLOW_DECODE, setup=setup("Llama-3.1-70B", "H100-SXM", 4)))
    slow = plan_advise(replace(SLOW_DECODE, setup=setup("Llama-3.1-70B", "L40S", 4)))
    assert (first(fast), first(slow)) == ("tensor parallel", "pipeline parallel")


def test_a_bridge_of_two_is_no_fast_link_among_four() -> None:
    pairs = replace(SLOW_DECODE, setup=setup("Llama-3.1-70B", "H100-PCIe", 4))
    assert not pairs.situation.fast_links
    assert replace(SLOW_DECODE, setup=setup("Llama-3.1-70B", "H100-PCIe", 2)).situation.fast_links


def test_a_repeated_and_evicted_document_gets_tiers() -> None:
    seen = Situation(
        prefill_share=0.6, decode_share=0.3, repeated_tokens=50_000, evicted_before_reuse=True
    )
    assert first(plan_advise(replace(SLOW_DECODE, seen=seen))) == "KV tiers"


def test_a_compute_bound_step_ranks_speculation_low() -> None:
    full = replace(SLOW_DECODE, seen=Situation(decode_batch=4096), prompt_tokens=64)
    assert not full.situation.step_bound_by_memory
    weights = {r["technique"]: r["weight"] for r in rows(plan_advise(full), "candidates")}
    assert weights["speculative decoding"] == 0.1


def test_nothing_seen_is_said_and_base_levers_come_before_everything() -> None:
    quiet = replace(SLOW_DECODE, seen=Situation(decode_share=0.0, prefill_share=0.2))
    report = plan_advise(quiet)
    assert "Nothing speaks for a technique" in report.verdict[0]
    assert report.sections[0].heading == "Before any technique"
    assert [r["lever"] for r in rows(report, "base_levers")] == [one.name for one in BASE_LEVERS]


@pytest.mark.parametrize("goal", Goal)
def test_a_goal_says_what_to_check_also_and_the_whole_trade_off(goal: Goal) -> None:
    report = plan_advise(replace(SLOW_DECODE, goal=goal))
    section = next(s for s in report.sections if s.heading == f"For {goal.value}")
    assert all(also in section.text[0] for also in CHECK_ALSO[goal])
    assert "Quality, latency, throughput, cost" in section.text[1]


def interaction(report: Report, techniques: str) -> dict[str, Cell]:
    return next(r for r in rows(report, "interactions") if r["techniques"] == techniques)


def test_speculation_in_a_decode_pool_asks_for_more_prefill() -> None:
    row = interaction(plan_advise(SLOW_DECODE), "speculation + separate pools")
    assert float(row["times"] or 0) > 1.2


def test_wider_tiers_gain_little_without_routing_by_prefix() -> None:
    report = plan_advise(SLOW_DECODE)
    row = interaction(report, "KV tiers + replicas")
    assert float(row["times"] or 0) > 2
    section = next(s for s in report.sections if s.heading == "Two at once")
    assert any("times as wide reach" in line for line in section.text)


def test_a_large_batch_takes_from_speculation_what_chunks_take_from_separation() -> None:
    report = plan_advise(SLOW_DECODE)
    batching = interaction(report, "speculation + batching")
    assert float(batching["times"] or 0) < 1
    chunks = interaction(report, "chunks + separate pools")
    assert float(chunks["times"] or 0) < 0.7


def test_experts_and_copied_heads_are_met_only_where_there_are_some() -> None:
    dense = {r["techniques"] for r in rows(plan_advise(SLOW_DECODE), "interactions")}
    moe = plan_advise(replace(SLOW_DECODE, setup=setup("Qwen3-235B-A22B", "H200", 4)))
    more = {r["techniques"] for r in rows(moe, "interactions")} - dense
    assert more == {"speculation + experts", "tensor parallel + KV tiers"}
    assert interaction(moe, "tensor parallel + KV tiers")["times"] == 2


def test_the_report_can_be_written_and_every_figure_has_a_source() -> None:
    report = plan_advise(replace(SLOW_DECODE, goal=Goal.SHORTER_TTFT))
    assert json_text(report)
    assert all(f.source for s in report.sections for f in s.figures)


SEEN = Situation(
    queue_share=0.5, prefill_share=0.3, decode_share=0.6, interference_share=0.2,
    repeated_tokens=8192, static_knowledge=True, throughput_short=True,
)  # fmt: skip


def test_every_command_that_is_named_runs() -> None:
    asked = AdviseQuestion(setup(), SEEN, "llama-3.1-8b", "fp8")
    divided = AdviseQuestion(setup("Qwen3-30B-A3B", "L40S", 2), Situation(), "qwen3-30b-a3b", "fp8")
    commands = {
        str(row["command"])
        for question in (asked, divided)
        for row in rows(plan_advise(question), "commands")
    }
    assert len(commands) >= 9
    for command in sorted(commands):
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, f"{command}: {result.output}"


def test_traffic_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="prompt_tokens is 0"):
        replace(SLOW_DECODE, prompt_tokens=0)
