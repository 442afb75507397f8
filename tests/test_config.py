"""Settings: sizes are read as written, what cannot work is refused where it is typed."""

import pytest
from pydantic import ValidationError

from netgain.config import EngineSettings, KVSettings, SchedulerSettings, ServerSettings, Settings


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("512MiB", 512 << 20),
        ("2GiB", 2 << 30),
        ("2 GB", 2 * 10**9),
        ("1.5 gib", 3 << 29),
        ("  7kb ", 7000),
        ("3TB", 3 * 10**12),
        ("1TiB", 1 << 40),
        ("4KiB", 4096),
        ("9MB", 9 * 10**6),
        ("10B", 10),
        ("4096", 4096),
        (4096, 4096),
    ],
)
def test_a_size_is_read_as_written(written: str | int, expected: int) -> None:
    read = KVSettings.model_validate({"memory_bytes": written})
    assert read.memory_bytes == expected


@pytest.mark.parametrize(
    "written",
    [
        "",
        "GiB",
        "two GB",
        "5 G",
        "5 XB",
        "-1GiB",
        "0",
        "0.2",
        "1e400",
        "inf",
        "nan",
        "1GiBGiB",
        0,
        -5,
    ],
)
def test_what_is_not_a_positive_size_is_refused(written: str | int) -> None:
    with pytest.raises(ValidationError, match="memory_bytes"):
        KVSettings.model_validate({"memory_bytes": written})


def test_a_size_that_is_none_says_how_to_write_one() -> None:
    with pytest.raises(ValidationError, match="512MiB"):
        KVSettings.model_validate({"memory_bytes": "lots"})


def test_a_step_must_hold_one_token_of_every_sequence() -> None:
    with pytest.raises(ValidationError, match=r"max_num_batched_tokens \(63\).*lower the second"):
        SchedulerSettings(max_num_seqs=64, max_num_batched_tokens=63)
    assert SchedulerSettings(max_num_seqs=64, max_num_batched_tokens=64).max_num_seqs == 64


@pytest.mark.parametrize(
    "value",
    [
        {"engine": {"modle": {}}},
        {"engine": {"kv": {"block_size": 16}}},
        {"serve": {}},
    ],
)
def test_unknown_fields_are_refused(value: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Settings.model_validate(value)


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        (SchedulerSettings, "max_num_seqs", 0),
        (SchedulerSettings, "max_num_batched_tokens", 15),
        (SchedulerSettings, "step_time_target_s", 0.0),
        (SchedulerSettings, "step_time_target_s", float("nan")),
        (SchedulerSettings, "step_time_target_s", float("inf")),
        (SchedulerSettings, "max_outstanding_steps", 0),
        (KVSettings, "block_tokens", 0),
        (ServerSettings, "port", 65536),
        (ServerSettings, "api_key", ""),
        (ServerSettings, "max_queue", -1),
        (ServerSettings, "request_timeout_s", 0.0),
        (ServerSettings, "request_timeout_s", float("inf")),
        (ServerSettings, "request_timeout_s", float("nan")),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(
    section: type[SchedulerSettings | KVSettings | ServerSettings], name: str, value: object
) -> None:
    with pytest.raises(ValidationError, match=name):
        section.model_validate({name: value})


def test_settings_cannot_change_once_made() -> None:
    made = Settings()
    with pytest.raises(ValidationError, match="frozen"):
        made.engine = EngineSettings()


def test_settings_survive_json() -> None:
    made = Settings(engine=EngineSettings(kv=KVSettings(memory_bytes=1 << 30)))
    assert Settings.model_validate_json(made.model_dump_json()) == made
