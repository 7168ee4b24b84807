"""Backups: consistent while pushes go on, restored on either database whole or not at all, damage told by name."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import inspect, select, text

from graftwork.access.clock import timestamp, utc_now
from graftwork.access.event_log import EventLog
from graftwork.access.quotas import Quotas
from graftwork.access.tenants import Tenant
from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.digest import digest_of_file
from graftwork.artifacts.signing.keys import read_private
from graftwork.artifacts.signing.signature import sign
from graftwork.artifacts.stores.local import LocalStore
from graftwork.db import Database
from graftwork.db.lease import Lease
from graftwork.db.migrate import upgrade
from graftwork.db.schema import HEAD, metadata
from graftwork.errors import Conflict, Damaged, Unavailable
from graftwork.models.base_identity import BaseIdentity
from graftwork.protocol.evaluations import EvaluationBody
from graftwork.protocol.routes import RouteSpec
from graftwork.protocol.tasks import TaskSpec
from graftwork.registry.backup import Summary, back_up, check, make, restore
from graftwork.registry.bases import Bases
from graftwork.registry.descriptions import Descriptions
from graftwork.registry.documents.document import Content
from graftwork.registry.documents.documents import Documents
from graftwork.registry.evaluations.evaluations import Evaluations
from graftwork.registry.idempotency import Once
from graftwork.registry.owners import Owner, own
from graftwork.registry.registry import Registry
from graftwork.registry.retention.deletion import Deletions
from graftwork.registry.retention.holds import Holds
from graftwork.registry.retention.rules import Retention, Rules
from graftwork.registry.search.search import Searches
from graftwork.registry.signatures import Signatures
from graftwork.registry.tags import Tags
from graftwork.registry.tenancy import Tenancy
from graftwork.registry.webhooks.secrets import Secrets
from graftwork.registry.webhooks.webhooks import Webhooks
from graftwork.traffic.records.feedback import Feedback
from graftwork.traffic.records.recording import Recording
from graftwork.traffic.records.vault import Vault
from graftwork.traffic.rollouts.rollouts import Rollouts
from graftwork.traffic.routes.routes import Routes
from graftwork.traffic.sessions.pin import Pin, Turn, session_key
from graftwork.traffic.sessions.sessions import Sessions
from graftwork.traffic.shadows.diffs import Diffs
from graftwork.traffic.tasks.tasks import Tasks
from support.books import Books
from support.copies import copied
from support.desk import Desk
from support.evaluations import put, task
from support.keyrings import keyring
from support.keys import KEYS
from support.rollouts import canary, spec, weight

TINY = BaseIdentity("org/tiny", "main", "LlamaForCausalLM", "sha256:" + "a" * 64, "sha256:" + "b" * 64)
#: Columns of digests that name no blob.
NOT_OF_BLOBS = {
    "events": {"previous", "hash"},
    "versions": {"digest", "base_digest", "semantic_digest"},  # of manifests, weights, content
    "bases": {"digest", "weights_digest", "outline_digest", "config_digest", "tokenizer_digest", "template_digest"},
    "checkpoints": {"digest"},  # of the manifest
    "idempotency_keys": {"fingerprint"},
    "evaluations": {"comparable"},
    "signatures": {"fingerprint"},
    "applied_resources": {"digest"},  # of the spec that it was left with
    "resource_revisions": {"digest"},  # of the spec beside it
    "predictions": {"digest", "base_digest", "template_digest"},  # of manifests, weights, content
    "session_pins": {"digest"},  # of manifests
    "shadow_diffs": {"digest", "shadow_digest"},  # of manifests
}
#: Those that name one, which `registry/retention/roots.py` has to know.
OF_BLOBS = {"documents": {"digest"}, "signatures": {"bundle"}}


class Shop:
    """A registry on a database with a store beside it."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk, self.folder = desk, folder
        self.store = LocalStore(folder / "artifacts")
        self.tenancy = Tenancy.of(desk.database)

    def push(self, content: bytes, name: str = "tone", tenant: str = "local") -> str:
        """Stores a file of these bytes and registers it; returns its digest."""
        manifest = self.manifest(content, tenant)
        facts = {"kind": "lora", "base": "tiny", "base_digest": "sha256:" + "b" * 64, "rank": 8, "bytes": 8}
        self.desk.registry.push(tenant, name, manifest, **facts, account={"n": 0.1}, actor="me")  # type: ignore[arg-type]
        return manifest.files[0].digest

    def manifest(self, content: bytes, tenant: str = "local") -> Manifest:
        """Of one stored file."""
        return Manifest((BundleFile("adapter_model.safetensors", len(content), put(self.store, content, tenant)),))

    def use_every_table(self) -> None:
        """One row at least in each, a file under each that names one, and a deleted version whose file is gone."""
        database = self.desk.database
        Bases(database).register("local", "tiny", TINY, manifest=self.manifest(b"base"), actor="me")
        examples = put(self.store, b'{"id": "1", "scores": {"accuracy": 0.1}}')
        body = EvaluationBody.read(json.dumps(task(0.1, examples={"digest": examples})).encode())
        Evaluations(database, self.store).add("local", "tone", body, actor="me")
        Tags(database).set("local", "tone", "team", "søk", actor="me")
        Descriptions(database).set("local", "tone", description="finds irony", actor="me")
        card = put(self.store, b"# card")
        once = Once("once", "sha256:" + "0" * 64)
        Documents(database, self.store).add(
            "local", "tone", Content("other", "a", "text/x", 6, card), once=once, actor="me"
        )
        manifest = self.desk.registry.show("local", "tone").manifest
        signed = put(self.store, sign(manifest, "tone", read_private(KEYS["ed25519"].private)))
        Signatures(database, self.store).add("local", "tone", signed, KEYS["ed25519"].public.decode(), actor="me")
        Holds(database).set("local", "tone", reason="court", actor="me")
        Holds(database).release("local", "tone", reason="over", actor="me")
        Retention(database).set("local", "tone", Rules(keep_last=3), actor="me")
        Tasks(database).set("local", "mood", TaskSpec(), actor="me")
        Rollouts(database).start(
            "local", spec("tone", canary(weight(1)), "adapters:/tone/2"), actor="me", reason=None, once=None
        )
        Lease(database, "rollouts", "me").hold()
        hooks = Webhooks(database, Secrets())
        hooks.set("local", "ci", "https://hooks.example/", ["*"], actor="me")
        hooks.test("local", "ci")
        self.desk.demand("serving")
        self.desk.approve("tone")
        self.desk.lifecycle.deprecate("local", "tone", "Use voice.", actor="me")
        rules = RouteSpec.model_validate({"rules": [{"targets": [{"reference": "tone"}]}]})
        Routes(database, "tiny").set("local", "support", rules, actor="me")
        with database.transaction() as tx:
            owner = Owner("home", "sha256:" + "0" * 64)
            own(tx, "local", {("Route", "support"): owner}, at=timestamp(utc_now()))
        books = Books(database, Vault(keyring()))
        books.recordings.set("local", Recording(keep_text=True), actor="me")
        books.write(books.record(1, streamed=True), prompt=["a"], answer=["b"], keep_text=True)
        books.feedback.give("local", Feedback("r1", "rating", "user", 0.5, "søt"), actor="me")
        sessions, place = Sessions(database, ttl_s=3600.0), ("support", "rule-1")
        turn = Turn(place, "began", Pin("tone", manifest.digest(), "stable"), (1, None, ()))
        sessions.take(("local", session_key("user:ann", "chat")), turn, "ann")
        assert sessions.flush()
        Diffs(database, books.vault).write([copied(1, keep_text=True)])
        self.tenancy.tenants.create(Tenant("acme", quotas=Quotas(adapters=3)), actor="me")
        self.tenancy.users.put("acme", "ann", "admin", "Ann", actor="me")
        self.tenancy.keys.create("acme", name="", role="admin", scopes=("read",), user="ann", actor="me")
        self.tenancy.grants.create("acme", "local", "tone-*", ("call",), actor="me")
        gone = self.push(b"gone", "late")
        Deletions(database).delete("local", "late:1.0.0", actor="me", reason="gone")
        self.store.delete("local", gone)

    def back_up(self, name: str = "backup") -> Path:
        back_up(self.desk.database, self.store, self.folder / name, open_blobs=LocalStore)
        return self.folder / name

    def contents(self) -> dict[str, list[tuple[object, ...]]]:
        return contents_of(self.desk.database)


