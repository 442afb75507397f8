"""Nothing pulls in torch but the backend made of it, once it is chosen."""

import json
import subprocess
import sys
from functools import cache

import pytest

TORCH_FREE = [
    "netgain.config",
    "netgain.errors",
    "netgain.cost.claim_text",
    "netgain.cost.planner.check_plan",
    "netgain.cost.planner.compare_plan",
    "netgain.cost.planner.memory_plan",
    "netgain.cost.planner.roofline_plan",
    "netgain.cost.step_time",
    "netgain.engine.accounting",
    "netgain.engine.assembly",
    "netgain.engine.calibration",
    "netgain.engine.capacity",
    "netgain.engine.clock",
    "netgain.engine.core",
    "netgain.engine.device_state",
    "netgain.engine.events",
    "netgain.engine.executor",
    "netgain.engine.ipc_client",
    "netgain.engine.llm",
    "netgain.engine.local_executor",
    "netgain.engine.messages",
    "netgain.engine.process",
    "netgain.engine.request",
    "netgain.engine.runner",
    "netgain.engine.sampling_params",
    "netgain.engine.scheduler",
    "netgain.engine.step",
    "netgain.fleet.launcher",
    "netgain.hardware.catalogue",
    "netgain.hardware.host",
    "netgain.kv.block_pool",
    "netgain.kv.events",
    "netgain.kv.geometry",
    "netgain.kv.manager",
    "netgain.kv.prefix_index",
    "netgain.ledger.counters",
    "netgain.ledger.record",
    "netgain.ledger.request_ledger",
    "netgain.ledger.stages",
    "netgain.models.catalogue",
    "netgain.models.chat_template_source",
    "netgain.models.checkpoint",
    "netgain.models.causal_lm",
    "netgain.models.config",
    "netgain.models.gguf_file",
    "netgain.models.gguf_tensors",
    "netgain.models.llama",
    "netgain.models.loading",
    "netgain.models.package_fetch",
    "netgain.models.parameters",
    "netgain.models.registry",
    "netgain.models.rope",
    "netgain.models.row_reader",
    "netgain.models.shape_source",
    "netgain.models.safetensors_tensors",
    "netgain.models.store",
    "netgain.models.stored_tensors",
    "netgain.models.tokenizer_source",
    "netgain.ops.backend",
    "netgain.ops.choices",
    "netgain.ops.draws",
    "netgain.ops.interface",
    "netgain.ops.selection",
    "netgain.ops.step_inputs",
    "netgain.ops.stored",
    "netgain.ops.stored_type",
    "netgain.ops.weights",
    "netgain.report.csv_form",
    "netgain.report.json_form",
    "netgain.report.page",
    "netgain.report.terminal",
    "netgain.report.terminal_plot",
    "netgain.server.run",
    "netgain.ops.cpu.library",
    "netgain.ops.cpu.packing",
    "netgain.sim.clock",
    "netgain.sim.simulator",
    "netgain.sim.step_outcome",
    "netgain.text.chat_template",
    "netgain.text.detokenizer",
    "netgain.text.pre_tokenizers",
    "netgain.text.stop",
    "netgain.text.stream",
    "netgain.text.tokenizer",
]
HEAVY = {"torch", "transformers"}
PROBE = """
import importlib, json, sys
found = {}
for name in sys.argv[1:]:
    importlib.import_module(name)
    found[name] = sorted({module.partition(".")[0] for module in sys.modules})
print(json.dumps(found))
"""


def modules_after(*names: str) -> dict[str, list[str]]:
    """Top-level modules in a fresh interpreter after each of the imports, in order."""
    run = subprocess.run(
        [sys.executable, "-c", PROBE, *names], capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout)
    assert isinstance(found, dict)
    return found


@cache
def all_in_order() -> dict[str, list[str]]:
    # One interpreter for all: the first culprit taints those after it, so each is looked at by
    # what it adds.
    return modules_after(*TORCH_FREE)


@pytest.mark.parametrize("name", TORCH_FREE)
def test_what_is_no_part_of_the_torch_backend_imports_neither_torch_nor_transformers(
    name: str,
) -> None:
    found = all_in_order()
    before: set[str] = set()
    for earlier in TORCH_FREE[: TORCH_FREE.index(name)]:
        before |= set(found[earlier])
    assert not (set(found[name]) - before) & HEAVY


def test_the_probe_sees_torch_where_it_is() -> None:
    (modules,) = modules_after("netgain.ops.torch_backend").values()
    assert "torch" in modules


@pytest.mark.parametrize("name", ["netgain", "netgain.errors", "netgain.ledger.stages"])
def test_importing_the_package_imports_nothing_but_the_standard_library(name: str) -> None:
    plain = set(modules_after("json")["json"])
    (modules,) = modules_after(name).values()
    extra = set(modules) - plain - set(sys.stdlib_module_names) - {"netgain"}
    assert extra == set()


EVERYTHING = """
import importlib, json, pkgutil, sys, netgain
names = [m.name for m in pkgutil.walk_packages(netgain.__path__, "netgain.")]
for name in names:
    if name != "netgain.__main__":
        importlib.import_module(name)
print(json.dumps([names, sorted({m.partition(".")[0] for m in sys.modules})]))
"""


def test_no_module_of_netgain_pulls_in_the_oracle() -> None:
    run = subprocess.run(
        [sys.executable, "-c", EVERYTHING], capture_output=True, text=True, check=True
    )
    names, loaded = json.loads(run.stdout)
    assert {"netgain.ops.torch_backend", "netgain.engine.process"} <= set(names)
    assert "torch" in loaded
    assert "transformers" not in loaded
