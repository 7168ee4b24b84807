"""Evaluations: what was measured of versions is added to, listed, compared and followed; never changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.names import check_name
from graftwork.adapters.files.json_file import CONFIG_NAME
from graftwork.artifacts.stores import BlobStore
from graftwork.db import Database, Transaction
from graftwork.errors import Conflict, InvalidRequest, NotFound, meant
from graftwork.protocol.canonical import canonical, parse, sha256
from graftwork.registry import idempotency
from graftwork.registry.evaluations import rows
from graftwork.registry.evaluations.comparison import Side, compare
from graftwork.registry.evaluations.examples import Scores, read_examples
from graftwork.registry.evaluations.measured import measured
from graftwork.registry.evaluations.rows import Evaluation
from graftwork.registry.evaluations.trend import trend
from graftwork.registry.idempotency import Once
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.reading import check_adapter, whole
from graftwork.registry.reference import Reference
from graftwork.registry.resolving import resolve
from graftwork.registry.subjects import subject_of
from graftwork.registry.versions import Version

if TYPE_CHECKING:
    from graftwork.protocol.evaluations import EvaluationBody

ADDED = "evaluation.added"
MAX_BYTES = 1 << 20
MAX_OF_A_VERSION = 10_000
MAX_COMPARED = 16
MAX_TREND = 1000
_MAX_CONFIG_BYTES = 1 << 20


class Evaluations:
    """Reads and adds to one database's evaluations; many threads and many processes may do so at once.

    Methods raise InvalidRequest for a malformed reference, and NotFound for what is not there or belongs to another
    tenant.
    """

    def __init__(self, database: Database, store: BlobStore, clock: Clock = utc_now) -> None:
        self._database = database
        self._store = store
        self._clock = clock

    def add(
        self, tenant: str, reference: Reference | str, body: EvaluationBody, *, actor: str, once: Once | None = None
    ) -> Evaluation:
        """Keep an evaluation under the version's next number.

        Raises:
            InvalidRequest: it is too large, or its results by example cannot be read.
            Conflict: a file that it names is not stored, it was measured on another base, or what it supersedes is
                superseded already.
        """
        text = canonical(body.model_dump(mode="json", exclude_unset=True), what="evaluation")
        if len(text.encode()) > MAX_BYTES:
            raise InvalidRequest(
                f"The evaluation is longer than {MAX_BYTES} bytes; attach what is long as a report.", field="evaluation"
            )
        self._check_stored(tenant, body)
        self._check_examples(tenant, body)
        row = {
            "family": body.family,
            "name": body.name,
            "split": body.split or "",
            "source": body.source,
            "comparable": _comparable(body),
            "supersedes": body.supersedes,
            "blobs": rows.blobs_text(digest for _, digest in body.blobs()),
            "body": text,
        }
        values = {metric.name: metric.value for metric in body.measures()}

        def change() -> int:
            self._check_stored(tenant, body)  # again: here no collection can run beside
            _check(tx, version, body)
            now = timestamp(self._clock())
            number = rows.insert(tx, version, row, values, at=now, actor=actor)
            told = {"number": number, "family": body.family, "name": body.name, "evaluation": sha256(text)}
            payload = {**version.brief(), **told, "supersedes": body.supersedes}
            events.append(tx, tenant, actor, ADDED, subject_of(version.adapter), payload, at=now)
            return number

        with self._database.transaction() as tx:
            version = resolve(tx, tenant, reference)
            number, _ = idempotency.numbered(tx, version, once, lambda: (change(), True), now=self._clock())
            found = rows.at_number(tx, version, number)
            assert found is not None, "it was just written, or was there before"
            return found

    def list(
        self,
        tenant: str,
        reference: Reference | str,
        *,
        family: str | None = None,
        name: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[Evaluation]:
        """A version's evaluations, the newest first; pass `next_page_token` on to get older ones."""
        check_page_size(page_size)
        before = _number(page_token)
        with self._database.reading() as tx:
            version = resolve(tx, tenant, reference)
            found = rows.page(tx, version, family=family, name=name, before=before, limit=page_size + 1)
        more = len(found) > page_size
        return Page(tuple(found[:page_size]), str(found[page_size - 1].number) if more else None)

    def show(self, tenant: str, reference: Reference | str, number: int) -> Evaluation:
        """One evaluation of a version."""
        with self._database.reading() as tx:
            version = resolve(tx, tenant, reference)
            found = rows.at_number(tx, version, number)
        if found is None:
            raise NotFound(f"{version.label} has no evaluation {number}.")
        return found

    def compare(
        self, tenant: str, references: Sequence[str], *, metrics: Sequence[str] = (), paired: bool = True
    ) -> dict[str, Any]:
        """Versions side by side, each against the first: `comparison.compare` says how.

        Args:
            metrics: names of those to compare; all when empty.
            paired: test on the same examples where there are results by example.

        Raises:
            NotFound: one of `metrics` was measured of none of them.
            Damaged: a stored file is missing or does not match its digest.
        """
        if not 2 <= len(references) <= MAX_COMPARED:
            raise InvalidRequest(f"Name 2 to {MAX_COMPARED} versions to compare.", field="reference")
        with self._database.reading() as tx:
            versions = [whole(tx, resolve(tx, tenant, reference)) for reference in references]
            _check_different(versions)
            found = [rows.current(tx, version) for version in versions]
        known = {measure.subject.metric for one in found for evaluation in one for measure in measured(evaluation)}
        for metric in metrics:
            if metric not in known:
                raise _unknown_metric(metric, known, "these versions")
        sides = [
            Side(version, self._config(version), evaluations)
            for version, evaluations in zip(versions, found, strict=True)
        ]
        scores_of = partial(self._scores, tenant) if paired else None
        return compare(sides, metrics, scores_of)

    def trend(self, tenant: str, name: str, metric: str, *, limit: int = 100) -> dict[str, Any]:
        """A metric's values over an adapter's versions, in the order they were pushed: `trend.trend` says how.

        Args:
            limit: at most so many values, those of the newest versions.

        Raises:
            NotFound: there is no such adapter, or the metric was measured of none of its versions.
        """
        check_name(name, what="adapter")
        if not 1 <= limit <= MAX_TREND:
            raise InvalidRequest(f"limit is {limit}; it must be 1 to {MAX_TREND}.", field="limit")
        with self._database.reading() as tx:
            check_adapter(tx, tenant, name)
            found = rows.with_metric(tx, tenant, name, metric, limit=limit)
            if not found:
                raise _unknown_metric(metric, rows.metrics_of(tx, tenant, name), f"a version of {name}")
        return {"adapter": name, "metric": metric, "series": trend(found, metric)}

    def _check_stored(self, tenant: str, body: EvaluationBody) -> None:
        for field, digest in body.blobs():
            if self._store.has(tenant, digest) is None:
                raise Conflict(f"{field}: the file {digest} is not stored. Upload it, then add the evaluation again.")

    def _check_examples(self, tenant: str, body: EvaluationBody) -> None:
        if (examples := getattr(body, "examples", None)) is not None:
            scores = self._scores(tenant, examples.digest)
            strange = sorted(scores.keys() - {metric.name for metric in body.measures()})
            if strange:
                raise InvalidRequest(
                    f"The results by example score {strange[0][:80]!r}, which is none of the evaluation's metrics.",
                    field="examples.digest",
                )

    def _scores(self, tenant: str, digest: str) -> Scores:
        return read_examples(self._store.open(tenant, digest))

    def _config(self, version: Version) -> dict[str, Any]:
        """What the adapter's own config file says; empty where there is none of a sensible size."""
        file = next((file for file in version.manifest.files if file.path == CONFIG_NAME), None)
        if file is None or file.size > _MAX_CONFIG_BYTES:
            return {}
        try:
            config = parse(b"".join(self._store.open(version.tenant, file.digest)).decode())
        except (ValueError, RecursionError):
            return {}
        return config if isinstance(config, dict) else {}


