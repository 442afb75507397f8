"""What every tool sends and what it is answered: the same requests, by the same scripts."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from netgain.lab.scripted_server.script import Script

MODEL: Final = "scripted"
_PROMPT_WORDS: Final = 24

# Each separates definitions that a regular stream would let agree. Delays are long beside what a
# busy machine adds: 2 % of 300 ms is 6 ms.
SCRIPTS: Final = {
    "role-first": Script(first_s=0.3, role_gap_s=0.06, gap_s=0.06, tokens=24),
    "no-role": Script(first_s=0.4, role=False, gap_s=0.05, tokens=30, finish_with_last=True),
    "bundled": Script(first_s=0.35, gap_s=0.12, tokens=48, tokens_per_event=4),
    "coalesced": Script(first_s=0.32, role_gap_s=0.03, gap_s=0.16, tokens=20, events_per_write=2),
    "one-token": Script(first_s=0.5, tokens=1),
}
"""A role long before the first token, none, four tokens an event, two events a packet, TPOT without
a second token."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """`requests` of them at a constant `rate` (per second), the scripts in turn."""

    requests: int
    rate: float

    def script(self, index: int) -> str:
        """The name of the script that answers it."""
        return list(SCRIPTS)[index % len(SCRIPTS)]

    def prompt(self, index: int) -> str:
        """Names its script, so that the order of arrival does not matter."""
        return f"[script:{self.script(index)}] request {index}" + " word" * _PROMPT_WORDS

    def tokens(self, index: int) -> int:
        """How long its answer is."""
        return SCRIPTS[self.script(index)].tokens or 1


@dataclass(frozen=True, slots=True)
class Files:
    """The same traffic in each tool's own form."""

    scripts: Path
    prompts: Path
    sharegpt: Path
    tokenizer: Path


def write_files(traffic: Traffic, folder: Path) -> Files:
    """Writes them into an existing folder."""
    files = Files(
        folder / "scripts.json",
        folder / "prompts.jsonl",
        folder / "sharegpt.json",
        folder / "tokenizer",
    )
    files.scripts.write_bytes(msgspec.json.encode(SCRIPTS))
    rows = [(traffic.prompt(index), traffic.tokens(index)) for index in range(traffic.requests)]
    lines = (
        json.dumps({"prompt": prompt, "output_tokens_count": tokens}) + "\n"
        for prompt, tokens in rows
    )
    files.prompts.write_text("".join(lines))
    talks = [
        [{"from": "human", "value": prompt}, {"from": "gpt", "value": "word " * max(tokens, 4)}]
        for prompt, tokens in rows
    ]
    files.sharegpt.write_text(json.dumps([{"conversations": talk} for talk in talks]))
    _write_tokenizer(files.tokenizer)
    return files


def _write_tokenizer(folder: Path) -> None:
    """A word a token: the tools want a tokenizer, though the server counts."""
    tokenizer = Tokenizer(WordLevel({"<unk>": 0, "word": 1}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
