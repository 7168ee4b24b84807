"""A conversation with a real engine that goes from one adapter to another: each turn is its adapter's alone."""

from __future__ import annotations

from typing import Any

import openai

from e2e.conftest import Running


def test_each_turn_of_a_session_is_answered_as_its_adapter_answers_alone(running: Running, api: openai.OpenAI) -> None:
    def said(model: str, messages: list[Any], **extra: Any) -> tuple[str, str]:
        answer = api.chat.completions.create(
            model=model, messages=messages, temperature=0, max_tokens=8, extra_body={"ignore_eos": True, **extra}
        )
        told: dict[str, Any] = answer.model_dump()["graftwork"]
        return answer.choices[0].message.content or "", told.get("session", {}).get("state", "")

    talk: list[Any] = []
    for turn, model in enumerate(("alpha", "beta", "alpha", "beta")):
        talk.append({"role": "user", "content": f"turn {turn}"})
        answer, state = said(model, talk, session_id="talk")
        assert answer == said(model, talk)[0]
        assert state == ("began" if turn < 2 else "kept")
        talk.append({"role": "assistant", "content": answer})
    assert said("alpha", talk[:1]) != said("beta", talk[:1])
