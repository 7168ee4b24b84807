"""Migrations: they lead to the schema of the code, and cost nothing when there is nothing to do."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Boolean, Float, Integer, insert, inspect, text
from sqlalchemy import column as column_of
from sqlalchemy import table as table_of
from sqlalchemy.exc import IntegrityError
from sqlalchemy.types import TypeEngine

from graftwork.db import Database, Transaction
from graftwork.db.index_terms import version_key
from graftwork.db.migrate import MIGRATIONS, alembic_config
from graftwork.db.schema import HEAD, metadata
from graftwork.errors import Unavailable
from graftwork.protocol.routes import RouteSpec
from graftwork.protocol.tasks import TaskSpec
from graftwork.traffic.routes.routes import Routes
from graftwork.traffic.tasks.tasks import Tasks
from support.desk import Desk
from support.rollouts import Bench, canary, hold


@pytest.fixture
def url(empty_url: str) -> str:
    return empty_url


#: A registry with one version, as the first schema had it; made by hand, since the code has moved on.
OF_0001 = (
    "INSERT INTO adapters VALUES ('local', 'tone', 1, 'then', 'me')",
    "INSERT INTO versions VALUES ('local', 'tone', 1, '1.0.0', 'sha256:a', '{}', 'development', 'lora', 'tiny', "
    "'sha256:b', 8, 8, '{}', '{}', 'then', 'me')",
    "INSERT INTO aliases VALUES ('local', 'tone', 'champion', 1, 'then', 'me')",
    "INSERT INTO events VALUES (1, 'local', 'then', 'me', 'version.created', 'adapters/tone', '{}', 'sha256:0', "
    "'sha256:1')",
)


def differences(tx: Transaction) -> list[object]:
    """Between database and code, but for what only one kind of database has for finding words."""
    only = {"include_name": lambda name, kind, _: kind != "table" or not name.startswith("texts_fts")}
    found: list[object] = compare_metadata(MigrationContext.configure(tx, opts=only), metadata)
    return [one for one in found if "ix_texts_words" not in str(one)]


def drop_everything(tx: Transaction) -> None:
    for name in ["alembic_version", *(table.name for table in reversed(metadata.sorted_tables))]:
        tx.exec_driver_sql(f"DROP TABLE {name}")
    if tx.dialect.name == "postgresql":
        tx.exec_driver_sql("DROP FUNCTION graftwork_refuse, graftwork_notify")


def test_head_is_the_newest_migration() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_current_head() == HEAD


def test_migrations_lead_to_the_schema_of_the_code(url: str) -> None:
    with Database(url) as database, database.reading() as tx:
        assert differences(tx) == []


def test_the_schema_of_the_previous_revision_is_brought_to_this_one_with_its_rows(url: str) -> None:
    with Database(url) as database, database.transaction() as tx:
        drop_everything(tx)
        command.upgrade(alembic_config(tx), "0001")
        for statement in OF_0001:
            tx.exec_driver_sql(statement)
    with Database(url) as database:
        with database.reading() as tx:
            assert tx.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD
            assert tx.execute(text("SELECT semver FROM versions")).scalar() == "1.0.0"
            bases = "SELECT t.name, t.digest FROM lineage_edges JOIN lineage_nodes t ON t.number = target"
            assert tx.execute(text(bases)).one() == ("tiny", "sha256:b")
            assert tx.execute(text("SELECT key, text FROM facts")).all() == [("version", version_key("1.0.0"))]
            assert tx.execute(text("SELECT words FROM texts")).scalar() == "tone"
            assert differences(tx) == []
        for change in (
            "UPDATE events SET actor = 'you'",
            "DELETE FROM events",
            "UPDATE versions SET digest = 'x'",
            "DELETE FROM versions",
            "UPDATE aliases SET sequence = 2",
        ):
            with pytest.raises(IntegrityError), database.transaction() as tx:
                tx.exec_driver_sql(change)


#: Where the rows of tables that there are no more went.
MOVED = {
    "task_revisions": "resource_revisions",
    "route_revisions": "resource_revisions",
    "tasks": "resources",
    "routes": "resources",
}


class GoBack(Exception):
    """Ends a transaction that was only a trial."""


def rows_in(tx: Transaction) -> dict[str, list[dict[str, object]]]:
    """All rows of every table of ours, by table."""
    names = [name for name in inspect(tx).get_table_names() if not name.startswith(("alembic", "texts_fts"))]
    return {name: [dict(row._mapping) for row in tx.exec_driver_sql(f"SELECT * FROM {name}")] for name in names}


def fill(tx: Transaction) -> dict[str, list[dict[str, object]]]:
    """Put a row about the version `tone` 1 into every table that has none, and return all rows."""
    found = rows_in(tx)
    every = [*(table.name for table in metadata.sorted_tables), *MOVED]
    for name in [name for name in every if found.get(name) == []]:
        known: dict[str, object] = {
            "tenant": "local",
            "adapter": "tone",
            "name": "tone",
            "base": "tone",
            "route": "tone",
            "webhook": "tone",
        }
        columns = inspect(tx).get_columns(name)
        row = {one["name"]: known.get(one["name"], None if one["nullable"] else some(one["type"])) for one in columns}
        tx.execute(insert(table_of(name, *map(column_of, row))).values(row))
    found = rows_in(tx)
    assert all(found.values()), "a table without a row proves nothing"
    return found


def some(kind: TypeEngine[Any]) -> object:
    if isinstance(kind, Boolean):
        return True
    return 1 if isinstance(kind, Integer) else 0.5 if isinstance(kind, Float) else "{}"


def test_from_each_revision_every_row_of_every_table_is_brought_to_the_newest(url: str) -> None:
    with Database(url) as database:
        with database.transaction() as tx:
            drop_everything(tx)
        scripts = ScriptDirectory.from_config(alembic_config()).walk_revisions()
        for revision in reversed([script.revision for script in scripts]):
            with database.transaction() as tx:
                command.upgrade(alembic_config(tx), revision)
                if revision == "0001":
                    for statement in OF_0001:
                        tx.exec_driver_sql(statement)
                before = fill(tx)
            with suppress(GoBack), database.transaction() as tx:
                command.upgrade(alembic_config(tx), "head")
                after = rows_in(tx)
                for table, rows in before.items():
                    for row in rows:
                        if table == "route_revisions":
                            row["name"] = row.pop("route")
                        there = after[MOVED.get(table, table)]
                        assert any(row.items() <= one.items() for one in there), (revision, table, row)
                raise GoBack


#: A task whose live revision is its first again, a route, and one that was removed, as 0018 had them.
OF_0018 = (
    """INSERT INTO task_revisions VALUES ('local', 'mood', 1, 'sha256:a', '{"adapter": "tone"}', 'why', 'old', 'me')""",
    """INSERT INTO task_revisions VALUES ('local', 'mood', 2, 'sha256:b', '{"adapter": "voice"}', NULL, 'new', 'ed')""",
    "INSERT INTO tasks VALUES ('local', 'mood', 1, 'later', 'ann')",
    """INSERT INTO route_revisions VALUES ('local', 'desk', 1, 'sha256:c', '{"rules":[{"next":true}]}', NULL, 'then',
    'me')""",
    "INSERT INTO routes VALUES ('local', 'desk', 1, 'then', 'me')",
    """INSERT INTO route_revisions VALUES ('acme', 'gone', 7, 'sha256:d', '{"rules":[{"next":true}]}', NULL, 'then',
    'me')""",
)


def test_routes_and_tasks_of_their_own_tables_are_resources_that_go_on(url: str) -> None:
    with Database(url) as database, database.transaction() as tx:
        drop_everything(tx)
        command.upgrade(alembic_config(tx), "0018")
        for statement in OF_0018:
            tx.exec_driver_sql(statement)
    with Database(url) as database:
        tasks, routes = Tasks(database), Routes(database, "tiny")
        mood = tasks.show("local", "mood")
        assert (mood.label, mood.spec.adapter, mood.revision.reason, mood.updated_by) == (
            "mood/1",
            "tone",
            "why",
            "ann",
        )
        assert [one.label for one in tasks.revisions("local", "mood").items] == ["mood/2", "mood/1"]
        assert routes.show("local", "desk").revision.digest == "sha256:c"
        assert [one.live for one in routes.revisions("acme", "gone").items] == [False]
        assert tasks.set("local", "mood", TaskSpec(), actor="me")[0].label == "mood/3"
        assert (
            routes.set("acme", "gone", RouteSpec.model_validate({"rules": [{"next": True}]}), actor="me")[0].label
            == "gone/8"
        )
        for change in ("UPDATE resource_revisions SET spec = '{}'", "DELETE FROM resource_revisions"):
            with pytest.raises(IntegrityError, match="append-only"), database.transaction() as tx:
                tx.exec_driver_sql(change)
        with database.reading() as tx:
            assert not MOVED.keys() & set(inspect(tx).get_table_names())
            assert differences(tx) == []


def test_rollouts_that_were_promoted_before_say_which_arm(url: str) -> None:
    """One of two candidates, and one of one; before 0027 a promoted state gave all to the stable version."""
    told = {"actor": "ann", "reason": None}
    with Database(url) as database:
        desk = Desk(url)
        for content in (1, 2, 3):
            desk.push(content, "support", semver=f"{content}.0.0")
        desk.promote("support:1.0.0")
        bench = Bench(desk)
        bench.start({"split": {}}, ("left", "support:2.0.0"), ("right", "support:3.0.0"))
        bench.rollouts.promote("local", "support", arm="right", **told)
        bench.start(canary(hold()), "support:2.0.0")
        bench.rollouts.promote("local", "support", **told)
        with database.transaction() as tx:
            right = [tuple(row) for row in tx.execute(text("SELECT route, revision, state FROM rollouts"))]
            for _, revision, state in right:
                before = json.dumps({**json.loads(state), "slices": [["stable", 0.0, 1.0]]})
                tx.execute(text("UPDATE rollouts SET state = :a WHERE revision = :b"), {"a": before, "b": revision})
            tx.execute(text("UPDATE alembic_version SET version_num = '0026'"))
    with Database(url) as database, database.reading() as tx:
        assert sorted(map(tuple, tx.execute(text("SELECT route, revision, state FROM rollouts")))) == sorted(right)
    again = bench.rollouts.promote("local", "support", **told)
    assert {arm: again.state.share(arm) for arm in ("stable", "candidate")} == {"stable": 0.0, "candidate": 1.0}
    desk.database.close()


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)  # SQLite compares no other way
def test_ids_of_records_are_compared_byte_by_byte(url: str) -> None:
    found = "SELECT collation_name FROM information_schema.columns WHERE (table_name, column_name) = "
    with Database(url) as database, database.reading() as tx:
        assert tx.execute(text(f"{found}('predictions', 'request_id')")).scalar() == "C"


def test_migrations_lie_inside_the_package() -> None:
    import graftwork

    assert graftwork.__file__ is not None
    assert MIGRATIONS.is_relative_to(Path(graftwork.__file__).parent)
    assert (MIGRATIONS / "env.py").is_file()


def test_making_a_database_is_no_news(url: str) -> None:
    script = (
        "import logging\n"
        "logging.basicConfig(level='INFO')\n"
        "from graftwork.db import Database\n"
        f"Database({url!r}).close()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_database_of_a_newer_version_is_left_alone(url: str) -> None:
    with Database(url) as database, database.transaction() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Unavailable, match=r"9999.*Upgrade"):
        Database(url)


def test_a_half_made_database_is_made_whole(url: str) -> None:
    with Database(url) as database, database.transaction() as tx:
        drop_everything(tx)
    with Database(url) as database, database.reading() as tx:
        assert tx.execute(text("SELECT count(*) FROM events")).scalar() == 0


def test_opening_an_up_to_date_database_imports_neither_alembic_nor_torch(url: str, database_kind: str) -> None:
    Database(url).close()
    script = (
        "import sys\n"
        "from graftwork.db import Database\n"
        "from graftwork.registry.registry import Registry\n"
        f"with Database({url!r}) as database:\n"
        "    Registry(database).list_adapters('local')\n"
        "unwanted = {'alembic', 'torch', 'numpy', 'pydantic', 'psycopg'}\n"
        "print(sorted(unwanted & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ("[]" if database_kind == "sqlite" else "['psycopg']")
