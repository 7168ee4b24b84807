"""Search: what a filter means is what plain Python says of the same versions, on both databases; pages, words, tags."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.access import events
from graftwork.adapters.kinds import KIND_NAMES, all_kinds
from graftwork.db.index_terms import version_key
from graftwork.db.schema import evaluations, metrics
from graftwork.errors import GraftworkError, InvalidRequest, NotFound
from graftwork.registry.descriptions import Descriptions
from graftwork.registry.search import query
from graftwork.registry.search.filter import And, Filter, Not, Or, Term
from graftwork.registry.search.indexing import Described
from graftwork.registry.search.parser import parse_filter
from graftwork.registry.search.search import Searches
from graftwork.registry.semantic_version import parse_semver
from graftwork.registry.tags import Tags

if TYPE_CHECKING:
    from support.desk import Desk

Row = dict[str, Any]
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
HOSTILE = ("it's", 'say "x"', "50%_\\", "' OR 1=1 --", "`;DROP TABLE versions", "Straße")
#: Of each version: its name, task, metrics of its two evaluations, tag.
ROWS: tuple[Row, ...] = tuple(
    {
        "name": f"tone-{number % 3}",
        "task": HOSTILE[number % len(HOSTILE)],
        "n": number % 4,
        "f1": (number * 7 % 5) / 4 if number % 2 else None,
        "tag": ("eu", "10", "9", None)[number % 4],
    }
    for number in range(12)
)


@pytest.fixture
def filled(desk: Desk) -> Desk:
    tags, seen = Tags(desk.database), dict[str, int]()
    for number, row in enumerate(ROWS):
        metadata = {"task": row["task"], "n": row["n"], "labels": {"Team A": number % 2 == 0}}
        seen[row["name"]] = sequence = seen.get(row["name"], 0) + 1
        version = desk.push(number, row["name"], metadata=metadata)
        assert version.sequence == sequence
        if row["tag"] is not None:
            tags.set("local", f"{row['name']}:{version.semver}", "region", row["tag"], actor="me")
        if row["f1"] is not None:
            measure(desk, row["name"], sequence, 1, 0.123)
            measure(desk, row["name"], sequence, 2, row["f1"])
    desk.promote("tone-1:1.0.1")
    desk.push(99, "tone-9", tenant="acme", metadata={"task": "it's", "n": 1})
    return desk


def measure(desk: Desk, name: str, sequence: int, number: int, value: float) -> None:
    own = {"tenant": "local", "adapter": name, "sequence": sequence, "number": number}
    told = {"family": "task", "name": "t", "split": "test", "source": "offline", "body": "{}"}
    told |= {"comparable": f"sha256:{'c' * 64}", "blobs": "[]"}
    with desk.database.transaction() as tx:
        tx.execute(evaluations.insert().values(**own, **told, created_at="then", created_by="me"))
        tx.execute(metrics.insert().values(**own, name="mmlu/f 1", value=value))


def found(desk: Desk, filter: str = "", **more: Any) -> set[str]:
    return {one.version.label for one in Searches(desk.database).find("local", filter, page_size=1000, **more).items}


def truths() -> list[Row]:
    seen = dict[str, int]()
    rows = []
    for row in ROWS:
        seen[row["name"]] = sequence = seen.get(row["name"], 0) + 1
        rows.append({**row, "label": f"{row['name']}:1.0.{sequence - 1}", "version": f"1.0.{sequence - 1}"})
    return rows


def says(filter: Filter | None, row: Row) -> bool:
    match filter:
        case None:
            return True
        case Not(item):
            return not says(item, row)
        case And(items):
            return all(says(item, row) for item in items)
        case Or(items):
            return any(says(item, row) for item in items)
        case Term():
            return _says(filter, row)


def _says(term: Term, row: Row) -> bool:
    field = {"metrics.mmlu/f 1": "f1", "tag.region": "tag", "meta.n": "n"}.get(str(term.field), str(term.field))
    value = row[field]
    if value is None or term.operator == "has":
        return value is not None
    for wanted in term.values:
        if term.operator == "~":
            ok = folded(wanted.text) in folded(str(value))
        elif field == "version":
            ok = COMPARE[term.operator](version_key(value), version_key(parse_semver(wanted.text)))
        elif wanted.number is not None and field != "name":
            number = float(value) if not isinstance(value, str) or value.isdigit() else None
            ok = number is not None and COMPARE[term.operator](number, wanted.number)
        else:
            ok = COMPARE[term.operator](str(value), wanted.text)
        if ok:
            return True
    return False


def folded(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


texts = st.sampled_from([*HOSTILE, "eu", "10", "TONE-1", "tone-1", "s", "%", "_"]).map(quoted)
numbers = st.sampled_from(["0", "1", "2.5", "-1", "9", "10", "1e3", "0.25", "0.123"])
orders = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
terms = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(["name", "task", "tag.region", "meta.n"]), orders, texts),
    st.builds("{} ~ {}".format, st.sampled_from(["name", "task", "tag.region"]), texts),
    st.builds("{} {} {}".format, st.sampled_from(["meta.n", "tag.region", 'metrics."mmlu/f 1"']), orders, numbers),
    st.builds("version {} {}".format, orders, st.sampled_from(["1.0", "v1.0.2", "1.0.1-rc.1"])),
    st.builds("has {}".format, st.sampled_from(["name", "task", "tag.region", 'metrics."mmlu/f 1"'])),
    st.builds("task in ({}, {})".format, texts, texts),
    st.builds("task not in ({})".format, texts),
)
filters = st.recursive(
    terms,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("not {}".format, inner),
    ),
    max_leaves=6,
)


def test_a_filter_finds_what_plain_python_finds(filled: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    @settings(max_examples=60)
    @given(filters, st.sampled_from([(0, 0), (2, 0), (4, 2), (1500, 0), (1500, 300)]))
    def check(text: str, limits: tuple[int, int]) -> None:
        monkeypatch.setattr(query, "FEW", limits[0])
        monkeypatch.setattr(query, "LEAST", limits[1])
        wanted = {row["label"] for row in truths() if says(parse_filter(text), row)}
        assert found(filled, text) == wanted, text

    check()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_value_is_only_ever_a_value(filled: Desk, text: str) -> None:
    wanted = {row["label"] for row in truths() if row["task"] == text}
    assert found(filled, f"task = {quoted(text)}") == wanted != set()
    assert found(filled, f"not not task ~ {quoted(text.swapcase() if text.isascii() else text)}") == wanted
    assert found(filled, f"meta.{quoted(text)} = 1 or tag.{quoted(text)} = 1 or metrics.{quoted(text)} = 1") == set()


@pytest.mark.parametrize("filter", ["", "name = tone-9", "not name = nothing", 'task = "it\'s" or not task = x'])
def test_a_tenant_finds_only_his_own(filled: Desk, filter: str) -> None:
    theirs = [one.version.label for one in Searches(filled.database).find("acme", filter).items]
    assert theirs == ["tone-9:1.0.0"]
    assert "tone-9:1.0.0" not in found(filled, filter)


def test_fields_of_versions_files_and_pointers(filled: Desk) -> None:
    described = Described(
        {"r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "v_proj"], "odd": [None, {"a": "\0"}]}
    )
    filled.registry.push(
        "local", "files", filled.manifest(50), kind="lora", base="tiny", base_digest="sha256:" + "b" * 64,
        rank=16, bytes=9, account={"ok": True}, described=described, actor="ann",
        metadata={"datasets": [{"uri": "s3://x"}], "language": ["de", "en"], "labels": {"a": {"b": 1}}},
    )  # fmt: skip
    for filter in (
        "r = 16 and alpha > 31", "target_modules = v_proj", "dataset ~ S3", "language = de and language = en",
        "label.a.b = 1", "owner = ann", "created_by = ann and rank >= 16 and bytes = 9 and kind = lora and base ~ INY",
    ):  # fmt: skip
        assert found(filled, f"name = files and {filter}") == {"files:1.0.0"}, filter
    assert found(filled, "stage = production") == found(filled, "alias = production") == {"tone-1:1.0.1"}
    assert found(filled, "created_at = 2026-01-31 and created_at > 2026-01-30 and created_at <= 2026-01-31") != set()
    assert found(filled, "created_at < 2026-01-31") == found(filled, "created_at > 2026-01-31") == set()


def test_a_digest_is_found_by_its_first_digits_as_references_and_tables_write_it(filled: Desk) -> None:
    digest = filled.registry.show("local", "tone-1:1.0.1").digest
    for said in (digest, digest[:19], digest[7:19], digest[7:]):
        assert found(filled, f"digest = {said}") == {"tone-1:1.0.1"}
    assert len(found(filled, f"base_digest in ({'b' * 12})")) == len(ROWS)
    assert found(filled, f"not digest = {digest[:20]} and name = tone-1") == {f"tone-1:1.0.{n}" for n in (0, 2, 3)}


def test_versions_that_are_sorted_by_their_number_say_it_as_people_do(filled: Desk) -> None:
    rows = Searches(filled.database).find("local", "name = tone-1", sort="version desc").items
    assert [row.value for row in rows] == ["1.0.3", "1.0.2", "1.0.1", "1.0.0"]


def test_kinds_in_filters_are_those_that_there_are() -> None:
    assert {kind.name for kind in all_kinds().values()} == set(KIND_NAMES)


def test_what_was_said_of_versions_is_found_while_it_stands(desk: Desk) -> None:
    searches = Searches(desk.database)
    for content in (1, 2):
        desk.push(content)
    desk.approve("tone:1.0.0", "ann")
    desk.reject("tone:1.0.0", "bob")
    desk.approve("tone:1.0.0", "bob")
    desk.lifecycle.deprecate("local", "tone:1.0.1", "Use voice.", actor="me")

    def found(filter: str) -> list[str]:
        return sorted(one.version.semver for one in searches.find("local", filter).items)

    assert found("approved_by = bob") == found("approved_by = ann and not has rejected_by") == ["1.0.0"]
    assert found("rejected_by = bob") == found("has signed_by") == []
    assert found('deprecated ~ "voice"') == found("has deprecated") == found("not has approved_by") == ["1.0.1"]
    (told,) = searches.find("local", "has deprecated").items
    assert told.version.deprecated is not None


@pytest.mark.parametrize("sort", ["created_at desc", "name", "version desc", "rank", "bytes", "metrics.mmlu/f"])
def test_pages_together_are_all_of_it_once(filled: Desk, sort: str) -> None:
    searches, seen, token = Searches(filled.database), list[str](), None
    whole = [one.version.label for one in searches.find("local", sort=sort, page_size=100).items]
    while True:
        page = searches.find("local", sort=sort, page_size=5, page_token=token)
        seen += [one.version.label for one in page.items]
        if (token := page.next_page_token) is None:
            break
    assert seen == whole
    assert len(set(seen)) == (0 if sort.startswith("metrics") else len(ROWS))


def test_sorting_by_a_metric_takes_its_last_value(filled: Desk) -> None:
    page = Searches(filled.database).find("local", sort='metrics."mmlu/f 1" desc')
    values = [one.value for one in page.items]
    assert values == sorted((row["f1"] for row in ROWS if row["f1"] is not None), reverse=True)


def test_a_page_token_is_of_one_query(filled: Desk) -> None:
    searches = Searches(filled.database)
    token = searches.find("local", page_size=2).next_page_token
    assert token is not None
    for more in ({"filter": "rank = 8"}, {"text": "tone"}, {"sort": "name"}):
        with pytest.raises(InvalidRequest, match="page_token"):
            searches.find("local", **{"page_token": token, **more})  # type: ignore[arg-type]


@given(token=st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: raw.hex()))
def test_a_made_up_page_token_is_refused(token: str) -> None:
    from graftwork.registry.search.sorting import parse_sort

    with pytest.raises(InvalidRequest):
        parse_sort("rank").read("query", token)


@given(
    st.text(max_size=80)
    | st.lists(st.sampled_from(["rank", "<=", "not", "(", ")", "in", "1", '"', "has", "metrics."])).map(" ".join)
)
def test_the_parser_raises_nothing_else(text: str) -> None:
    try:
        parse_filter(text)
    except InvalidRequest as error:
        assert error.field == "filter" and "\n  " in error.message


@pytest.mark.parametrize(
    ("filter", "at", "message"),
    [
        ("rank = x", 8, "is a number"),
        ("rank", 5, "expected one of = != < <= > >= ~ or 'in', found the end"),
        ("(rank = 1", 10, "expected 'and', 'or' or '\\)'"),
        ("rnk = 1", 1, "did you mean rank"),
        ("metrics = 1", 1, "needs a name"),
        ("stage < x", 1, "has no order"),
        ('task = "x', 8, "no end"),
        ("version > foo", 11, "semantic version"),
        ("stage = producton", 9, r"no stage is 'producton'\. Did you mean production\?"),
        ("rank = 1 or kind in (lora, lorra)", 28, "Did you mean lora"),
        ("digest = abc", 10, "12 to 64 lower-case hex digits"),
        ("base_digest < abc", 1, "has no order"),
        ("created_at > soon", 14, "no date"),
        ("task = é", 8, "put text into quotes"),
        ("a" * 5000, 4097, "at most 4096"),
        ("not " * 40 + "rank = 1", 129, "at most 32"),
        (" or ".join(["rank=1"] * 65), 641, "at most 64"),
        ("rank in (" + "1," * 300, 522, "at most 256"),
    ],
)
def test_a_mistake_is_shown_where_it_is(desk: Desk, filter: str, at: int, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as raised:
        found(desk, filter)
    assert f"at character {at}:" in raised.value.message
    _, shown, mark = raised.value.message.rsplit("\n", 2)
    assert mark.index("^") <= len(shown)


def test_words_are_found_without_case_accents_and_order(desk: Desk) -> None:
    desk.push(1, "support-tone", metadata={"description": "Gentle Émails, for people"})
    desk.push(2, "other")
    described = Descriptions(desk.database).set("local", "other", description="Zärtlich, a_b", actor="me")
    assert described == {"name": "other", "display_name": "", "description": "Zärtlich, a_b"}
    assert found(desk, text="EMAILS tone") == found(desk, text="gent*") == {"support-tone:1.0.0"}
    assert found(desk, text="zartlich OTHER b") == {"other:1.0.0"}
    assert found(desk, text="gen") == found(desk, text="gentle zartlich") == set()
    Descriptions(desk.database).set("local", "other", description="", display_name="New", actor="me")
    assert (found(desk, text="zartlich"), found(desk, text="new")) == (set(), {"other:1.0.0"})
    assert found(desk, "display_name ~ ne") == {"other:1.0.0"}
    with pytest.raises(InvalidRequest, match="words"):
        found(desk, text="--")


def test_tags_of_an_adapter_count_for_its_versions_and_every_change_is_an_event(desk: Desk) -> None:
    first, second = desk.push(1), desk.push(2)
    tags = Tags(desk.database)
    assert tags.set("local", "tone", "region", "eu", actor="ann")["updated_by"] == "ann"
    tags.set("local", first.label, "region", "us", actor="bob")
    tags.set("local", first.label, "region", "us", actor="bob")  # no event
    assert found(desk, "tag.region = eu") == {first.label, second.label}
    assert found(desk, "tag.region = us") == {first.label}
    shown = {one.version.label: one.tags for one in Searches(desk.database).find("local").items}
    assert shown == {first.label: {"region": "us"}, second.label: {"region": "eu"}}
    tags.remove("local", first.label, "region", actor="bob")
    with pytest.raises(NotFound):
        tags.remove("local", first.label, "region", actor="bob")
    kinds = [event.kind for event in desk.registry.history("local", "tone") if event.kind.startswith("tag")]
    assert kinds == ["tag.set", "tag.set", "tag.removed"]
    with desk.database.reading() as tx:
        events.verify_chain(tx)
    for key, value in (("Region", "x"), ("a", ""), ("a", "x\n"), ("a", "x" * 257)):
        with pytest.raises(GraftworkError):
            tags.set("local", "tone", key, value, actor="me")


def test_found_versions_say_which_is_newest(desk: Desk) -> None:
    desk.push(1), desk.push(2)
    assert [one.newest for one in Searches(desk.database).find("local", sort="name").items] == [False, True]


@given(
    st.lists(st.sampled_from(["0", "1", "9", "10"]), min_size=3, max_size=3),
    st.sampled_from(["", "-1", "-a", "-a.1", "-a.b", "-1.a", "-10", "-2"]),
)
def test_keys_of_versions_have_their_order(core: list[str], pre: str) -> None:
    from semver import Version

    one = ".".join(core) + pre
    for other in ("0.1.9", "1.0.0", "1.0.0-a", "9.10.1-a.b", "10.0.0-10", "1.1.1-1.a"):
        assert (version_key(one) < version_key(other)) == (Version.parse(one) < Version.parse(other)), (one, other)


@pytest.mark.parametrize("filter", ["version >= 1.0", 'has metrics."mmlu/f 1"', "meta.n >= 0 and version < 9.0"])
def test_a_filter_and_a_sort_may_ask_the_same_table(filled: Desk, filter: str) -> None:
    fits, measured = found(filled, filter), found(filled, 'has metrics."mmlu/f 1"')
    assert found(filled, filter, sort="version desc") == fits != set()
    assert found(filled, filter, sort='metrics."mmlu/f 1"') == fits & measured != set()
