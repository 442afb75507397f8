"""A declared cache state is brought about, and held against the server's own counters."""

from dataclasses import replace

import pytest
from tests.lab.workloads.stub_server import answering

from netgain.lab.conversation import Conversation, Turn
from netgain.lab.run_header import CacheState
from netgain.lab.workloads.cache_control import CacheControl, CacheControlError
from netgain.lab.workloads.cache_counters import CacheCounters, read_capacity, read_counters
from netgain.lab.workloads.cache_state import CacheVerdict, prepare, verdict, warming
from netgain.lab.workloads.expected_reuse import prompt_tokens_of, reuse_within
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.registry import parse_workload
from netgain.lab.workloads.workload import take

NETGAIN = """# TYPE netgain_prefix_cache_queries_total counter
netgain_prefix_cache_queries_total 10.0
netgain_prefix_cache_hits_total 4.0
netgain_prefix_cache_queried_tokens_total 1000.0
netgain_prefix_cache_hit_tokens_total 320.0
netgain_prefill_tokens_total 680.0
netgain_kv_blocks_evicted_total 3.0
netgain_recomputed_tokens_total 7.0
netgain_preemptions_total 1.0
"""
VLLM = """# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000.0
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 500.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 300.0
vllm:prefix_cache_hits_total{engine="1",model_name="m"} 20.0
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
"""
SGLANG = """# TYPE sglang:prompt_tokens counter
sglang:prompt_tokens_total{model_name="m"} 1000.0
sglang:cached_tokens_total{model_name="m",cache_source="device"} 200.0
sglang:cached_tokens_total{model_name="m",cache_source="host"} 50.0
"""


def test_netgains_counters_are_read() -> None:
    assert read_counters(NETGAIN) == CacheCounters(
        queried_tokens=1000,
        hit_tokens=320,
        lookups=10,
        lookup_hits=4,
        prefill_tokens=680,
        evicted_blocks=3,
        recomputed_tokens=7,
        preemptions=1,
    )


def test_vllms_counters_are_summed_over_engines() -> None:
    assert read_counters(VLLM) == CacheCounters(queried_tokens=1500, hit_tokens=320, preemptions=2)
    old = VLLM.replace("vllm:prefix", "vllm:gpu_prefix")
    assert read_counters(old) == read_counters(VLLM)


def test_sglangs_counters_are_summed_over_tiers() -> None:
    assert read_counters(SGLANG) == CacheCounters(queried_tokens=1000, hit_tokens=250)


def test_other_servers_have_no_counters() -> None:
    assert read_counters("llamacpp:prompt_tokens_total 5\n") is None


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("netgain_kv_blocks 50.0\nnetgain_kv_block_tokens 16.0\n", 800),
        (
            'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1.0\n'
            'vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="20"} 1.0\n',
            1920,
        ),
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0\n', None),
        ("netgain_kv_blocks 50.0\n", None),
        (SGLANG, None),
    ],
)
def test_the_size_of_the_pool_is_read_where_it_is_told(text: str, tokens: int | None) -> None:
    assert read_capacity(text) == tokens


def test_a_difference_keeps_what_is_not_counted_unknown() -> None:
    before = CacheCounters(queried_tokens=10, hit_tokens=1, evicted_blocks=5)
    after = CacheCounters(queried_tokens=40, hit_tokens=3, evicted_blocks=6, preemptions=1)
    assert after.since(before) == CacheCounters(queried_tokens=30, hit_tokens=2, evicted_blocks=1)


@pytest.mark.parametrize("route", ["/reset_prefix_cache", "/flush_cache"])
def test_cold_asks_the_server_to_forget(route: str) -> None:
    with answering({("POST", route): (200, "")}) as server:
        made = prepare(CacheState.COLD, CacheControl(f"{server.url}/v1"))
        assert server.asked[-1] == ("POST", route)
    assert made.nonce == ""
    assert route in made.how


def test_where_no_route_forgets_prompts_begin_with_words_of_the_run() -> None:
    with answering({}) as server:
        control = CacheControl(server.url)
        one, other = prepare(CacheState.COLD, control), prepare(CacheState.COLD, control)
    assert one.nonce
    assert one.nonce != other.nonce
    assert "words of this run only" in one.how


