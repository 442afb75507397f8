"""The ready experiments: what they plan, and what they make of what came."""

import msgspec
import pytest

from netgain.lab.conversation import Conversation
from netgain.lab.record import ErrorKind, Failure, RequestRecord, TokenEvent, Usage
from netgain.lab.run_header import CacheState, LoadKind
from netgain.lab.workloads.cache_counters import CacheCounters
from netgain.lab.workloads.cache_state import CacheVerdict
from netgain.lab.workloads.experiments.arm_statistics import (
    hits_of,
    median_ratio,
    percentile_ratio,
    stage_seconds,
)
from netgain.lab.workloads.experiments.interference import (
    DECODER,
    LONG,
    SHORT,
    InterferenceSettings,
    interference_experiment,
    interference_report,
    token_gaps,
)
from netgain.lab.workloads.experiments.kv_cache import KVSettings, kv_experiment, kv_report
from netgain.lab.workloads.experiments.plan import Arm, ArmResult, Experiment
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.report.document import Cell, Report, Table
from netgain.report.terminal import report_text

SMALL = KVSettings(prefix_tokens=100, suffix_tokens=60, answer_tokens=4, requests=4)


def arm(experiment: Experiment, name: str) -> Arm:
    return next(one for one in experiment.arms if one.name == name)


def record(
    index: int,
    ttft_s: float = 0.1,
    *,
    prompt: int = 160,
    cached: int | None = 0,
    text: str | None = None,
    request_class: str = "shared-prefix",
    ledger: object = None,
) -> RequestRecord:
    return RequestRecord(
        index=index,
        request_class=request_class,
        conversation=index,
        intended_s=float(index),
        sent_s=float(index),
        first_token_s=index + ttft_s,
        usage=Usage(prompt, 4, cached),
        text=text,
        ledger=msgspec.Raw(msgspec.json.encode(ledger)),
    )


def table(report: Report, name: str) -> Table:
    tables = [one for section in report.sections for one in section.tables]
    return next(one for one in tables if one.name == name)


def row(report: Report, name: str, first: str) -> dict[str, Cell]:
    return dict(next(one for one in table(report, name).rows if one["arm"] == first))


def test_the_five_scenarios_are_planned_and_what_is_not_built_says_why() -> None:
    plan = kv_experiment(SMALL)
    assert [one.name for one in plan.arms] == [
        "off",
        "cold",
        "warm-device",
        "warm-dram",
        "warm-disk",
        "mixed",
        "saturated",
        "saturated-load",
    ]
    assert [one.name for one in plan.runnable] == ["off", "cold", "warm-device", "mixed"]
    assert "no tier below it" in arm(plan, "warm-disk").unavailable
    assert "KV pool is not known" in arm(plan, "saturated").unavailable


def test_off_cold_and_warm_send_the_same_prompts(tiny_chat: PromptWriter) -> None:
    plan = kv_experiment(SMALL)
    off, cold, warm = (
        arm(plan, name).conversations(tiny_chat, 1) for name in ("off", "cold", "warm-device")
    )
    assert off == cold == warm
    assert len(off) == 4
    assert len({beginning(one) for one in off}) == 4


def test_a_warm_arm_warms_the_prefixes_and_not_the_questions(tiny_chat: PromptWriter) -> None:
    warm = arm(kv_experiment(SMALL), "warm-device")
    assert warm.cache is CacheState.WARM
    run, before = warm.conversations(tiny_chat, 1), warm.warming_pass(tiny_chat, 1)
    assert [beginning(one) for one in run] == [beginning(one) for one in before]
    assert not {one.turns[0].text for one in run} & {one.turns[0].text for one in before}
    assert {one.turns[0].max_tokens for one in before} == {1}


def test_a_saturated_arm_asks_for_twice_what_the_pool_holds(tiny_chat: PromptWriter) -> None:
    plan = kv_experiment(
        KVSettings(prefix_tokens=100, suffix_tokens=60, requests=4, capacity_tokens=1600)
    )
    saturated = arm(plan, "saturated")
    assert not saturated.unavailable
    assert saturated.load.conversations == 2 * 1600 / 160
    made = saturated.conversations(tiny_chat, 1)
    assert sum(one.turns[0].prompt_tokens or 0 for one in made) == 2 * 1600
    assert [beginning(one) for one in made] == [
        beginning(one) for one in saturated.warming_pass(tiny_chat, 1)
    ]


