"""Separate prefill and decode pools: rates, balance, what the handoff costs, when not to.

Sources: rate matching with its factors 0.9 and 0.92 from AIConfigurator; TTFT and transfer forms
from DistServe and Splitwise.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from netgain.cost.bounds import at_least_zero, count, fraction, positive

PREFILL_FACTOR: Final = 0.9
"""Share of a prefill pool's rate that is usable. Source: AIConfigurator."""
DECODE_FACTOR: Final = 0.92
"""Share of a decode pool's rate that is usable. Source: AIConfigurator."""
FULL_LINK: Final = 0.7
"""Use of a link above which its queue shows in the tail; 80 % is too full."""
SHORT_PROMPT_S: Final = 0.05
"""A prefill shorter than this disturbs nobody for long."""


def transfer_bytes_per_s(kv_bytes_per_request: float, prefills_per_s: float) -> float:
    """What the link between the pools must carry: KV bytes per request x prefills finished."""
    return at_least_zero("kv_bytes_per_request", kv_bytes_per_request) * at_least_zero(
        "prefills_per_s", prefills_per_s
    )


def link_use(
    kv_bytes_per_request: float, prefills_per_s: float, effective_bytes_per_s: float
) -> float:
    """Share of the link's effective bandwidth that the handoffs take."""
    wanted = transfer_bytes_per_s(kv_bytes_per_request, prefills_per_s)
    return wanted / positive("effective_bytes_per_s", effective_bytes_per_s)


def too_full(use: float) -> bool:
    """Whether a link at this use queues handoffs: from `FULL_LINK` on."""
    return use > FULL_LINK


def prefill_rate_per_s(prefill_s: float) -> float:
    """Requests/s one prefill instance finishes, one after another."""
    return 1.0 / positive("prefill_s", prefill_s)


def decode_rate_per_s(batch: int, step_s: float, output_tokens: float) -> float:
    """Requests/s one decode instance finishes: batch / (steps per request x step time)."""
    count("batch", batch)
    return batch / (positive("output_tokens", output_tokens) * positive("step_s", step_s))


def balanced_ratio(prefill_per_s: float, decode_per_s: float) -> float:
    """Prefill instances per decode instance: R_d / R_p, both requests/s of one instance."""
    return positive("decode_per_s", decode_per_s) / positive("prefill_per_s", prefill_per_s)


def pools_needed(
    rate_per_s: float,
    prefill_s: float,
    output_tokens: float,
    step_s: float,
    batch: int,
    target_utilisation: float = 0.8,
) -> tuple[int, int]:
    """Instances of each pool: ceil(rate x T_prefill / u), ceil(rate x n TPOT / (B u))."""
    positive("rate_per_s", rate_per_s)
    positive("target_utilisation", fraction("target_utilisation", target_utilisation))
    prefill = rate_per_s / prefill_rate_per_s(prefill_s) / target_utilisation
    decode = rate_per_s / decode_rate_per_s(batch, step_s, output_tokens) / target_utilisation
    # A hair below a whole number is that number: 0.1 x 3 / 0.3 must not cost an instance.
    return max(1, math.ceil(prefill - 1e-9)), max(1, math.ceil(decode - 1e-9))


@dataclass(frozen=True, slots=True)
class PoolRates:
    """What pools of x prefill and y decode instances can finish, and what stops them."""

    prefill_instances: int
    decode_instances: int
    prefill_per_s: float
    decode_per_s: float
    link_per_s: float

    @property
    def requests_per_s(self) -> float:
        """min(x R_p 0.9, y R_d 0.92, what the link carries)."""
        return min(self.prefill_per_s, self.decode_per_s, self.link_per_s)

    @property
    def bound_by(self) -> str:
        """The part that stops more requests: prefill, decode or link."""
        parts = {
            "prefill": self.prefill_per_s,
            "decode": self.decode_per_s,
            "link": self.link_per_s,
        }
        return min(parts, key=lambda name: parts[name])

    @property
    def idle(self) -> float:
        """Mean share of the pools' instances that waits for the other pool or the link."""
        rate = self.requests_per_s
        wasted = self.prefill_instances * (1 - rate / self.prefill_per_s)
        wasted += self.decode_instances * (1 - rate / self.decode_per_s)
        return wasted / (self.prefill_instances + self.decode_instances)


def pool_rates(
    prefill_instances: int,
    decode_instances: int,
    prefill_per_s: float,
    decode_per_s: float,
    kv_bytes_per_request: float = 0.0,
    link_bytes_per_s: float = math.inf,
) -> PoolRates:
    """Rates of x:y pools from the rates of one instance each.

    `link_bytes_per_s` is one prefill instance's effective way out; each has its own, and so has
    each decode instance, so that the smaller pool's links bound the whole.
    """
    count("prefill_instances", prefill_instances)
    count("decode_instances", decode_instances)
    links = min(prefill_instances, decode_instances)
    link_per_s = (
        links * FULL_LINK * positive_or_inf(link_bytes_per_s) / kv_bytes_per_request
        if kv_bytes_per_request
        else math.inf
    )
    return PoolRates(
        prefill_instances,
        decode_instances,
        prefill_instances * positive("prefill_per_s", prefill_per_s) * PREFILL_FACTOR,
        decode_instances * positive("decode_per_s", decode_per_s) * DECODE_FACTOR,
        link_per_s,
    )


