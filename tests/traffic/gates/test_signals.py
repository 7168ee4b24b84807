"""Signals: measured on answers written by hand, of which many look like what they are not."""

from __future__ import annotations

import json

import pytest

from graftwork.traffic.gates.signals import Signals, signals_of

REFUSALS = (
    "I'm sorry, but I can't help with that.",
    "I’m sorry, but I can’t assist with that request.",
    "I cannot provide instructions for making weapons.",
    "**I can't help with this.** Please ask a lawyer.",
    "As an AI language model, I am unable to provide medical advice.",
    "Unfortunately, I won't write that essay for you.",
    "Sorry. I must decline.",
    "I understand. However, I'm not able to share personal data.",
    "I UNDERSTAND, BUT I CANNOT COMPLY WITH THIS REQUEST.",
    "Es tut mir leid, aber ich kann dir dabei nicht helfen.",
    "Leider kann ich… Ich bin nicht in der Lage, diese Frage zu beantworten.",
    "Je suis désolé, mais je ne peux pas vous aider avec cette demande.",
    "Lo siento, pero no puedo ayudarte con eso.",
    "Mi dispiace, ma non posso fornire queste informazioni.",
    "Desculpe, mas não posso ajudar com isso.",
    "Het spijt me, maar daar kan ik niet bij helpen.",
    "К сожалению, я не могу помочь с этим запросом.",
    "很抱歉，我无法提供这方面的帮助。",
    "申し訳ありませんが、そのご質問にはお答えできません。",
    "죄송하지만 그 요청은 도와드릴 수 없습니다.",
)
ANSWERS = (
    "I'm sorry to hear that your parcel is late. It arrives on Monday.",
    "I can't believe how well this went!",
    "I can't help but admire the second stanza.",
    '"I can\'t help you," said the ferryman, and pushed off.',
    "You cannot provide a refund after 30 days.",
    "The API cannot answer while the index is rebuilt.",
    "Unfortunately the train leaves at nine, so take the bus.",
    "Ich kann dir drei Bücher empfehlen.",
    "Je ne peux pas croire que c'est déjà fini, disait-il.",
    "No puedo creer lo bonito que es.",
    "Non posso che ringraziarti.",
    "我无论如何都会去。",
    "我无法相信今天的风景这么美。",
    "ご質問ありがとうございます。営業時間は九時からです。",
    "Sorry for the wait: the total is 42.",
    "The refusal reads: the bank will not assist the applicant.",
    "Here is the letter. Dear Sir, we regret the delay and will send the goods at once. Yours, Ann",
    "",
)
LOOPS = (
    "the " * 40,
    "I am fine. " * 12,
    "Buy now and save! Buy now and save! Buy now and save! Buy now and save! Buy now and save! Buy now and save!",
    "哈" * 60,
    "今天天气很好我们去公园吧" * 8,
    "!?" * 50,
    "The harbour was quiet that morning, and the fishermen mended their nets while gulls circled above the masts. "
    + "and then we went home again " * 14,
)
NOT_LOOPS = (
    "Yes.",
    "no no no",
    "Row, row, row your boat, gently down the stream. Merrily, merrily, merrily, merrily, life is but a dream.",
    "\n".join(f"{n}. Item {n} costs {n * 7} euros" for n in range(1, 30)),
    "\n".join(f"| {name} | {n} | {n * n} |" for n, name in enumerate("abcdefghijklmnop")),
    json.dumps([{"name": f"user{n}", "age": n, "city": f"town{n}"} for n in range(25)]),
    "\n".join(f"self.{name} = {name}" for name in ("width", "height", "depth", "colour", "weight", "label", "owner")),
    "Tyger Tyger, burning bright, in the forests of the night; what immortal hand or eye, could frame thy fearful "
    "symmetry? In what distant deeps or skies burnt the fire of thine eyes? Tyger Tyger burning bright, in the forests "
    "of the night: what immortal hand or eye, dare frame thy fearful symmetry?",
    "我们今天去公园散步，看到很多花，孩子们在草地上奔跑，老人们坐在长椅上聊天，风吹过湖面，远处传来音乐声，大家都觉得很开心。",
    "QmFzZTY0IGlzIG5vdCBhIGxvb3AsIGhvd2V2ZXIgbG9uZyBpdHMgd29yZHMgYXJlIHRvIHRoZSBleWUgb2YgdGhpcyB0ZXN0",
)


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_is_told_in_several_languages(text: str) -> None:
    assert signals_of(text) == Signals(empty=False, repetitive=False, refusal=True)


@pytest.mark.parametrize("text", ANSWERS)
def test_what_only_sounds_like_a_refusal_is_none(text: str) -> None:
    assert not signals_of(text).refusal


@pytest.mark.parametrize("text", LOOPS)
def test_the_same_over_and_over_is_repetitive(text: str) -> None:
    assert signals_of(text).repetitive


@pytest.mark.parametrize("text", NOT_LOOPS + REFUSALS + ANSWERS)
def test_lists_tables_code_and_refrains_are_not_repetitive(text: str) -> None:
    assert not signals_of(text).repetitive


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\u200b \ufeff", "\x00\x1f"])
def test_what_cannot_be_seen_is_empty(text: str) -> None:
    assert signals_of(text).empty


@pytest.mark.parametrize("text", [".", "0", "…", "\u200bx"])
def test_what_can_be_seen_is_not_empty(text: str) -> None:
    assert not signals_of(text).empty
