"""`python -m netgain.lab.tied_server ARGS`: `netgain serve ARGS`, for as long as its standard input
is open: it ends with whoever started it, however that ended.
"""

import os
import runpy
import signal
import sys
import threading


def _end_with_standard_input() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Serves."""
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    sys.argv = ["netgain", "serve", *sys.argv[1:]]
    runpy.run_module("netgain", run_name="__main__")


if __name__ == "__main__":
    main()
