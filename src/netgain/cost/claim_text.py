"""Reads a claim as people write it: "Llama-3.3-70B FP8 on 1x H200 batch 4: 1700 tok/s"."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from netgain.cost.claim import Claim
from netgain.cost.known_models import known_shape
from netgain.cost.precision import WeightFormat, is_weight_format, kv_format, weight_format
from netgain.errors import ConfigurationError
from netgain.hardware.catalogue import Catalogue
from netgain.hardware.device import Device, Precision

_Found = TypeVar("_Found")
_MARK: Final = "@"
_WORD: Final = re.compile(r"[^\s,;:()\"'=]+")
_COUNTED: Final = re.compile(r"\d+\s*[x\u00d7*]\s*", re.IGNORECASE)
_PROMPT: Final = re.compile(r"prefill|prompt|input|\bpp\d*", re.IGNORECASE)
_EACH: Final = re.compile(
    r"/user|per user|per sequence|/sequence|each|single stream", re.IGNORECASE
)
_VAGUE: Final = frozenset({"half", "float"})
"""Names of weight formats that a sentence uses for other things."""
_SUFFIX: Final = re.compile(
    r"-(?=(?:quantized\.)?(?:fp8|bf16|fp16|awq|gptq|int4|int8|nvfp4|mxfp4|fp4|w4a16|w8a8|nf4|bnb|4bit"
    r"|8bit|q[2-8]_[0-9k]\w*)\b)",
    re.IGNORECASE,
)
"""A repository's name often ends in its weight format."""
_NUMBER: Final = r"(\d[\d,]*(?:\.\d+)?)"
_COUNT_WORDS: Final = {
    "one": 1, "a": 1, "single": 1, "two": 2, "four": 4, "eight": 8, "sixteen": 16,
}  # fmt: skip
_LONGEST_NAME_WORDS: Final = 5
_LONGEST_CLAIM: Final = 2000
_BATCH: Final = re.compile(
    r"\b(?:batch(?:[ -]?size)?|bs|concurrency|conc|c)\s*[=:]?\s*(\d+)"
    r"(?:\s*(?:[-\u2013\u2014~]|to)\s*(\d+))?"
    r"|\b(\d+)\s+(?:concurrent|parallel|simultaneous)\b|\b(\d+)\s+(?:users|streams|clients)\b",
    re.IGNORECASE,
)
_RATE: Final = re.compile(
    _NUMBER + r"\s*(k)?\s*(?:output |generated |prompt |input |prefill |decode )?"
    r"(?:tok(?:en)?s?\s*(?:/|per |an? |each )\s*s(?:ec(?:ond)?)?|tps|t/s)"
    r"(\s*(?:/|per )\s*"
    r"(user|sequence|seq|request|stream|gpu|device|chip|card|accelerator|node)s?\b)?",
    re.IGNORECASE,
)
_TPOT: Final = re.compile(
    r"(?:tpot|itl|inter-token latency)\s*(?:of|is|=|:)?\s*" + _NUMBER + r"\s*(ms|us|s)\b"
    r"|" + _NUMBER + r"\s*(ms|us|s)\s*(?:tpot|itl|(?:/|per )\s*tok(?:en)?)\b",
    re.IGNORECASE,
)
_TTFT: Final = re.compile(
    r"(?:ttft|time to first token|first token(?: in| after)?)\s*(?:of|is|=|:)?\s*"
    + _NUMBER + r"\s*(ms|us|s)\b|" + _NUMBER + r"\s*(ms|us|s)\s*ttft\b",
    re.IGNORECASE,
)  # fmt: skip
_ACCEPTED: Final = re.compile(
    r"(?:accept(?:ed|ance)?\s*len(?:gth)?|\bal|\bmat|\btau)\s*(?:of|is|=|:)?\s*" + _NUMBER,
    re.IGNORECASE,
)
_NEGATIVE: Final = re.compile(
    r"(?:^|[\s:=(])-\s*\d[\d,.]*\s*k?\s*(?:tok|tps|t/s|ms\b|tflop)", re.IGNORECASE
)
_POINTED: Final = re.compile(
    r"(?<![\d.,])([1-9]\d{0,2}(?:\.\d{3})+)\s*"
    r"(?:output |generated |prompt |input |prefill |decode )?(?:tok|tps\b|t/s\b)",
    re.IGNORECASE,
)
"""A rate with three digits behind a point: a thousand in one country, one in another."""
_KV: Final = re.compile(
    _NUMBER + r"\s*([KMG]i?B|B|bytes)\s*(?:of kv\s*)?(?:/|per )\s*tok(?:en)?\b", re.IGNORECASE
)
_KV_FORMAT: Final = re.compile(
    r"\b(fp8|int8|bf16|fp16|int4)[ -]kv\b|\bkv[ -](?:cache[ -])?(fp8|int8|bf16|fp16|int4)\b",
    re.IGNORECASE,
)
_CONTEXT: Final = re.compile(
    r"\b(?:context|ctx|isl|prompt|input)\s*(?:length|of|=|:)?\s*(\d[\d,]*+)\s*+(k)?+\b"
    r"(?!\s*tok\w*/)",
    re.IGNORECASE,
)
_CONTEXT_AFTER: Final = re.compile(
    r"\b(\d[\d,]*)\s*(k)?(?:[ -]tok(?:en)?s?)?[ -](?:of )?(?:contexts?|prompts?|ctx)\b",
    re.IGNORECASE,
)
_TFLOPS: Final = re.compile(_NUMBER + r"\s*([TP])FLOP/?S?\b", re.IGNORECASE)
_SPECULATIVE: Final = re.compile(r"eagle|medusa|specul|\bmtp\b|draft|lookahead|n-?gram", re.I)
_UNDRAFTED: Final = re.compile(r"\bbase(?:line)?\b|without|\bno (?:spec|draft)|\bplain\b", re.I)
_DRAFTED_RATE: Final = re.compile(
    r"(?<![\w.,])" + _NUMBER + r"\s*(k)?\s+(?:with|using|by)\s+(?:\w+\s+)?"
    r"(?:eagle|medusa|specul|mtp\b|drafts?\b|lookahead|n-?gram)",
    re.IGNORECASE,
)
_CLAUSES: Final = re.compile(r"[,;](?=\s)|\bvs\.?\b|\bagainst\b|\binstead of\b|\bto\b|->")
_PREFIX_CACHED: Final = re.compile(
    r"prefix[ -]?cach|shared?[ -](?:prefix|prompt|context)|cache[ -]?hit|cached|kv[ -]?re-?use",
    re.I,
)
_CACHED_SHARE: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*%\s*(?:of \w+ )?(?:\w+[ -]){0,2}(?:hits?\b|hit rate|cached)"
    r"|hit rate\s*(?:of|is|=|:)?\s*(\d+(?:\.\d+)?)\s*%",
    re.IGNORECASE,
)
_OFFLOADED: Final = re.compile(
    r"offload|ktransformers|flexgen|experts? (?:on|in) (?:the )?cpu", re.I
)
_NODE_DEVICES: Final = 8
_DEVICE_WORDS: Final = frozenset({"gpu", "device", "chip", "card", "accelerator"})
_SEQUENCE_WORDS: Final = frozenset({"user", "sequence", "seq", "request", "stream"})
_UNITS: Final = {
    "B": 1, "BYTES": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": 1024, "MIB": 1 << 20,
    "GIB": 1 << 30,
}  # fmt: skip
_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def read_claim(text: str, catalogue: Catalogue) -> Claim:
    """What a sentence claims; words that mean nothing here are passed over.

    Of a range of batches the largest counts: the reading that favours the claim. Weights nobody
    mentions are in the format the model is published in. Raises `ConfigurationError` for text of
    unreasonable length and for numbers that claim nothing.
    """
    if len(text) > _LONGEST_CLAIM:
        raise ConfigurationError(f"the claim has {len(text):,} characters: give one sentence")
    negative = _NEGATIVE.search(text)
    if negative:
        raise ConfigurationError(f"the claim says {negative[0].strip()}: give a number above 0")
    pointed = _POINTED.search(text)
    if pointed:
        plain = pointed[1].replace(".", "")
        raise ConfigurationError(
            f"the claim says {pointed[1]} tokens: is the point one of thousands? Give {plain}"
            + (f" or {pointed[1]}0" if pointed[1].count(".") == 1 else "")
        )
    # Numbers are read from what is left once names, which hold numbers too, are taken out.
    model, rest = _taken(_SUFFIX.sub(" ", text), known_shape)
    device, rest = _taken(rest, lambda name: _device(name, catalogue))
    rest, kv_name = _take(_KV_FORMAT, rest)
    rest, tflops = _take(_TFLOPS, rest)
    weights = _weights(rest)
    kv_bytes = _scaled(_KV.search(rest), lambda m: _UNITS[m[2].upper()])
    tpot = _TPOT.search(rest)
    accepted = _ACCEPTED.search(rest)
    batch = _BATCH.search(rest)
    context = _CONTEXT.search(rest) or _CONTEXT_AFTER.search(rest)
    ttft = _TTFT.search(rest)
    hit = _CACHED_SHARE.search(rest)
    devices = _count(rest)
    rates = _rates(rest, devices)
    return Claim(
        device=device,
        shape=model,
        weights=weights or (weight_format(model.native_weights) if model else None),
        kv=kv_format(next(name for name in kv_name.groups() if name)) if kv_name else None,
        devices=devices,
        batch=max(int(size) for size in batch.groups() if size) if batch else None,
        context=int(_number(context[1]) * (1024 if context[2] else 1)) if context else 1,
        tokens_per_s=rates.output,
        tokens_per_s_each=rates.each,
        undrafted_tokens_per_s=rates.undrafted,
        tpot_s=_seconds(tpot) if tpot else None,
        ttft_s=_seconds(ttft) if ttft else None,
        prefill_tokens_per_s=rates.prompt,
        prefix_cached=hit is not None or _PREFIX_CACHED.search(rest) is not None,
        cached_share=_number(hit[1] or hit[2]) / 100 if hit else None,
        offloaded=_OFFLOADED.search(rest) is not None,
        accept_length=_number(accepted[1]) if accepted else None,
        speculative=_SPECULATIVE.search(rest) is not None,
        kv_bytes_per_token=kv_bytes,
        tflops=_number(tflops[1]) * (1000 if tflops[2] in "Pp" else 1) if tflops else None,
        tflops_precision=_tflops_precision(weights),
    )


