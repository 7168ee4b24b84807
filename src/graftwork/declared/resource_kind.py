"""ResourceKind: what it takes to be a kind of resource that is applied: read, compared, written and taken away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from graftwork.access.roles import Right
from graftwork.declared.desk import Desk
from graftwork.protocol.registry import OurBody
from graftwork.protocol.resource import API_VERSION

Document = TypeVar("Document", bound=OurBody)
Spec = dict[str, Any]
#: What a reference leads to, `Link.name` being the reference itself: a version, or whatever a request may name.
VERSION, MODEL = "Version", "Model"


@dataclass(frozen=True)
class Link:
    """A document names something that it does not hold."""

    kind: str  #: of resource, VERSION or MODEL
    name: str
    field: str
    tenant: str | None = None  #: whose; None for whose the documents are


Links = Iterator[Link]


class ResourceKind(ABC, Generic[Document]):
    """One kind. Names are "" where a tenant has one of it only; a spec is JSON, the same for the same meaning.

    What reads or writes takes a desk and raises as the services behind it do. `set` and `remove` leave everything else
    as it is, and the event to the service.
    """

    #: As documents write it.
    word: ClassVar[str]
    body: type[Document]
    #: What it takes to set or remove one, and to see one.
    right: ClassVar[Right] = Right.DEPLOY
    reading: ClassVar[Right] = Right.READ
    #: Whether one can be taken away, so that pruning speaks of it.
    removable: ClassVar[bool] = True
    #: Whether it is what is so, rather than what is to be done: only that is exported unasked.
    state: ClassVar[bool] = True

    @abstractmethod
    def name(self, document: Document) -> str: ...

    @abstractmethod
    def check(self, document: Document) -> None:
        """Raises InvalidRequest, by its field, for what could be nowhere; asks no database."""

    @abstractmethod
    def spec(self, document: Document) -> Spec: ...

    @abstractmethod
    def live(self, desk: Desk) -> Mapping[str, Spec]:
        """The specs of all that there are, by name."""

    def named(self, desk: Desk, names: Collection[str]) -> Mapping[str, Spec]:
        """The specs of those of these names that there are, and maybe of others."""
        return self.live(desk)

    @abstractmethod
    def set(self, desk: Desk, document: Document) -> str | None:
        """Make it so; the secret that this made, which is shown once."""

    def remove(self, desk: Desk, name: str) -> None:
        raise NotImplementedError(f"a {self.word} is not removable")

    def wanted(self, desk: Desk, document: Document, live: Spec | None) -> tuple[Spec, Spec | None, str | None]:
        """The spec that there shall be, the live one as far as the document speaks of it, and what else is to be told.

        Raises NotFound for what it is about and is not there.
        """
        return self.spec(document), live, None

    def links(self, document: Document) -> Links:
        yield from ()

    def metadata(self, name: str) -> dict[str, str]:
        """Of the document that is exported."""
        return {"name": name} if name else {}

    def document(self, name: str, spec: Spec) -> dict[str, Any]:
        """It reads back as what it was made of."""
        return {"apiVersion": API_VERSION, "kind": self.word, "metadata": self.metadata(name), "spec": spec}


def spec_of(model: type[BaseModel], told: Mapping[str, Any]) -> Spec:
    """The spec that says what a record has told of itself, in the words and the order of documents."""
    return model.model_validate(_in_camels(told)).model_dump(by_alias=True)


def _in_camels(told: Mapping[str, Any]) -> dict[str, Any]:
    return {to_camel(name): _in_camels(one) if isinstance(one, Mapping) else one for name, one in told.items()}


def label_of(kind: str, name: str) -> str:
    """`Route/support`, or the kind alone where there is one of it only."""
    return f"{kind}/{name}" if name else kind
