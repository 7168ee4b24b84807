"""Duration: a length of time in a document, `90s`, `1h30m`, or a number of seconds."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhd])", re.ASCII)
_WHOLE: Final = r"^([0-9]+(\.[0-9]+)?(ms|[smhd]))+$"
#: A year: longer is no plan but a mistake.
MAX_S: Final = 365 * 86_400.0


def read_duration(value: Any) -> float | None:
    """Seconds; raises ValueError where it is neither text of that form nor a number, or longer than a year."""
    if value is None:
        return None
    if isinstance(value, str) and len(value) <= 64 and re.fullmatch(_WHOLE, value, re.ASCII):
        seconds = math.fsum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise ValueError("must be a length of time, such as 90s, 10m or 1h30m, or a number of seconds")
    if not 0 <= seconds <= MAX_S:
        raise ValueError("must be from 0 to 365 days")
    return seconds


_SCHEMA: Final = {"anyOf": [{"type": "string", "pattern": _WHOLE}, {"type": "number", "minimum": 0, "maximum": MAX_S}]}
Duration = Annotated[float, BeforeValidator(read_duration), WithJsonSchema(_SCHEMA)]
