"""From the server's script to every metric, and to every other tool's: nothing is made by hand.

Seconds after the send: a role at 0.4, a token at 0.7, four tokens in one event at 1.1, two events
of one token in one packet at 1.4, an empty end at 1.8. Seven tokens; the delays are so far
apart that a definition mistaken for another is seen through a busy machine's noise.
"""

import pytest

from netgain.lab.foreign.result import Tool
from netgain.lab.foreign.tools import as_tool
from netgain.lab.load_plan import ClosedLoad, LoadPlan
from netgain.lab.metrics.run_metrics import Latency, run_metrics
from netgain.lab.metrics.trimming import Trim, TrimKind, TrimRule
from netgain.lab.record import RequestRecord, TokenCounting
from netgain.lab.run_header import LoadKind
from netgain.lab.scripted_server.script import Event, EventKind, Script, UsageMode
from tests.lab.queues import header
from tests.lab.scripted import conversation, load, serving

NOISE = 0.15
"""Of each value, that a busy machine may add or take."""
EVENTS = (
    Event(kind=EventKind.ROLE, after_s=0.4),
    Event(after_s=0.3),
    Event(after_s=0.4, tokens=4),
    Event(after_s=0.3),
    Event(),
    Event(kind=EventKind.FINISH, after_s=0.4),
    Event(kind=EventKind.USAGE),
    Event(kind=EventKind.DONE),
)
RUN = header(LoadKind.CLOSED, duration_s=0, concurrency=1)
WHOLE = TrimRule(Trim(TrimKind.NONE), Trim(TrimKind.NONE))


def recorded(usage_error: int) -> list[RequestRecord]:
    script = Script(events=EVENTS, usage=UsageMode.FINAL, usage_error=usage_error)
    with serving(script) as (_, target):
        plan = LoadPlan(target=target, load=ClosedLoad(1), requests=1, workers=1)
        _, records = load(plan, [conversation("hello")], lambda text: len(text.split()))
    return records


@pytest.fixture(scope="module")
def records() -> list[RequestRecord]:
    return recorded(usage_error=0)


def test_every_latency_is_the_scripts(records: list[RequestRecord]) -> None:
    found = {
        latency.value: distribution.mean.value
        for latency, distribution in run_metrics(RUN, records, trim=WHOLE).latency.items()
    }
    queueing_s = found.pop(Latency.CLIENT_QUEUEING)
    assert 0 <= queueing_s < 0.1
    assert found == pytest.approx(
        {
            "ttft": 0.7,
            "ttft_from_sent": 0.7,
            "ttfo": 0.7,
            "itl": 0.7 / 6,
            "itl_per_request": 0.7 / 6,
            "chunk_gap": 0.7 / 3,
            "tpot": 0.7 / 6,
            "tpot_by_tokens": 0.7 / 6,
            "e2e": 1.4,
            "e2e_from_sent": 1.4,
            "normalised": 1.4 / 7,
            "normalised_by_tokens": 1.4 / 7,
        },
        rel=NOISE,
    )
    assert records[0].counting is TokenCounting.TOKENIZER
    assert records[0].output_tokens == 7


@pytest.mark.parametrize(
    ("tool", "milliseconds"),
    [
        (
            Tool.VLLM,
            {
                "mean_ttft_ms": 400,  # the role
                "mean_e2el_ms": 1800,  # the empty end
                "mean_itl_ms": 1400 / 5,  # six events with choices
                "mean_tpot_ms": 1400 / 6,
            },
        ),
        (
            Tool.GUIDELLM,
            {
                "time_to_first_token_ms.mean": 700,
                "time_per_output_token_ms.mean": 1400 / 7,  # from the send
                "inter_token_latency_ms.mean": 700 / 6,
            },
        ),
        (
            Tool.AIPERF,
            {
                "time_to_first_token.avg": 700,
                "request_latency.avg": 1400,  # the last token
                "inter_token_latency.avg": 700 / 6,
            },
        ),
    ],
)
def test_every_tools_numbers_are_the_scripts(
    records: list[RequestRecord], tool: Tool, milliseconds: dict[str, float]
) -> None:
    values = as_tool(tool, RUN, records).values
    found = {key: values[key] for key in milliseconds}
    assert found == pytest.approx(milliseconds, rel=NOISE)


def test_a_usage_that_lies_changes_the_tools_that_believe_it_and_not_ours() -> None:
    lied = recorded(usage_error=30)
    metrics = run_metrics(RUN, lied, trim=WHOLE)
    assert metrics.tokens.usage_wrong == 1
    assert metrics.latency[Latency.TPOT].mean.value == pytest.approx(0.7 / 6, rel=NOISE)
    vllm = as_tool(Tool.VLLM, RUN, lied).values
    assert vllm["total_output_tokens"] == 37
    assert vllm["mean_tpot_ms"] == pytest.approx(1400 / 36, rel=NOISE)
    guidellm = as_tool(Tool.GUIDELLM, RUN, lied).values
    assert guidellm["time_per_output_token_ms.mean"] == pytest.approx(1400 / 37, rel=NOISE)
    assert as_tool(Tool.AIPERF, RUN, lied).values["output_sequence_length.avg"] == 7
