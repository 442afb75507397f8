"""Made traffic: exact, repeatable, and shared only where the workload says so."""

from collections import Counter
from itertools import combinations

import pytest
from tests.lab.workloads.asking import first_prompt, shared_ids, turn_tokens

from netgain.lab.conversation import Conversation
from netgain.lab.workloads.local_counter import LocalCounter
from netgain.lab.workloads.popularity import Zipf
from netgain.lab.workloads.prompt_writer import PromptTooShortError, PromptWriter
from netgain.lab.workloads.registry import SYNTHETIC, parse_workload
from netgain.lab.workloads.seeds import repeat_seed
from netgain.lab.workloads.workload import take

# Short forms: every word of the tiny vocabulary is many tokens.
SMALL = {
    "synthetic": "synthetic:in=80..200,out=1..40",
    "shared-prefix": "shared-prefix:prefixes=5,prefix=100,in=60",
    "copy": "copy:in=300,out=20",
    "documents": "documents:doc=300,questions=3,in=60,out=5",
    "multi-turn": "multi-turn:in=100,more=60,out=5,turns=3,system=80",
    "chat": "chat",
    "rag": "rag:passages=3,passage=60,corpus=20,in=150..200",
    "summarise": "summarise:in=200..400",
    "code": "code:in=300..600",
    "agent": "agent:system=120,in=150,more=60,turns=3",
}
BLOCK = 16


@pytest.mark.parametrize("name", SYNTHETIC)
@pytest.mark.parametrize("chat", [True, False], ids=["chat", "completion"])
def test_prompts_have_the_tokens_they_say(
    tiny_counter: LocalCounter, name: str, chat: bool
) -> None:
    writer = PromptWriter(tiny_counter, chat=chat)
    for conversation in take(parse_workload(SMALL[name]), writer, 3, 6):
        assert conversation.turns[0].prompt_tokens == len(first_prompt(writer, conversation))
        if chat:
            said = [turn.prompt_tokens for turn in conversation.turns]
            assert said == list(turn_tokens(writer, conversation))


@pytest.mark.model
@pytest.mark.parametrize("name", SYNTHETIC)
def test_the_default_models_prompts_have_the_tokens_they_say(
    smollm_counter: LocalCounter, name: str
) -> None:
    writer = PromptWriter(smollm_counter)
    for conversation in take(parse_workload(name), writer, 3, 3):
        said = [turn.prompt_tokens for turn in conversation.turns]
        assert said == list(turn_tokens(writer, conversation))


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_seed_gives_the_same_conversations_again(tiny_counter: LocalCounter, name: str) -> None:
    workload = parse_workload(SMALL[name])
    once = take(workload, PromptWriter(tiny_counter), 3, 5)
    again = take(workload, PromptWriter(tiny_counter), 3, 5)
    assert once == again


@pytest.mark.parametrize("name", SYNTHETIC)
def test_repeats_never_share_their_first_block(tiny_counter: LocalCounter, name: str) -> None:
    writer = PromptWriter(tiny_counter, chat=False)
    workload = parse_workload(SMALL[name])
    assert workload.distinct_by_seed
    seeds = [repeat_seed(1, repeat) for repeat in range(3)]
    beginnings = [
        {tuple(first_prompt(writer, made)[:BLOCK]) for made in take(workload, writer, seed, 6)}
        for seed in seeds
    ]
    for one, other in combinations(beginnings, 2):
        assert not one & other


@pytest.mark.parametrize("name", ["synthetic", "copy", "documents", "chat", "summarise", "code"])
def test_requests_share_nothing_unless_the_workload_says_so(
    tiny_counter: LocalCounter, name: str
) -> None:
    writer = PromptWriter(tiny_counter, chat=False)
    made = take(parse_workload(SMALL[name]), writer, 1, 40)
    assert len({tuple(first_prompt(writer, one)[:BLOCK]) for one in made}) == len(made)


def test_the_first_repeat_is_the_seed_itself() -> None:
    assert repeat_seed(7, 0) == 7
    assert len({repeat_seed(7, repeat) for repeat in range(100)}) == 100


def test_lengths_do_not_depend_on_the_tokenizer_or_the_nonce(tiny_counter: LocalCounter) -> None:
    workload = parse_workload("synthetic:in=80..200,out=lognormal/50/0.5")
    plain = take(workload, PromptWriter(tiny_counter), 5, 20)
    marked = take(workload, PromptWriter(tiny_counter, nonce="again"), 5, 20)
    assert [lengths(one) for one in plain] == [lengths(one) for one in marked]
    assert all(a.turns[0].text != b.turns[0].text for a, b in zip(plain, marked, strict=True))


def test_a_fixed_length_that_cannot_be_sent_is_an_error(tiny_chat: PromptWriter) -> None:
    with pytest.raises(PromptTooShortError):
        take(parse_workload("synthetic:in=8"), tiny_chat, 0, 1)


