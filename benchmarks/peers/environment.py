"""Each peer's own virtual environment, made once.

They lie under `NETGAIN_PEERS_DIR` (default: `peers` in netgain's cache folder) and hold exactly
what `requirements/<name>.txt` pins. A stamp with the list's hash says that one is complete.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import platformdirs

from benchmarks.peers.failure import PeerError, last_words

_LISTS: Final = Path(__file__).parent / "requirements"
_INSTALL_LIMIT_S: Final = 3600.0


def peers_folder() -> Path:
    """Where environments, logs and the converted checkpoint lie."""
    stated = os.environ.get("NETGAIN_PEERS_DIR")
    if stated:
        return Path(stated).expanduser()
    return platformdirs.user_cache_path("netgain") / "peers"


@dataclass(frozen=True, slots=True)
class Environment:
    """`name` of the folder, `build` variables for pip; `pins`: a list that has another name."""

    name: str
    build: Mapping[str, str] = field(default_factory=dict)
    pins: str = ""

    @property
    def folder(self) -> Path:
        """The virtual environment."""
        return peers_folder() / self.name

    @property
    def requirements(self) -> Path:
        """What it holds, pinned."""
        return _LISTS / f"{self.pins or self.name}.txt"

    def ensure(self) -> Path:
        """Its Python, after making it if needed. Raises `PeerError` with pip's last line."""
        recipe = self.requirements.read_text() + repr(sorted(self.build.items()))
        digest = hashlib.sha256(recipe.encode()).hexdigest()
        stamp = self.folder / ".complete"
        python = self.folder / "bin" / "python"
        if stamp.is_file() and stamp.read_text() == digest:
            return python
        print(f"making {self.folder} (once)", file=sys.stderr)
        shutil.rmtree(self.folder, ignore_errors=True)
        # Our own pip installs into it: a second one would take longer than some peers.
        self._run([sys.executable, "-m", "venv", "--without-pip", str(self.folder)])
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
        # The list is complete, so nothing is resolved: what a peer must not have stays out, and no
        # dependency brings another build of torch.
        self._run([*pip, "install", "--no-deps", "-r", str(self.requirements)])
        stamp.write_text(digest)
        return python

    def _run(self, command: list[str]) -> None:
        log = peers_folder() / "logs" / f"{self.name}-install.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            try:
                done = subprocess.run(
                    command,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=os.environ | self.build,
                    timeout=_INSTALL_LIMIT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise PeerError(f"not installed within {_INSTALL_LIMIT_S:.0f} s") from error
        if done.returncode:
            raise PeerError(f"not installed: {last_words(log)}")
