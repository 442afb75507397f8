"""Workloads with the shapes of well-known services; every number can be overridden."""

from dataclasses import dataclass

from netgain.lab.workloads.dialogue import Dialogue
from netgain.lab.workloads.distribution import Distribution
from netgain.lab.workloads.lengths_only import LengthsOnly
from netgain.lab.workloads.parameters import distribution, parameter


@dataclass(frozen=True)
class Chat(LengthsOnly):
    """Single questions to an assistant.

    Shape: ShareGPT as the PagedAttention paper (SOSP 2023) reports it: mean prompt 161 tokens, mean
    answer 338. The medians and spreads are chosen to give those means with the usual long tail:
    100 x exp(0.98^2 / 2) = 162, 240 x exp(0.83^2 / 2) = 339.
    """

    name = "chat"
    about = "single questions, shaped like ShareGPT: short prompts, longer answers"

    prompt: Distribution = distribution(
        "in", "lognormal/100/0.98/8..2048", "tokens of the prompt, template included"
    )
    answer: Distribution = distribution("out", "lognormal/240/0.83/4..1024", "tokens of the answer")


@dataclass(frozen=True)
class Summarise(LengthsOnly):
    """Long articles, short summaries.

    Shape: LongBench summarisation as DistServe (OSDI 2024) reports it: mean prompt 1,738 tokens,
    mean answer 91: 1,450 x exp(0.6^2 / 2) = 1,736, 80 x exp(0.5^2 / 2) = 91.
    """

    name = "summarise"
    about = "long articles and short summaries, shaped like LongBench"

    prompt: Distribution = distribution(
        "in", "lognormal/1450/0.6/128..7000", "tokens of the prompt, template included"
    )
    answer: Distribution = distribution("out", "lognormal/80/0.5/8..512", "tokens of the answer")


@dataclass(frozen=True)
class Agent(Dialogue):
    """A tool-using agent: a long shared system message, many short turns, no human in between.

    Shape: assumed, after published descriptions of agent traffic (inputs grow turn by turn and are
    nearly all cached, outputs are short): 1,500 tokens of instructions and tools shared by all, 4
    to 10 calls, each adding a tool's result of about 250 tokens and answered with about 60.
    """

    name = "agent"
    about = "tool-using agents: a shared system message, many turns that add tool results"

    prompt: Distribution = distribution(
        "in", "lognormal/200/0.5/32..1024", "tokens of the task, template included"
    )
    more: Distribution = distribution(
        "more", "lognormal/250/0.7/32..1500", "tokens a tool's result adds, template included"
    )
    answer: Distribution = distribution("out", "lognormal/60/0.5/8..256", "tokens of each answer")
    turns: Distribution = distribution("turns", "4..10", "calls of a task")
    think: Distribution = distribution(
        "think", "lognormal/0.4/0.8/0.02..10", "seconds the tool takes"
    )
    system: int = parameter("system", 1500, "tokens of the system message; 0: none", least=0)
