"""Targets: what is no host of the internet is refused, however it is written."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from graftwork.errors import InvalidRequest
from graftwork.registry.webhooks.targets import check_url, is_public, problem_of

PUBLIC = ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]
NOT_PUBLIC = [
    "127.0.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::8.8.8.8",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fd00:ec2::254",
    "ff02::1",
    "2001:db8::1",
    "3fff::1",
    "2001:0:808:808::1",
    "2002:7f00:1::1",
]


def test_addresses_of_the_internet_are_public_and_no_others() -> None:
    assert [one for one in PUBLIC if not is_public(ip_address(one))] == []
    assert [one for one in NOT_PUBLIC if is_public(ip_address(one))] == []


def test_one_address_that_is_not_public_is_enough_and_which_is_not_told() -> None:
    problem = problem_of(["8.8.8.8", "10.1.2.3"], scheme="https", private=False)
    assert problem is not None and "not public" in problem and "10.1.2.3" not in problem
    assert problem_of(PUBLIC, scheme="https", private=False) is None
    assert problem_of(["10.1.2.3"], scheme="https", private=True) is None
    assert problem_of([], scheme="https", private=True) == "its host has no address"


def test_plain_http_is_for_loopback_where_targets_may_be_private() -> None:
    assert problem_of(["127.0.0.1", "::1", "::ffff:127.0.0.1"], scheme="http", private=True) is None
    assert problem_of(["127.0.0.1", "10.1.2.3"], scheme="http", private=True) is not None
    check_url("http://127.0.0.1:9/x", private=True)
    with pytest.raises(InvalidRequest, match="https"):
        check_url("http://127.0.0.1:9/x", private=False)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example/x",
        "ftp://hooks.example/",
        "https://",
        "https://hooks.example:22/",
        "https://hooks.example:70000/",
        "https://ann:pw@hooks.example/",
        "https://hooks.example/#x",
        "https://hooks.example\\@10.0.0.1/",
        "https://hooks.example/ x",
        "https://hooks.example/\n",
        "https://höoks.example/",
        "https://[::1]/",
        "https://[fe80::1%25eth0]/",
        "https://10.1.2.3/",
        "https://169.254.169.254/latest/meta-data",
    ],
)
def test_a_url_to_which_nothing_will_be_sent_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_url(url, private=False)
    assert refused.value.field == "url"


@pytest.mark.parametrize("url", ["https://hooks.example/x?key=7", "https://hooks.example:8443", "https://8.8.8.8/"])
def test_any_other_is_taken(url: str) -> None:
    check_url(url, private=False)