def contents_of(database: Database) -> dict[str, list[tuple[object, ...]]]:
    with database.reading() as tx:
        return {
            table.name: [tuple(row) for row in tx.execute(select(table).order_by(*table.primary_key.columns))]
            for table in metadata.sorted_tables
        }


@pytest.fixture
def shop(make_desk: Callable[[], Desk], tmp_path: Path) -> Shop:
    """Two versions of one adapter, one of them in production, and another tenant's."""
    shop = Shop(make_desk(), tmp_path)
    shop.push(b"one")
    shop.push("zwei äöü".encode())
    shop.desk.promote("tone:1.0.0")
    shop.push(b"theirs", "voice", "other")
    return shop


@pytest.fixture(params=["sqlite", "postgresql"])
def target_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of either kind, whatever the source is."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'new' / 'graftwork.db'}"
    else:
        with request.getfixturevalue("postgresql").database(template="template1") as url:
            yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'new.db'}"


@pytest.fixture
def new_store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "new-artifacts")


def is_empty(url: str) -> bool:
    with Database(url, upgrade=False) as database, database.reading() as tx:
        return inspect(tx).get_table_names() == []


def blob_of(folder: Path, digest: str, tenant: str = "local") -> Path:
    name = digest.removeprefix("sha256:")
    return folder / tenant / "sha256" / name[:2] / name


