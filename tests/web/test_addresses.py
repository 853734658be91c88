"""Whom ten wrong tokens lock out."""

import pytest

from redbike.web.keys import TRIES, Tries
from redbike.web.server import list_proxies


@pytest.mark.parametrize(
    ("wrong", "other"),
    [
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2"),  # as a socket for IPv4 and IPv6 writes them
        ("192.0.2.1", "192.0.2.2"),
        ("2001:db8::1", "2001:db8:0:1::1"),
    ],
)
def test_who_guesses_locks_out_no_other_address(wrong, other):
    tries = Tries()
    for _ in range(TRIES):
        tries.add(wrong)
    assert tries.is_over(wrong)
    assert not tries.is_over(other)


def test_a_proxy_is_known_however_its_address_is_written():
    assert list_proxies("127.0.0.1, ::1") == ["127.0.0.1", "::1", "::ffff:127.0.0.1"]
    assert list_proxies("10.0.0.0/8,fd00::/8") == ["10.0.0.0/8", "fd00::/8", "::ffff:10.0.0.0/104"]
    assert list_proxies("*") == ["*"]


def test_an_address_is_the_same_however_it_is_written():
    tries = Tries()
    for _ in range(TRIES):
        tries.add("::ffff:192.0.2.1")
    assert tries.is_over("192.0.2.1")
