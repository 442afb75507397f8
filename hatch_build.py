"""Build hook: compiles the native CPU library into wheels and editable installs.

Without a compiler, or where compiling fails, the install goes on: netgain then computes with torch
and says why. The sources are in the wheel too, so that `python -m netgain.ops.cpu.build` can make
up for it later.
"""

import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilder, WheelBuilderConfig

sys.path.insert(0, str(Path(__file__).resolve().parent / "src"))

from netgain.ops.cpu.build import Built, build, describe
from netgain.ops.cpu.sources import (
    BUILD_COMMAND,
    HERE,
    LIBRARY_NAME,
    REASON_NAME,
    SOURCES_NAME,
    build_command,
)


class NativeLibraryHook(BuildHookInterface[WheelBuilderConfig]):
    """Hatchling creates one per build of a wheel."""

    def initialize(self, version: str, build_data: dict[str, object]) -> None:
        """Compiles in place for an editable install, else into the wheel."""
        if version == "editable":
            self.app.display_info(describe(build(), build_command()))
            return
        self._scratch = tempfile.TemporaryDirectory()
        folder = Path(self._scratch.name)
        result = build(destination=folder / LIBRARY_NAME)
        self.app.display_info(describe(result, BUILD_COMMAND))
        name = LIBRARY_NAME if isinstance(result, Built) else REASON_NAME
        target = HERE.relative_to(Path(self.root) / "src") / SOURCES_NAME / name
        build_data["force_include"] = {str(folder / name): target.as_posix()}
        if isinstance(result, Built):
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{self._platform()}"

    def finalize(self, version: str, _data: dict[str, object], _artifact: str) -> None:
        """Removes what was compiled for the wheel."""
        if version != "editable":
            self._scratch.cleanup()

    def _platform(self) -> str:
        builder = self.build_config.builder
        assert isinstance(builder, WheelBuilder)
        # The library talks to Python through ctypes: any interpreter of this platform will do.
        return builder.get_best_matching_tag().rpartition("-")[2]