def test_a_pool_too_large_to_saturate_is_said() -> None:
    plan = kv_experiment(KVSettings(capacity_tokens=10_000_000))
    assert "smaller pool" in arm(plan, "saturated").unavailable


def test_few_requests_of_the_mixed_arm_share(tiny_chat: PromptWriter) -> None:
    settings = KVSettings(prefix_tokens=60, suffix_tokens=60, requests=200)
    made = arm(kv_experiment(settings), "mixed").conversations(tiny_chat, 1)
    assert 0.7 * len(made) <= len({beginning(one) for one in made}) < 0.9 * len(made)


def test_arms_with_flags_need_a_server_of_their_own() -> None:
    plan = kv_experiment(SMALL).on_given_server()
    assert "netgain serve --no-prefix-cache" in arm(plan, "off").unavailable
    assert not arm(plan, "cold").unavailable


def test_few_long_hits_save_more_than_many_short_ones() -> None:
    short = hits_of([record(n, cached=16, prompt=60_000) for n in range(90)])
    long = hits_of([record(n, cached=50_000, prompt=60_000) for n in range(10)])
    assert short is not None
    assert long is not None
    assert (short.token_hits, long.token_hits) == (1_440, 500_000)
    assert (short.request_hits, long.request_hits) == (90, 10)


def test_prefilled_tokens_are_split_by_whether_something_was_found() -> None:
    hits = hits_of([record(0), record(1, cached=100), record(2, cached=None)])
    assert hits is not None
    assert (hits.requests, hits.full_prefill_tokens, hits.suffix_prefill_tokens) == (2, 160, 60)
    assert (hits.request_rate, hits.token_rate) == (0.5, 100 / 320)
    assert hits.lengths == (100,)
    assert hits_of([record(0, cached=None)]) is None


def test_ledger_stages_are_averaged_over_requests_that_have_one() -> None:
    ledger = {
        "stages": [
            {"stage": "queue", "start_s": 0.0, "end_s": 0.1},
            {"stage": "prefill", "start_s": 0.1, "end_s": 0.3},
            {"stage": "prefill", "start_s": 0.4, "end_s": 0.5},
        ],
        "interference_s": 0.2,
    }
    means = stage_seconds([record(0, ledger=ledger), record(1)])
    assert means == pytest.approx({"queue": 0.1, "prefill": 0.3})
    assert stage_seconds([record(2, ledger="none of ours")]) == {}


def test_a_ratio_of_medians_has_an_interval_that_knows_how_little_it_knows() -> None:
    sure = median_ratio([1.0] * 50, [2.0] * 50)
    assert sure is not None
    assert (sure.value, sure.low, sure.high) == (0.5, 0.5, 0.5)
    unsure = median_ratio([0.5, 1.0, 4.0], [0.6, 1.0, 3.0])
    assert unsure is not None
    assert unsure.low < 1 < unsure.high
    assert median_ratio([], [1.0]) is None
    assert median_ratio([1.0], [0.0]) is None


def results(plan: Experiment) -> list[ArmResult]:
    def of(name: str, ttft_s: float, cached: int, text: str = "same") -> ArmResult:
        return ArmResult(
            arm(plan, name),
            [record(n, ttft_s + n / 1000, cached=cached, text=text) for n in range(20)],
            CacheCounters(
                queried_tokens=3200, hit_tokens=20.0 * cached, prefill_tokens=3200 - 20 * cached
            ),
        )

    warm = of("warm-device", 0.05, 96)
    failed = msgspec.structs.replace(
        warm.records[0], failure=Failure(ErrorKind.SERVER, "out of luck")
    )
    return [
        of("off", 0.2, 0),
        of("cold", 0.21, 0),
        ArmResult(warm.arm, [failed, *warm.records[1:]], warm.counted),
    ]


