"""A vocabulary in which the spellings of control tokens are ordinary text."""

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import AddedToken

from netgain.text.encoding import token_ids


class LiteralFront:
    """A second front of the same vocabulary, in which control tokens have secret names.

    Their spellings are ordinary text here, whoever wrote them; whoever knows the names can still
    put them where they are meant. (Switching `encode_special_tokens` on the shared front would
    race between threads, and leaves spellings that a vocabulary holds as whole words.)
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        state = json.loads(backend.to_str())
        special = [token for token in state["added_tokens"] if token["special"]]
        state["added_tokens"] = [token for token in state["added_tokens"] if not token["special"]]
        nonce = secrets.token_hex(16)
        self._name_of = {token["content"]: f"[{nonce}:{token['id']}]" for token in special}
        _rename_in_model(state["model"], self._name_of)
        self._backend = tokenizers.Tokenizer.from_str(json.dumps(state))
        self._backend.add_special_tokens(
            [
                AddedToken(
                    self._name_of[token["content"]],
                    single_word=token["single_word"],
                    lstrip=token["lstrip"],
                    rstrip=token["rstrip"],
                    normalized=False,
                )
                for token in special
            ]
        )
        # A token that the model itself did not know by its name got a new id here.
        self._id_of = {
            self._backend.token_to_id(self._name_of[token["content"]]): token["id"]
            for token in special
        }
        longest_first = sorted(self._name_of, key=len, reverse=True)
        self._spelling = re.compile("|".join(map(re.escape, longest_first))) if special else None

    def encode(
        self, text: str, quoted: Mapping[str, str] | None, add_special_tokens: bool
    ) -> list[int]:
        """Ids of `text` as plain characters.

        With `quoted`, control tokens in `text` are taken as such, and then each of its marks is
        replaced by the plain characters it stands for.
        """
        if quoted is not None:
            if self._spelling is not None:
                text = self._spelling.sub(lambda found: self._name_of[found.group()], text)
            for mark, plain in quoted.items():
                text = text.replace(mark, plain)
        ids = token_ids(self._backend, text, add_special_tokens=add_special_tokens)
        return [self._id_of.get(id_, id_) for id_ in ids]


def _rename_in_model(model: dict[str, Any], name_of: Mapping[str, str]) -> None:
    """So that no word of the text can be a control token; the unknown token must keep its name."""
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):
        model["vocab"] = [[name_of.get(piece, piece), score] for piece, score in vocabulary]
        return
    kept = {model.get("unk_token")}
    for merge in model.get("merges", ()):
        kept.add("".join(merge) if isinstance(merge, list) else merge.replace(" ", "", 1))
    model["vocab"] = {
        token if token in kept else name_of.get(token, token): id_
        for token, id_ in vocabulary.items()
    }
