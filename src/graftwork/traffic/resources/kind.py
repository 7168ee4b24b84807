"""Kind: what one kind of resource is called, how its spec is checked and written, and what its events are about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, get_args

from graftwork.errors import NotFound
from graftwork.protocol.resource import API_VERSION, Document
from graftwork.traffic.resources.resource import Made, Spec

#: Resources of one kind that a tenant may have: all of them are in the memory of every server.
MOST = 5000


@dataclass(frozen=True)
class Kind(Generic[Spec, Made]):
    """Of tables and events: `route` for the table and `route.set`, `routes` for the subject `routes/support`."""

    word: str
    many: str
    noun: str  #: for people
    listed_by: str  #: the command that shows what there is
    spec: type[Spec]
    document: type[Document]  #: in which people write it
    made: Callable[..., Made]  #: the class of its resources
    #: Its name as it is given; raises InvalidRequest for what is none.
    check_name: Callable[[str], object]
    #: The one text of a spec, which is stored and hashed; raises InvalidRequest, naming the field.
    text: Callable[[Spec], str]
    most: int = MOST  #: of one tenant

    @property
    def title(self) -> str:
        """What its documents are of: `kind: Route`."""
        (name,) = get_args(self.document.model_fields["kind"].annotation)
        return str(name)

    def document_of(self, one: Made) -> dict[str, Any]:
        """The document that says what it is; it reads back as it was written."""
        said = {"metadata": {"name": one.name}, "spec": one.spec.to_json()}
        return {"apiVersion": API_VERSION, "kind": self.title, **said}

    @property
    def set(self) -> str:
        return f"{self.word}.set"

    @property
    def removed(self) -> str:
        return f"{self.word}.removed"

    @property
    def rolled_back(self) -> str:
        return f"{self.word}.rolled_back"

    def subject(self, name: str) -> str:
        """What the events about one of them have as their subject."""
        return f"{self.many}/{name}"

    def name_in(self, subject: str) -> str | None:
        """The name that an event's subject speaks of; None where it speaks of something else."""
        start = f"{self.many}/"
        return subject.removeprefix(start) if subject.startswith(start) else None

    def missing(self, name: str) -> NotFound:
        """What is said of a name that means nothing, or that is none: one and the same."""
        return NotFound(f"The {self.noun} {name[:200]!r} does not exist. `{self.listed_by}` shows what there is.")
