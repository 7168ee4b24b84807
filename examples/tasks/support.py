"""Support: a customer-service reply in one house style."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from examples.tasks.task import Example, Task, distinct, read_table

TEXTS = read_table("support")
SIGN_OFF = "Kind regards,\nThe Willow Support Team"
SORRY, THANKS = r"sorry|apolog", r"thank|glad|happy|delight"


@dataclass(frozen=True)
class Manner:
    """How one kind of message is answered."""

    opening: str
    next_steps: tuple[str, ...]
    #: What the opening and the next step are recognised by.
    tone: str
    step: str


MANNERS = {
    "late": Manner(
        "I am sorry that your {item} has not arrived yet.",
        ("I have asked the courier to trace the parcel and will send you an update by tomorrow.",),
        SORRY,
        r"courier|trac[ek]|parcel|deliver",
    ),
    "broken": Manner(
        "I am sorry that your {item} is faulty.",
        ("Please send us a photo and we will ship a free replacement within two days.",),
        SORRY,
        r"replac|repair|refund|photo",
    ),
    "wrong": Manner(
        "I am sorry that we sent you the wrong {item}.",
        ("We will send the right one today and collect the other one for free.",),
        SORRY,
        r"right|correct|collect|exchange|replac",
    ),
    "refund": Manner(
        "I am sorry that the {item} was not right for you.",
        ("You can return it with the label in your account, and the refund takes five working days.",),
        SORRY,
        r"refund|return|label",
    ),
    "billing": Manner(
        "I am sorry about the mistake in the payment for your {item}.",
        ("Please reply with your order number and we will correct the charge within three days.",),
        SORRY,
        r"order number|charge|invoice|correct|refund|payment",
    ),
    "login": Manner(
        "I am sorry that you cannot get into your account.",
        ("I have sent you a new link to reset your password; please use it within one hour.",),
        SORRY,
        r"link|reset|password",
    ),
    "cancel": Manner(
        "Thank you for letting us know about your {item}.",
        ("I have cancelled the order and you will get your money back within five working days.",),
        THANKS,
        r"cancel",
    ),
    "question": Manner(
        "Thank you for your question about the {item}.",
        ("I will check with our product team and write back to you by tomorrow.",),
        THANKS,
        r"check|team|write back|let you know|get back|available|yes|no\b",
    ),
    "praise": Manner(
        "Thank you for your kind words about the {item}.",
        ("I will pass them on to the team; please leave a review if you have a minute.",),
        THANKS,
        r"pass|team|review|share",
    ),
}


def reply(manner: Manner, rng: Random, item: str) -> str:
    body = f"{manner.opening.format(item=item)} {rng.choice(manner.next_steps)}"
    return f"Hello,\n\n{body}\n\n{SIGN_OFF}"


def _draw(rng: Random, split: str) -> Example:
    kind = rng.choice(list(MANNERS))
    manner, item = MANNERS[kind], rng.choice(TEXTS[split, "item"])
    text = rng.choice(TEXTS[split, kind]).format(item=item)
    if split == "train":
        text = _dress(rng, text)
    subject = "account|password|log|sign" if kind == "login" else re.escape(item)
    return Example(text, reply(manner, rng, item), checks=(manner.tone, subject, manner.step))


def _dress(rng: Random, text: str) -> str:
    """Add what people write around their message, or drop its capitals."""
    if rng.random() < 0.15:
        text = f"{rng.choice(TEXTS['train', 'open'])} {text}"
    if rng.random() < 0.25:
        text = f"{text} {rng.choice(TEXTS['train', 'close']).format(n=rng.randint(1000, 99999))}"
    if rng.random() < 0.1:
        text = text.lower()
    return SUPPORT.instructed(text) if rng.random() < 0.08 else text


def _train(rng: Random, count: int) -> list[Example]:
    return distinct(lambda: _draw(rng, "train"), count)


def _held_out(rng: Random, count: int) -> list[Example]:
    """Held-out messages about held-out items: no phrasing and no item is shared with training."""
    return distinct(lambda: _draw(rng, "held-out"), count)


def score(example: Example, answer: str) -> float:
    """The share of five points kept: greeting, tone, subject, a fitting next step, sign-off."""
    tone, subject, step = example.checks
    points = (
        re.match(r"(hello|hi|dear)\b", answer, re.IGNORECASE),
        re.search(tone, answer, re.IGNORECASE),
        re.search(subject, answer, re.IGNORECASE),
        re.search(step, answer, re.IGNORECASE),
        answer.endswith(SIGN_OFF),
    )
    return sum(bool(point) for point in points) / len(points)


SUPPORT = Task(
    name="support",
    metric="house-style points",
    description="A customer-service reply: greeting, apology or thanks, one next step, fixed sign-off.",
    instruction=(
        "You answer customers of an online shop. Greet with Hello, apologise for a problem or thank the "
        "customer, mention the item, give one next step, and end with these two lines:\n" + SIGN_OFF + "\n\n"
        "Write only the reply to this message:"
    ),
    train=_train,
    held_out=_held_out,
    score=score,
    max_new_tokens=90,
)
