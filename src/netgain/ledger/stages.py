"""The names of a request's stages, handoffs and techniques."""

import enum


class LedgerStage(enum.StrEnum):
    """What a request was doing, or waiting for, during one interval of its life."""

    RECEIVE = "receive"
    """First byte at the socket until the body is parsed and validated."""
    TOKENIZE = "tokenize"
    """Chat template and tokenizer."""
    IPC = "ipc"
    """Between the process that talks HTTP and the engine's, in either direction."""
    QUEUE = "queue"
    """In the engine, never scheduled yet."""
    KV_LOOKUP = "kv_lookup"
    """Asking the prefix index (and lower tiers) what is cached."""
    KV_LOAD = "kv_load"
    """Waiting for blocks from a lower tier."""
    KV_TRANSFER = "kv_transfer"
    """Waiting for blocks from another replica."""
    PREFILL = "prefill"
    """A step that computed a chunk of the prompt; one interval a chunk."""
    SCHEDULE = "schedule"
    """Between two of its own prefill chunks: others' work, or the scheduler's."""
    DECODE = "decode"
    """From the first token to the last, the engine's host work between steps included."""
    PREEMPTED = "preempted"
    """Thrown out for want of KV blocks, until scheduled again."""
    RECOMPUTE = "recompute"
    """A step that computed again what preemption threw away; one interval a chunk."""
    DETOKENIZE = "detokenize"
    """The last tokens' way to text."""
    DELIVER = "deliver"
    """Serialising the last event and handing it to the socket."""


class HandoffKind(enum.StrEnum):
    """A crossing that exists because work was split."""

    IPC_SUBMIT = "ipc_submit"
    IPC_OUTPUT = "ipc_output"
    CACHE_LOOKUP = "cache_lookup"
    KV_LOAD = "kv_load"
    KV_STORE = "kv_store"
    KV_TRANSFER = "kv_transfer"


class Technique(enum.StrEnum):
    """A technique whose net gain is kept."""

    PREFIX_CACHE = "prefix_cache"
