"""write_text: plain values as YAML that reads back as it was, by YAML 1.1 and by 1.2; long texts over their lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import yaml

from graftwork.cli.yaml_documents import know

#: What some readers take for the end of a line; such texts are escaped.
_BREAKS: Final = frozenset("\r\x85\u2028\u2029")


class _Dumper(yaml.SafeDumper):
    """Quotes whatever either version of YAML would not take for a text."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS & set(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


know(_Dumper)
_Dumper.add_representer(str, _text)


def write_text(documents: Iterable[Any]) -> str:
    """Each document behind its `---`."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "explicit_start": True, "width": 120}
    return str(yaml.dump_all(documents, Dumper=_Dumper, **options))
