"""Every setting, typed and validated, one section per technique."""

from collections.abc import Mapping
from typing import Annotated, Final, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from netgain.errors import ConfigurationError
from netgain.ops.choices import BackendName, KVFormat, Numerics, WeightFormat

GiB: Final = 1 << 30
_UNITS: Final = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}


def parse_bytes(value: object) -> object:
    """`"512MiB"`, `"2 GB"` or a plain number of bytes; GB is 10^9, GiB is 2^30.

    Raises `ValueError` for anything else.
    """
    if not isinstance(value, str):
        return value
    text = value.strip().upper()
    digits = text.rstrip("KMGTIB ")
    unit = text[len(digits) :].strip()
    if unit not in _UNITS:
        raise ValueError(f"{value!r} is not a size; write for example 512MiB, 2GiB or 2GB")
    try:
        return int(float(digits) * _UNITS[unit])
    except (ValueError, OverflowError):
        raise ValueError(
            f"{value!r} is not a size; write for example 512MiB, 2GiB or 2GB"
        ) from None


Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(gt=0)]


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )


class ModelSettings(_Section):
    """Which model, and how it runs on this machine."""

    model: str = "smollm2-135m-instruct"
    max_model_len: int | None = Field(default=None, ge=2)
    """Most tokens of prompt and answer together; default: what the model was trained for."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """CPU threads of the engine; default: the cores this process may use."""
    backend: BackendName = BackendName.AUTO
    weights: WeightFormat = WeightFormat.AUTO
    numerics: Numerics = Numerics.AUTO


class SchedulerSettings(_Section):
    """Continuous batching and chunked prefill."""

    max_num_seqs: int = Field(default=64, ge=1, le=4096)
    """Most requests in one step."""
    max_num_batched_tokens: int = Field(default=2048, ge=16, le=1 << 20)
    """Most tokens in one step."""
    step_time_target_s: float = Field(default=0.2, gt=0, le=60)
    """Prefill chunks are cut so that a step is expected to take no longer than this."""
    max_outstanding_steps: int = Field(default=1, ge=1, le=8)
    """Steps handed to the executor before the first one's result is known. More than one hides the
    host's work behind the device's, where the device is not made of the same cores."""

    @model_validator(mode="after")
    def _tokens_for_every_sequence(self) -> Self:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is below max_num_seqs "
                f"({self.max_num_seqs}): a step could not hold one token of each sequence; "
                "raise the first or lower the second"
            )
        return self


class KVSettings(_Section):
    """The KV pool and the prefix cache."""

    block_tokens: int = Field(default=16, ge=1, le=1024)
    dtype: KVFormat = KVFormat.AUTO
    memory_bytes: Bytes | None = None
    """Size of the KV pool; default: a share of what is free, capped by what could be used."""
    prefix_cache: bool = True


class EngineSettings(_Section):
    """One engine: everything its process needs to start."""

    model: ModelSettings = ModelSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    kv: KVSettings = KVSettings()


class ServerSettings(_Section):
    """The HTTP endpoint."""

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    served_model_name: tuple[Annotated[str, Field(min_length=1, max_length=512)], ...] = ()
    """What clients may call the model; default: what it was started as."""
    embedding_model: str | None = Field(default=None, min_length=1)
    """A sentence encoder for `/v1/embeddings`: a checkpoint folder, or a known installed one."""
    api_key: str | None = Field(default=None, min_length=1)
    max_queue: int = Field(default=256, ge=0)
    """Requests that may wait in the engine; one more is answered 429 with Retry-After."""
    request_timeout_s: float | None = Field(default=None, gt=0, le=7 * 24 * 3600)
    """Deadline of a request that states none."""
    ledger_history: int = Field(default=4096, ge=0, le=1 << 20)
    """Ended requests whose ledger `/v1/requests/{id}/ledger` still answers."""
    max_body_bytes: Bytes = 8 << 20
    """A larger request body is answered 413."""
    cors_origins: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Origins whose web pages may read answers; `*` is all of them."""
    log_requests: bool = False
    """One line for each ended request: ids, reason and token counts, never text."""
    shutdown_grace_s: float = Field(default=10.0, ge=0, le=3600)
    """How long requests in flight may go on once the server was told to stop."""


class Settings(_Section):
    """Everything `netgain serve` can be told."""

    engine: EngineSettings = EngineSettings()
    server: ServerSettings = ServerSettings()


AnySection = TypeVar("AnySection", bound=_Section)


_NAMES_OUTSIDE: Final = {
    "memory_bytes": "kv_memory",
    "dtype": "kv_dtype",
    "step_time_target_s": "step_time_target",
    "request_timeout_s": "request_timeout",
    "max_body_bytes": "max_body",
    "cors_origins": "cors_origin",
    "shutdown_grace_s": "shutdown_grace",
}
"""What options and arguments call a field that carries its unit here."""


def checked(section: type[AnySection], values: Mapping[str, object]) -> AnySection:
    """The settings these values make. Raises `ConfigurationError` naming the first at fault."""
    try:
        return section.model_validate(values)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        names = [part for part in fault["loc"] if isinstance(part, str)]
        field = names[-1] if names else "settings"
        where = _NAMES_OUTSIDE.get(field, field)
        raise ConfigurationError(
            f"{where}: {fault['msg'].removeprefix('Value error, ')}"
        ) from error
