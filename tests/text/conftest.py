"""Vocabularies for the tests of the text room."""

from pathlib import Path

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from netgain.models.tokenizer_source import load_tokenizer
from netgain.text.tokenizer import BYTE_OF_CHAR, Tokenizer, TokenType


@pytest.fixture(scope="session")
def smollm(default_gguf: Path) -> Tokenizer:
    return load_tokenizer(default_gguf)


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    """All 256 bytes, a few merges over them, one control token and one user-defined token."""
    merges = ["h e", "l l", "he ll", "hell o", "Ġ hello", "Ã ©", "ð Ł", "ðŁ ĺ"]
    joined = [merge.replace(" ", "") for merge in merges]
    tokens = ["<|end|>", "<tool>", *BYTE_OF_CHAR, *joined]
    types = [TokenType.CONTROL, TokenType.USER_DEFINED] + [TokenType.NORMAL] * (len(tokens) - 2)
    return Tokenizer.from_bpe(tokens, merges, types, "smollm", bos_id=0, eos_ids=[0], add_bos=True)


@pytest.fixture(scope="session")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """As Llama 2: words begin with a lower block, unknown characters fall back to byte tokens."""
    vocabulary = {"<s>": 0, "</s>": 1}
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    for piece in ["▁", "▁hello", "▁world", "lo", "x", "é", "삼", "▁▁", "\ufffd", "1", "<", ">"]:
        vocabulary[piece] = len(vocabulary)
    backend = Backend(models.BPE(vocabulary, [], byte_fallback=True, fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.add_special_tokens([AddedToken("<s>"), AddedToken("</s>")])
    path = tmp_path_factory.mktemp("sentencepiece") / "tokenizer.json"
    backend.save(str(path))
    return Tokenizer.from_file(path, bos_token="<s>", eos_tokens=["</s>"])
