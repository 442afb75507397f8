"""W3C Trace Context: which trace a request belongs to (https://www.w3.org/TR/trace-context/)."""

import re
import secrets
from dataclasses import dataclass
from typing import Final, Self

_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A request's place in a trace: whose child it is, and the id of its own span."""

    trace_id: str
    parent_id: str
    span_id: str
    flags: str

    @classmethod
    def read(cls, header: str | None) -> Self | None:
        """From a `traceparent` header; None where there is none, or none that the standard allows.

        A version above 00 may carry more fields, which are ignored; all-zero ids mean nothing.
        """
        found = None if header is None else _FORM.fullmatch(header.strip())
        if found is None:
            return None
        version, trace_id, parent_id, flags, more = found.groups()
        if version == "ff" or (version == "00" and more) or not (int(trace_id, 16)):
            return None
        if not int(parent_id, 16):
            return None
        return cls(trace_id, parent_id, secrets.token_hex(8), flags)

    @property
    def header(self) -> str:
        """The `traceparent` of this request's own span."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"
