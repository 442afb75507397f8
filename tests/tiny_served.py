"""A tiny random Llama that can be served: all bytes, some merges, a chat template with opinions.

It starts in a second and answers in microseconds, so the edges of the HTTP surface are tested with
it; what it says is noise, most of which is not valid UTF-8.
"""

import json
from pathlib import Path
from typing import Final

import numpy as np
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from netgain.text.tokenizer import BYTE_OF_CHAR
from tests.tiny_checkpoints import HIDDEN, random_weights, write_hugging_face

CONTEXT: Final = 2048
SPECIAL: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES: Final = (("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello"), ("Ã", "©"))
VOCABULARY: Final = 288
TEMPLATE: Final = (
    "{% if messages | selectattr('role', 'ne', 'system') | list | length == 0 %}"
    "{{ raise_exception('a conversation needs a user') }}{% endif %}"
    "{% for message in messages %}"
    "{% if not loop.first and message.role == 'user' and loop.previtem.role == 'user' %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_served(folder: Path, seed: int = 0) -> Path:
    """A checkpoint folder that `netgain serve --model` takes."""
    weights = random_weights(seed)
    rng = np.random.default_rng(seed + 1)
    embeddings = rng.standard_normal((VOCABULARY, HIDDEN), dtype=np.float32)
    weights["model.embed_tokens.weight"] = embeddings * np.float32(0.2)
    write_hugging_face(folder, weights)
    config = json.loads((folder / "config.json").read_text())
    config |= {"vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT, "eos_token_id": 2}
    (folder / "config.json").write_text(json.dumps(config))
    _tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": TEMPLATE, "eos_token": SPECIAL[2]})
    )
    return folder


def _tokenizer() -> Backend:
    vocabulary = {token: id_ for id_, token in enumerate(SPECIAL)}
    for token in (*BYTE_OF_CHAR, *("".join(merge) for merge in MERGES)):
        vocabulary[token] = len(vocabulary)
    for filler in range(VOCABULARY - len(vocabulary)):
        vocabulary[f"x{filler:02d}"] = len(vocabulary)
    backend = Backend(models.BPE(vocabulary, list(MERGES)))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    return backend
