"""From settings to a running engine: checkpoint, memory plan, weights, KV pool, warm-up."""

import os
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from netgain.config import EngineSettings
from netgain.cost.step_time import StepTimeEstimator
from netgain.engine.calibration import measure_steps
from netgain.engine.capacity import plan_capacity, step_bounds
from netgain.engine.clock import Clock, MonotonicClock
from netgain.engine.core import EngineCore
from netgain.engine.device_state import DeviceState
from netgain.engine.divergence import measure_divergence
from netgain.engine.events import Event
from netgain.engine.local_executor import LocalExecutor
from netgain.engine.messages import EngineInfo, LoadPart
from netgain.errors import ConfigurationError
from netgain.hardware.host import available_memory_bytes, usable_cores
from netgain.kv.manager import KVManager
from netgain.models.checkpoint import Checkpoint, open_checkpoint
from netgain.models.loading import load_model, resident_bytes
from netgain.models.parameters import parameter_count
from netgain.models.store import ensure
from netgain.models.tokenizer_source import end_token_ids
from netgain.ops.backend import BackendTraits
from netgain.ops.choices import Numerics
from netgain.ops.selection import make_backend

_CALIBRATION_BUDGET_S: Final = 1.5


@dataclass(frozen=True, slots=True)
class Engine:
    """A core and the executor it drives."""

    core: EngineCore
    executor: LocalExecutor
    clock: Clock
    checkpoint: Checkpoint
    info: EngineInfo


def build_engine(
    settings: EngineSettings,
    post: Callable[[Event], None],
    report: Callable[[LoadPart], None],
    *,
    record_kv_events: bool = False,
) -> Engine:
    """Loads the model and gets everything ready to serve; `report` hears of each part's time.

    `post` receives the executor's events, on its thread. With `record_kv_events` the core publishes
    what enters and leaves the prefix index. Raises `ModelError`,
    `ConfigurationError` or `CapacityError` with what to do about it.
    """
    parts: list[LoadPart] = []

    def done(name: str, seconds: float) -> None:
        parts.append(LoadPart(name, seconds))
        report(parts[-1])

    cores = usable_cores()
    threads = settings.model.threads or cores
    if threads > cores:
        raise ConfigurationError(
            f"--threads {threads}: this process may use {cores} cores, and more threads only wait "
            f"for each other; use --threads {cores} or less"
        )
    began = time.perf_counter()
    backend = make_backend(
        settings.model.backend,
        threads,
        settings.model.weights,
        settings.kv.dtype,
        settings.model.numerics,
        # With fewer threads than there are processors (or a quota on them) another engine may have
        # taken the same ones.
        pinned=threads == len(os.sched_getaffinity(0)),
    )
    traits = backend.traits
    done("backend", time.perf_counter() - began)
    began = time.perf_counter()
    checkpoint = open_checkpoint(ensure(settings.model.model))
    done("open", time.perf_counter() - began)
    config = checkpoint.config
    groups = config.kv_groups(settings.kv.block_tokens, traits.kv_dtype)
    bounds = step_bounds(settings, config)
    plan = plan_capacity(
        settings,
        bounds,
        groups,
        resident_bytes(checkpoint, backend),
        backend.step_memory(bounds, groups),
        available_memory_bytes(),
    )
    # Everything that the backend does happens on this one thread; see LocalExecutor.
    device_thread = ThreadPoolExecutor(1, "device")
    model, timings = device_thread.submit(load_model, checkpoint, backend).result()
    for part, seconds in timings.seconds.items():
        done(part, seconds)

    began = time.perf_counter()
    clock = MonotonicClock()
    runner = device_thread.submit(
        backend.runner, model, groups, plan.pool_blocks + 1, bounds.tokens, bounds.rows
    ).result()
    state = DeviceState(
        len(groups), settings.kv.block_tokens, plan.max_model_len, max_requests=bounds.rows
    )
    executor = LocalExecutor(runner, state, clock, post, device_thread)
    kv = KVManager(
        len(groups),
        plan.pool_blocks,
        settings.kv.block_tokens,
        settings.kv.prefix_cache,
        record_kv_events,
    )
    done("allocate", time.perf_counter() - began)

    began = time.perf_counter()
    measured = device_thread.submit(
        measure_steps,
        executor,
        settings.scheduler,
        groups=len(groups),
        pool_blocks=plan.pool_blocks,
        block_tokens=settings.kv.block_tokens,
        max_model_len=plan.max_model_len,
        budget_s=_CALIBRATION_BUDGET_S,
    )
    estimator = StepTimeEstimator(measured.result())
    divergence = None
    if traits.numerics is Numerics.FAST:
        divergence = device_thread.submit(
            measure_divergence,
            runner,
            len(groups),
            settings.kv.block_tokens,
            plan.pool_blocks,
            bounds.tokens,
            config.vocab,
        ).result()
    done("warm up", time.perf_counter() - began)
    core = EngineCore(
        settings.scheduler,
        kv,
        estimator,
        clock,
        fingerprint=kv_fingerprint(checkpoint, traits),
        max_model_len=plan.max_model_len,
        eos_ids=end_token_ids(checkpoint),
        draw_seed=lambda: secrets.randbits(63),
        vocab_size=config.vocab,
    )
    info = EngineInfo(
        model_name=checkpoint.path.stem,
        max_model_len=plan.max_model_len,
        vocab_size=config.vocab,
        kv_blocks=plan.pool_blocks,
        kv_block_tokens=settings.kv.block_tokens,
        kv_bytes=plan.kv_bytes,
        parameters=parameter_count(config),
        weight_bytes=plan.weights_bytes,
        backend=str(traits.name),
        isa=traits.isa,
        threads=traits.threads,
        weights=str(traits.weights),
        kv_dtype=str(traits.kv_dtype),
        numerics=str(traits.numerics),
        divergence=divergence,
        step_base_s=estimator.model.base_s,
        step_token_s=estimator.model.token_s,
        load=tuple(parts),
    )
    return Engine(core, executor, clock, checkpoint, info)


def kv_fingerprint(checkpoint: Checkpoint, traits: BackendTraits) -> str:
    """Equal for two engines only if their KV is interchangeable."""
    computed = (traits.name, traits.isa, traits.weights, traits.numerics)
    kept = (traits.kv_dtype, traits.kv_layout)
    return "/".join((checkpoint.fingerprint, *computed, *kept))
