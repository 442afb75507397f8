"""How byte-level BPE vocabularies cut text into words before merging, by GGUF's name for it.

GGUF stores only a name (`tokenizer.ggml.pre`); the rule behind it is the pre-tokenizer of the
model's published `tokenizer.json`, which llama.cpp restates as regular expressions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tokenizers import Regex, normalizers, pre_tokenizers

from netgain.errors import ModelError

_LLAMA3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class WordRule:
    """What happens to text before byte-level BPE merges are applied.

    `ignore_merges`: a word that is itself in the vocabulary is taken whole.
    """

    pre_tokenizer: pre_tokenizers.PreTokenizer
    normalizer: normalizers.Normalizer | None = None
    ignore_merges: bool = False


def _gpt2() -> WordRule:
    return WordRule(pre_tokenizers.ByteLevel(add_prefix_space=False))


def _digits_then_gpt2() -> WordRule:
    return WordRule(
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
    )


def _split_by(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _llama3() -> WordRule:
    return WordRule(_split_by(_LLAMA3), ignore_merges=True)


def _qwen2() -> WordRule:
    return WordRule(_split_by(_QWEN2), normalizer=normalizers.NFC())


_RULES: Final[dict[str, Callable[[], WordRule]]] = {
    "gpt-2": _gpt2,
    "llama-bpe": _llama3,
    "llama-v3": _llama3,
    "llama3": _llama3,
    "qwen2": _qwen2,
    "smollm": _digits_then_gpt2,
}


def word_rule(name: str) -> WordRule:
    """The rule GGUF calls `name`. Raises `ModelError` for one netgain does not know."""
    if name not in _RULES:
        raise ModelError(
            f"the vocabulary uses pre-tokenizer {name!r}, which is not supported "
            f"(supported: {', '.join(_RULES)}); a directory with tokenizer.json works instead"
        )
    return _RULES[name]()