def _unknown_metric(metric: str, known: Collection[str], of: str) -> NotFound:
    return NotFound(f"No metric {metric[:128]!a} was measured of {of}. {meant(metric, known)}")


def _check_different(versions: Sequence[Version]) -> None:
    labels = [version.label for version in versions]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise InvalidRequest(f"{twice} is named twice; name each version once.", field="reference")


def _comparable(body: EvaluationBody) -> str:
    said = {
        "family": body.family,
        "name": body.name,
        "split": body.split,
        "source": body.source,
        "on": dict(body.measured_on()),
    }
    return sha256(canonical(said, what="evaluation"))


def _check(tx: Transaction, version: Version, body: EvaluationBody) -> None:
    if body.base_digest not in (None, version.base_digest):
        raise Conflict(
            f"base_digest: {version.label} is a version for the base {version.base} ({version.base_digest}), and this "
            f"was measured on another ({body.base_digest})."
        )
    if rows.last_number(tx, version) >= MAX_OF_A_VERSION:
        raise Conflict(f"{version.label} has {MAX_OF_A_VERSION} evaluations, the most that a version may have.")
    if body.supersedes is None:
        return
    before = rows.at_number(tx, version, body.supersedes)
    if before is None:
        raise Conflict(f"supersedes: {version.label} has no evaluation {body.supersedes}.")
    if before.superseded_by is not None:
        raise Conflict(
            f"supersedes: evaluation {body.supersedes} of {version.label} is superseded already, by "
            f"{before.superseded_by}; correct that one."
        )
    if before.body["family"] != body.family:
        raise Conflict(
            f"supersedes: evaluation {body.supersedes} of {version.label} is of the family {before.body['family']}, "
            f"not {body.family}."
        )


def _number(token: str | None) -> int | None:
    if not token:
        return None
    if not (token.isascii() and token.isdigit() and len(token) < 16):
        raise InvalidRequest("page_token is not one that this list gave.", field="page_token")
    return int(token)