def test_a_backup_is_restored_on_either_database(shop: Shop, target_url: str, new_store: LocalStore) -> None:
    shop.use_every_table()
    folder, before = shop.back_up(), shop.contents()
    assert [name for name, rows in before.items() if not rows] == []  # so that no table is forgotten here
    made = restore(folder, LocalStore(folder / "blobs"), target_url, new_store)
    assert made == Summary.read(folder) == check(folder, LocalStore(folder / "blobs"))
    for tenant in ("local", "other"):
        assert {one.digest for one in new_store.list(tenant)} == {one.digest for one in shop.store.list(tenant)}
    with Database(target_url) as database:
        assert contents_of(database) == before
        assert EventLog(database).verify().head == made.head
        assert {one.version.adapter for one in Searches(database).find("local", text="irony").items} == {"tone"}
        shop.desk.database = database  # and it goes on from there
        shop.desk.registry = Registry(database)
        assert shop.desk.registry.show("other", "voice").manifest.bytes == 6
        shop.push(b"five", "late")
        assert shop.desk.registry.show("local", "late").semver == "1.0.1"
        assert EventLog(database).verify().problem is None


def test_a_push_while_the_blobs_are_copied_is_not_in_the_backup_and_breaks_nothing(
    shop: Shop, sqlite_url: str, new_store: LocalStore
) -> None:
    class Pushing(LocalStore):
        def put(self, *args: object) -> int:
            shop.push(os.urandom(8))
            return super().put(*args)  # type: ignore[arg-type]

    before, folder = shop.contents(), shop.folder / "backup"
    back_up(shop.desk.database, shop.store, folder, open_blobs=Pushing)
    assert shop.contents() != before
    restore(folder, LocalStore(folder / "blobs"), sqlite_url, new_store)
    with Database(sqlite_url) as database:
        assert contents_of(database) == before


