"""Writes tiny random Llamas to disk in both formats, with the weights that went in."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import gguf
import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

Weights: TypeAlias = dict[str, NDArray[np.float32]]

HIDDEN: Final = 64
LAYERS: Final = 2
HEADS: Final = 4
KV_HEADS: Final = 2
FFN: Final = 96
VOCAB: Final = 96
_DIM: Final = HIDDEN // HEADS
_GGUF_STEMS: Final = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def random_weights(seed: int = 0) -> Weights:
    """By Hugging Face names; head tied."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCAB, HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        shapes |= {
            f"{prefix}.self_attn.q_proj.weight": (HEADS * _DIM, HIDDEN),
            f"{prefix}.self_attn.k_proj.weight": (KV_HEADS * _DIM, HIDDEN),
            f"{prefix}.self_attn.v_proj.weight": (KV_HEADS * _DIM, HIDDEN),
            f"{prefix}.self_attn.o_proj.weight": (HIDDEN, HEADS * _DIM),
            f"{prefix}.mlp.gate_proj.weight": (FFN, HIDDEN),
            f"{prefix}.mlp.up_proj.weight": (FFN, HIDDEN),
            f"{prefix}.mlp.down_proj.weight": (HIDDEN, FFN),
            f"{prefix}.input_layernorm.weight": (HIDDEN,),
            f"{prefix}.post_attention_layernorm.weight": (HIDDEN,),
        }
    return {
        n: rng.standard_normal(s, dtype=np.float32) * np.float32(0.2) for n, s in shapes.items()
    }


def write_hugging_face(folder: Path, weights: Mapping[str, NDArray[np.float32]]) -> Path:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "intermediate_size": FFN,
        "vocab_size": VOCAB,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
        "eos_token_id": 2,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    safetensors.numpy.save_file(dict(weights), folder / "model.safetensors")
    return folder


def write_gguf(
    path: Path,
    weights: Mapping[str, NDArray[np.float32]],
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    architecture: str = "llama",
    tokens: Sequence[str] = (),
) -> Path:
    """As the usual converter lays it out: query and key rows interleaved, matrices quantised."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_eos_token_id(2)
    if tokens:
        writer.add_token_list(tokens)
    writer.add_chat_template("{{ messages }}")
    for name, weight in weights.items():
        rows = _interleave(name)(weight)
        if rows.ndim == 1:
            writer.add_tensor(_gguf_name(name), rows)
        else:
            writer.add_tensor(_gguf_name(name), gguf.quantize(rows, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gguf_name(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if not stem.startswith("model.layers."):
        known = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}
        return f"{known.get(stem, stem)}.{kind}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{_GGUF_STEMS.get(rest, rest)}.{kind}"


def _interleave(name: str) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    heads = HEADS if "q_proj" in name else KV_HEADS if "k_proj" in name else 0
    if not heads:
        return lambda weight: weight

    def interleaved(weight: NDArray[np.float32]) -> NDArray[np.float32]:
        split = weight.reshape(heads, 2, -1, weight.shape[-1])
        return np.ascontiguousarray(split.swapaxes(1, 2).reshape(weight.shape))

    return interleaved
