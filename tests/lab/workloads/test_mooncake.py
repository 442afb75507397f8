"""Prompts of a Mooncake trace share as many tokens as the trace says they share blocks."""

import json
from itertools import combinations
from pathlib import Path

import pytest
from tests.lab.workloads.asking import first_prompt, shared_ids

from netgain.lab.workloads.local_counter import LocalCounter
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.registry import parse_workload
from netgain.lab.workloads.workload import take

BLOCK = 64
ROWS = [
    (200, [0, 1, 2, 3]),
    (192, [0, 1, 4]),
    (250, [0, 1, 2, 5]),
    (320, [0, 1, 2, 3, 6]),
    (129, [7, 8, 9]),
    (140, [7, 8, 10]),
]


def trace(folder: Path) -> Path:
    path = folder / "m.jsonl"
    lines = [
        {"timestamp": 10 * n, "input_length": length, "output_length": 3, "hash_ids": ids}
        for n, (length, ids) in enumerate(ROWS)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.parametrize("chat", [True, False], ids=["chat", "completion"])
def test_a_byte_vocabularys_prompts_share_what_their_hashes_share(
    tmp_path: Path, tiny_counter: LocalCounter, chat: bool
) -> None:
    check(PromptWriter(tiny_counter, chat=chat), tmp_path, slack=12)


@pytest.mark.model
@pytest.mark.parametrize("chat", [True, False], ids=["chat", "completion"])
def test_the_default_models_prompts_share_what_their_hashes_share(
    tmp_path: Path, smollm_counter: LocalCounter, chat: bool
) -> None:
    check(PromptWriter(smollm_counter, chat=chat), tmp_path, slack=0)


def check(writer: PromptWriter, folder: Path, slack: int) -> None:
    """`slack`: tokens by which a byte vocabulary's words may straddle the end of a block."""
    workload = parse_workload(f"mooncake:path={trace(folder)},block={BLOCK}")
    prompts = [first_prompt(writer, made) for made in take(workload, writer, 1, 99)]
    assert [len(prompt) for prompt in prompts] == [length for length, _ in ROWS]
    framing = writer.framing()
    for (one, (_, ids)), (other, (_, others)) in combinations(zip(prompts, ROWS, strict=True), 2):
        blocks = shared_ids(ids, others)
        found = shared_ids(one, other)
        if not blocks:
            assert found < framing.lead + 16
            continue
        # The last tokens of a prompt are the template's tail, not the block's words.
        least = min(blocks * BLOCK, len(one) - framing.tail, len(other) - framing.tail)
        assert least - slack <= found < blocks * BLOCK + 16


def test_another_seed_shares_nothing(tmp_path: Path, tiny_plain: PromptWriter) -> None:
    workload = parse_workload(f"mooncake:path={trace(tmp_path)},block={BLOCK}")
    one, other = (
        first_prompt(tiny_plain, take(workload, tiny_plain, seed, 1)[0]) for seed in (1, 2)
    )
    assert shared_ids(one, other) < 16
