from pathlib import Path

import msgspec
import pytest

from netgain.lab.load_plan import Ended
from netgain.lab.record import ErrorKind, Failure, RequestRecord, TokenEvent, Usage
from netgain.lab.run_end import RunEnd
from netgain.lab.run_file import RunFileError, RunWriter, read_run
from netgain.lab.run_header import LoadKind, RunHeader

HEADER = RunHeader(
    load=LoadKind.OPEN,
    rate=4.0,
    duration_s=30.0,
    workload="chat",
    target="http://127.0.0.1:8000",
    model="m",
    api="chat",
    seed=1,
    started_unix_s=1.5,
)


def record(index: int) -> RequestRecord:
    return RequestRecord(
        index=index,
        request_class="chat",
        conversation=index,
        intended_s=0.5,
        sent_s=0.6,
        events=(TokenEvent(0.7, 2), TokenEvent(0.8, 1, True)),
        empty_events_s=(0.65,),
        usage=Usage(1, 3),
        failure=Failure(ErrorKind.TIMEOUT, "late\nindeed"),
        ledger=msgspec.Raw(b'{"e2e_s":0.25}'),
        text="日\n",
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with RunWriter(tmp_path / "run.jsonl", HEADER) as run:
        for index in range(3):
            run.add(record(index))
    return tmp_path / "run.jsonl"


def test_what_is_written_is_read(path: Path) -> None:
    run = read_run(path)
    assert run.header == HEADER
    assert run.records == tuple(record(index) for index in range(3))
    assert bytes(run.records[0].ledger) == b'{"e2e_s":0.25}'
    assert (run.torn, run.skipped) == (False, ())


def test_a_run_that_ended_says_how_and_one_that_was_killed_does_not(path: Path) -> None:
    assert read_run(path).end is None
    end = RunEnd(
        ended=Ended.SERVER_GONE,
        reason="nobody answers",
        cache_held=False,
        cache_text="NOT cold",
        notes=("2 lines left out",),
    )
    with RunWriter(path.with_name("ended.jsonl"), HEADER) as run:
        run.add(record(0))
        run.end(end)
    found = read_run(path.with_name("ended.jsonl"))
    assert (found.end, found.records) == (end, (record(0),))
    assert end.warnings == (
        "The run ended early (server gone): nobody answers.",
        "Cache NOT cold.",
    )


def test_a_record_can_be_read_as_soon_as_it_was_added(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "run.jsonl", HEADER) as run:
        assert read_run(tmp_path / "run.jsonl").records == ()
        run.add(record(0))
        assert read_run(tmp_path / "run.jsonl").records == (record(0),)


def test_a_last_line_cut_off_anywhere_is_left_out(path: Path) -> None:
    data = path.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    for length in range(last + 1, len(data) - 1):
        path.write_bytes(data[:length])
        run = read_run(path)
        assert run.torn
        assert len(run.records) == 2
    path.write_bytes(data[:-1])
    assert len(read_run(path).records) == 3


def test_a_broken_line_in_the_middle_is_named_or_skipped(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2][:20] + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(RunFileError, match="line 3"):
        read_run(path)
    run = read_run(path, skip_broken=True)
    assert run.skipped == (3,)
    assert [one.index for one in run.records] == [0, 2]


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"{}\n", b'{"index": 1}\n', b"\xff\n"):
        (tmp_path / "other").write_bytes(data)
        with pytest.raises(RunFileError, match="line 1"):
            read_run(tmp_path / "other")
    with pytest.raises(RunFileError, match="cannot read"):
        read_run(tmp_path / "missing")


def test_no_run_is_overwritten(path: Path) -> None:
    with pytest.raises(RunFileError, match="exists"):
        RunWriter(path, HEADER)
    assert len(read_run(path).records) == 3
