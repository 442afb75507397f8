"""Words with their price in tokens, so that texts of an exact length can be put together.

In a text of words joined by single spaces, most vocabularies give every word tokens of its own, the
same wherever it stands: then prices add up. What the vocabulary really does is measured here, and
every finished text is counted again by whoever makes it.
"""

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

from netgain.errors import ConfigurationError
from netgain.lab.workloads.words import WORDS

_ENOUGH: Final = 100
_FEW: Final = 60
"""So many words are priced one by one where hardly any is a single token."""
_TOGETHER: Final = 64
"""So many words are asked about at once: a server refuses texts longer than its context."""
_PROBE: Final = "time"

Count = Callable[[str], int]


class Lexicon:
    """Words by price, for one tokenizer."""

    def __init__(self, count: Count, words: Sequence[str] = WORDS) -> None:
        """`count` gives a text's tokens, nothing around it."""
        single = _plain(count, list(words))
        if len(single) >= _ENOUGH:
            self._price = dict.fromkeys(single, 1)
        else:
            few = [*words[-2:], *words[:_FEW]]
            self._price = {word: _spaced_price(count, word) for word in few}
        if min(self._price.values()) < 1:
            raise ConfigurationError(
                "the tokenizer counts no tokens for a word: prompts of a given length cannot be "
                "made with it"
            )
        self._words: Final = tuple(self._price)
        self._dearest: Final = max(self._price.values())

    @property
    def least(self) -> int:
        """The price of the cheapest word."""
        return min(self._price.values())

    @property
    def probe(self) -> str:
        """A word to measure with."""
        return self._words[0]

    def price(self, word: str) -> int:
        """Of a word of this lexicon, in a text."""
        return self._price[word]

    def fill(self, rng: random.Random, tokens: int, words: list[str] | None = None) -> list[str]:
        """Words that cost `tokens` together, drawn one after another.

        `words` are kept as far as they fit. Equal draws begin equally, whatever their lengths.
        Raises `ValueError` for a number that no words cost.
        """
        if not self._reachable(tokens):
            raise ValueError(f"no words cost {tokens} tokens")
        kept = list(words or ())
        rest = tokens - sum(self._price[word] for word in kept)
        while not self._reachable(rest):
            rest += self._price[kept.pop()]
        if self._dearest == 1:
            return kept + rng.choices(self._words, k=rest) if rest else kept
        while rest > 2 * self._dearest:
            kept.append(rng.choice(self._words))
            rest -= self._price[kept[-1]]
        while rest:
            fitting = [word for word in self._words if self._reachable(rest - self._price[word])]
            kept.append(rng.choice(fitting))
            rest -= self._price[kept[-1]]
        return kept

    def _reachable(self, tokens: int) -> bool:
        if self._dearest == 1:
            return tokens >= 0
        if tokens >= len(self._sums):
            return True
        return tokens >= 0 and self._sums[tokens]

    @cached_property
    def _sums(self) -> list[bool]:
        """Whether words can cost 0, 1, 2, ...; up to where every number can be reached."""
        prices = set(self._price.values())
        sums = [True]
        # From dearest * dearest on, sums of two coprime prices leave no gap (Frobenius).
        for total in range(1, self._dearest * self._dearest + 1):
            sums.append(any(price <= total and sums[total - price] for price in prices))
        return sums


def _spaced_price(count: Count, word: str) -> int:
    return count(f"{_PROBE} {word} {_PROBE}") - count(f"{_PROBE} {_PROBE}")


def _plain(count: Count, words: list[str]) -> list[str]:
    """Those that are one token after a space and one token at a text's beginning."""
    base = count(_PROBE)

    def spaced(group: list[str]) -> bool:
        return count(" ".join([_PROBE, *group])) - base == len(group)

    single: list[str] = []
    for start in range(0, len(words), _TOGETHER):
        single += _sifted(words[start : start + _TOGETHER], spaced)
        if not single:  # a vocabulary of bytes or characters
            return []
    line = count(f"{_PROBE}\n{_PROBE}") - 2 * base

    def bare(group: list[str]) -> bool:
        return count("\n".join([_PROBE, *group])) - base == len(group) * (1 + line)

    if line < 0 or base != 1:
        return []
    groups = (single[start : start + _TOGETHER] for start in range(0, len(single), _TOGETHER))
    return [word for group in groups for word in _sifted(group, bare)]


def _sifted(words: list[str], holds: Callable[[list[str]], bool]) -> list[str]:
    """The words for which it holds, found by halves: a few questions where it holds for most."""
    if not words or holds(words):
        return words
    if len(words) == 1:
        return []
    middle = len(words) // 2
    return _sifted(words[:middle], holds) + _sifted(words[middle:], holds)
