import asyncio
import resource
import socket
import threading
from itertools import pairwise

import pytest

from netgain.lab.record import ErrorKind, RequestRecord, TokenCounting, Usage
from netgain.lab.scripted_server.script import Ending, Event, EventKind, Script, UsageMode
from netgain.lab.target import Dialect, Target
from netgain.lab.transport import Intent, Transport
from tests.lab.scripted import (
    COMPLETIONS,
    NOISE_S,
    answer_of,
    ask,
    assert_read,
    conversation,
    serving,
    target_of,
    written,
)

INTENT = Intent(
    index=0,
    request_class="chat",
    conversation=0,
    turn=0,
    intended_s=0.0,
    prompt_tokens=None,
    max_tokens=1,
)
REGULAR = Script(
    headers_s=0.1, first_s=0.1, role_gap_s=0.1, gap_s=0.1, tokens=4, tokens_per_event=2
)


def test_every_time_of_a_chat_is_when_its_event_was_written() -> None:
    asked, served = answer_of(REGULAR)
    record = asked.record
    role, (first, last) = written(served, EventKind.ROLE)[0], written(served, EventKind.CONTENT)
    assert record.sent_s is not None
    assert record.sent_s >= record.intended_s
    assert_read(record.sent_s, served.asked_s)
    assert_read(record.first_byte_s, role)
    assert_read(record.first_event_s, role)
    assert_read(record.first_token_s, first)
    assert_read(record.first_output_s, first)
    assert_read(record.last_token_s, last)
    assert_read(record.last_choice_s, last)
    assert_read(record.end_s, last)
    assert [event.at_s for event in record.events] == [record.first_token_s, record.last_token_s]
    assert record.empty_events_s == (record.first_event_s, record.last_choice_s)
    assert first - role == pytest.approx(0.1, abs=NOISE_S)


def test_everything_else_of_a_record_is_what_was_asked_and_answered() -> None:
    record = answer_of(REGULAR)[0].record
    assert (record.index, record.conversation, record.turn) == (7, 3, 0)
    assert (record.request_class, record.prompt_tokens, record.max_tokens) == ("chat", 2, 16)
    assert record.usage == Usage(prompt_tokens=2, completion_tokens=4)
    assert (record.finish_reason, record.status) == ("length", 200)
    assert record.request_id == "scripted-0"
    assert record.streamed
    assert record.failure is None


def test_a_completion_has_no_event_before_its_first_token() -> None:
    asked, served = answer_of(REGULAR, api=COMPLETIONS)
    record = asked.record
    assert record.first_event_s == record.first_token_s
    assert [event.at_s for event in record.events] == pytest.approx(
        written(served, EventKind.CONTENT), abs=NOISE_S
    )
    assert asked.text == " a a a a"


def test_events_of_one_packet_have_one_time() -> None:
    asked, _ = answer_of(Script(tokens=6, events_per_write=3, gap_s=0.15, role=False))
    times = [event.at_s for event in asked.record.events]
    assert len(times) == 6
    assert len(set(times)) == 2
    assert times[3] - times[2] == pytest.approx(0.15, abs=NOISE_S)


def test_an_event_cut_in_two_has_the_time_of_its_end() -> None:
    events = (
        Event(text="é"),
        Event(text="日本", after_s=0.15, cut_at=120, cut_s=0.15),
        Event(kind=EventKind.FINISH, after_s=0.15),
        Event(kind=EventKind.DONE),
    )
    asked, served = answer_of(Script(events=events))
    assert asked.text == "é日本"
    times = [event.at_s for event in asked.record.events]
    assert times == pytest.approx(written(served, EventKind.CONTENT), abs=NOISE_S)
    assert times[1] - times[0] == pytest.approx(0.3, abs=NOISE_S)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_character_cut_between_packets_is_whole(cut: int) -> None:
    raw = 'data: {"choices":[{"index":0,"text":"日","finish_reason":"stop"}]}\n\n'
    place = len(raw.encode().partition("日".encode())[0]) - 5 + cut
    event = Event(kind=EventKind.RAW, text=raw, cut_at=place, cut_s=0.02)
    asked, _ = answer_of(Script(events=(event, Event(kind=EventKind.DONE))), api=COMPLETIONS)
    assert asked.record.failure is None
    assert asked.text == "日"


def test_carriage_returns_comments_and_data_on_several_lines_are_read() -> None:
    raw = (
        ': ping\r\n\r\nevent: message\r\ndata: {"choices":[{"index":0,\r\n'
        'data: "text":"yes","finish_reason":"stop"}]}\r\n\r\n:\r\ndata:[DONE]\r\n\r\n'
    )
    asked, _ = answer_of(Script(events=(Event(kind=EventKind.RAW, text=raw),)), api=COMPLETIONS)
    assert asked.record.failure is None
    assert asked.text == "yes"


