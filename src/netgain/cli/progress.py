"""The progress bar of a fetch, on stderr so that stdout stays the result."""

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TransferSpeedColumn,
)

from netgain.models.package_fetch import FetchProgress, FetchStage


class FetchBar:
    """Shows one bar per stage; on what is not a terminal, one line per stage."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._stage: FetchStage | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> "FetchBar":
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def report(self, progress: FetchProgress) -> None:
        """Takes what `models.store` reports."""
        if progress.stage is not self._stage:
            self._stage = progress.stage
            if self._bars.disable:
                size = f" {progress.total_bytes / 1e6:.0f} MB" if progress.total_bytes else ""
                self._console.print(progress.stage.value + size, highlight=False)
            self._task = self._bars.add_task(progress.stage.value, total=None)
        if self._task is not None:
            self._bars.update(
                self._task, completed=progress.done_bytes, total=progress.total_bytes or None
            )
