"""Who takes part, and how each one is started."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from benchmarks.peers.engine_process import EngineProcess
from benchmarks.peers.environment import Environment, peers_folder
from benchmarks.peers.failure import PeerError, last_words
from benchmarks.peers.processor import Processor, limited, multiplies_bf16
from benchmarks.peers.protocol import LoadRequest, Times
from benchmarks.peers.results import NETGAIN
from benchmarks.peers.server_process import ServerProcess
from benchmarks.peers.tree import ProcessTree
from benchmarks.peers.workloads import (
    ENGINE_WORKLOADS,
    HTTP,
    IN_PROCESS,
    LONG_DECODE,
    Decode,
    Prefill,
    Workload,
)

ROWS_SIZE: Final = (16, 1152, 2304, 16 * 1024 + 512)
"""Sequences, tokens of each, of a single long one, and of one step: what the rows need."""
SMALL_SIZE: Final = (1, 4096, 4096, 2304)
"""A KV cache of 4,096 tokens, for the memory row."""

_AMX_FENCE: Final = "-fno-tree-dse -fno-dse"
"""gcc's `_tile_loadconfig` tells the compiler of the first 8 bytes of the tile configuration only;
the stores to the rest are dropped as dead, and llama.cpp's first AMX tile is an illegal
instruction (llama.cpp pull request 26954)."""
_CONVERT_LIMIT_S: Final = 600.0


class Running(Protocol):
    """A started engine or server."""

    tree: ProcessTree
    ready_s: float
    about: dict[str, str]

    def run(self, workload: Workload, round_: int) -> list[Times]:
        """Does one workload. Raises `PeerError`."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


@dataclass(frozen=True, slots=True)
class Model:
    """The weights that all run: as stored, and converted where needed."""

    gguf: Path
    threads: int

    def checkpoint(self) -> Path:
        """The fp32 Hugging Face folder, converted on first use. Raises `PeerError`."""
        stat = self.gguf.stat()
        folder = peers_folder() / "checkpoints" / f"{self.gguf.stem}-{stat.st_size}"
        if folder.is_dir():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        log = peers_folder() / "logs" / "checkpoint.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [str(TRANSFORMERS_ENVIRONMENT.ensure()), "-m", "benchmarks.peers.checkpoint"]
        with log.open("wb") as output:
            done = subprocess.run(
                [*command, str(self.gguf), str(folder)],
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_CONVERT_LIMIT_S,
                check=False,
                cwd=Path(__file__).parents[2],
            )
        if done.returncode:
            raise PeerError(f"checkpoint not converted: {last_words(log)}")
        return folder


@dataclass(frozen=True, slots=True)
class Peer:
    """One participant: an engine in process, or a server.

    `column` is where its figures go; `options` are its defaults, which the command line may
    replace under `options_name`. A `variant` is a second configuration of another one, left out of
    the rows about starting. `variables` and `server` may name `{environment}`, `{python}`,
    `{model}`, `{name}`, `{cores}` and `{threads}`.
    """

    name: str
    column: str
    options_name: str
    workloads: Sequence[Workload]
    environment: Environment | None = None
    module: str = ""
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    wants_checkpoint: bool = False
    server: Sequence[str] = ()
    ready_path: str = ""
    variant: bool = False

    def start(
        self,
        model: Model,
        options: Mapping[str, object],
        size: tuple[int, int, int, int] = ROWS_SIZE,
    ) -> Running:
        """Makes its environment if needed and starts it. Raises `PeerError`."""
        python = self.environment.ensure() if self.environment else Path(sys.executable)
        checkpoint = model.checkpoint() if self.wants_checkpoint else Path()
        options = {**self.options, **options}
        log = peers_folder() / "logs" / f"{self.name}.log"
        cores = sorted(os.sched_getaffinity(0))[: model.threads]
        places = {
            "environment": python.parent.parent,
            "python": python,
            "model": checkpoint if self.wants_checkpoint else model.gguf,
            "name": _SERVED_NAME,
            "cores": ",".join(map(str, cores)),
            "threads": model.threads,
        }
        variables = {key: value.format(**places) for key, value in self.variables.items()}
        if self.server:
            command = [*(part.format(**places) for part in self.server), *flags(options)]
            return ServerProcess(command, variables, log, self.ready_path, _SERVED_NAME)
        request = LoadRequest(
            str(model.gguf), str(checkpoint), model.threads, *size, options=options
        )
        command = [str(python), "-m", self.module, *self.arguments]
        return EngineProcess(command, variables, log, request)


_SERVED_NAME: Final = "model"
_VLLM_SERVER: Final = ("{python}", "-m", "vllm.entrypoints.openai.api_server")
_NAMED: Final = ("--served-model-name", "{name}")


def flags(options: Mapping[str, object]) -> list[str]:
    """Keyword arguments as command line options: `kv_dtype="fp16"` is `--kv-dtype fp16`."""
    words: list[str] = []
    for key, value in options.items():
        name = key.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", value if isinstance(value, str) else json.dumps(value)]
    return words


