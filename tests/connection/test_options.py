"""Options of a URL and settings of a connection: each is known, of the right type, and of use, or it is refused."""

import socket
import ssl

import pytest

from redbike.connection.client import connect
from redbike.errors import BadConfig


@pytest.fixture
def no_files(monkeypatch):
    """Files that are named need not be there."""
    monkeypatch.setattr("redbike.connection.client.check_tls", lambda connection: None)


def arguments(config):
    return connect(config).connection_pool.connection_kwargs


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("redis://h:1/?nosuch=1", "'nosuch'"),
        ("redis://h:1/?socket_timeuot=1", "'socket_timeuot'; is 'socket_timeout' meant?"),
        ("unix:///r.sock?socket_keepalive=1", "'socket_keepalive' is not an option"),
        ("unix:///tmp/why?/r.sock", "'/r.sock'"),
        ("redis://h?ssl_ca_certs=/ca.pem", "'ssl_ca_certs' is not an option"),
        ("redis+sentinel://h/service?nosuch=1", "'nosuch'"),
        ("redis+cluster://127.0.0.1:1?nosuch=1", "'nosuch'"),
        ("redis://h?socket_timeout=soon", "'soon'"),
        ("redis://h?protocol=9", "protocol must be"),
        ({"host": "h", "protocol": "9"}, "protocol must be"),
        ({"host": "h", "pasword": "hunter2"}, "'pasword'; is 'password' meant?"),
        ("rediss://h?ssl_min_version=TLSv9", "bad connection setting ssl_min_version 'TLSv9': a value such as TLSv1.2"),
        ("rediss://h?ssl_include_verify_flags=STRICT", "'STRICT': a value such as VERIFY_X509_STRICT"),
        ("rediss://h?ssl_ca_certs=/no.pem", "ssl_ca_certs '/no.pem': No such file or directory"),
        (
            {"host": "h", "ssl": True, "ssl_keyfile": "/no.key"},
            "bad connection setting ssl_keyfile '/no.key': certfile",
        ),
        (f"redis+clusters://h?ssl_password=hunter2&ssl_certfile={__file__}", f"ssl_certfile '{__file__}': [SSL]"),
        ("rediss+sentinel://h/service?ssl_ciphers=bogus", "ssl_ciphers 'bogus': No cipher can be selected."),
        ("redis://h?socket_keepalive_options=60", "'60': a value such as TCP_KEEPIDLE=60,"),
        ("redis://h?socket_keepalive_options=TCP_KEEPIDLE=99999999999", "such as TCP_KEEPIDLE=60,"),
        ("redis://h?socket_timeout=nan", "bad connection setting socket_timeout nan: 0.001 to 1e+06 are allowed"),
        ("redis://h?socket_connect_timeout=inf", "bad connection setting socket_connect_timeout inf"),
        ("redis+cluster://127.0.0.1:1?socket_timeout=-1", "bad connection setting socket_timeout -1"),
        ({"host": "h", "socket_timeout": 0}, "bad connection setting socket_timeout 0"),
        ({"host": "h", "socket_read_size": "99999999999999"}, "bad connection setting socket_read_size 99999999999999"),
        ({"host": "h", "port": "70000"}, "bad connection setting port 70000: 1 to 65535 are allowed"),
        ({"host": "exa..mple"}, "'exa..mple' is not a host name"),
        ("redis://exa..mple", "'exa..mple' is not a host name"),
        ("redis+cluster://h/1", "without a path"),
        ("redis+clusters://h/service", "without a path"),
        ("redis+cluster://", "a host is missing"),
        ("redis+cluster://:6379", "a host is missing"),
        ("redis+cluster://h:abc", "'abc'"),
        ("redis+sentinel://h:abc/service", "'abc'"),
        ("redis://h:0", "bad port 0"),
        ("redis://h/x", "'x' is not the number of a database"),
        ("redis+sentinel://h/service/x", "'x' is not the number of a database"),
        *((url, "bad url") for url in ("", "localhost", "http://h", "redis:h", "unix://", "redis+sentinel://h")),
        ({"port": "many"}, "many"),
        ({"ssl": "perhaps"}, "perhaps"),
        (7, "bad redis_config int"),
    ],
)
def test_what_is_no_option_is_refused(config, said):
    with pytest.raises(BadConfig) as refused:
        connect(config)
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("redis://u:p@h:7/3", {"host": "h", "port": 7, "db": 3, "username": "u", "password": "p"}),
        ("redis://h", {"host": "h", "socket_timeout": 5.0, "socket_keepalive": True}),
        ("redis://h?socket_timeout=9", {"socket_timeout": 9.0}),
        ("unix:///run/r.sock?db=2", {"path": "/run/r.sock", "db": 2}),
        ({"host": "h", "port": "7", "db": "3"}, {"host": "h", "port": 7, "db": 3}),
        ({"unix_socket_path": "/run/r.sock", "password": "123"}, {"path": "/run/r.sock", "password": "123"}),
        ({"socket_timeout": "2.5"}, {"socket_timeout": 2.5}),
        ("redis://h?client_name=a@b", {"client_name": "a@b"}),
        ("redis://h/1?db=2", {"db": 2}),
        ("redis://h?password=p%40x&username=u", {"password": "p@x", "username": "u"}),
        ("redis://h?socket_keepalive=off", {"socket_keepalive": False}),
        ("rediss://h?ssl_ca_certs=/ca.pem&ssl_check_hostname=no", {"ssl_ca_certs": "/ca.pem"}),
        ("rediss://h?ssl_cert_reqs=none", {"ssl_cert_reqs": "none"}),
        ("rediss://h?ssl_min_version=771", {"ssl_min_version": 771}),
        ("redis+sentinel://h/service/4?socket_timeout=9", {"db": 4, "socket_timeout": 9.0}),
        ("redis+sentinel://[::1],h/service", {"db": 0}),
        ({"host": "h", "protocol": "3"}, {"protocol": 3}),
        ("rediss://h?ssl_min_version=TLSv1.3", {"ssl_min_version": ssl.TLSVersion.TLSv1_3}),
        (
            "rediss://h?ssl_exclude_verify_flags=VERIFY_X509_STRICT,VERIFY_X509_PARTIAL_CHAIN",
            {"ssl_exclude_verify_flags": [ssl.VERIFY_X509_STRICT, ssl.VERIFY_X509_PARTIAL_CHAIN]},
        ),
        (
            "redis://h?socket_keepalive_options=TCP_KEEPIDLE=60,TCP_KEEPCNT=3",
            {"socket_keepalive_options": {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPCNT: 3}},
        ),
    ],
)
def test_what_is_one_is_typed_and_used(config, expected, no_files):
    built = arguments(config)
    assert {name: built.get(name) for name in expected} == expected
    assert built["retry"].get_retries() == 0


def test_what_other_programs_want_of_the_same_url_does_not_change_ours():
    built = arguments("redis://h?decode_responses=True&health_check_interval=30&encoding=latin-1&retry_on_timeout=yes")
    assert not built["decode_responses"]
    assert built["health_check_interval"] == 0
    assert built["encoding"] == "utf-8"
    assert "retry_on_timeout" not in built
    assert built["retry"].get_retries() == 0


def test_a_relative_path_names_the_same_file_when_a_job_has_changed_the_folder(server, tmp_path, monkeypatch, no_files):
    (tmp_path / "s").symlink_to(server.socket)
    monkeypatch.chdir(tmp_path)
    files = {"ssl_ca_certs": "ca.pem", "ssl_certfile": "cert.pem", "ssl_keyfile": "key.pem"}
    with connect({"unix_socket_path": "s"}) as client, connect({"ssl": True, **files}) as encrypted:
        monkeypatch.chdir("/")
        assert client.ping()
        found = encrypted.connection_pool.connection_kwargs
    assert {name: found[name] for name in files} == {name: str(tmp_path / file) for name, file in files.items()}
