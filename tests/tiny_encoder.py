"""A tiny random BERT encoder on disk, by `transformers`, with a vocabulary of a few words."""

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers, processors

WORDS = ("hello", "world", "cat", "##s", "a", "b", "c", ".", "é")
MAX_TOKENS = 24
HIDDEN = 32


def write_tiny_encoder(folder: Path, seed: int = 0) -> transformers.BertModel:
    """Writes the checkpoint; returns the model that it holds."""
    torch.manual_seed(seed)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    config = transformers.BertConfig(
        vocab_size=len(tokens),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=MAX_TOKENS,
        initializer_range=0.5,
    )
    model: transformers.BertModel = transformers.BertModel(config, add_pooling_layer=False)
    model.train(False)
    model.save_pretrained(folder)
    vocabulary = {token: id_ for id_, token in enumerate(tokens)}
    backend = Backend(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    backend.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    backend.save(str(folder / "tokenizer.json"))
    return model