def test_what_is_there_is_never_written_over(shop: Shop, sqlite_url: str, new_store: LocalStore) -> None:
    folder = shop.back_up()
    with pytest.raises(Conflict, match="already"):
        shop.back_up()
    Database(sqlite_url).close()
    with pytest.raises(Conflict, match="empty"):
        restore(folder, LocalStore(folder / "blobs"), sqlite_url, new_store)
    assert not list((shop.folder / "new-artifacts").rglob("*/*/*"))


def test_no_backup_is_made_of_what_is_damaged(shop: Shop) -> None:
    digest = shop.push(b"three")
    blob_of(shop.folder / "artifacts", digest).write_bytes(b"thrice")
    with pytest.raises(Damaged, match=digest):
        shop.back_up()
    assert not (shop.folder / "backup").exists()
    shop.push(b"three")  # repairs it
    assert check(shop.back_up(), LocalStore(shop.folder / "backup" / "blobs")).blobs.lines == 4


def test_no_backup_is_made_of_a_log_that_does_not_hold(shop: Shop) -> None:
    with shop.desk.database.transaction() as tx:
        if tx.dialect.name == "postgresql":
            tx.execute(text("ALTER TABLE events DISABLE TRIGGER events_append_only"))
        else:
            tx.execute(text("DROP TRIGGER events_no_update"))
        tx.execute(text("UPDATE events SET actor = 'you' WHERE position = 2"))
    with pytest.raises(Damaged, match="position 2"):
        shop.back_up()


def change(path: Path, old: str, new: str) -> None:
    found = path.read_text(encoding="utf-8")
    assert old in found
    path.write_text(found.replace(old, new, 1), encoding="utf-8")


def rewrite(folder: Path, table: str, old: str, new: str) -> None:
    """Change rows as somebody may who also writes the right digest into the summary."""
    path = folder / "tables" / f"{table}.jsonl"
    before = digest_of_file(path)
    change(path, old, new)
    change(folder / "backup.json", before, digest_of_file(path))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a row": (lambda folder: change(folder / "tables/aliases.jsonl", "production", "productiom"), "aliases.jsonl"),
    "a lost table": (lambda folder: (folder / "tables/aliases.jsonl").unlink(), "aliases.jsonl"),
    "a lost list": (lambda folder: (folder / "blobs.jsonl").unlink(), "blobs.jsonl"),
    "no summary": (lambda folder: (folder / "backup.json").unlink(), "backup.json"),
    "a summary of something else": (lambda folder: (folder / "backup.json").write_text("[]"), "backup.json"),
    "a path": (lambda folder: change(folder / "backup.json", '"aliases"', '"../aliases"'), "cannot be"),
    "an event": (lambda folder: rewrite(folder, "events", '"actor":"me"', '"actor":"you"'), "position 1"),
    "a blob": (lambda folder: next(folder.glob("blobs/other/*/*/*")).write_bytes(b"theirz"), "backup's blob sha256:"),
    "a lost blob": (lambda folder: next(folder.glob("blobs/other/*/*/*")).unlink(), "backup's blob sha256:"),
}


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("database_kind", ["sqlite"])
def test_damage_is_told_and_nothing_is_restored(what: str, shop: Shop, sqlite_url: str, new_store: LocalStore) -> None:
    damage, told = DAMAGE[what]
    folder = shop.back_up()
    damage(folder)
    blobs = LocalStore(folder / "blobs")
    with pytest.raises(Damaged, match=told):
        check(folder, blobs)
    with pytest.raises(Damaged, match=told):
        restore(folder, blobs, sqlite_url, new_store)
    assert is_empty(sqlite_url)


def replace_lines(folder: Path, name: str, line: bytes) -> None:
    """Put one line in the place of all, as `rewrite` does."""
    path = folder / f"{name}.jsonl"
    summary = json.loads((folder / "backup.json").read_text())
    path.write_bytes(line + b"\n")
    lines = {"lines": 1, "digest": digest_of_file(path)}
    if name == "blobs":
        summary["blobs"] = lines
    else:
        summary["tables"][path.stem] = lines
    (folder / "backup.json").write_text(json.dumps(summary))