def positive_or_inf(value: float) -> float:
    """`value` if it is above zero, infinity allowed. Raises `ConfigurationError`."""
    return value if value == math.inf else positive("bandwidth", value)


def splits(instances: int) -> Iterable[tuple[int, int]]:
    """Every x:y with x + y = `instances` and both at least 1."""
    return ((x, instances - x) for x in range(1, instances))


def ttft_s(
    prefill_wait_s: float,
    prefill_s: float,
    visible_handoff_s: float,
    decode_wait_s: float,
    first_step_s: float,
) -> float:
    """TTFT of separated pools: wait, prefill, handoff, wait, first decode step."""
    return prefill_wait_s + prefill_s + visible_handoff_s + decode_wait_s + first_step_s


@dataclass(frozen=True, slots=True)
class UnifiedPool:
    """Every instance does both; ITL swings between two values. `requests_per_s` is their most.

    `mixed_share` is the share of steps that carry a prefill chunk: in those a token takes
    `mixed_itl_s`, in the others `plain_itl_s`.
    """

    instances: int
    requests_per_s: float
    plain_itl_s: float
    mixed_itl_s: float
    mixed_share: float

    @property
    def mean_itl_s(self) -> float:
        """Mean over steps."""
        return self.plain_itl_s + self.mixed_share * (self.mixed_itl_s - self.plain_itl_s)


def unified_pool(
    instances: int,
    rate_per_s: float,
    steps_of_prompt: int,
    output_tokens: float,
    batch: int,
    plain_itl_s: float,
    mixed_itl_s: float,
) -> UnifiedPool:
    """One pool under `rate_per_s`: each request brings `steps_of_prompt` mixed steps.

    Per request and instance: c mixed steps, and n / B plain ones less those that the mixed steps
    already did (a mixed step decodes too). Its most is where no step is plain any more.
    """
    per_instance = at_least_zero("rate_per_s", rate_per_s) / count("instances", instances)
    decode_steps = positive("output_tokens", output_tokens) / count("batch", batch)
    plain_steps = max(0.0, decode_steps - steps_of_prompt)
    busy_s = steps_of_prompt * positive("mixed_itl_s", mixed_itl_s) + plain_steps * plain_itl_s
    most_per_s = instances / busy_s
    # An engine with decodes in flight steps all the time: mixed steps come at the rate of prompts,
    # plain ones fill the rest of each second.
    mixed_per_s = per_instance * steps_of_prompt
    plain_per_s = max(0.0, 1.0 - mixed_per_s * mixed_itl_s) / positive("plain_itl_s", plain_itl_s)
    mixed_share = mixed_per_s / (mixed_per_s + plain_per_s)
    return UnifiedPool(instances, most_per_s, plain_itl_s, mixed_itl_s, mixed_share)


def net_per_request_s(
    interference_s_per_token: float,
    interfered_tokens: float,
    visible_handoff_s: float,
    extra_wait_s: float = 0.0,
) -> float:
    """Seconds a request gains from separation: interference it is spared, less the handoff."""
    return interference_s_per_token * interfered_tokens - visible_handoff_s - extra_wait_s


@dataclass(frozen=True, slots=True)
class Situation:
    """What decides against separation before any arithmetic.

    `prefill_s` and `decode_step_s` of one request; `rate_per_s` and one instance's two rates;
    `outside_share` the share of TTFT spent in queue, tokenisation, loading or outside the engine;
    `link_use` of the handoffs; `observed` whether the P:D ratio can be watched at all.
    """

    prefill_s: float
    decode_step_s: float
    rate_per_s: float
    prefill_per_s: float
    decode_per_s: float
    link_use: float
    outside_share: float = 0.0
    observed: bool = True
    instances: int = 2


def reasons_against(situation: Situation) -> tuple[str, ...]:
    """Why not to separate; empty where nothing speaks against trying it."""
    reasons = []
    if situation.prefill_s < max(SHORT_PROMPT_S, 2 * situation.decode_step_s):
        reasons.append(
            f"prompts are short: a prefill of {situation.prefill_s * 1e3:.3g} ms disturbs "
            f"few tokens of {situation.decode_step_s * 1e3:.3g} ms"
        )
    if situation.instances < 2:
        reasons.append("there is one instance: two pools need two")
    load = situation.rate_per_s * (1 / situation.prefill_per_s + 1 / situation.decode_per_s)
    if load < 1.0:
        reasons.append(f"traffic is too small for two pools: it fills {load:.2f} of one instance")
    if situation.outside_share > 0.5:
        reasons.append(
            f"{situation.outside_share:.0%} of TTFT is queue, tokenisation, loading or outside: "
            "separation moves none of it"
        )
    if too_full(situation.link_use):
        reasons.append(
            f"the link would be {situation.link_use:.0%} full: handoffs queue above {FULL_LINK:.0%}"
        )
    if not situation.observed:
        reasons.append("nothing watches queue and use per pool: the P:D ratio cannot be kept right")
    return tuple(reasons)
