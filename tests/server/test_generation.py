"""What one prompt's outputs add up to on the frontend's side."""

import asyncio
from collections.abc import Iterator

import pytest

from netgain.engine.client import OutputEvent, OutputStream, StepArrival
from netgain.engine.ipc_client import IpcEngineClient
from netgain.engine.messages import FinishReason, RequestId, RequestOutput
from netgain.server.generation import Arrival, Generation, Prompt
from netgain.server.metrics import ServerMetrics
from netgain.text.stream import TextStream
from netgain.text.tokenizer import BYTE_OF_CHAR, Tokenizer, TokenType

END = 0
ID = RequestId("r")


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    """One token a byte, and an end token."""
    tokens = ["<|end|>", *BYTE_OF_CHAR]
    types = [TokenType.CONTROL] + [TokenType.NORMAL] * len(BYTE_OF_CHAR)
    return Tokenizer.from_bpe(tokens, [], types, "gpt-2", bos_id=0, eos_ids=[0], add_bos=False)


@pytest.fixture
def client() -> Iterator[IpcEngineClient]:
    """One that no engine ever connected to."""
    made = IpcEngineClient()
    yield made
    made.close()


def finished(
    client: IpcEngineClient, text: TextStream, outputs: list[RequestOutput]
) -> tuple[Generation, str]:
    events = OutputStream(0, 0)
    for output in outputs:
        events.push(OutputEvent(output, StepArrival(0, 0, 0, 0)))
    generation = Generation(
        ID, Prompt((1,)), events, text, Arrival(0, 0), 0, client, ServerMetrics()
    )
    return generation, asyncio.run(generation.advance()).text


def outputs(ids: list[int], reason: FinishReason, stop_token: int | None) -> list[RequestOutput]:
    last = RequestOutput(ID, (ids[-1],), reason, stop_token)
    return [*(RequestOutput(ID, (id_,)) for id_ in ids[:-1]), last]


def test_the_token_that_ends_a_sequence_is_counted_and_not_shown(
    letters: Tokenizer, client: IpcEngineClient
) -> None:
    ids = [*letters.encode("abc"), END]
    generation, text = finished(client, TextStream(letters), outputs(ids, FinishReason.STOP, END))
    assert (text, generation.completion_tokens) == ("abc", 4)
    assert generation.finish_reason is FinishReason.STOP


@pytest.mark.parametrize("ran_on", ["", "x", "xyz", "<end>"])
def test_how_far_the_engine_ran_on_after_a_stop_string_changes_nothing(
    letters: Tokenizer, client: IpcEngineClient, ran_on: str
) -> None:
    more = [END] if ran_on == "<end>" else letters.encode(ran_on)
    ids = [*letters.encode("abSTOP"), *more]
    reason = FinishReason.STOP if ran_on == "<end>" else FinishReason.LENGTH
    generation, text = finished(
        client,
        TextStream(letters, ["STOP"]),
        outputs(ids, reason, END if ran_on == "<end>" else None),
    )
    assert (text, generation.completion_tokens) == ("ab", 6)
    assert generation.finish_reason is FinishReason.STOP