NO_BACKUP: dict[str, Callable[[Path], object]] = {
    "a summary without an end": lambda folder: (folder / "backup.json").write_text("[" * 100_000),
    "a schema that is no text": lambda folder: change(folder / "backup.json", f'"{HEAD}"', "null"),
    "a table that is not said to be there": lambda folder: change(folder / "backup.json", '"approvals"', '"approval"'),
    "rows that are none": lambda folder: replace_lines(folder, "tables/versions", b"[]"),
    "rows without an end": lambda folder: replace_lines(folder, "tables/tags", b"[" * 100_000),
    "a column that there is not": lambda folder: replace_lines(folder, "tables/tags", b'{"a\\"b": 1}'),
    "a text that is none": lambda folder: rewrite(folder, "adapters", '"created_by":"me"', '"created_by":"\\ud800"'),
    "a number that no database holds": lambda folder: rewrite(
        folder, "adapters", '"last_sequence":2', f'"last_sequence":{10**30}'
    ),
    "events that are none": lambda folder: replace_lines(folder, "tables/events", b'{"a": 1}'),
    "an event that cannot be hashed": lambda folder: rewrite(folder, "events", '"actor":"me"', '"actor":NaN'),
    "blobs that are none": lambda folder: replace_lines(folder, "blobs", b"5"),
}


@pytest.mark.parametrize("database_kind", ["sqlite"])
@pytest.mark.parametrize("what", NO_BACKUP)
def test_whatever_the_files_hold_is_damage(what: str, shop: Shop, sqlite_url: str, new_store: LocalStore) -> None:
    folder = shop.back_up()
    NO_BACKUP[what](folder)
    if what.startswith("a table"):
        (folder / "tables" / "approvals.jsonl").rename(folder / "tables" / "approval.jsonl")
    with pytest.raises(Damaged):
        restore(folder, LocalStore(folder / "blobs"), sqlite_url, new_store)
    assert is_empty(sqlite_url)


LIES: dict[str, tuple[str, str, str, str]] = {
    "a row without its columns": ("adapters", "\n", '\n{"tenant":"local"}\n', "adapters"),
    "a manifest of something else": ("versions", '\\"size\\":3', '\\"size\\":4', "another one"),
    "a manifest that cannot be": ("versions", '\\"size\\":3', '\\"size\\":-3', "cannot be read"),
    "a version of no adapter": ("versions", '"adapter":"tone"', '"adapter":"tune"', "contradict|FOREIGN KEY"),
}


@pytest.mark.parametrize("lie", LIES)
def test_rows_that_contradict_one_another_are_not_restored(
    lie: str, shop: Shop, target_url: str, new_store: LocalStore
) -> None:
    table, old, new, told = LIES[lie]
    folder = shop.back_up()
    rewrite(folder, table, old, new)
    if lie == "a row without its columns":
        change(folder / "backup.json", '"lines": 2', '"lines": 3')
    with pytest.raises(Damaged, match=told):
        restore(folder, LocalStore(folder / "blobs"), target_url, new_store)
    assert is_empty(target_url)


def test_a_backup_of_a_newer_version_is_left_alone(shop: Shop, sqlite_url: str, new_store: LocalStore) -> None:
    folder = shop.back_up()
    change(folder / "backup.json", '"format": 1', '"format": 2')
    with pytest.raises(Unavailable, match="newer"):
        check(folder, LocalStore(folder / "blobs"))
    change(folder / "backup.json", '"format": 2', '"format": 1')
    change(folder / "backup.json", f'"schema": "{HEAD}"', '"schema": "9999"')
    with pytest.raises(Unavailable, match="9999"):
        restore(folder, LocalStore(folder / "blobs"), sqlite_url, new_store)
    assert is_empty(sqlite_url)


