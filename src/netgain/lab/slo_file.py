"""Reads an SLO file: YAML, strict; a mistake is named with its line and what was likely meant."""

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from netgain.errors import ConfigurationError
from netgain.lab.slo import (
    DEFAULT_ATTAINMENT,
    DEFAULT_OF_TOKENS,
    Limit,
    Objective,
    Priority,
    ServiceLevel,
)

_SECONDS_PER_UNIT: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_LIMIT_KEYS: Final = ("limit", "share", "good_enough")
_ITL_KEYS: Final = (*_LIMIT_KEYS, "of_tokens")
_KEYS: Final = (*Objective, "attainment", "concurrency", "matters_most", "peak_factor")


def read_slo(path: Path) -> ServiceLevel:
    """The service level in a file. Raises `ConfigurationError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the SLO file {path}: {error}") from error
    return parse_slo(text, str(path))


def parse_slo(text: str, source: str) -> ServiceLevel:
    """The service level in a YAML text that errors call `source`. Raises `ConfigurationError`."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise ConfigurationError(f"{source}{line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{source}: not YAML: {error}") from error
    if root is None:
        raise ConfigurationError(f"{source}: the file is empty; see examples/slo.yaml")
    top = _Entry(source, root).mapping(_KEYS)
    limits = tuple(_limit(objective, top[objective]) for objective in Objective if objective in top)
    if not limits:
        raise ConfigurationError(
            f"{source}: no latency is limited: give at least one of {', '.join(Objective)}, "
            "such as `ttft: 500ms`"
        )
    _check_order(limits, top)
    return ServiceLevel(
        limits=limits,
        attainment=top["attainment"].share() if "attainment" in top else DEFAULT_ATTAINMENT,
        concurrency=top["concurrency"].count() if "concurrency" in top else None,
        matters_most=top["matters_most"].priority() if "matters_most" in top else None,
        peak_factor=top["peak_factor"].factor() if "peak_factor" in top else None,
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """A node of the file that can say where it stands."""

    source: str
    node: yaml.Node

    def error(self, message: str) -> ConfigurationError:
        return ConfigurationError(f"{self.source}:{self.node.start_mark.line + 1}: {message}")

    def mapping(self, keys: Collection[str]) -> Mapping[str, "_Entry"]:
        """Its entries; every key must be one of `keys` and occur once."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"expected `key: value` lines with keys from {', '.join(keys)}")
        entries: dict[str, _Entry] = {}
        for key_node, value_node in self.node.value:
            key = _Entry(self.source, key_node)
            name = key.text()
            if name not in keys:
                near = difflib.get_close_matches(name, keys, 1, 0.5)
                hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(keys)}"
                raise key.error(f"unknown key {name!r}; {hint}")
            if name in entries:
                raise key.error(f"{name!r} is given twice")
            entries[name] = _Entry(self.source, value_node)
        return entries

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.node, yaml.ScalarNode)

    def text(self) -> str:
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.error("expected a single value")
        return str(self.node.value).strip()

    def seconds(self) -> float:
        text = self.text()
        match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]*)", text.lower())
        if match is None:
            raise self.error(f"cannot read the duration {text!r}: write it like 300ms or 2 s")
        number, unit = float(match[1]), match[2].replace("µs", "us")
        if not unit:
            raise self.error(f"{text} of what? Give a unit: {text}ms or {text}s")
        if unit not in _SECONDS_PER_UNIT:
            raise self.error(f"unknown unit {match[2]!r}; use {', '.join(_SECONDS_PER_UNIT)}")
        if number == 0:
            raise self.error("a limit of 0 cannot be met")
        return number * _SECONDS_PER_UNIT[unit]

    def share(self) -> float:
        """0.95, 95% or p95."""
        text = self.text()
        match = re.fullmatch(r"(p?)(\d+(?:\.\d*)?|\.\d+)\s*(%?)", text.lower())
        if match is None or (match[1] and match[3]):
            raise self.error(f"cannot read the share {text!r}: write it like 0.95, 95% or p95")
        value = float(match[2]) / (100 if match[1] or match[3] else 1)
        if not 0 < value <= 1:
            raise self.error(f"a share of {text} is not in (0, 1]: write 0.95, 95% or p95")
        return value

    def count(self) -> int:
        text = self.text()
        if not re.fullmatch(r"\d+", text) or int(text) == 0:
            raise self.error(f"expected a whole number from 1 on, not {text!r}")
        return int(text)

    def factor(self) -> float:
        text = self.text()
        match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*x?", text.lower())
        if match is None or float(match[1]) < 1:
            raise self.error(f"expected how many times the base load, 1 or more, not {text!r}")
        return float(match[1])

    def priority(self) -> Priority:
        text = self.text().lower()
        if text not in tuple(Priority):
            near = difflib.get_close_matches(text, tuple(Priority), 1, 0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"use one of {', '.join(Priority)}"
            raise self.error(f"unknown priority {text!r}; {hint}")
        return Priority(text)


def _limit(objective: Objective, entry: _Entry) -> Limit:
    if entry.is_scalar:
        return Limit(objective, entry.seconds())
    parts = entry.mapping(_ITL_KEYS if objective is Objective.ITL else _LIMIT_KEYS)
    if "limit" not in parts:
        raise entry.error(f"{objective} has no limit: add `limit: 500ms`")
    limit_s = parts["limit"].seconds()
    good_enough_s = parts["good_enough"].seconds() if "good_enough" in parts else None
    if good_enough_s is not None and good_enough_s > limit_s:
        raise parts["good_enough"].error(
            f"{objective} is good enough only above its limit: give at most the limit"
        )
    return Limit(
        objective,
        limit_s,
        parts["share"].share() if "share" in parts else None,
        good_enough_s,
        parts["of_tokens"].share() if "of_tokens" in parts else DEFAULT_OF_TOKENS,
    )


def _check_order(limits: tuple[Limit, ...], entries: Mapping[str, _Entry]) -> None:
    by_objective = {limit.objective: limit.limit_s for limit in limits}
    first, full = by_objective.get(Objective.TTFT), by_objective.get(Objective.E2E)
    if first is not None and full is not None and full < first:
        raise entries[Objective.E2E].error(
            "the full answer is due before its first token: give e2e at least the limit of ttft"
        )