def test_a_shared_prefix_is_shared_and_the_rest_is_not(tiny_chat: PromptWriter) -> None:
    workload = parse_workload("shared-prefix:prefixes=2,prefix=120,in=60,round=true")
    prompts = [first_prompt(tiny_chat, made) for made in take(workload, tiny_chat, 1, 4)]
    lead = tiny_chat.framing().lead
    assert [len(prompt) for prompt in prompts] == [180] * 4
    assert lead + 118 <= shared_ids(prompts[0], prompts[2]) < lead + 130
    assert shared_ids(prompts[0], prompts[1]) < lead + BLOCK


def test_other_questions_go_to_the_same_prefixes(tiny_chat: PromptWriter) -> None:
    one, other = (
        take(parse_workload(f"shared-prefix:prefixes=3,round=1,prefix=100,questions={q}"), w, 1, 3)
        for q, w in ((0, tiny_chat), (1, tiny_chat))
    )
    for first, second in zip(one, other, strict=True):
        assert first.turns[0].text[:40] == second.turns[0].text[:40]
        assert first.turns[0].text != second.turns[0].text


def test_only_the_stated_share_of_requests_has_a_shared_prefix(tiny_plain: PromptWriter) -> None:
    workload = parse_workload("shared-prefix:prefixes=1,prefix=60,in=20,share=0.25")
    texts = [made.turns[0].text[:20] for made in take(workload, tiny_plain, 1, 400)]
    (_, most), *_ = Counter(texts).most_common()
    assert most / 400 == pytest.approx(0.25, abs=0.06)


def test_prefixes_are_as_popular_as_zipf_says(tiny_plain: PromptWriter) -> None:
    workload = parse_workload("shared-prefix:prefixes=4,prefix=60,in=20,zipf=1")
    texts = Counter(made.turns[0].text[:30] for made in take(workload, tiny_plain, 1, 1500))
    shares = [count / 1500 for _, count in texts.most_common()]
    # 1, 1/2, 1/3, 1/4 of their sum 25/12.
    assert shares == pytest.approx([0.48, 0.24, 0.16, 0.12], abs=0.04)
    assert [Zipf(4, 1.0).share(k) for k in range(4)] == pytest.approx([0.48, 0.24, 0.16, 0.12])


def test_a_copying_prompt_holds_its_passage_as_often_as_asked(tiny_chat: PromptWriter) -> None:
    (made,) = take(parse_workload("copy:in=400,repeats=3"), tiny_chat, 1, 1)
    lines = made.turns[0].text.splitlines()
    assert lines[-3] == lines[-2] == lines[-1]
    assert len(lines[-1]) > 60


def test_code_is_code_that_python_reads_up_to_the_open_line(tiny_chat: PromptWriter) -> None:
    for made in take(parse_workload("code:in=600"), tiny_chat, 1, 5):
        whole, _, unfinished = made.turns[0].text.rpartition("\n")
        compile(whole, "made", "exec")
        assert unfinished.startswith("def ")
        assert unfinished.endswith("(")


def test_dialogues_have_turns_think_times_and_shared_systems(tiny_chat: PromptWriter) -> None:
    workload = parse_workload("multi-turn:turns=2..4,system=60,systems=2,in=100,think=1..2")
    made = take(workload, tiny_chat, 1, 30)
    assert {len(one.turns) for one in made} == {2, 3, 4}
    assert len({one.system for one in made}) == 2
    assert all(one.turns[0].think_s == 0 for one in made)
    assert all(1 <= turn.think_s <= 2 for one in made for turn in one.turns[1:])


def test_retrieved_passages_come_again_in_other_places(tiny_chat: PromptWriter) -> None:
    workload = parse_workload("rag:passages=3,passage=60,corpus=6,in=150")
    texts = [made.turns[0].text.split("\n\n")[1:4] for made in take(workload, tiny_chat, 1, 30)]
    assert len({passage for three in texts for passage in three}) == 6
    places = {(three.index(passage), passage) for three in texts for passage in three}
    assert len(places) > 12


def test_a_mix_keeps_its_weights_and_names_its_classes(tiny_plain: PromptWriter) -> None:
    mix = parse_workload("mix:synthetic=3,copy=1")
    made = take(mix, tiny_plain, 1, 400)
    counts = Counter(one.request_class for one in made)
    assert counts["copy"] / 400 == pytest.approx(0.25, abs=0.06)
    assert set(counts) == {"copy", "synthetic"}


def test_a_class_of_a_mix_is_the_same_whatever_the_weights(tiny_plain: PromptWriter) -> None:
    few = take(parse_workload("mix:synthetic=1,copy=9"), tiny_plain, 1, 60)
    many = take(parse_workload("mix:synthetic=9,copy=1"), tiny_plain, 1, 60)
    one = [made for made in few if made.request_class == "synthetic"]
    other = [made for made in many if made.request_class == "synthetic"]
    assert one == other[: len(one)]


def lengths(conversation: Conversation) -> tuple[int | None, int]:
    turn = conversation.turns[0]
    return turn.prompt_tokens, turn.max_tokens
