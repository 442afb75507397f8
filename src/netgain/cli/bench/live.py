"""A line that says how a run stands, on standard error, where that is a terminal."""

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import typer

from netgain.report.units import quantity

if TYPE_CHECKING:
    from netgain.lab.load_plan import LoadProgress


_SLOW_S: Final = 5.0


@contextmanager
def said_if_slow(text: str) -> Iterator[None]:
    """Says on standard error what is waited for, once that takes long."""
    timer = threading.Timer(_SLOW_S, typer.echo, (text,), {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class LiveLine:
    """Shows `LoadProgress`; nothing where standard error is no terminal."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self._shown = sys.stderr.isatty()
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write("")

    def show(self, progress: "LoadProgress") -> None:
        """The run as it stands."""
        if not self._shown:
            return
        of = f" of {progress.duration_s:.0f}" if progress.duration_s else ""
        per_s = progress.output_tokens / max(progress.elapsed_s, 1e-3)
        parts = [
            f"{max(progress.elapsed_s, 0.0):.0f}{of} s",
            f"{progress.sent} sent",
            f"{progress.in_flight} under way",
            f"{progress.answered} answered",
            f"{per_s:.0f} tok/s",
            f"lag {quantity(progress.mean_lag_s, 's')}",
        ]
        parts += [f"{count} {kind.value}" for kind, count in progress.errors.items() if count]
        self._write("  ".join([self.label, *parts] if self.label else parts))

    def say(self, line: str) -> None:
        """A line that stays, on standard error, terminal or not."""
        self._write("")
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def _write(self, text: str) -> None:
        if self._shown and (text or self._width):
            text = text[: shutil.get_terminal_size().columns - 1]  # a longer one cannot be undone
            sys.stderr.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
            sys.stderr.flush()
            self._width = len(text)