def test_the_report_says_what_a_warm_cache_saved() -> None:
    plan = kv_experiment(SMALL)
    report = kv_report(plan, results(plan), {"model": "m"})
    first, *_ = report.verdict
    assert first.startswith("With a warm cache the median TTFT is 0.29 x that with no cache")
    assert first.endswith("n 19 and 20): faster.")
    assert report.figure("ttft_ratio_warm_device_off").value == pytest.approx(0.06 / 0.2095)
    cold = next(text for text in report.verdict if text.startswith("With a cold cache"))
    assert "1.05 x" in cold
    warm = row(report, "kv_arms", "cache on, warm in device memory")
    assert (warm["requests"], warm["errors"]) == (20, 1)
    assert warm["ttft_p50_s"] == pytest.approx(0.06)
    found = row(report, "kv_hits", "cache on, warm in device memory")
    assert found["suffix_prefill_tokens"] == 19 * 64
    assert found["token_hit_rate"] == pytest.approx(0.6)
    counted = row(report, "kv_server", "cache on, warm in device memory")
    assert counted["prefill_tokens"] == 3200 - 20 * 96
    assert report.figure("equal_answers_warm_device").value == 1.0


def test_what_was_not_run_is_listed_with_the_reason() -> None:
    plan = kv_experiment(SMALL)
    report = kv_report(plan, results(plan), {})
    rows = {one["arm"]: one["reason"] for one in table(report, "kv_not_available").rows}
    assert "no tier below it" in str(rows["cache on, warm on disk"])
    assert rows["mixed prefixes, few hits"] == "was not run"


def test_a_cold_arm_that_was_not_cold_is_warned_of() -> None:
    plan = kv_experiment(SMALL)
    _, cold, _ = results(plan)
    bad = ArmResult(
        cold.arm, cold.records, cache=CacheVerdict(CacheState.COLD, False, "NOT cold: 5 of 9")
    )
    assert kv_report(plan, [bad], {}).warnings == ("cache on, cold: NOT cold: 5 of 9",)


def test_answers_that_differ_are_counted() -> None:
    plan = kv_experiment(SMALL)
    off, cold, _ = results(plan)
    other = [msgspec.structs.replace(one, text="other") for one in cold.records[:5]]
    mixed = ArmResult(cold.arm, [*other, *cold.records[5:]])
    report = kv_report(plan, [off, mixed], {})
    assert report.figure("equal_answers_cold").value == 0.75
    elsewhere = ArmResult(cold.arm, cold.records, nonce="other prompts")
    with pytest.raises(KeyError):
        kv_report(plan, [off, elsewhere], {}).figure("equal_answers_cold")


def test_decoders_and_short_requests_come_at_the_same_rate_in_every_arm() -> None:
    settings = InterferenceSettings(shares=(0.0, 0.25, 0.5), duration_s=100.0)
    plan = interference_experiment(settings)
    arms = plan.runnable
    assert [one.load.rate for one in arms] == [1.5, 2.0, 3.0]
    assert [one.load.conversations for one in arms] == [150, 200, 300]
    assert all(one.load.kind is LoadKind.OPEN for one in arms)


def test_the_splits_of_the_pools_are_listed_as_not_available() -> None:
    plan = interference_experiment(InterferenceSettings())
    missing = [one for one in plan.arms if one.unavailable]
    assert [one.name for one in missing] == ["1p-3d", "2p-2d", "3p-1d", "across-nodes"]
    assert all("separate pools are not built" in one.unavailable for one in missing)
    rows = table(interference_report(plan, [], {}), "interference_not_available").rows
    assert {"arm": missing[0].title, "reason": missing[0].unavailable} in rows


def test_the_share_of_long_prompts_is_as_asked(tiny_plain: PromptWriter) -> None:
    settings = InterferenceSettings(
        long_prompt=60, decoder_prompt=20, short_prompt=20, shares=(0.0, 0.4), duration_s=200.0
    )
    none, some = interference_experiment(settings).runnable
    assert LONG not in {made.request_class for made in none.conversations(tiny_plain, 1)}
    classes = [made.request_class for made in some.conversations(tiny_plain, 1)]
    assert classes.count(LONG) / len(classes) == pytest.approx(0.4, abs=0.06)


def decoder(index: int, times: list[float], tokens: int = 1) -> RequestRecord:
    return RequestRecord(
        index=index,
        request_class=DECODER,
        conversation=index,
        intended_s=0.0,
        sent_s=0.0,
        first_token_s=times[0],
        events=tuple(TokenEvent(at, tokens) for at in times),
    )


def long(index: int, sent_s: float, first_token_s: float) -> RequestRecord:
    return RequestRecord(
        index=index,
        request_class=LONG,
        conversation=index,
        intended_s=sent_s,
        sent_s=sent_s,
        first_token_s=first_token_s,
    )


