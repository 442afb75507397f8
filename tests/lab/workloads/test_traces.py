"""Public traces are read as they are; a broken line is named, never passed over in silence."""

import json
from pathlib import Path

import pytest
from tests.lab.workloads.asking import first_prompt, turn_tokens

from netgain.lab.conversation import Conversation
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.registry import parse_workload
from netgain.lab.workloads.traces.trace_file import TraceError
from netgain.lab.workloads.workload import WorkloadError, take

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-12 10:00:00.2500000,120,7
2024-05-12 10:00:01.7500000,90,30
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
30,ChatGPT,100,12,112,Conversation log
31,GPT-4,110,0,110,API log
42,GPT-4,120,8,128,API log
"""
MOONCAKE = """{"timestamp": 0, "input_length": 1100, "output_length": 9, "hash_ids": [0, 1, 2]}
{"timestamp": 1500, "input_length": 1200, "output_length": 4, "hash_ids": [0, 1, 3]}
"""
SHAREGPT = """[
 {"id": "a", "conversations": [
  {"from": "system", "value": "Be brief."},
  {"from": "human", "value": "Say hello."},
  {"from": "gpt", "value": "hello"},
  {"from": "human", "value": "Again."},
  {"from": "gpt", "value": "hello hello"}]},
 {"id": "b", "conversations": [{"from": "gpt", "value": "Anybody there?"}]},
 {"id": "c", "conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "he"}]}
]
"""
OWN = """{"prompt": "Why is the sky blue?", "max_tokens": 5, "start_s": 0.5, "class": "chat"}

{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}, \
{"role": "user", "content": "And?"}], "think_s": 2, "start_s": 1}
{"input_tokens": 90, "exact_length": true, "start_s": 2, "fields": {"temperature": 0}}
"""
SAMPLES = {
    "azure": ("a.csv", AZURE),
    "burstgpt": ("b.csv", BURSTGPT),
    "mooncake": ("m.jsonl", MOONCAKE),
    "sharegpt": ("s.json", SHAREGPT),
    "jsonl": ("o.jsonl", OWN),
}


def written(folder: Path, name: str, text: str | None = None) -> Path:
    file, sample = SAMPLES[name]
    path = folder / file
    path.write_text(sample if text is None else text, encoding="utf-8")
    return path


def replayed(spec: str, writer: PromptWriter) -> list[Conversation]:
    return take(parse_workload(spec), writer, 1, 100)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_bare_path_is_recognised_by_its_beginning(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name)
    assert parse_workload(str(path)).name == name
    assert parse_workload(f"{name}:{path}") == parse_workload(str(path))


@pytest.mark.parametrize("name", SAMPLES)
def test_prompts_have_the_tokens_they_say(
    tmp_path: Path, tiny_chat: PromptWriter, name: str
) -> None:
    made = replayed(f"{name}:{written(tmp_path, name)}", tiny_chat)
    assert made
    for one in made:
        assert [turn.prompt_tokens for turn in one.turns] == list(turn_tokens(tiny_chat, one))


def test_azure_gives_times_and_exact_lengths(tmp_path: Path, tiny_chat: PromptWriter) -> None:
    made = replayed(str(written(tmp_path, "azure")), tiny_chat)
    assert [one.start_s for one in made] == [0.0, 1.5]
    assert [len(first_prompt(tiny_chat, one)) for one in made] == [120, 90]
    assert [one.turns[0].max_tokens for one in made] == [7, 30]
    assert all(one.turns[0].exact_length for one in made)


def test_azure_times_may_have_a_zone(tmp_path: Path, tiny_chat: PromptWriter) -> None:
    text = AZURE.replace("7500000", "750000+00:00")
    made = replayed(str(written(tmp_path, "azure", text)), tiny_chat)
    assert [one.start_s for one in made] == [0.0, 1.5]


def test_a_failed_request_of_burstgpt_is_left_out_and_counted(
    tmp_path: Path, tiny_chat: PromptWriter
) -> None:
    trace = parse_workload(str(written(tmp_path, "burstgpt")))
    made = take(trace, tiny_chat, 1, 9)
    assert [(one.start_s, one.request_class) for one in made] == [(0, "conversation"), (12, "api")]
    assert trace.size == 2
    assert trace.notes == ("1 requests without prompt or answer tokens (failed ones) left out",)


def test_newer_columns_are_ignored(tmp_path: Path) -> None:
    lines = [f"{line},x,1" for line in BURSTGPT.splitlines()]
    assert parse_workload(str(written(tmp_path, "burstgpt", "\n".join(lines)))).size == 2


def test_a_trace_out_of_order_is_replayed_in_order_and_says_so(
    tmp_path: Path, tiny_chat: PromptWriter
) -> None:
    head, one, other = AZURE.splitlines()
    trace = parse_workload(str(written(tmp_path, "azure", f"{head}\n{other}\n{one}\n")))
    assert [made.turns[0].max_tokens for made in take(trace, tiny_chat, 1, 9)] == [7, 30]
    assert "not in order" in trace.notes[0]


def test_long_prompts_are_left_out_and_counted(tmp_path: Path, tiny_chat: PromptWriter) -> None:
    path = written(tmp_path, "azure")
    trace = parse_workload(f"azure:{path},max-in=100")
    assert (trace.size, trace.notes) == (1, ("1 prompts above 100 tokens left out",))
    path = written(tmp_path, "jsonl")
    made = replayed(f"jsonl:{path},max-in=60", tiny_chat)
    assert len(made) == 2
    assert "1 conversations are longer than allowed" in tiny_chat.notes[-1]


def test_a_limit_takes_the_first(tmp_path: Path) -> None:
    assert parse_workload(f"azure:{written(tmp_path, 'azure')},limit=1").size == 1


def test_sharegpt_asks_first_questions_for_answers_as_long_as_recorded(
    tmp_path: Path, tiny_chat: PromptWriter
) -> None:
    trace = parse_workload(f"sharegpt:{written(tmp_path, 'sharegpt')},shuffle=false")
    made = take(trace, tiny_chat, 1, 9)
    assert [one.turns[0].text for one in made] == ["Say hello.", "Why?"]
    assert [one.system for one in made] == ["Be brief.", None]
    assert [one.turns[0].max_tokens for one in made] == [1, 1]
    assert trace.notes == ("1 conversations without a question and its answer left out",)
    assert not trace.distinct_by_seed


def test_sharegpt_replays_all_turns_when_asked(tmp_path: Path, tiny_chat: PromptWriter) -> None:
    made = replayed(f"sharegpt:{written(tmp_path, 'sharegpt')},turns=0,shuffle=no", tiny_chat)
    assert [turn.text for turn in made[0].turns] == ["Say hello.", "Again."]
    assert [turn.max_tokens for turn in made[0].turns] == [1, 2]


def test_sharegpt_has_another_order_for_another_seed(
    tmp_path: Path, tiny_chat: PromptWriter
) -> None:
    messages = [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "he"}]
    entries = [
        {"conversations": [{"from": "human", "value": f"Question {n}?"}, messages[1]]}
        for n in range(20)
    ]
    trace = parse_workload(str(written(tmp_path, "sharegpt", json.dumps(entries))))
    one, other = (
        [made.turns[0].text for made in take(trace, tiny_chat, seed, 99)] for seed in (1, 2)
    )
    assert one != other
    assert sorted(one) == sorted(other)


def test_own_lines_are_prompts_conversations_or_lengths(
    tmp_path: Path, tiny_chat: PromptWriter
) -> None:
    prompt, dialogue, lengths = replayed(str(written(tmp_path, "jsonl")), tiny_chat)
    assert (prompt.request_class, prompt.turns[0].max_tokens, prompt.start_s) == ("chat", 5, 0.5)
    assert dialogue.system == "Be brief."
    assert [(turn.text, turn.think_s) for turn in dialogue.turns] == [("Hello", 0), ("And?", 2)]
    assert lengths.turns[0].prompt_tokens == 90
    assert lengths.turns[0].exact_length
    assert json.loads(bytes(lengths.fields)) == {"temperature": 0}


BROKEN = [
    ("azure", 3, "yesterday,90,30", "TIMESTAMP is 'yesterday'"),
    ("azure", 3, "2024-05-12 10:00:01,many,30", "ContextTokens is 'many'"),
    ("azure", 3, "2024-05-12 10:00:01,90,-3", "GeneratedTokens is '-3'"),
    ("azure", 2, "2024-05-12 10:00:00,120", "2 fields where the heading has 3"),
    ("azure", 2, '2024-05-12 10:00:00,"120,7', "not CSV"),
    ("burstgpt", 2, "soon,ChatGPT,100,12,112,API log", "Timestamp is 'soon'"),
    ("burstgpt", 2, "30,ChatGPT,100.5,12,112,API log", "Request tokens is '100.5'"),
    ("burstgpt", 4, "42,GPT-4,120,8,129,API log", "Total tokens is 129, but .* add up to 128"),
    ("burstgpt", 4, "42,GPT-4,120,8,128,", "Log Type is empty"),
    ("mooncake", 1, "{", "truncated|malformed"),
    ("mooncake", 2, '{"timestamp": 1, "input_length": 9, "output_length": 1}', "hash_ids"),
    (
        "mooncake",
        2,
        '{"timestamp": 1, "input_length": 1200, "output_length": 1, "hash_ids": [0, 1]}',
        "2 hash_ids for 1200 tokens, which are 3 blocks of 512",
    ),
    (
        "mooncake",
        2,
        '{"timestamp": -1, "input_length": 9, "output_length": 1, "hash_ids": [0]}',
        "timestamp is -1",
    ),
    (
        "mooncake",
        2,
        '{"timestamp": 1, "input_length": 9, "output_length": 0, "hash_ids": [0]}',
        "output_length is 0",
    ),
    ("mooncake", 2, '{"timestamp": 1, "input_length": "9"}', "Expected `int`"),
    ("sharegpt", 8, ' {"id": "b"},', "lacks the list `conversations`"),
    ("sharegpt", 8, " 7,", "must be an object"),
    ("sharegpt", 8, ' {"conversations": [{"from": "gpt"}]},', "message 1 needs the texts"),
    ("sharegpt", 8, ' {"conversations": ["hi"]},', "message 1 must be an object"),
    (
        "sharegpt",
        8,
        ' {"conversations": [{"from": "humann", "value": "hi"}]},',
        "from 'humann': did you mean human",
    ),
    ("jsonl", 1, "hello", "malformed"),
    ("jsonl", 1, "[]", "must be a JSON object"),
    ("jsonl", 1, '{"promt": "x"}', "unknown field 'promt': did you mean prompt"),
    ("jsonl", 3, '{"prompt": "x", "input_tokens": 5}', "exactly one of"),
    ("jsonl", 3, '{"max_tokens": 5}', "exactly one of"),
    ("jsonl", 3, '{"prompt": ""}', "prompt is empty"),
    ("jsonl", 3, '{"prompt": "x", "max_tokens": 0}', "at least 1"),
    ("jsonl", 3, '{"prompt": "x", "start_s": -1}', "must not be negative"),
    ("jsonl", 3, '{"prompt": "x", "fields": 3}', "fields must be a JSON object"),
    ("jsonl", 3, '{"messages": [{"role": "system", "content": "x"}]}', "one a turn"),
    ("jsonl", 3, '{"messages": [{"role": "assistant", "content": "x"}]}', "Invalid enum value"),
    ("jsonl", 3, '{"messages": [{"role": "user", "contents": "x"}]}', "contents"),
]


@pytest.mark.parametrize(("name", "line", "text", "says"), BROKEN)
def test_a_broken_line_is_named_with_its_place(
    tmp_path: Path, name: str, line: int, text: str, says: str
) -> None:
    path = written(tmp_path, name, replaced(SAMPLES[name][1], line, text))
    with pytest.raises(TraceError, match=says) as caught:
        parse_workload(f"{name}:{path}")
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert "--skip-bad-lines" in str(caught.value)
    assert caught.value.line == line


@pytest.mark.parametrize(("name", "line", "text", "says"), BROKEN)
def test_broken_lines_are_left_out_and_counted_only_when_asked(
    tmp_path: Path, name: str, line: int, text: str, says: str
) -> None:
    path = written(tmp_path, name, replaced(SAMPLES[name][1], line, text))
    trace = parse_workload(f"{name}:{path}", skip_bad_lines=True)
    assert trace == parse_workload(f"{name}:path={path},skip-bad-lines=true")
    assert trace.size is not None
    assert trace.size >= 1
    assert any("1 broken" in note and f"line {line}:" in note for note in trace.notes)


def test_text_that_is_not_utf_8_is_a_broken_line(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(b'{"prompt": "x"}\n{"prompt": "\xff"}\n')
    with pytest.raises(TraceError, match=r"line 2: not UTF-8"):
        parse_workload(f"jsonl:{path}")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("azure", "", "is empty"),
        ("azure", "a,b\n1,2\n", "lacks TIMESTAMP, ContextTokens, GeneratedTokens"),
        ("azure", AZURE.splitlines()[0], "holds no usable line"),
        ("azure", AZURE.replace(",7\n", ",0\n").replace(",30\n", ",0\n"), "no request is left"),
        ("sharegpt", "{}", "must be one JSON array"),
        ("sharegpt", "[]", "no usable conversation"),
        ("sharegpt", SHAREGPT.replace('"b",', '"b"'), "not JSON from line 8 on"),
        ("sharegpt", SHAREGPT.rstrip().rstrip("]"), "not JSON from line 10 on"),
        ("jsonl", '{"prompt": "x", "start_s": 1}\n{"prompt": "y"}\n', "1 of 2 lines have start_s"),
    ],
)
def test_a_file_that_cannot_be_used_at_all_is_refused(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(TraceError, match=says):
        parse_workload(f"{name}:{path}", skip_bad_lines=True)


def test_a_file_like_no_format_says_which_there_are(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("hello\n")
    with pytest.raises(TraceError, match="sharegpt, mooncake, azure, burstgpt, jsonl"):
        parse_workload(str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        parse_workload(f"azure:{tmp_path / 'none.csv'}")
    with pytest.raises(WorkloadError, match="no file of that name"):
        parse_workload(str(tmp_path / "none.csv"))


def replaced(text: str, line: int, by: str) -> str:
    lines = text.splitlines()
    lines[line - 1] = by
    return "\n".join(lines) + "\n"


def test_an_empty_file_named_by_its_path_is_said_to_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("\ufeff\n\n", "utf-8")
    with pytest.raises(TraceError, match="is empty"):
        parse_workload(str(path))