def test_a_backup_of_an_older_schema_is_brought_up_to_date(shop: Shop, target_url: str, new_store: LocalStore) -> None:
    folder = shop.back_up()
    summary = json.loads((folder / "backup.json").read_text())
    with Database(f"sqlite:///{shop.folder / 'old.db'}", upgrade=False) as old, old.transaction() as tx:
        upgrade(tx, None, to="0004")
        had = {
            name: {column["name"] for column in inspect(tx).get_columns(name)} for name in inspect(tx).get_table_names()
        }
    summary["tables"] = {name: lines for name, lines in summary["tables"].items() if name in had}
    for name, lines in summary["tables"].items():
        path = folder / "tables" / f"{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps({key: row[key] for key in row if key in had[name]}) + "\n" for row in rows))
        lines["digest"] = digest_of_file(path)
    (folder / "backup.json").write_text(json.dumps({**summary, "schema": "0004"}))
    restore(folder, LocalStore(folder / "blobs"), target_url, new_store)
    with Database(target_url) as database:
        assert contents_of(database)["aliases"] == shop.contents()["aliases"]
        assert Registry(database).show("local", "tone").semantic_digest is None
        assert len(Searches(database).find("local", text="tone").items) == 2


KILLED = """
import os, signal, sys
from pathlib import Path
from graftwork.artifacts.stores.local import LocalStore
from graftwork.registry import backup
from graftwork.registry.backup import restoration
from graftwork.db import Database
what, source, artifacts, folder, url = sys.argv[1:]
def die(*_args, **_kwargs): os.kill(os.getpid(), signal.SIGKILL)
if what == "backup":
    class Dying(LocalStore):
        def put(self, *args):
            return die() if args[0] == "other" else super().put(*args)
    with Database(source) as database:
        backup.back_up(database, LocalStore(Path(artifacts)), Path(folder), open_blobs=Dying)
else:
    restoration._check_rows = die
    backup.restore(Path(folder), LocalStore(Path(folder) / "blobs"), url, LocalStore(Path(artifacts)))
"""


def killed(*arguments: object) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_killed_midway_nothing_half_is_visible_and_the_next_try_ends_well(
    shop: Shop, target_url: str, new_store: LocalStore, tmp_path: Path
) -> None:
    killed("backup", shop.desk.url, tmp_path / "artifacts", tmp_path / "backup", "-")
    assert not (tmp_path / "backup").exists()
    folder = shop.back_up()
    killed("restore", "-", tmp_path / "new-artifacts", folder, target_url)
    assert is_empty(target_url)
    restore(folder, LocalStore(folder / "blobs"), target_url, new_store)
    with Database(target_url) as database:
        assert contents_of(database) == shop.contents()


def test_a_backup_that_goes_on_keeps_nothing_that_was_deleted_meanwhile(shop: Shop, tmp_path: Path) -> None:
    gone = shop.push(b"gone", "late")
    killed("backup", shop.desk.url, tmp_path / "artifacts", tmp_path / "backup", "-")
    assert blob_of(tmp_path / ".backup.partial" / "blobs", gone).exists()
    Deletions(shop.desk.database).delete("local", "late:1.0.0", actor="me", reason=None)
    assert not blob_of(shop.back_up() / "blobs", gone).exists()


def test_one_backup_of_a_name_at_a_time(shop: Shop) -> None:
    with make._partial(shop.folder / "backup"), pytest.raises(Conflict, match="Somebody else"):
        shop.back_up()


def test_every_column_of_digests_is_known_to_name_a_blob_or_not() -> None:
    for table in metadata.sorted_tables:
        digests = {column.name for column in table.columns if getattr(column.type, "length", None) == 71}
        known = NOT_OF_BLOBS.get(table.name, set()) | OF_BLOBS.get(table.name, set())
        assert digests == known, f"{table.name}: does it name blobs that retention/roots.py must know?"
