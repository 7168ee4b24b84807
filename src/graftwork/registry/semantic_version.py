"""Semantic versions: how they are written, ordered and counted on.

`1.2` and `v1.2` are read as `1.2.0`; a lone number is refused, because it could as well be a sequence number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import semver

from graftwork.errors import InvalidRequest

FIRST = "1.0.0"
MAX_LENGTH = 64
GRAMMAR = re.compile(
    r"v?(?P<core>(?P<short>[0-9]+\.[0-9]+)(?:\.[0-9]+)?)(?P<rest>(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)",
    re.ASCII,
)


def parse_semver(text: object) -> str:
    """The version in its full form, `1.4.0` or `2.0.0-rc.1`.

    Raises:
        InvalidRequest: it is not a semantic version (semver.org), or longer than 64 characters.
    """
    if isinstance(text, str) and len(text) <= MAX_LENGTH and (match := GRAMMAR.fullmatch(text)):
        core = match["core"] if match["core"] != match["short"] else match["core"] + ".0"
        full = core + match["rest"]
        if len(full) <= MAX_LENGTH and semver.Version.is_valid(full):
            return full
    raise InvalidRequest(
        f"{ascii(text)[:100]} is not a semantic version such as 1.4.0, 1.4 or 2.0.0-rc.1 "
        f"(at most {MAX_LENGTH} characters).",
        field="version",
    )


def next_semver(taken: Iterable[str]) -> str:
    """The highest release plus one in the last place; `1.0.0` where there is no release."""
    parsed = [semver.Version.parse(text) for text in taken]
    releases = [version for version in parsed if version.prerelease is None]
    return str(max(releases).finalize_version().bump_patch()) if releases else FIRST