def test_a_reset_that_fails_is_no_cold_cache() -> None:
    with (
        answering({("POST", "/reset_prefix_cache"): (401, "who are you?")}) as server,
        pytest.raises(CacheControlError, match="401: who are you"),
    ):
        prepare(CacheState.COLD, CacheControl(server.url))


def test_an_undeclared_state_asks_for_nothing() -> None:
    with answering({}) as server:
        assert prepare(CacheState.UNDECLARED, CacheControl(server.url)).nonce == ""
        assert server.asked == []


def test_counters_that_are_not_there_are_none() -> None:
    with answering({("GET", "/metrics"): (200, "}{")}) as server:
        assert CacheControl(server.url).counters() is None
    with answering({}) as server:
        assert CacheControl(server.url).counters() is None


def test_a_server_that_is_gone_is_named() -> None:
    with answering({}) as server:
        url = server.url
    with pytest.raises(CacheControlError, match="cannot be reached"):
        CacheControl(url).counters()


BEFORE = CacheCounters(queried_tokens=5000, hit_tokens=700)


def judged(state: CacheState, hit_tokens: float) -> CacheVerdict:
    after = CacheCounters(queried_tokens=6000, hit_tokens=700 + hit_tokens)
    return verdict(state, BEFORE, after, own_reuse_tokens=100, warmed_tokens=800)


def test_a_cold_run_may_find_what_it_put_there_itself() -> None:
    assert judged(CacheState.COLD, 100).held is True


def test_a_cold_run_that_found_more_is_reported() -> None:
    found = judged(CacheState.COLD, 300)
    assert found.held is False
    assert found.text.startswith("NOT cold: 300 of 1,000 prompt tokens were found, but only 100")
    assert found.counted == CacheCounters(queried_tokens=1000, hit_tokens=300)


def test_a_warm_run_must_find_what_was_sent_before() -> None:
    assert judged(CacheState.WARM, 780).held is True
    found = judged(CacheState.WARM, 16)
    assert found.held is False
    assert "NOT warm" in found.text


def test_what_cannot_be_known_is_not_claimed() -> None:
    assert judged(CacheState.UNDECLARED, 5).held is None
    nothing = verdict(CacheState.COLD, None, BEFORE, own_reuse_tokens=0, warmed_tokens=0)
    assert nothing.held is None
    anew = verdict(
        CacheState.COLD,
        BEFORE,
        replace(BEFORE, hit_tokens=0.0),
        own_reuse_tokens=0,
        warmed_tokens=0,
    )
    assert anew.held is None
    assert "began anew" in anew.text


def test_warming_sends_first_turns_for_one_token_at_once() -> None:
    turns = (Turn(text="a", max_tokens=50, exact_length=True), Turn(text="b", think_s=3))
    (sent,) = warming([Conversation(request_class="chat", turns=turns, start_s=5.0)])
    assert sent == Conversation(
        request_class="chat", turns=(Turn(text="a", max_tokens=1, exact_length=False),)
    )


def test_own_reuse_is_what_prompts_begin_with_in_common(tiny_chat: PromptWriter) -> None:
    workload = parse_workload("shared-prefix:prefixes=2,prefix=120,in=60,round=true")
    made = take(workload, tiny_chat, 1, 10)
    lead = tiny_chat.framing().lead
    # Two prefixes are computed, eight are found; the template's lead is found nine times.
    reuse = reuse_within(made, lead)
    assert 8 * 120 + 9 * lead <= reuse < (8 * 120 + 9 * lead) * 1.2
    assert prompt_tokens_of(made) == 10 * 180


def test_own_reuse_of_unshared_prompts_is_the_templates_lead(tiny_chat: PromptWriter) -> None:
    made = take(parse_workload("synthetic:in=400"), tiny_chat, 1, 10)
    lead = tiny_chat.framing().lead
    assert 9 * lead <= reuse_within(made, lead) < 9 * (lead + 16)


def test_later_turns_reuse_all_of_their_conversation() -> None:
    turns = (
        Turn(text="x", prompt_tokens=100, max_tokens=10),
        Turn(text="y", prompt_tokens=20, max_tokens=10),
        Turn(text="z", prompt_tokens=20, max_tokens=10),
    )
    made = [Conversation(request_class="chat", turns=turns)]
    assert reuse_within(made, 6) == 110 + 140
    assert prompt_tokens_of(made) == 100 + 130 + 160
