"""What techniques do to each other, with this engine's numbers: none is judged alone."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from netgain.cost.chunking import choice_of
from netgain.cost.disaggregation import decode_rate_per_s, prefill_rate_per_s
from netgain.cost.intensity import distinct_experts
from netgain.cost.interactions import Interaction, fleet_hit_rate, ratio_with_speculation
from netgain.cost.kv_bytes import kv_bytes_per_token_stored
from netgain.cost.layout import ONE_DEVICE
from netgain.cost.planner.setup import Setup
from netgain.cost.speculation import IterationTimes, batch_speed_up, tokens_per_iteration
from netgain.cost.step_costs import prefill_s
from netgain.cost.step_work import decode, verify
from netgain.cost.tiers import zipf

ACCEPTANCE: Final = 0.7
DEPTH: Final = 4
DRAFT_RATIO: Final = 0.05
PREFIXES: Final = 1000
ZIPF: Final = 0.8
HELD: Final = 50
REQUESTS: Final = 20_000
REPLICAS: Final = 8
CHUNK: Final = 2048
POOLED: Final = 64
MANY: Final = 256
WIDE: Final = 8


def interactions_of(
    setup: Setup, batch: int, prompt_tokens: int, output_tokens: int
) -> tuple[Interaction, ...]:
    """Pairs that concern this model, each with a quantity of one before and after the other."""
    return (
        *_with_speculation(setup, batch, prompt_tokens, output_tokens),
        *_with_tiers(setup),
        *_with_chunks(setup, batch, prompt_tokens),
    )


def _speed_up(setup: Setup, batch: int, context: int) -> float:
    steps = setup.steps()
    plain = steps.seconds(decode(batch, context))
    times = IterationTimes(
        plain, DRAFT_RATIO * plain, steps.seconds(verify(batch, context, DEPTH)), 0.0
    )
    return batch_speed_up(tokens_per_iteration(ACCEPTANCE, DEPTH), DEPTH, times)


def _with_speculation(setup: Setup, batch: int, prompt: int, output: int) -> Iterator[Interaction]:
    context = prompt + output // 2
    steps = setup.steps()
    pooled, many = max(POOLED, batch), max(MANY, batch)
    alone, inside, crowded = (_speed_up(setup, size, context) for size in (1, pooled, many))
    drafts = f"K {DEPTH}, acceptance {ACCEPTANCE:g}, drafts {DRAFT_RATIO:.0%} of a step"
    step = steps.seconds(decode(pooled, context))
    shift = ratio_with_speculation(
        prefill_rate_per_s(prefill_s(steps, 0, prompt)),
        decode_rate_per_s(pooled, step, output),
        inside,
    )
    yield Interaction(
        ("speculation", "separate pools"),
        "prefill per decode instance",
        shift.before,
        shift.after,
        "ratio",
        f"A decode pool that finishes {inside:.2f} times as many requests needs as many times "
        f"the prefill instances ({drafts}, batch {pooled})"
        + (f"; left as it was, {shift.idle_decode:.0%} of it idles" if shift.idle_decode else ""),
    )
    yield Interaction(
        ("speculation", "batching"),
        f"speed-up, batch 1 to {many}",
        alone,
        crowded,
        "ratio",
        "Batching fills the compute that verification needs"
        if crowded < alone
        else f"Even at batch {many} a step waits for memory, and verification is spare compute",
    )
    experts = setup.shape.experts
    if experts is not None:
        once, verified = (
            distinct_experts(experts.experts, experts.top_k, tokens)
            for tokens in (batch, batch * (DEPTH + 1))
        )
        yield Interaction(
            ("speculation", "experts"),
            "experts read, plain to verifying",
            once,
            verified,
            "",
            f"Drafts meet experts of their own (batch {batch}): 2.04 tokens an iteration gave 1.37 "
            "times the speed (R64)",
        )


def _with_tiers(setup: Setup) -> Iterator[Interaction]:
    popularity = zipf(PREFIXES, ZIPF)
    traffic = (
        f"{PREFIXES} prefixes (Zipf {ZIPF:g}), {REQUESTS:,} requests, {REPLICAS} replicas holding "
        f"{HELD} each"
    )
    random, prefix = (
        fleet_hit_rate(popularity, HELD, REPLICAS, REQUESTS, by_prefix)
        for by_prefix in (False, True)
    )
    wider = fleet_hit_rate(popularity, HELD * REPLICAS, REPLICAS, REQUESTS, by_prefix=False)
    yield Interaction(
        ("KV tiers", "replicas"),
        "hits, random to by prefix",
        random,
        prefix,
        "fraction",
        f"{traffic}. Tiers {REPLICAS} times as wide reach {wider:.0%} without that routing",
    )
    tp = min(WIDE, setup.shape.heads)
    if setup.shape.heads % tp == 0:
        wide = replace(ONE_DEVICE, tp=tp)
        stored = kv_bytes_per_token_stored(setup.shape, wide, setup.kv)
        alone = kv_bytes_per_token_stored(setup.shape, ONE_DEVICE, setup.kv)
        if stored > alone:
            yield Interaction(
                ("tensor parallel", "KV tiers"),
                f"KV per token, TP 1 to {tp}",
                alone,
                stored,
                "bytes",
                "Ranks that hold the same keys and values store and load copies of them",
            )


def _with_chunks(setup: Setup, batch: int, prompt: int) -> Iterator[Interaction]:
    if prompt <= CHUNK:
        return
    steps = setup.steps()
    whole, cut = (choice_of(steps, prompt, size, batch, prompt) for size in (prompt, CHUNK))
    yield Interaction(
        ("chunks", "separate pools"),
        f"interference, whole to {CHUNK}",
        whole.interference_s,
        cut.interference_s,
        "s",
        "Separate pools can only save what chunks have left of a token's interference",
    )
