"""What callers of an embedded engine hand to it: read in full, or refused with the field."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.access.tenants import LOCAL
from graftwork.embedded.question import read_adapter, read_prompt, read_wishes
from graftwork.engine.request import Caller, ChatPrompt
from graftwork.errors import InvalidRequest
from graftwork.traffic.decision import Asked


def test_a_text_is_a_chat_of_one_message_messages_stay_and_numbers_are_tokens() -> None:
    said = {"role": "user", "content": "Hello"}
    assert read_prompt("Hello") == read_prompt([said]) == ChatPrompt((said,))
    assert read_prompt([1, 2]) == (1, 2)
    for wrong in ([said, 1], [True], [1.0]):
        with pytest.raises(InvalidRequest) as caught:
            read_prompt(wrong)  # type: ignore[arg-type]
        assert caught.value.field == "prompt"


def test_an_adapter_is_a_reference_or_several_with_scales_and_none_is_the_base() -> None:
    assert read_adapter(None) == Asked()
    assert read_adapter("mood:1.0.0") == Asked(adapter_id="mood:1.0.0")
    assert read_adapter([("mood", 0.5), ("tone", 1)]) == Asked(adapters=(("mood", 0.5), ("tone", 1.0)))


def test_what_is_no_sampling_is_taken_out_and_the_rest_is_left_as_it_came() -> None:
    plain, given = read_wishes({}), {"temperature": 0, "companions": "base", "cache_salt": "mine", "priority": -1}
    assert (plain.companions, plain.caller, plain.sampling) == (True, Caller(LOCAL), {})
    read = read_wishes(given)
    assert (read.companions, read.sampling) == (False, {"temperature": 0})
    assert read.caller == Caller(LOCAL, priority=-1, salt="mine")
    assert len(given) == 4, "the caller's own is not changed"


@pytest.mark.parametrize(("field", "value"), [("companions", "mine"), ("cache_salt", ""), ("priority", True)])
def test_a_wrong_wish_is_refused_by_its_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_wishes({field: value})
    assert caught.value.field == field
