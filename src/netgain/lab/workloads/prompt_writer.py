"""Makes prompts of exactly so many tokens, template included, and measures given ones."""

import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from netgain.errors import ConfigurationError
from netgain.lab.workloads.lexicon import Lexicon
from netgain.lab.workloads.seeds import derived_seed, stream
from netgain.lab.workloads.token_counter import Message, TokenCounter

_TRIES: Final = 8
_PROBES: Final = ("apple", "zebra")
"""Two texts that differ in their first and their last letter."""
_REMEMBERED: Final = 512
_MARK_WORDS: Final = 8


class PromptTooShortError(ConfigurationError):
    """Fewer tokens were asked for than what stands in the prompt anyway."""

    def __init__(self, tokens: int, least: int) -> None:
        self.least = least
        super().__init__(
            f"a prompt of {tokens} tokens cannot be made: the template and the fixed text alone "
            f"take {least - 1}; ask for at least {least}"
        )


@dataclass(frozen=True, slots=True)
class Written:
    """A user's text; `tokens` as `Turn.prompt_tokens` means it, None where nobody could count.

    `system` goes before the first turn of the conversation it was written for.
    """

    text: str
    tokens: int | None
    system: str | None = None


@dataclass(frozen=True, slots=True)
class Framing:
    """Tokens a request has around the user's own text.

    `lead` before it and `tail` behind it in a first turn. `later`: all that a later turn adds but
    its own text, the closing of the answer before it included, so that a later turn's whole prompt
    is the earlier prompt, the answer's tokens, and what this turn adds.
    """

    lead: int
    tail: int
    later: int


