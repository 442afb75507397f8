"""Plans of links, speculation, separation, cache and knowledge, as reports."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from netgain.cost.knowledge import KnowledgeShape, ManagedPrices
from netgain.cost.known_models import known_shape
from netgain.cost.layout import Layout
from netgain.cost.model_shape import ModelShape
from netgain.cost.planner.cache_plan import CacheQuestion, Codec, plan_cache
from netgain.cost.planner.knowledge_plan import KnowledgeQuestion, plan_knowledge
from netgain.cost.planner.links_plan import LinksQuestion, plan_links
from netgain.cost.planner.pd_plan import PDQuestion, plan_pd
from netgain.cost.planner.setup import Measured, Setup, devices_needed
from netgain.cost.planner.spec_plan import SpecQuestion, acceptance_of_length, plan_spec
from netgain.cost.precision import kv_format, weight_format
from netgain.cost.tiers import TierPath
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import shipped_catalogue
from netgain.hardware.topologies import for_device, preset
from netgain.report.document import Basis, Cell, Report

CATALOGUE = shipped_catalogue()


def shape(name: str) -> ModelShape:
    found = known_shape(name)
    assert found is not None
    return found


def setup(model: str = "Llama-3.1-8B", device: str = "H100-SXM", weights: str = "bf16") -> Setup:
    return Setup(shape(model), CATALOGUE.device(device), weight_format(weights), kv_format("bf16"))


def value(report: Report, name: str) -> float:
    found = report.figure(name).value
    assert isinstance(found, int | float)
    return float(found)


def rows(report: Report, name: str) -> tuple[dict[str, Cell], ...]:
    tables = [t for section in report.sections for t in section.tables if t.name == name]
    return tuple(dict(row) for row in tables[0].rows)


TIERS = (TierPath("dram", 50e9, 1e-4), TierPath("s3", 0.09e9, 0.15))
PLANS: dict[str, Callable[[], Report]] = {
    "links": lambda: plan_links(
        LinksQuestion(
            preset(CATALOGUE, "bridge-a100"),
            setup=setup("Llama-3-70B", "A100-80-PCIe"),
            devices_per_model=4,
        )
    ),
    "spec": lambda: plan_spec(SpecQuestion(setup(), draft=shape("Llama-3.2-1B"))),
    "pd": lambda: plan_pd(PDQuestion(setup())),
    "cache": lambda: plan_cache(CacheQuestion(setup(), TIERS, codec=Codec(3.5, 20e9, 20e9))),
    "knowledge": lambda: plan_knowledge(
        KnowledgeQuestion(
            setup(), KnowledgeShape(500, 500, 500, 10, 100_000), ManagedPrices(3.0, 0.3)
        )
    ),
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_answers_says_when_it_loses_and_names_each_figure_once(plan: str) -> None:
    report = PLANS[plan]()
    assert report.verdict
    assert any(section.heading.startswith("When it loses") for section in report.sections)
    names = [figure.name for section in report.sections for figure in section.figures]
    assert len(names) == len(set(names))
    computed = [
        figure
        for section in report.sections
        for figure in section.figures
        if figure.basis is not Basis.EXACT
    ]
    assert all(figure.arithmetic or figure.source for figure in computed)


@pytest.mark.parametrize("plan", PLANS)
def test_tables_have_no_column_without_a_value(plan: str) -> None:
    for section in PLANS[plan]().sections:
        for table in section.tables:
            for column in table.columns:
                assert any(column.key in row for row in table.rows), (table.name, column.key)


def test_a_plain_and_a_verifying_step_are_sums_that_add_up() -> None:
    report = plan_spec(SpecQuestion(setup(), batch=8, conditional=(0.8, 0.7)))
    for name in ("plain_step_s", "verify_s"):
        figure = report.figure(name)
        parts = [float(part.split(" ms ")[0]) for part in figure.arithmetic.split(" + ")]
        assert sum(parts) / 1e3 == pytest.approx(value(report, name), rel=1e-3)


@pytest.mark.parametrize(
    ("plan", "name"),
    [("pd", "prefill_s"), ("cache", "full_prefill_s"), ("cache", "suffix_prefill_s")],
)
def test_a_prefill_is_a_sum_that_adds_up(plan: str, name: str) -> None:
    report = PLANS[plan]()
    words = report.figure(name).arithmetic.rpartition(": ")[2]
    parts = [float(part.split(" ms ")[0]) for part in words.split(" + ")]
    assert sum(parts) / 1e3 == pytest.approx(value(report, name), rel=1e-3)


def test_the_cut_between_halves_is_shown_with_its_numbers() -> None:
    report = plan_links(LinksQuestion(preset(CATALOGUE, "nvswitch-h100")))
    assert "4 x 450 GB/s" in report.figure("bisection_bytes_per_s").arithmetic
    assert value(report, "bisection_bytes_per_s") == pytest.approx(4 * 450e9)


def test_measured_acceptance_is_filled_into_the_formula() -> None:
    figure = plan_spec(SpecQuestion(setup(), depth=3, conditional=(0.8, 0.7))).figure(
        "tokens_per_iteration"
    )
    formula, _, result = figure.arithmetic.partition(" = ")
    assert formula == "1 + 0.8 + 0.8 x 0.7 + 0.8 x 0.7 x 0.7"
    assert float(result) == pytest.approx(1 + 0.8 + 0.56 + 0.392)


def test_the_link_s_use_is_shown_with_its_numbers() -> None:
    report = plan_pd(PDQuestion(setup(), 8, 4096, 256, 4, 64, 38e9, "a link"))
    words = report.figure("link_use").arithmetic
    shown = re.match(r"([\d,]+) B x ([\d.]+)/s / ([\d.]+) GB/s", words)
    assert shown is not None
    used = float(shown[1].replace(",", "")) * float(shown[2]) / (float(shown[3]) * 1e9)
    assert used == pytest.approx(value(report, "link_use"), rel=1e-3)


def test_a_measured_step_makes_times_calibrated() -> None:
    assert plan_spec(SpecQuestion(setup())).figure("plain_step_s").basis is Basis.ASSUMED
    measured = replace(setup(), measured=Measured(7.0e-3, 1, 1024))
    report = plan_spec(SpecQuestion(measured))
    assert report.figure("plain_step_s").basis is Basis.CALIBRATED
    assert value(report, "plain_step_s") == pytest.approx(7.0e-3, rel=0.01)


def test_bridged_pairs_are_proposed_tp_inside_and_pp_between_with_their_cost() -> None:
    report = PLANS["links"]()
    assert any("TP 2 x PP 2" in line for line in report.verdict)
    assert value(report, "across_over_inside") > 5
    tried = {str(row["layout"]): row for row in rows(report, "layouts")}
    assert tried["TP 2 x PP 2"]["note"] == "proposed"
    pairs, across = (float(tried[name]["prefills"] or 0) for name in ("TP 2 x PP 2", "TP 4"))
    assert pairs > 1.5 * across


def test_stages_of_unequal_layers_idle_even_when_all_are_busy() -> None:
    topology = preset(CATALOGUE, "bridge-a100")
    model = setup("Llama-3.1-8B", "A100-80-PCIe")
    three = plan_links(LinksQuestion(topology, setup=model, wanted=Layout(pp=3)))
    (stages,) = rows(three, "pipeline")
    assert stages["layers"] == "11, 11, 10"
    assert stages["filled"] == pytest.approx(1 - 32 / 3 / 11)
    assert stages["alone"] == pytest.approx(2 / 3)
    assert stages["once"] == pytest.approx(2 / 5)


def test_copies_that_cross_are_shown_on_three_tokens_where_experts_are_split() -> None:
    joined = for_device(CATALOGUE, CATALOGUE.device("H100-SXM"), 8)
    report = plan_links(LinksQuestion(joined, wanted=Layout(tp=8, ep=8)))
    said = {row["token"]: str(row["copies"]) for row in rows(report, "copies")}
    assert "one copy crosses to rank 1" in said["A"]
    assert "nothing crosses" in said["B"]
    assert "one copy crosses to rank 0" in said["C"]


def test_an_accepted_length_stands_for_the_acceptance_that_gives_it() -> None:
    assert acceptance_of_length(2.3616, 4) == pytest.approx(0.8)
    assert acceptance_of_length(4, 4) == pytest.approx(1.0)
    for length in (-0.1, 4.1):
        with pytest.raises(ConfigurationError, match="give 0 to 4"):
            acceptance_of_length(length, 4)


def test_the_rule_of_acceptance_is_explained_by_the_smallest_example() -> None:
    said = {
        row["token"]: str(row["why"])
        for row in rows(plan_spec(SpecQuestion(setup())), "acceptance_rule")
    }
    assert "= 0.625" in said["A"]
    assert "0.5 in all" in said["A"]
    assert "0.5 in all" in said["B"]


def test_an_acceptance_below_the_draft_ratio_is_the_reason_that_nothing_gains() -> None:
    report = plan_spec(SpecQuestion(setup(), acceptance=0.3, draft_ratio=0.4))
    assert "acceptance 0.3 is not above the 0.4" in report.verdict[0]


def test_sending_by_chunks_shows_more_than_by_layers_and_less_than_at_the_end() -> None:
    report = plan_pd(PDQuestion(setup(), prompt_tokens=5000))
    by_layer, by_chunk, alone = (
        value(report, name) for name in ("visible_handoff_s", "visible_by_chunk_s", "handoff_s")
    )
    assert by_layer < by_chunk < alone


def test_no_hit_rate_passes_that_of_a_cache_of_any_size() -> None:
    report = PLANS["cache"]()
    most = value(report, "most_hit_rate")
    assert value(report, "request_hit_rate_by_prefix") <= most
    assert max(float(row["aware"] or 0.0) for row in rows(report, "hit_rates")) <= most + 1e-9


def test_a_layout_that_was_asked_for_is_shown_beside_the_proposal() -> None:
    question = LinksQuestion(
        preset(CATALOGUE, "nvswitch-h100"),
        setup=setup("Qwen3-235B-A22B", weights="fp8"),
        devices_per_model=8,
        wanted=Layout(tp=4, dp=2, ep=8),
    )
    report = plan_links(question)
    assert "asked for" in {row["note"] for row in rows(report, "layouts")}
    assert any("KV heads" in warning for warning in report.warnings)


def test_the_devices_one_copy_needs_follow_from_memory() -> None:
    a100 = setup("Llama-3-70B", "A100-80-PCIe")
    assert devices_needed(a100, 4, 8, 2048) == 2
    assert devices_needed(a100, 4, 32, 2048) == 4
    assert devices_needed(setup(), 4, 8, 2048) == 1
    with pytest.raises(ConfigurationError, match="does not fit 2 x A100-80-PCIe"):
        devices_needed(setup("Llama-3.1-405B", "A100-80-PCIe"), 2, 8, 2048)


def test_collectives_inside_a_step_slow_it_down() -> None:
    device = CATALOGUE.device("A100-80-PCIe")
    alone = replace(setup("Llama-3-70B", "A100-80-PCIe"), layout=Layout(tp=4))
    joined = replace(alone, topology=for_device(CATALOGUE, device, 4))
    assert joined.steps().prefill_s(2048) > 2 * alone.steps().prefill_s(2048)


def test_speculation_is_advised_against_where_no_depth_gains() -> None:
    question = SpecQuestion(setup(), acceptance=0.3, batch=512, context_tokens=128)
    report = plan_spec(question)
    assert value(report, "best_depth") == 0
    assert "leave speculation off" in report.verdict[0]
    assert value(report, "speed_up") < 1


def test_the_batch_at_which_a_depth_turns_is_where_its_speed_up_crosses_one() -> None:
    question = SpecQuestion(setup(), context_tokens=256)
    turn = int(value(plan_spec(question), "break_even_batch"))
    before = plan_spec(replace(question, batch=turn - 1))
    after = plan_spec(replace(question, batch=turn))
    assert value(before, "speed_up") > 1 >= value(after, "speed_up")


def test_a_mixture_of_experts_is_not_said_to_lose_from_the_first_batch_on() -> None:
    report = plan_spec(
        SpecQuestion(setup("Qwen3-30B-A3B", "H200-SXM"), acceptance=0.5, batch=64, depth=4)
    )
    assert value(report, "speed_up") > 1.2
    assert value(report, "break_even_batch") > 500
    assert any("loses below a batch of about 16" in said for said in report.verdict)


def test_the_turn_lies_where_verified_tokens_pass_the_ridge() -> None:
    report = plan_spec(SpecQuestion(setup(), depth=4, context_tokens=128))
    ridge = value(report, "ridge_tokens")
    assert ridge == pytest.approx(295, abs=0.5)
    # Not at the ridge itself: 2.8 tokens an iteration pay for verification up to 2.3 times as long.
    assert 1 < value(report, "break_even_batch") * 5 / ridge < 4


def test_measured_positions_count_as_measured() -> None:
    report = plan_spec(SpecQuestion(setup(), conditional=(0.8, 0.5), depth=2))
    assert report.figure("tokens_per_iteration").basis is Basis.MEASURED
    assert value(report, "tokens_per_iteration") == pytest.approx(2.2)


def test_a_drafter_with_another_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs the target's tokenizer"):
        SpecQuestion(setup(), draft=shape("Qwen2.5-0.5B"))


def test_a_drafter_takes_kv_capacity() -> None:
    report = PLANS["spec"]()
    lost = value(report, "draft_weight_bytes") / (
        131_072 + value(report, "draft_kv_bytes_per_token")
    )
    assert value(report, "kv_capacity_lost") == pytest.approx(lost)


def test_short_prompts_are_not_worth_separating() -> None:
    report = plan_pd(PDQuestion(setup(), prompt_tokens=128, rate_per_s=20))
    assert report.verdict[0].startswith("Do not separate: prompts are short")


def test_a_slow_link_is_too_full() -> None:
    report = plan_pd(PDQuestion(setup(), rate_per_s=20, link_bytes_per_s=3e9))
    assert value(report, "link_use") > 0.7
    assert any("full" in warning for warning in report.warnings)


def test_a_tight_itl_is_where_separation_gains() -> None:
    report = plan_pd(PDQuestion(setup(), rate_per_s=20, prompt_tokens=8000, itl_s=0.035))
    found = {str(row["pools"]): float(row["goodput"] or 0) for row in rows(report, "pools")}
    assert max(found.values()) > found["unified"]


def test_the_split_that_starves_a_pool_carries_less() -> None:
    report = plan_pd(PDQuestion(setup()))
    found = {str(row["pools"]): row for row in rows(report, "pools")}
    assert found["1P:3D"]["bound"] == "prefill"
    assert found["3P:1D"]["bound"] == "decode"
    assert float(found["2P:2D"]["rate"] or 0) > float(found["1P:3D"]["rate"] or 0)


def test_tensor_ranks_beyond_the_kv_heads_hand_over_copies() -> None:
    """4.9, Qwen3-235B with TP8: twice the bytes."""
    qwen = setup("Qwen3-235B-A22B", weights="fp8")
    wide = replace(qwen, layout=Layout(tp=8))
    assert wide.kv_bytes(32_768) == 2 * qwen.kv_bytes(32_768) == 32_768 * 385_024


def test_the_state_of_a_hybrid_is_handed_over_once_however_wide_the_group() -> None:
    """Two KV heads over eight ranks are copied four times; the recurrent state is split."""
    hybrid = setup("Qwen3-Next-80B-A3B", "H200-SXM")
    state = 36 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2)
    assert hybrid.kv_bytes(1000) == state + 1000 * 24_576
    assert replace(hybrid, layout=Layout(tp=8)).kv_bytes(1000) == state + 1000 * 4 * 24_576


def test_a_corpus_is_weighed_against_the_room_of_all_ranks() -> None:
    question = KnowledgeQuestion(
        replace(
            setup("Llama-3-70B"),
            layout=Layout(tp=4),
            topology=for_device(CATALOGUE, CATALOGUE.device("H100-SXM"), 4),
        ),
        KnowledgeShape(500, 500, 500, 10, 200_000),
        ManagedPrices(3.0, 0.3),
    )
    # 65.5 GB of KV: more than the room of one of the four ranks, less than that of all.
    assert question.setup.memory(1, 200_000).kv_room_bytes < question.setup.kv_bytes(200_000)
    assert question.setup.kv_room_bytes(1, 200_000) > question.setup.kv_bytes(200_000)
    report = plan_knowledge(question)
    assert not any("do not fit" in warning for warning in report.warnings)
    cag = next(row for row in rows(report, "own") if row["way"] == "CAG")
    assert 0.3 < float(cag["storage"] or 0) < 1.0


def test_a_codec_waits_in_the_same_queue() -> None:
    codec, waits = Codec(3.5, 20e9, 20e9), (TierPath("dram", 50e9, 1e-4, 0.3),)
    plain, queued = (
        rows(plan_cache(CacheQuestion(setup(), tiers, codec=codec)), "tiers")[0]
        for tiers in (TIERS[:1], waits)
    )
    assert float(queued["coded"] or 0) == pytest.approx(float(plain["coded"] or 0) + 0.3)


def test_links_and_pd_say_why_a_latent_cache_is_copied() -> None:
    deepseek = setup("DeepSeek-V3", "H200-SXM", weights="fp8")
    device = CATALOGUE.device("H200-SXM")
    links = plan_links(
        LinksQuestion(for_device(CATALOGUE, device, 8), setup=deepseek, devices_per_model=8)
    )
    apart = plan_pd(PDQuestion(replace(deepseek, layout=Layout(tp=8)), prompt_tokens=4096))
    for report in (links, apart):
        assert any("no heads to split" in said for said in report.warnings), report.warnings


def test_one_stream_of_an_object_store_loses_to_recomputing() -> None:
    report = PLANS["cache"]()
    picks = {row["tier"]: row["pick"] for row in rows(report, "tiers")}
    assert picks == {"dram": "load", "s3": "recompute"}


def test_routing_by_prefix_raises_the_hit_rate_and_capacity_alone_stops_doing_so() -> None:
    found = rows(PLANS["cache"](), "hit_rates")
    assert found[-1]["random"] == found[-2]["random"]
    assert float(found[-1]["aware"] or 0) > float(found[-1]["random"] or 0)


def test_a_measured_hit_rate_is_used_as_it_is() -> None:
    report = plan_cache(CacheQuestion(setup(), TIERS, hit_rate=0.4))
    assert report.figure("request_hit_rate").basis is Basis.MEASURED
    assert value(report, "request_hit_rate") == 0.4


def test_the_two_price_models_stand_in_two_sections() -> None:
    report = PLANS["knowledge"]()
    assert [row["equivalents"] for row in rows(report, "managed")][:2] == pytest.approx(
        [5_550, 10_550]
    )
    headings = [section.heading for section in report.sections]
    assert "On own devices" in headings
    assert "At a managed API's prices" in headings


def test_a_corpus_longer_than_the_context_cannot_be_cached() -> None:
    question = KnowledgeQuestion(
        setup(), KnowledgeShape(500, 500, 500, 10, 200_000), ManagedPrices(3.0, 0.3)
    )
    assert any("it cannot be used" in warning for warning in plan_knowledge(question).warnings)


def test_a_small_stable_corpus_asked_often_pays_by_its_break_even() -> None:
    question = KnowledgeQuestion(
        setup(),
        KnowledgeShape(500, 500, 500, 20, 4_000),
        ManagedPrices(3.0, 0.3),
        queries_per_s=5,
        answer_tokens=50,
    )
    report = plan_knowledge(question)
    own = {str(row["way"]): float(row["total"] or 0) for row in rows(report, "own")}
    assert own["CAG"] < own["RAG"]
    assert 0 < value(report, "break_even_queries") < value(report, "queries_per_build")
    assert value(report, "break_even_updates_per_day") > 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda: PDQuestion(setup(), rate_per_s=0),
        lambda: PDQuestion(setup(), rate_per_s=-1),
        lambda: SpecQuestion(setup(), acceptance=1.1),
        lambda: SpecQuestion(setup(), batch=0),
        lambda: CacheQuestion(setup(), ()),
        lambda: CacheQuestion(setup(), TIERS, requests=0),
        lambda: LinksQuestion(preset(CATALOGUE, "pcie4"), ranks=9),
        lambda: Codec(0.5, 1e9, 1e9),
    ],
)
def test_empty_or_impossible_questions_are_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError):
        ask()


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: PDQuestion(setup(), instances=10**12), "instances is .*: give 1 to 256"),
        (lambda: PDQuestion(setup(), batch=10**12), "batch is .*: give 1 to 8,192"),
        (lambda: PDQuestion(setup(), prompt_tokens=10**12), "give 1 to 16,777,216"),
        (
            lambda: plan_pd(PDQuestion(setup(), prompt_tokens=10**6, chunk_tokens=8)),
            "give chunks of 245 or more",
        ),
        (lambda: CacheQuestion(setup(), TIERS, prefixes=10**12), "give 1 to 100,000"),
    ],
)
def test_absurd_sizes_are_refused_with_the_largest(ask: Callable[[], object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        ask()


def test_of_many_instances_some_splits_are_shown_and_those_about_the_balance() -> None:
    report = plan_pd(PDQuestion(setup(), instances=256, rate_per_s=400))
    pools = [str(row["pools"]) for row in rows(report, "pools")]
    assert 32 <= len(pools) <= 40
    assert {"unified", "1P:255D", "255P:1D"} <= set(pools)