def test_reasoning_is_the_first_token_but_not_the_first_output() -> None:
    asked, served = answer_of(Script(tokens=4, reasoning_tokens=2, gap_s=0.1))
    record = asked.record
    assert_read(record.first_token_s, written(served, EventKind.REASONING)[0])
    assert_read(record.first_output_s, written(served, EventKind.CONTENT)[0])
    assert [event.reasoning for event in record.events] == [True, True, False, False]
    assert asked.text == " a a"
    assert record.usage == Usage(2, 4, reasoning_tokens=2)


def test_a_tool_call_is_content() -> None:
    events = (
        Event(kind=EventKind.ROLE),
        Event(kind=EventKind.TOOL_CALL, text='{"x":1}', after_s=0.1),
        Event(kind=EventKind.FINISH, finish_reason="tool_calls", after_s=0.1),
        Event(kind=EventKind.DONE),
    )
    asked, served = answer_of(Script(events=events))
    (call,) = written(served, EventKind.TOOL_CALL)
    assert_read(asked.record.first_token_s, call)
    assert_read(asked.record.first_output_s, call)
    assert asked.record.last_token_s == asked.record.first_token_s
    assert asked.record.finish_reason == "tool_calls"
    assert asked.text == ""


def test_running_usage_counts_the_tokens_of_every_event() -> None:
    script = Script(tokens=7, tokens_per_event=3)
    dialect = Dialect(running_usage=True)
    record = answer_of(script, dialect=dialect)[0].record
    assert record.counting is TokenCounting.USAGE
    assert [event.tokens for event in record.events] == [3, 3, 1]
    assert record.output_tokens == 7


def test_logprobs_count_where_there_is_no_running_usage() -> None:
    record = answer_of(Script(tokens=7, tokens_per_event=3, logprobs=True))[0].record
    assert record.counting is TokenCounting.LOGPROBS
    assert [event.tokens for event in record.events] == [3, 3, 1]
    assert record.output_tokens == 7


def test_without_anything_better_an_event_is_a_token_whatever_usage_claims() -> None:
    record = answer_of(Script(tokens=7, tokens_per_event=3, usage_error=90))[0].record
    assert record.counting is TokenCounting.EVENTS
    assert [event.tokens for event in record.events] == [1, 1, 1]
    assert record.output_tokens == 3
    assert record.usage == Usage(2, 97)


def test_usage_that_is_never_said_is_none() -> None:
    assert answer_of(Script(usage=UsageMode.NEVER))[0].record.usage is None


def test_cached_tokens_are_kept() -> None:
    usage = answer_of(Script(cached_tokens=1))[0].record.usage
    assert usage is not None
    assert usage.cached_tokens == 1


@pytest.mark.parametrize("ending", [Ending.UNSAID, Ending.DONE])
@pytest.mark.parametrize("close_delimited", [False, True])
def test_an_answer_is_whole_with_a_finish_reason(ending: Ending, close_delimited: bool) -> None:
    script = Script(tokens=2, ending=ending, close_delimited=close_delimited, crlf=True)
    asked, _ = answer_of(script)
    assert asked.record.failure is None
    assert asked.text == " a a"


def test_an_answer_in_one_piece_has_all_its_tokens_at_its_end() -> None:
    asked, served = answer_of(Script(first_s=0.1, gap_s=0.1, tokens=3), stream=False)
    record = asked.record
    assert not record.streamed
    assert record.failure is None
    assert_read(record.end_s, served.packets_s[0])
    assert record.first_token_s == record.last_token_s == record.end_s
    assert [event.tokens for event in record.events] == [3]
    assert record.output_tokens == 3
    assert asked.text == " a a a"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ErrorKind.CLIENT),
        (404, ErrorKind.CLIENT),
        (429, ErrorKind.REFUSED),
        (500, ErrorKind.SERVER),
        (503, ErrorKind.REFUSED),
        (302, ErrorKind.MALFORMED),
    ],
)
def test_a_status_is_an_error_of_its_kind_in_the_servers_words(
    status: int, kind: ErrorKind
) -> None:
    record = answer_of(Script(status=status, message="not today", headers_s=0.02))[0].record
    assert record.failure is not None
    assert (record.failure.kind, record.status) == (kind, status)
    assert "not today" in record.failure.message
    assert record.events == ()
    assert record.sent_s is not None
    assert record.end_s is not None


def test_an_error_in_the_stream_keeps_what_came_before() -> None:
    asked, _ = answer_of(Script(tokens=3, ending=Ending.ERROR, message="out of memory"))
    assert asked.record.failure is not None
    assert asked.record.failure.kind is ErrorKind.SERVER
    assert asked.record.failure.message == "out of memory"
    assert len(asked.record.events) == 3