class PromptWriter:
    """Writes for one target: its tokenizer, and chat or plain completions.

    A text takes one number from its `rng`, so lengths drawn from the same `rng` depend neither on
    the tokenizer nor on `nonce`. With a `nonce` all words are others than without: for a server
    that still holds what an earlier run of the same seed sent. Given texts get some words in front.

    `raised` counts prompts that became longer than drawn because nothing shorter can be sent,
    `left_out` given ones that were longer than their workload allows.
    """

    def __init__(self, counter: TokenCounter, *, chat: bool = True, nonce: str = "") -> None:
        self.counter: Final = counter
        self.chat: Final = chat
        self.nonce: Final = nonce
        self._nonce_bits: Final = derived_seed(0, "nonce", nonce) if nonce else 0
        self.raised = 0
        self.left_out = 0
        self.lexicon: Final = Lexicon(self.count)
        self._framings: dict[str | None, Framing] = {}
        self._fixed: OrderedDict[tuple[bool, str | None, str, str], int] = OrderedDict()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report must say of the prompts written so far."""
        found = []
        if not self.counter.exact:
            found.append(f"lengths of prompts are {self.counter.description}")
        if self.raised:
            found.append(
                f"{self.raised} prompts are longer than drawn: the template and the fixed text "
                "leave no room for fewer tokens"
            )
        if self.left_out:
            found.append(f"{self.left_out} conversations are longer than allowed and left out")
        return tuple(found)

    def count(self, text: str) -> int:
        """Tokens of a text alone."""
        return len(self.counter.text_ids(text))

    def words(self, rng: random.Random, tokens: int) -> str:
        """Words that cost so many tokens within a text; empty for fewer than the cheapest."""
        own = self._own(rng)
        least = self.lexicon.least
        return " ".join(self.lexicon.fill(own, tokens)) if tokens >= least else ""

    def first(
        self,
        rng: random.Random,
        tokens: int,
        *,
        before: str = "",
        after: str = "",
        system: str | None = None,
    ) -> Written:
        """A first turn whose whole prompt has exactly `tokens` tokens.

        Words fill what is left between `before` and `after`. For completions `system` becomes the
        prompt's beginning. Raises `PromptTooShortError`.
        """
        if system is not None and not self.chat:
            before, system = f"{system}\n\n{before}", None
        text, counted = self._composed(rng, tokens, before, after, later=False, system=system)
        return Written(text, counted if self.counter.exact else None, system)

    def first_at_least(
        self,
        rng: random.Random,
        tokens: int,
        *,
        before: str = "",
        after: str = "",
        system: str | None = None,
    ) -> Written:
        """As `first`, but as short as can be where `tokens` is too few; `raised` counts those."""
        try:
            return self.first(rng, tokens, before=before, after=after, system=system)
        except PromptTooShortError as error:
            self.raised += 1
            return self.first(rng, error.least, before=before, after=after, system=system)

    def later(
        self, rng: random.Random, tokens: int, *, before: str = "", after: str = ""
    ) -> Written:
        """A later turn that adds exactly `tokens` tokens to the prompt (see `Framing.later`).

        As short as can be where that is too few; `raised` counts those.
        """
        before = f"{self._turn_break}{before}"
        try:
            text, counted = self._composed(rng, tokens, before, after, later=True, system=None)
        except PromptTooShortError as error:
            self.raised += 1
            text, counted = self._composed(rng, error.least, before, after, later=True, system=None)
        return Written(text, counted if self.counter.exact else None)

    def given_first(self, text: str, system: str | None = None) -> Written:
        """A first turn whose text is given."""
        if self.nonce:
            mark = self.words(stream(0, "mark"), _MARK_WORDS * self.lexicon.least)
            if system is None:
                text = f"{mark}\n\n{text}"
            else:
                system = f"{mark}\n\n{system}"
        if system is not None and not self.chat:
            text, system = f"{system}\n\n{text}", None
        tokens = self._count_first(text, system) if self.counter.exact else None
        return Written(text, tokens, system)

    def given_later(self, text: str) -> Written:
        """A later turn whose text is given."""
        text = f"{self._turn_break}{text}"
        return Written(text, self._count_later(text) if self.counter.exact else None)

    def framing(self, system: str | None = None) -> Framing:
        """Measured once per system text with two short prompts."""
        found = self._framings.get(system)
        if found is None:
            found = self._measured_framing(system)
            self._framings[system] = found
        return found

    @property
    def _turn_break(self) -> str:
        """Where no template does it, a turn is kept apart from the answer before it."""
        return "" if self.chat else "\n\n"

    def _composed(
        self,
        rng: random.Random,
        tokens: int,
        before: str,
        after: str,
        *,
        later: bool,
        system: str | None,
    ) -> tuple[str, int]:
        def counted(text: str) -> int:
            return self._count_later(text) if later else self._count_first(text, system)

        own = self._own(rng)
        fixed = self._fixed_tokens((later, system, before, after), counted)
        room = tokens - fixed
        if room < self.lexicon.least:
            raise PromptTooShortError(tokens, fixed + self.lexicon.least)
        words: list[str] = []
        for _ in range(_TRIES):
            words = self.lexicon.fill(own, max(room, self.lexicon.least), words)
            text = f"{before}{' '.join(words)}{after}"
            found = counted(text)
            if found == tokens:
                return text, found
            room += tokens - found
        raise ConfigurationError(
            f"a prompt of exactly {tokens} tokens could not be made with this tokenizer "
            f"({self.counter.description}): the nearest had {found}"
        )

    def _own(self, rng: random.Random) -> random.Random:
        """Random numbers for one text."""
        return random.Random(rng.getrandbits(64) ^ self._nonce_bits)  # noqa: S311 - not secret

    def _fixed_tokens(
        self, key: tuple[bool, str | None, str, str], counted: Callable[[str], int]
    ) -> int:
        """What a prompt counts beside its words."""
        found = self._fixed.get(key)
        if found is not None:
            self._fixed.move_to_end(key)
            return found
        _, _, before, after = key
        probe = self.lexicon.probe
        fixed = counted(f"{before}{probe}{after}") - self.lexicon.price(probe)
        self._fixed[key] = fixed
        if len(self._fixed) > _REMEMBERED:
            self._fixed.popitem(last=False)
        return fixed

    def _count_first(self, text: str, system: str | None) -> int:
        if not self.chat:
            return len(self.counter.prompt_ids(text))
        return len(self.counter.chat_ids([*_system(system), _user(text)]))

    def _count_later(self, text: str) -> int:
        return self.count(text) + self.framing().later

    def _measured_framing(self, system: str | None) -> Framing:
        one, other = _PROBES
        if not self.chat:
            ids, differing = self.counter.prompt_ids(one), self.counter.prompt_ids(other)
            return Framing(_shared(ids, differing), _shared(ids[::-1], differing[::-1]), 0)
        opening = _system(system)
        ids = self.counter.chat_ids([*opening, _user(one)])
        differing = self.counter.chat_ids([*opening, _user(other)])
        answered = self.counter.chat_ids(
            [*opening, _user(one), {"role": "assistant", "content": other}, _user(one)]
        )
        later = len(answered) - len(ids) - self.count(one) - self.count(other)
        return Framing(_shared(ids, differing), _shared(ids[::-1], differing[::-1]), later)


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two sequences begin with in common."""
    pairs = zip(one, other, strict=False)
    differing = (at for at, (a, b) in enumerate(pairs) if a != b)
    return next(differing, min(len(one), len(other)))


def _system(text: str | None) -> list[Message]:
    return [] if text is None else [{"role": "system", "content": text}]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}
