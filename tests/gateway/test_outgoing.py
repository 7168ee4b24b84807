"""Outgoing: to a real server on loopback, at the address that was looked at, by the name it was told."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from graftwork.gateway.outgoing import Outgoing
from graftwork.registry.webhooks.outcome import Outcome
from support.receiver import receiving

HOST = "hooks.example"


class Names:
    """Answers the next of several lists of addresses, and counts."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers, self.asked = list(answers), 0

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def send(outgoing: Outgoing, url: str) -> Outcome:
    return asyncio.run(outgoing.send(url, {"content-type": "application/json", "webhook-id": "msg_1"}, b"{}"))


def test_a_message_arrives_as_it_is_and_no_redirect_is_followed() -> None:
    outgoing = Outgoing(private=True)
    with receiving() as elsewhere, receiving() as receiver:
        assert send(outgoing, receiver.url) == Outcome(204)
        [got] = receiver.got
        assert (got.path, got.body, got.headers["webhook-id"]) == ("/hook?key=7", b"{}", "msg_1")
        assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
        assert got.headers["user-agent"].startswith("graftwork/")
        receiver.answers = [(307, {"location": elsewhere.url})]
        outcome = send(outgoing, receiver.url)
        assert (outcome.status, outcome.words) == (307, "answered 307; redirects are not followed")
        assert elsewhere.got == []
        receiver.answers = [(429, {"retry-after": "120"}), (503, {"retry-after": "soon"})]
        assert send(outgoing, receiver.url) == Outcome(429, retry_after_s=120.0)
        assert send(outgoing, receiver.url) == Outcome(503)
        later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
        receiver.answers = [(503, {"retry-after": later})]
        assert 80 < send(outgoing, receiver.url).retry_after_s <= 90


def test_a_name_that_means_another_address_by_the_time_is_not_asked_again() -> None:
    with receiving() as receiver:
        url = f"https://{HOST}:{receiver.port}/"
        names = Names(["127.0.0.1"])
        assert send(Outgoing(private=False, resolve=names), url).refused
        rebound = Names(["8.8.8.8", "127.0.0.1"])
        assert send(Outgoing(private=False, resolve=rebound), url).refused
        later = Names(["100::1"], ["127.0.0.1"])  # a public one would be asked for in earnest
        outcome = send(Outgoing(private=True, resolve=later, timeout_s=0.5), url)
        assert (outcome.status, outcome.refused, later.asked) == (None, False, 1)
        assert (names.asked, rebound.asked, receiver.got) == (1, 1, [])
        assert send(Outgoing(private=False), receiver.url).refused  # the setting was changed since


def test_the_certificate_must_be_that_of_the_name_at_whatever_address(tmp_path: Path) -> None:
    server, client = _contexts(tmp_path)
    with receiving(server) as receiver:
        names = Names(["::1", "127.0.0.1"])  # nobody listens at the first
        outgoing = Outgoing(private=True, resolve=names, tls=client)
        assert send(outgoing, f"https://{HOST}:{receiver.port}/x") == Outcome(204)
        assert receiver.names == [HOST] and receiver.got[0].headers["host"] == f"{HOST}:{receiver.port}"
        wrong = send(outgoing, f"https://other.example:{receiver.port}/x")
        assert (wrong.error, wrong.passing) == ("the certificate of the host does not hold", True)
        unknown = send(Outgoing(private=True, resolve=names), f"https://{HOST}:{receiver.port}/x")
        assert unknown.error == "the certificate of the host does not hold"
        assert len(receiver.got) == 1
    with receiving() as plain:
        assert send(outgoing, f"https://{HOST}:{plain.port}/").error == "there is no TLS at the host"


@pytest.mark.parametrize(
    ("says", "error"),
    [
        (b"SSH-2.0-secret\r\n", "the connection broke, or what came is no HTTP"),
        (b"", "the connection broke, or what came is no HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: ", "no answer within 0.3 s"),
    ],
)
def test_what_is_no_answer_is_told_in_our_words_and_in_time(says: bytes, error: str) -> None:
    async def attempt() -> Outcome:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"{}")
            writer.write(says)
            try:
                while says.startswith(b"HTTP") and not writer.is_closing():  # a byte at a time, for ever
                    writer.write(b"x")
                    await asyncio.sleep(0.01)
            finally:
                writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            return await Outgoing(private=True, timeout_s=0.3).send(f"http://127.0.0.1:{port}/", {}, b"{}")

    outcome = asyncio.run(attempt())
    assert (outcome.error, outcome.passing) == (error, True)


def test_a_host_that_is_not_there_may_be_there_later() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise OSError

    outcome = send(Outgoing(private=True, resolve=unknown), f"https://{HOST}/")
    assert (outcome.error, outcome.passing) == ("the name of the host is not known", True)
    with receiving() as gone:
        url = gone.url
    outcome = send(Outgoing(private=True), url)
    assert (outcome.error, outcome.passing) == ("the host cannot be reached", True)


def _contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server with a certificate for HOST of its own making, and of a client that trusts it."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(7).not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
    names = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.IPAddress(IPv4Address("10.0.0.1"))])
    certificate = made.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem, private = folder / "server.pem", folder / "server.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem, private)
    return server, ssl.create_default_context(cafile=str(pem))
