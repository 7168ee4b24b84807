"""yaml_fault: a line and a reason, however the YAML is wrong."""

from __future__ import annotations

import pytest
import yaml

from graftwork.registry.yaml_fault import yaml_fault


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: c: d\n", "line 12: mapping values are not allowed here"),
        ("a: 1\nb: [", "line 12: "),
        ("a: !!python/object:x 1", "line 11: could not determine a constructor"),
        ("a: \x07", "unacceptable character #x0007: special characters are not allowed"),
    ],
)
def test_the_line_is_that_of_the_file(text: str, told: str) -> None:
    with pytest.raises(yaml.YAMLError) as wrong:
        yaml.safe_load(text)
    fault = yaml_fault(wrong.value, lines_before=10)
    assert fault.startswith(told) and "\n" not in fault and "<unicode" not in fault