def test_gaps_are_told_apart_by_whether_a_long_prompt_was_under_way() -> None:
    records = [decoder(0, [0.1, 0.2, 0.5, 0.6, 0.7]), long(1, 0.25, 0.45), long(2, 0.65, 0.66)]
    gaps = token_gaps(records)
    assert gaps.beside == pytest.approx((0.3, 0.1))
    assert gaps.apart == pytest.approx((0.1, 0.1))
    assert len(gaps.all) == 4


def test_overlapping_long_prompts_are_one_span() -> None:
    gaps = token_gaps([decoder(0, [0.1, 0.9, 1.0]), long(1, 0.2, 0.8), long(2, 0.3, 0.4)])
    assert gaps.beside == pytest.approx((0.8,))
    assert gaps.apart == pytest.approx((0.1,))


def test_an_event_of_several_tokens_is_as_many_gaps() -> None:
    gaps = token_gaps([decoder(0, [0.1, 0.5], tokens=4)])
    assert gaps.apart == pytest.approx((0.1,) * 4)


def test_the_report_compares_with_the_arm_without_long_prompts() -> None:
    plan = interference_experiment(InterferenceSettings(shares=(0.0, 0.25)))
    none, some = plan.runnable
    calm = [decoder(n, [0.1, 0.2, 0.3]) for n in range(3)]
    calm += [record(9, 0.05, request_class=SHORT)]
    busy = [decoder(n, [0.1, 0.2, 0.6]) for n in range(3)]
    busy += [record(9, 0.2, request_class=SHORT), long(10, 0.3, 0.5)]
    report = interference_report(plan, [ArmResult(none, calm), ArmResult(some, busy)], {})
    (said,) = report.verdict
    assert said == (
        "25% long prompts: the decoders' ITL p99 is 4.00 x (95 % interval 4.00 to 4.00) and the "
        "short requests' TTFT p95 4.00 x (95 % interval 4.00 to 4.00) that without long prompts."
    )
    assert report.figure("itl_p99_ratio_long_0_25").value == pytest.approx(4.0)
    shown = row(report, "interference_arms", "25% long prompts")
    assert shown["long_share"] == pytest.approx(0.2)
    shown = row(report, "interference_decoders", "25% long prompts")
    assert shown["itl_max_s"] == pytest.approx(0.4)
    beside = row(report, "interference_beside", "25% long prompts")
    assert (beside["beside_gaps"], beside["apart_gaps"]) == (3, 3)
    assert beside["beside_p50_s"] == pytest.approx(0.4)


def test_without_results_there_is_no_verdict_and_no_crash() -> None:
    plan = interference_experiment(InterferenceSettings())
    assert interference_report(plan, [], {}).verdict[0].startswith("No comparison")
    assert kv_report(kv_experiment(SMALL), [], {}).verdict[0].startswith("No comparison")


def beginning(conversation: Conversation) -> str:
    return conversation.turns[0].text[:30]


def test_a_server_without_a_ledger_has_no_stages_and_tiers_are_said_to_be_missing() -> None:
    plan = kv_experiment(SMALL)
    said = " ".join(text for s in kv_report(plan, results(plan), {}).sections for text in s.text)
    assert "the server offered no ledger" in said
    assert "seconds per tier, stores, promotions and prefetches: not available" in said


def test_both_reports_fit_a_hundred_columns() -> None:
    plan = kv_experiment(SMALL)
    kv = kv_report(plan, results(plan), {})
    other = interference_experiment(InterferenceSettings(shares=(0.0, 0.25)))
    found = [ArmResult(one, [decoder(0, [0.1, 0.2, 0.6])]) for one in other.runnable]
    for report in (kv, interference_report(other, found, {})):
        text = report_text(report, width=100)
        assert max(len(line) for line in text.splitlines()) <= 100
        assert text.count("cache on, cold") in (0, 3)  # one line of each table, and no more


def test_a_ratio_of_percentiles_draws_requests_and_not_their_values() -> None:
    same = [[1.0] * 50 for _ in range(20)]
    one_slow = [[1.0] * 50 for _ in range(19)] + [[5.0] * 50]
    found = percentile_ratio(one_slow, same, 99)
    assert found is not None
    # One slow request of twenty is often not drawn at all: its fifty values say little.
    assert (found.value, found.low, found.high) == (5.0, 1.0, 5.0)
    assert percentile_ratio([[]], same, 99) is None
    assert percentile_ratio(same, [[0.0]], 99) is None