def test_a_connection_that_ends_first_keeps_what_came_before() -> None:
    asked, served = answer_of(Script(tokens=3, gap_s=0.1, ending=Ending.DISCONNECT))
    record = asked.record
    assert record.failure is not None
    assert record.failure.kind is ErrorKind.DISCONNECTED
    assert len(record.events) == 3
    assert served.ended_s is not None
    assert_read(record.end_s, served.ended_s)


def test_a_stream_that_ends_with_its_connection_but_before_its_answer_was_cut() -> None:
    events = (Event(), Event())
    asked, _ = answer_of(Script(events=events, close_delimited=True))
    assert asked.record.failure is not None
    assert asked.record.failure.kind is ErrorKind.DISCONNECTED


def test_a_stall_is_a_timeout_after_the_time_given() -> None:
    asked, _ = answer_of(Script(tokens=2, ending=Ending.STALL), timeout_s=0.2)
    record = asked.record
    assert record.failure is not None
    assert record.failure.kind is ErrorKind.TIMEOUT
    assert len(record.events) == 2
    assert record.sent_s is not None
    assert record.end_s is not None
    assert record.end_s - record.sent_s == pytest.approx(0.2, abs=NOISE_S)


@pytest.mark.parametrize(
    "raw",
    [
        "data: {\n\n",
        'data: {"choices": 4}\n\n',
        "data: [DONE]\n\n",
        "<html></html>",
        "",
        'data: {"choices":[{"index":0,"text":"no end"}]}\n\n',
    ],
)
def test_what_is_no_answer_is_malformed(raw: str) -> None:
    event = Event(kind=EventKind.RAW, text=raw)
    record = answer_of(Script(events=(event,)), api=COMPLETIONS)[0].record
    assert record.failure is not None
    assert record.failure.kind is ErrorKind.MALFORMED


def test_an_event_that_cannot_be_read_does_not_hide_the_others() -> None:
    events = (Event(), Event(kind=EventKind.RAW, text="data: nonsense\n\n"), Event())
    record = answer_of(Script(events=(*events, Event(kind=EventKind.FINISH))))[0].record
    assert record.failure is not None
    assert record.failure.kind is ErrorKind.MALFORMED
    assert "nonsense" in record.failure.message
    assert len(record.events) == 2


def test_nobody_listening_is_a_failed_connection() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        record = ask(target_of(f"http://127.0.0.1:{port}")).record
    assert record.failure is not None
    assert record.failure.kind is ErrorKind.CONNECT
    assert record.sent_s is None
    assert record.end_s is not None


def test_what_speaks_no_http_is_malformed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                client.sendall(b"220 mail.example ESMTP\r\n")
                client.recv(65536)

        greeter = threading.Thread(target=greet)
        greeter.start()
        record = ask(target_of(f"http://127.0.0.1:{listener.getsockname()[1]}")).record
        greeter.join()
    assert record.failure is not None
    assert record.failure.kind is ErrorKind.MALFORMED


def test_a_long_prompt_is_sent_once_its_last_byte_is() -> None:
    """More than the socket's buffers hold, to a server that reads only after a while."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        read = threading.Event()
        body = b'{"choices":[{"index":0,"message":{"content":"ok"},"finish_reason":"stop"}]}'
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                read.wait(0.3)
                data = b""
                while b"\r\n\r\n" not in data:
                    data += client.recv(65536)
                length = int(data.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
                left = length - len(data.partition(b"\r\n\r\n")[2])
                while left > 0:
                    left -= len(client.recv(65536))
                client.sendall(head % len(body) + body)

        server = threading.Thread(target=serve)
        server.start()
        target = target_of(f"http://127.0.0.1:{listener.getsockname()[1]}")
        record = ask(target, conversation("word " * 4_000_000)).record
        server.join()
    assert record.failure is None
    assert record.sent_s is not None
    assert record.sent_s - record.intended_s > 0.25


def test_the_times_of_a_record_are_in_order() -> None:
    record = answer_of(REGULAR)[0].record
    times = [
        record.intended_s,
        record.sent_s,
        record.first_byte_s,
        record.first_event_s,
        record.first_token_s,
        record.last_token_s,
        record.last_choice_s,
        record.end_s,
    ]
    known = [at_s for at_s in times if at_s is not None]
    assert len(known) == len(times)
    assert all(before <= after for before, after in pairwise(known))


def test_a_machine_out_of_files_is_no_fault_of_the_server() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def ask_without_files(target: Target) -> RequestRecord:
        transport = Transport(target, 0.0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            return transport.read(await transport.ask(INTENT, b"{}")).record
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    with serving() as (_, target):
        failure = asyncio.run(ask_without_files(target)).failure
    assert failure is not None
    assert failure.kind is ErrorKind.GENERATOR
    assert "ulimit -n" in failure.message
