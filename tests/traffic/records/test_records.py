"""Records in a database: told again as they were, observed in order, gone by age and by wish a few at a time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from graftwork.db.schema import feedback, prediction_texts, predictions
from graftwork.errors import InvalidRequest, NotFound
from graftwork.traffic.records import records as records_module
from graftwork.traffic.records.feedback import Feedback
from graftwork.traffic.records.recording import Recording, read_rules
from graftwork.traffic.records.records import Wanted
from graftwork.traffic.records.vault import Vault
from support.books import Books
from support.keyrings import keyring


def count(books: Books) -> tuple[int, ...]:
    with books.database.reading() as tx:
        tables = (predictions, prediction_texts, feedback)
        return tuple(tx.execute(select(func.count()).select_from(table)).scalar_one() for table in tables)


def test_a_record_is_told_again_as_it_was(books: Books) -> None:
    part = {"adapter": "tone", "version": "1.0.0", "sequence": 1, "digest": "sha256:a", "scale": 0.5}
    full = books.record(
        1,
        **{"key_id": "k", "user_id": "ann", "session_id": "s", "asked": "tone", "model": "tone:1.0.0"},
        **{"adapters": (part,), "sampling": {"stop": ["."], "temperature": 0.5}, "streamed": True, "choices": 2},
        **{"queue_s": 0.1, "ttft_s": 0.2, "mean_logprob": -1.5, "format_valid": True},
    )
    books.write(full)
    assert books.records.explain("local", "r1").record == full


def test_what_a_text_says_by_itself_is_recorded_and_a_word_of_several_counts(books: Books) -> None:
    books.write(books.record(1), answer=["fine", "I'm sorry, but I cannot help with that."])
    books.write(books.record(2), answer=[" ", ""])
    books.write(books.record(3, outcome="aborted"), answer=[""])
    flags = [(one.refusal, one.empty) for one in books.records.page("local", Wanted()).items]
    assert flags == [(False, False), (False, True), (True, False)], "whoever left had no answer yet"


def test_observations_are_of_one_route_and_arm_in_order_with_their_feedback(books: Books) -> None:
    books.write(*(books.record(n, arm=("production", "canary")[n % 2], output_tokens=n) for n in range(6)))
    books.write(books.record(7, route="other"), books.record(8, tenant="other"), books.record(9, days_ago=2))
    books.write(books.record(10, outcome="refused"), books.record(11, outcome="error"))
    for value, source in ((1.0, "user"), (0.0, "judge")):
        books.feedback.give("local", Feedback("r1", "rating", source, value, None), actor="me")
    since = books.record(0).at
    seen = books.records.observations("local", "tone", arm="canary", since=since)
    assert [one.output_tokens for one in seen] == [1, 3, 5] and seen[0].feedback == {"rating": 0.5}
    every = books.records.observations("local", "tone", since=since)
    assert [one.outcome for one in every] == [*["ok"] * 6, "error"], "who was refused says nothing of a version"
    assert books.records.observations("local", "tone", since=since, limit=1) == every[-1:]


def test_records_go_after_their_days_a_few_at_a_time_and_usage_stays(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, "AT_ONCE", 2)
    books.write(*(books.record(n, days_ago=days) for n, days in enumerate((0, 1, 89, 91, 92, 93, 94, 95))))
    books.write(books.record(20, days_ago=20, tenant="brief"), books.record(21, tenant="brief"))
    books.recordings.set("brief", Recording(keep_days=10), actor="me")
    books.feedback.give("local", Feedback("r7", "rating", "user", 1.0, None), actor="me")
    assert books.records.sweep() == 6
    assert [one.request_id for one in books.records.page("local", Wanted()).items] == ["r0", "r1", "r2"]
    assert [one.request_id for one in books.records.page("brief", Wanted()).items] == ["r21"]
    assert count(books)[2] == 0 and len(books.usage.page("local").items) == 8
    assert books.records.sweep() == 0


def test_texts_go_before_their_records_and_at_once_when_the_tenant_wants_them_no_more(books: Books) -> None:
    sealing = Books(books.database, Vault(keyring()))
    sealing.recordings.set("local", Recording(keep_text=True, text_days=30), actor="me")
    for number, days in enumerate((0, 29, 31)):
        sealing.write(sealing.record(number, days_ago=days), prompt=["hi"], answer=["ho"], keep_text=True)
    sealing.records.sweep()
    assert count(sealing) == (3, 2, 0)
    assert sealing.records.explain("local", "r1").text == {"prompt": ["hi"], "answer": ["ho"]}
    sealing.recordings.set("local", Recording(keep_text=False), actor="me")
    sealing.now += timedelta(seconds=1)
    sealing.records.sweep()
    assert count(sealing) == (3, 0, 0) and sealing.records.explain("local", "r1").text is None


def test_a_user_is_forgotten_in_batches_under_one_event_that_does_not_name_them(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, "AT_ONCE", 2)
    books.write(*(books.record(n, user_id="ann") for n in range(5)), books.record(9, user_id="bob"))
    books.write(books.record(20, user_id="ann", tenant="other"))
    books.feedback.give("local", Feedback("r3", "rating", "user", 1.0, None), actor="me")
    assert books.records.forget("local", "ann", actor="me") == 5
    assert count(books) == (2, 0, 0) and books.usage.page("local").items[0].requests == 6
    with pytest.raises(NotFound):
        books.feedback.give("local", Feedback("r3", "rating", "user", 1.0, None), actor="me")


def test_usage_adds_up_over_batches_and_not_over_days_or_tenants(books: Books) -> None:
    books.write(books.record(1, output_tokens=2), books.record(2, outcome="error"), books.record(3, outcome="refused"))
    books.write(books.record(4, cached_tokens=1), books.record(5, outcome="aborted"), keep=False)
    books.write(books.record(6, days_ago=1), books.record(7, tenant="other"), books.record(8, adapter="a+b"))
    yesterday, composed, today = books.usage.page("local").items
    assert (yesterday.day, yesterday.requests) == ("2026-02-28", 1) and composed.adapter == "a+b"
    assert (today.requests, today.errors, today.prompt_tokens, today.output_tokens) == (4, 1, 12, 2)
    assert (today.cached_tokens, today.seconds) == (1, 2.0)
    assert count(books)[0] == 6, "what is not kept only counts"
    pages = [books.usage.page("local", page_size=1)]
    while (token := pages[-1].next_page_token) is not None:
        pages.append(books.usage.page("local", page_size=1, page_token=token))
    assert [page.items[0] for page in pages] == [yesterday, composed, today]


def test_how_to_record_is_a_part_of_the_snapshot_that_is_read_when_it_changed(books: Books) -> None:
    with books.database.reading() as tx:
        first = read_rules(tx, None, None)
    books.recordings.set("local", Recording(mode="strict"), actor="me")
    books.recordings.set("local", Recording(mode="strict"), actor="me")  # nothing changed, so nothing happened
    with books.database.reading() as tx:
        assert read_rules(tx, first, {("local", "adapters/tone")}) is first
        now = read_rules(tx, first, {("local", "recording")})
    assert (now.of("local", "off").mode, now.of("other", "off").mode) == ("strict", "off")
    books.now += timedelta(days=1)
    assert books.recordings.show("local").mode == "strict"


def test_a_beginning_of_an_id_says_which_answer_is_meant_where_no_other_begins_so(books: Books) -> None:
    ids = ("b80c35ec" + "0" * 24, "b80c35ec" + "f" * 24, "b80c35ed" + "0" * 24)
    books.write(*(books.record(number, request_id=one) for number, one in enumerate(ids)))
    for said, meant in ((ids[0], ids[0]), ("b80c35ecf", ids[1]), ("b80c35ed", ids[2])):
        assert books.records.explain("local", said).record.request_id == meant
    with pytest.raises(InvalidRequest, match="several requests begin with b80c35ec"):
        books.records.explain("local", "b80c35ec")
    for tenant, said in (("local", "b80c35e"), ("local", "b80c35ee"), ("local", "B80C35ED"), ("acme", "b80c35ed")):
        with pytest.raises(NotFound, match="graftwork prediction list"):
            books.records.explain(tenant, said)
