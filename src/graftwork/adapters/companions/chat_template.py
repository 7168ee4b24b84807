"""The environment that chat templates are written for; a template is a program, and only a sandboxed process runs it.

It is that of transformers, `transformers.utils.chat_template_utils`, without anything but jinja2.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
import jinja2.utils

MAX_CHARS = 1 << 18


class _Generation(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}` marks what a model is trained on; here it only shows its content."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares it so)

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.CallBlock:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        block = jinja2.nodes.CallBlock(self.call_method("_shown"), [], [], body)
        block.set_lineno(line)
        return block

    def _shown(self, caller: Any) -> Any:
        return caller()


class _Dict:
    """`dict`, without the attributes of Python's own."""

    def __call__(self, *args: Any, **fields: Any) -> dict[Any, Any]:
        return dict(*args, **fields)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(jinja2.utils.Namespace):
    """`namespace`, whose attributes may not begin with an underscore."""

    def __init__(*args: Any, **fields: Any) -> None:  # so that a field may be called self
        self, given = args[0], args[1:]
        attributes = dict(*given, **fields)
        for name in attributes:
            _check_attribute(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_attribute(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)


def _check_attribute(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace has no attribute {name!r}: it begins with an underscore")


def _raise(message: object) -> None:
    raise jinja2.exceptions.TemplateError(str(message))


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment() -> jinja2.Environment:
    """A fresh one."""
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = _to_json
    made.globals.update(
        raise_exception=_raise,
        strftime_now=lambda form: datetime.now().strftime(form),
        dict=_Dict(),
        namespace=_Namespace,
    )
    return made


@lru_cache(maxsize=64)
def reads_tools(source: str) -> bool:
    """Whether a template asks for `tools`; it is parsed and nothing of it is evaluated."""
    try:
        return "tools" in jinja2.meta.find_undeclared_variables(environment().parse(source))
    except (jinja2.TemplateError, RecursionError):
        return False


def unknown_names(source: str) -> set[str]:
    """The variables that a template reads and that it does not have by itself; nothing of it is evaluated.

    Raises:
        jinja2.TemplateSyntaxError: it cannot be read, or names a filter or a test that there is not.
    """
    made = environment()
    return jinja2.meta.find_undeclared_variables(made.parse(source)) - made.globals.keys()


def syntax_problem(source: str) -> str | None:
    """Why a template cannot be read; it is parsed and nothing of it is evaluated."""
    if len(source) > MAX_CHARS:
        return f"it has {len(source)} characters, and at most {MAX_CHARS} are read"
    try:
        environment().parse(source)
    except jinja2.TemplateSyntaxError as error:
        return f"line {error.lineno}: {error.message}"
    except RecursionError:
        return "it is nested too deeply"
    return None
