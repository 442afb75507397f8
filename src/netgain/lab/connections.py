"""The connections to one server, kept and used again."""

import asyncio
import errno
import os
import socket
import ssl
import time
from collections import deque
from typing import Final

from netgain.errors import NetgainError
from netgain.lab.client_connection import ClientConnection
from netgain.lab.target import Endpoint
from netgain.lab.tls import client_tls

_MAX_IDLE_S: Final = 2.0  # servers close idle connections, common ones after 5 s: never race them
_FIRST_LEAD_S: Final = 0.05


_OWN_LIMITS: Final = (errno.EMFILE, errno.ENFILE)


class ConnectError(NetgainError):
    """A connection could not be made."""


class TlsError(ConnectError):
    """Somebody is there, but no trusted TLS connection can be made."""


class OwnLimitError(ConnectError):
    """This machine cannot open one more connection; the server was not even asked."""


class Connections:
    """Takes an idle connection, the one that is idle longest, or makes one; without upper limit.

    In turn, so that all of those a burst needed stay fresh: were some left idle, the next burst
    would have to make them anew, all at once and late.
    """

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._tls = client_tls() if endpoint.tls else None
        self._idle: deque[ClientConnection] = deque()
        self._addresses: list[str] = []
        self._slowest_s = 0.0

    @property
    def lead_s(self) -> float:
        """How long before a request is due to `take` its connection, so that it is there in time.

        Twice the slowest handshake so far.
        """
        return 2.0 * self._slowest_s if self._slowest_s else _FIRST_LEAD_S

    async def take(self) -> ClientConnection:
        """A connection for one exchange. Raises `ConnectError`."""
        oldest_s = time.monotonic() - _MAX_IDLE_S
        while self._idle:
            connection = self._idle.popleft()
            if connection.usable and connection.idle_since_s > oldest_s:
                return connection
            connection.close()
        return await self._connect()

    def give_back(self, connection: ClientConnection) -> None:
        """After its exchange."""
        if connection.usable:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Ends the idle ones."""
        while self._idle:
            self._idle.pop().close()

    async def _connect(self) -> ClientConnection:
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._connect_to_any()
        except TimeoutError:
            raise ConnectError(f"no connection within {self._timeout_s:g} s") from None
        except ssl.SSLCertVerificationError as error:
            raise TlsError(f"its certificate is not trusted: {error.verify_message}") from error
        except ssl.SSLError as error:
            raise TlsError(f"it does not speak TLS as expected: {error.reason or error}") from error
        except OSError as error:
            raise _connect_error(error, tls=self._tls is not None) from error
        self._slowest_s = max(self._slowest_s, time.monotonic() - began_s)
        return connection

    async def _connect_to_any(self) -> ClientConnection:
        """The name is looked up once; of its addresses, the one that answered stays first."""
        loop = asyncio.get_running_loop()
        if not self._addresses:
            found = await loop.getaddrinfo(
                self._endpoint.host, self._endpoint.port, type=socket.SOCK_STREAM
            )
            self._addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        failed: OSError | None = None
        for address in list(self._addresses):
            try:
                _, connection = await loop.create_connection(
                    ClientConnection,
                    address,
                    self._endpoint.port,
                    ssl=self._tls,
                    server_hostname=self._endpoint.host if self._tls else None,
                )
            except OSError as error:
                failed = failed or error
                continue
            if address != self._addresses[0]:
                self._addresses.remove(address)
                self._addresses.insert(0, address)
            return connection
        assert failed is not None
        raise failed


def _connect_error(error: OSError, *, tls: bool) -> ConnectError:
    if error.errno in _OWN_LIMITS:
        return OwnLimitError(
            f"{os.strerror(error.errno)} where the load is made: raise ulimit -n, or make less load"
        )
    if tls and isinstance(error, ConnectionResetError | ConnectionAbortedError):
        return TlsError("it cut the TLS handshake off")
    known = error.errno is not None and error.errno > 0  # those of a name's look-up are negative
    reason = os.strerror(error.errno) if known and error.errno else error.strerror
    return ConnectError(reason or str(error) or type(error).__name__)
