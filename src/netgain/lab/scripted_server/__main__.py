"""`python -m netgain.lab.scripted_server`: the scripted endpoint for any load tool."""

import argparse
import asyncio
import contextlib
import gc
import signal
import ssl
import sys
from pathlib import Path

import msgspec
import uvloop

from netgain.lab.scripted_server.script import Script
from netgain.lab.scripted_server.server import ScriptedServer

_EXAMPLES = """examples:
  python -m netgain.lab.scripted_server --port 8001 \\
      --script '{"first_s": 0.1, "gap_s": 0.02, "tokens": 16}'
  python -m netgain.lab.scripted_server --port 8001 --scripts scripts.json --log served.jsonl

A file of scripts is one JSON object of named scripts. A request chooses with the field "script" of
its body (a name, or a whole script), or with [script:NAME] in its text; the others take turns.
/log answers what was served so far, with the times of every event.
"""


def main() -> None:
    """Serves until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m netgain.lab.scripted_server",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001, help="0 takes a free one")
    parser.add_argument("--script", help="one script, JSON")
    parser.add_argument("--scripts", type=Path, help="a file of named scripts, JSON")
    parser.add_argument("--model", action="append", help="a served name (default: scripted)")
    parser.add_argument("--api-key", default=None)
    parser.add_argument("--certificate", type=Path, help="PEM: speaks https; with --key")
    parser.add_argument("--key", type=Path, help="of the certificate, PEM")
    parser.add_argument("--log", type=Path, help="written at the end, a line a request")
    arguments = parser.parse_args()
    scripts: dict[str, Script] = {}
    try:
        if arguments.scripts is not None:
            text = arguments.scripts.read_bytes()
            scripts = msgspec.json.decode(text, type=dict[str, Script])
        if arguments.script is not None:
            scripts["default"] = msgspec.json.decode(arguments.script, type=Script)
    except (OSError, msgspec.DecodeError) as error:
        parser.error(f"the script cannot be read: {error}")
    tls: ssl.SSLContext | None = None
    if arguments.certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            tls.load_cert_chain(arguments.certificate, arguments.key)
        except OSError as error:
            parser.error(f"the certificate cannot be read: {error}")
    server = ScriptedServer(
        scripts or None,
        models=tuple(arguments.model or ("scripted",)),
        api_key=arguments.api_key,
        keep_log=arguments.log is not None,
        host=arguments.host,
        tls=tls,
    )
    uvloop.run(_serve(server, arguments.port))
    if arguments.log is not None:
        encode = msgspec.json.Encoder().encode_lines
        arguments.log.write_bytes(encode(server.log))


async def _serve(server: ScriptedServer, port: int) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_ in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(signal_, stopped.set)
    gc.disable()  # a collection over a growing log would hold all answers up
    await server.start(port)
    sys.stdout.write(f"ready at {server.url}\n")
    sys.stdout.flush()
    await stopped.wait()
    await server.stop()


if __name__ == "__main__":
    main()