def _taken(text: str, look_up: Callable[[str], _Found | None]) -> tuple[_Found | None, str]:
    """The thing that the longest run of words names, and the text without those words."""
    words = list(_WORD.finditer(text))
    for count in range(min(_LONGEST_NAME_WORDS, len(words)), 0, -1):
        for first in range(len(words) - count + 1):
            begin, end = words[first].start(), words[first + count - 1].end()
            counted = _COUNTED.match(text, begin, end)
            begin = counted.end() if counted and counted.end() < end else begin
            found = look_up(text[begin:end])
            if found is not None:
                # The mark lets a count be found before or after the name.
                return found, f"{text[:begin]} {_MARK} {text[end:]}"
    return None, text


def _device(name: str, catalogue: Catalogue) -> Device | None:
    if len(name) < 2 or name.isdigit():
        return None
    # `two H100s` are two of an H100.
    for known in (name, name.removesuffix("s")):
        try:
            return catalogue.device(known)
        except ConfigurationError:
            continue
    return None


def _take(pattern: re.Pattern[str], text: str) -> tuple[str, re.Match[str] | None]:
    match = pattern.search(text)
    return (text, None) if match is None else (text[: match.start()] + text[match.end() :], match)


def _weights(text: str) -> WeightFormat | None:
    for word in _WORD.findall(text):
        name = word.casefold().removeprefix("quantized.")
        if name not in _VAGUE and is_weight_format(name):
            return weight_format(name)
    return None


