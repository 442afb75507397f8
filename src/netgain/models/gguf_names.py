"""Hugging Face names of the tensors in a GGUF file. No torch."""

import re
from typing import Final

_GLOBAL: Final = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NAME: Final = re.compile(r"(?:blk\.(?P<layer>\d+)\.)?(?P<stem>\w+)\.(?P<kind>weight|bias)")


def hugging_face_name(gguf_name: str) -> str:
    """The Hugging Face name, or the name as it is where the table knows none."""
    match = _NAME.fullmatch(gguf_name)
    if match is None:
        return gguf_name
    layer, stem, kind = match["layer"], match["stem"], match["kind"]
    found = _GLOBAL.get(stem) if layer is None else _LAYER.get(stem)
    if found is None:
        return gguf_name
    return f"{found}.{kind}" if layer is None else f"model.layers.{layer}.{found}.{kind}"
