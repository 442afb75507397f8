"""The listening socket, taken before anything expensive is started."""

import errno
import socket

from netgain.errors import ConfigurationError

_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises `ConfigurationError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Listening at once: of two servers only this makes the second one notice.
        listener.listen(_BACKLOG)
    except (OSError, UnicodeError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else str(error)
        in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        way_out = "stop whatever uses it, or choose another with" if in_use else "check"
        raise ConfigurationError(
            f"cannot listen on {host} port {port} ({reason}): {way_out} --host and --port"
        ) from error
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """Where a client reaches it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