# pip keeps what it has built before and would reuse it, whatever it was built with.
_BUILT_ANEW: Final = {"PIP_NO_CACHE_DIR": "1"}
_LLAMA_ENVIRONMENTS: Final = {
    Processor.NATIVE: Environment(
        "llama_cpp",
        {"CMAKE_ARGS": f"-DGGML_NATIVE=ON -DCMAKE_CXX_FLAGS='{_AMX_FENCE}'", **_BUILT_ANEW},
    ),
    Processor.AVX2: Environment(
        "llama_cpp-avx2",
        {
            "CMAKE_ARGS": "-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON "
            "-DGGML_BMI2=ON",
            **_BUILT_ANEW,
        },
        pins="llama_cpp",
    ),
}
TRANSFORMERS_ENVIRONMENT: Final = Environment("transformers")
_VLLM_ENVIRONMENT: Final = Environment("vllm")
_VLLM_VARIABLES: Final = {
    # What vLLM's own page on CPUs asks for: Intel's OpenMP, and every core to compute.
    "LD_PRELOAD": "{environment}/lib/libiomp5.so",
    "VLLM_CPU_OMP_THREADS_BIND": "{cores}",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
_VLLM_IN_PROCESS: Final = {
    # One process: all requests are there before the first step, so prompts are prefilled together.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "OMP_NUM_THREADS": "{threads}",
}


def _vllm_options(processor: Processor) -> dict[str, object]:
    """bfloat16 where the processor has it: vLLM's fastest; eager: compiling costs minutes."""
    return {"dtype": "bfloat16" if multiplies_bf16(processor) else "float32", "enforce_eager": True}


def _openvino_precision(processor: Processor) -> dict[str, object]:
    """Its own choice; told to do with AVX2 it still chooses what the processor itself has."""
    if processor is Processor.NATIVE:
        return {}
    return {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}


def all_peers(processor: Processor) -> tuple[Peer, ...]:
    """In the order of the table's columns.

    Where one configuration of a peer wins some rows and another one others, both take part, each
    in the rows that it wins: every row compares with the peer's best.
    """
    short = [workload for workload in ENGINE_WORKLOADS if workload is not LONG_DECODE]
    prefill = [workload for workload in ENGINE_WORKLOADS if isinstance(workload, Prefill)]
    decode = [workload for workload in ENGINE_WORKLOADS if isinstance(workload, Decode)]
    llama = Peer(
        "llama_cpp",
        "llama.cpp",
        "llama_cpp",
        short,
        _LLAMA_ENVIRONMENTS[processor],
        "benchmarks.peers.llama_cpp",
    )
    openvino = Peer(
        "openvino",
        "OpenVINO",
        "openvino",
        prefill if multiplies_bf16(processor) else ENGINE_WORKLOADS,
        Environment("openvino"),
        "benchmarks.peers.openvino",
        # Its default, 8 bits, is slower here and the other engines keep 16.
        options={"KV_CACHE_PRECISION": "f16", **_openvino_precision(processor)},
    )
    vllm = Peer(
        "vllm",
        "vLLM",
        "vllm",
        ENGINE_WORKLOADS,
        _VLLM_ENVIRONMENT,
        "benchmarks.peers.vllm",
        variables=_VLLM_VARIABLES | _VLLM_IN_PROCESS,
        options=_vllm_options(processor),
        wants_checkpoint=True,
    )
    transformers = Peer(
        "transformers",
        "transformers",
        "transformers",
        # Its 16 sequences of 1,024 tokens would take most of the time and win nothing.
        short,
        TRANSFORMERS_ENVIRONMENT,
        "benchmarks.peers.transformers_peer",
        wants_checkpoint=True,
    )
    netgain = Peer(
        NETGAIN,
        NETGAIN,
        NETGAIN,
        ENGINE_WORKLOADS,
        module="benchmarks.peers.netgain_peer",
    )
    # Flash attention costs llama.cpp more than half of its decode speed at a long context.
    llama_long = replace(
        llama,
        name="llama_cpp-no-flash",
        workloads=[LONG_DECODE],
        options={"flash_attention": False},
        variant=True,
    )
    variants = [llama_long]
    if multiplies_bf16(processor):
        # In bfloat16, the plugin's choice, AMX makes prefill fast; with the fp32 hint it
        # quantises activations to 8 bits instead, and decode is faster.
        f32 = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f16"}
        variants.append(
            replace(openvino, name="openvino-f32", workloads=decode, options=f32, variant=True)
        )
    peers = (llama, openvino, vllm, transformers, netgain, *variants)
    return tuple(limited(peer, processor) for peer in peers)


def all_servers(processor: Processor) -> tuple[Peer, ...]:
    """Who answers over HTTP, and netgain in process with the server's own settings."""
    servers = (
        Peer(
            "vllm-serve",
            "vLLM",
            "vllm",
            [HTTP],
            _VLLM_ENVIRONMENT,
            variables=_VLLM_VARIABLES,
            options=_vllm_options(processor)
            | {
                "max_model_len": 2304,
                "kv_cache_memory_bytes": 1 << 30,
                "enable_prefix_caching": False,
                "disable_uvicorn_access_log": True,
            },
            wants_checkpoint=True,
            # What `vllm serve` runs. The command itself asks for the version of a package `vllm`,
            # and this one is called vllm-cpu.
            server=(*_VLLM_SERVER, "--model", "{model}", *_NAMED),
            ready_path="/health",
        ),
        Peer(
            "netgain-serve",
            NETGAIN,
            NETGAIN,
            [HTTP],
            options={"max_model_len": 2304, "prefix_cache": False},
            server=("{python}", "-m", "netgain", "serve", "--model", "{model}", *_NAMED),
            ready_path="/ready",
        ),
        Peer(
            "netgain-as-served",
            NETGAIN,
            NETGAIN,
            [IN_PROCESS],
            module="benchmarks.peers.netgain_peer",
            arguments=("--as-served",),
            options={"max_model_len": 2304, "prefix_cache": False},
        ),
    )
    return tuple(limited(peer, processor) for peer in servers)
