"""LANGUAGE: how a language tag, or a range of them, is written (RFC 5646, RFC 4647)."""

from __future__ import annotations

import re
from typing import Final

LANGUAGE: Final = re.compile(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*", re.ASCII)
