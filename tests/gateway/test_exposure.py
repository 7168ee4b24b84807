"""Where a server may listen: what others reach asks who they are, on connections that cannot be read."""

from __future__ import annotations

import datetime as dt
import ssl
import threading
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from graftwork.access.access import Access
from graftwork.access.tenants import LOCAL
from graftwork.errors import Refused
from graftwork.gateway import server
from graftwork.gateway.app import build_app
from graftwork.gateway.exposure import LOOPBACK_NAMES, check_exposure, is_loopback, names_of
from graftwork.registry.tenancy import Tenancy
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, fake_outline

TLS: dict[str, Any] = {"tls_cert": Path("cert.pem"), "tls_key": Path("key.pem")}


@pytest.fixture
def with_admin(settings: Settings) -> Access:
    app = build_app(settings, outline_of=fake_outline)
    tenancy: Tenancy = app.state.services.tenancy
    tenancy.keys.create(LOCAL, name="", role="admin", scopes=("inference", "read", "manage"), actor="me")
    return app.state.services.snapshots.current().part(Access)  # type: ignore[no-any-return]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_on_this_machine_alone_nothing_is_wanted(settings: Settings, host: str) -> None:
    assert is_loopback(host)
    check_exposure(settings.model_copy(update={"host": host}), Access())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "", "127.0.0.1.example"])
def test_elsewhere_a_key_and_encryption_are_wanted(settings: Settings, with_admin: Access, host: str) -> None:
    open_to_all = settings.model_copy(update={"host": host})
    with pytest.raises(Refused) as refused:
        check_exposure(open_to_all, Access())
    assert [("--admin" in one, "--tls-cert" in one) for one in refused.value.problems] == [(True, False), (False, True)]
    with pytest.raises(Refused, match="nothing encrypts"):
        check_exposure(open_to_all, with_admin)
    with pytest.raises(Refused, match="no API key"):
        check_exposure(open_to_all.model_copy(update=TLS), Access())
    for enough in (TLS, {"behind_proxy": True}, {"trusted_proxies": ("10.0.0.0/8",)}):
        check_exposure(open_to_all.model_copy(update=enough), with_admin)


def test_behind_a_proxy_others_come_over_loopback_so_a_key_is_wanted(settings: Settings, with_admin: Access) -> None:
    behind = settings.model_copy(update={"behind_proxy": True})
    with pytest.raises(Refused, match="no API key"):
        check_exposure(behind, Access())
    check_exposure(behind, with_admin)
    assert names_of(behind) is None and names_of(settings) == LOOPBACK_NAMES


def test_serve_refuses_before_it_listens(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_listen", lambda *_: pytest.fail("it listens"))
    with pytest.raises(Refused, match="key create --admin"):
        server.serve(settings.model_copy(update={"host": "0.0.0.0"}), announce=lambda _: None)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Of 127.0.0.1, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(plain)
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return folder / "cert.pem", folder / "key.pem"


def test_it_speaks_tls_with_the_certificate_that_it_is_given(settings: Settings, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    engine, answers, threads = FakeEngine(), list[httpx.Response](), list[threading.Thread]()

    def ask(url: str) -> None:
        try:
            with httpx.Client(verify=ssl.create_default_context(cafile=str(cert)), timeout=30) as http:
                # The proxy's word for the address of who asks is not taken from anybody.
                answers.append(http.get(f"{url}/api/v1/whoami", headers={"x-forwarded-for": "10.0.0.1"}))
        finally:
            engine.ready = False  # ends the server

    def announce(url: str) -> None:
        assert url.startswith("https://127.0.0.1:")
        threads.append(threading.Thread(target=ask, args=(url,)))
        threads[0].start()

    app = build_app(settings, engine=engine, outline_of=fake_outline)
    with pytest.raises(Exception, match="restart the server"):
        server.run_app(
            app,
            app.state.services.engine,
            settings.model_copy(update={"tls_cert": cert, "tls_key": key}),
            announce=announce,
        )
    threads[0].join()
    assert [answer.status_code for answer in answers] == [200]
