"""A request's event stream: in order, and failing at once."""

import asyncio

import pytest

from netgain.engine.client import OutputEvent, OutputStream, StepArrival
from netgain.engine.messages import RequestId, RequestOutput
from netgain.errors import EngineDeadError


def event(token: int) -> OutputEvent:
    return OutputEvent(RequestOutput(RequestId("r"), (token,)), StepArrival(0, 0, 0, 0))


def test_events_come_in_order_and_can_be_drained() -> None:
    async def read() -> list[int]:
        stream = OutputStream(0, 0)
        reading = asyncio.ensure_future(stream.next())
        await asyncio.sleep(0)
        for token in range(3):
            stream.push(event(token))
        found = [await reading]
        while (more := stream.ready()) is not None:
            found.append(more)
        return [token for one in found for token in one.output.token_ids]

    assert asyncio.run(read()) == [0, 1, 2]


def test_a_waiting_reader_fails_at_once_when_the_engine_dies() -> None:
    async def read() -> None:
        stream = OutputStream(0, 0)
        reading = asyncio.ensure_future(stream.next())
        await asyncio.sleep(0)
        stream.fail(EngineDeadError("gone"))
        await asyncio.wait_for(reading, 1)

    with pytest.raises(EngineDeadError, match="gone"):
        asyncio.run(read())


def test_what_arrived_before_the_engine_died_is_still_read() -> None:
    async def read() -> int:
        stream = OutputStream(0, 0)
        stream.push(event(5))
        stream.fail(EngineDeadError("gone"))
        first = await stream.next()
        with pytest.raises(EngineDeadError):
            await stream.next()
        return first.output.token_ids[0]

    assert asyncio.run(read()) == 5
