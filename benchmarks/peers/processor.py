"""Which of the processor's instructions everybody may use."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks.peers.peers import Peer


class Processor(StrEnum):
    """A machine with AVX-512 and AMX can stand in for the many that have AVX2 only."""

    NATIVE = "native"
    AVX2 = "avx2"


_ONEDNN_AVX2: Final = {"ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2"}
_TORCH_AVX2: Final = {
    **_ONEDNN_AVX2,
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "PYTHONPATH": str(Path(__file__).parent / "avx2"),
}
_AVX2_VARIABLES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "netgain": {"NETGAIN_ISA": "avx2"},
        # The plugin's matrix library only: its own kernels (attention, norms) ask the processor
        # themselves and keep AVX-512 in released packages (openvino pull request 38257).
        "openvino": _ONEDNN_AVX2,
        "vllm": _TORCH_AVX2,
        "transformers": _TORCH_AVX2,
        # Compiled for it instead: see its environment.
        "llama_cpp": {},
    }
)


def multiplies_bf16(processor: Processor) -> bool:
    """Whether bfloat16 products are instructions of this processor that may be used."""
    flags = Path("/proc/cpuinfo").read_text()
    native = "avx512_bf16" in flags or "amx_bf16" in flags
    return native and processor is Processor.NATIVE


def limited(peer: "Peer", processor: Processor) -> "Peer":
    """This participant on that processor."""
    if processor is Processor.NATIVE:
        return peer
    return replace(peer, variables={**peer.variables, **_AVX2_VARIABLES[peer.options_name]})
