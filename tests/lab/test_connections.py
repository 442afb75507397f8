import asyncio

from netgain.lab.connections import Connections
from netgain.lab.scripted_server.script import Script
from netgain.lab.scripted_server.server import ScriptedServer
from netgain.lab.target import parse_url


def test_idle_connections_are_used_in_turn_so_that_none_grows_old() -> None:
    async def run(url: str) -> None:
        connections = Connections(parse_url(url), 5.0)
        burst = [await connections.take() for _ in range(3)]
        for connection in burst:
            connections.give_back(connection)
        for expected in burst * 2:
            taken = await connections.take()
            assert taken is expected
            connections.give_back(taken)
        connections.close()

    with ScriptedServer(Script()) as server:
        asyncio.run(run(server.url))
