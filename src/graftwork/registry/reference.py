"""Reference: how a version is named by people, `[tenant/]name[:semver | @alias | @sha256:hex]`.

The URIs `adapters:/…` and `models:/…` hold the same, and also `name/3`, the third push of that name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from graftwork.access.names import check_name
from graftwork.errors import InvalidRequest
from graftwork.registry.semantic_version import parse_semver

MAX_LENGTH = 512
SCHEMES = ("adapters:/", "models:/")
DIGEST = re.compile(r"sha256:[0-9a-f]{12,64}", re.ASCII)
#: Sorts behind every digit of a digest, so that those between a prefix and the prefix with it are those that begin so.
BEYOND_HEX = "g"
DIGITS = re.compile(r"[0-9]+", re.ASCII)
SEQUENCE = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


@dataclass(frozen=True)
class Newest:
    """Nothing after the name: `@production`, or the newest version while the adapter never had one."""

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True)
class Semver:
    version: str  #: full form, `1.4.0`

    def __str__(self) -> str:
        return f":{self.version}"


@dataclass(frozen=True)
class Alias:
    name: str

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True)
class Digest:
    prefix: str  #: `sha256:` and 12 to 64 hex digits

    def __str__(self) -> str:
        return f"@{self.prefix}"


@dataclass(frozen=True)
class Sequence:
    number: int  #: 1 is the first push of the name

    def __str__(self) -> str:
        return f"/{self.number}"


Selector = Newest | Semver | Alias | Digest | Sequence


@dataclass(frozen=True)
class Reference:
    """A parsed reference; `str()` writes it so that `parse_reference` reads the same one back."""

    tenant: str | None
    name: str
    selector: Selector

    def __str__(self) -> str:
        scheme = SCHEMES[0] if isinstance(self.selector, Sequence) else ""
        tenant = f"{self.tenant}/" if self.tenant is not None else ""
        return f"{scheme}{tenant}{self.name}{self.selector}"


def parse_reference(text: str) -> Reference:
    """Read a reference. Nothing is decoded, trimmed or folded: what does not fit the grammar is refused.

    In a URI, a last part of digits after a name is always a sequence number.

    Raises:
        InvalidRequest: naming the part that does not fit.
    """
    if not isinstance(text, str) or not 0 < len(text) <= MAX_LENGTH:
        raise InvalidRequest(f"A reference is text of 1 to {MAX_LENGTH} characters.", field="reference")
    scheme = next((scheme for scheme in SCHEMES if text.startswith(scheme)), "")
    try:
        return _parse(text.removeprefix(scheme), uri=bool(scheme))
    except InvalidRequest as exc:
        raise InvalidRequest(
            f"The reference {ascii(text)[:200]} cannot be read: {exc.message} "
            "Write [tenant/]name[:semver | @alias | @sha256:hex].",
            field="reference",
        ) from exc


def place_of(name: str, version: str) -> str:
    """The reference to a version that a path names by its number or its digest."""
    return f"{name}{'@' if version.startswith('sha256:') else ':'}{version}"


def whole_adapter(name: str) -> InvalidRequest:
    """What is said to whoever asks to delete a version by a bare name."""
    return InvalidRequest(
        f"{name} is a whole adapter; say which of its versions to delete ({name}:1.0.0), or delete all of them: "
        f"`graftwork delete {name} --all-versions`, or DELETE /api/v1/adapters/{name}.",
        field="reference",
    )


def _parse(text: str, *, uri: bool) -> Reference:
    path, selector = _split(text)
    parts = path.split("/")
    if uri and isinstance(selector, Newest) and len(parts) > 1 and DIGITS.fullmatch(parts[-1]):
        selector = Sequence(_sequence(parts.pop()))
    if len(parts) > 2:
        raise InvalidRequest("It has too many slashes.")
    name = check_name(parts[-1], what="adapter")
    tenant = check_name(parts[0], what="tenant") if len(parts) == 2 else None
    return Reference(tenant, name, selector)


def _split(text: str) -> tuple[str, Selector]:
    if "@" in text:
        path, _, rest = text.rpartition("@")
        return path, _digest(rest) if ":" in rest else Alias(check_name(rest, what="alias"))
    if ":" in text:
        path, _, rest = text.partition(":")
        return path, Semver(parse_semver(rest))
    return text, Newest()


def _digest(text: str) -> Digest:
    if not DIGEST.fullmatch(text):
        raise InvalidRequest(f"{ascii(text)[:80]} is not 'sha256:' followed by 12 to 64 lower-case hex digits.")
    return Digest(text)


def _sequence(text: str) -> int:
    if not SEQUENCE.fullmatch(text):
        raise InvalidRequest(f"{text[:30]} is not a sequence number; they are 1, 2, 3 and so on.")
    return int(text)