def _count(text: str) -> int:
    """How many devices: `8x H100`, `8 H100`, `one H200`, `H100 x8`. The name is a mark by now."""
    text = _BATCH.sub(";", text)
    before = re.search(rf"(?<![\w.])(\d+)\s*[x\u00d7*]?\s*{_MARK}", text, re.IGNORECASE)
    after = re.search(rf"{_MARK}\s*[x\u00d7*]\s*(\d+)", text, re.IGNORECASE)
    word = re.search(rf"\b([a-z]+)\s+{_MARK}", text, re.IGNORECASE)
    if before:
        return int(before[1])
    if after:
        return int(after[1])
    return _COUNT_WORDS.get(word[1].casefold(), 1) if word else 1


@dataclass(frozen=True, slots=True)
class _Rates:
    """Tokens per second: of one sequence, of all together, of all without drafts, of prompts."""

    each: float | None
    output: float | None
    undrafted: float | None
    prompt: float | None


def _rates(text: str, devices: int) -> _Rates:
    """The largest of each kind.

    A rate per device, or per node of eight of them, counts for all of the `devices`. Where drafts
    are said of one rate, the others were reached without: "1,700 tok/s base, 6,200 with EAGLE-3".
    """
    each: list[float] = []
    output: list[tuple[float, bool]] = []
    prompt: list[float] = []
    for match in _RATE.finditer(text):
        value = _number(match[1]) * (1000 if match[2] else 1)
        per = (match[4] or "").casefold()
        if per == "node":
            value *= max(1.0, devices / _NODE_DEVICES)
        elif per in _DEVICE_WORDS:
            value *= devices
        # Words of the same clause say which rate it is.
        before = re.split(r"[,;]", text[max(0, match.start() - 16) : match.start()])[-1]
        after = re.split(r"[,;]", text[match.end() : match.end() + 10])[0]
        near = before + match[0] + after
        if _PROMPT.search(near):
            prompt.append(value)
        elif per in _SEQUENCE_WORDS or _EACH.search(near):
            each.append(value)
        else:
            clause = _clause(text, match)
            drafted = _SPECULATIVE.search(clause) is not None and not _UNDRAFTED.search(clause)
            output.append((value, drafted))
    if output:
        output += [
            (_number(match[1]) * (1000 if match[2] else 1), True)
            for match in _DRAFTED_RATE.finditer(_ACCEPTED.sub(";", _BATCH.sub(";", text)))
        ]
    some_drafted = any(drafted for _, drafted in output)
    undrafted = [value for value, drafted in output if some_drafted and not drafted]
    others = [value for value, drafted in output if drafted or not some_drafted]
    return _Rates(
        max(each, default=None),
        max(others, default=None),
        max(undrafted, default=None),
        max(prompt, default=None),
    )


def _clause(text: str, match: re.Match[str]) -> str:
    """The words around a match, up to the next comma or comparison."""
    before = _CLAUSES.split(text[: match.start()])[-1]
    after = _CLAUSES.split(text[match.end() :])[0]
    return before + match[0] + after


def _seconds(match: re.Match[str]) -> float:
    value, unit = (match[1], match[2]) if match[1] else (match[3], match[4])
    return _number(value) * _SECONDS[unit.casefold()]


def _scaled(match: re.Match[str] | None, factor: Callable[[re.Match[str]], float]) -> float | None:
    return None if match is None else _number(match[1]) * factor(match)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _tflops_precision(weights: WeightFormat | None) -> Precision:
    if weights is None:
        return Precision.BF16
    names = {precision.value: precision for precision in Precision}
    return names.get(weights.name.partition("-")[0], weights.computes_in)
