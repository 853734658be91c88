"""The values of the keys in a file of commands."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redbike.commands.values import RAW_WORD, find_operator


@pytest.mark.parametrize(
    ("line", "operator"),
    [
        ("echo hi > out", ">"),
        ("echo hi >>out", ">>"),
        ("x --a='b > c' 2>/dev/null", "2>"),
        ("x 2>&1 | logger", "2>"),
        ("x &> out", "&>"),
        ("sort < in", "<"),
        ("true && false", "&&"),
        ("/bin/false || mail", "||"),
        ("bash script | logger", "|"),
        ("one ; two", ";"),
        ("server &", "&"),
        # Each of these is a word that its program may get.
        ("echo 'a > b' '>' \">\" \\> c", ""),
        ("awk '$1 > 5 && $2 < 3 {print; exit}' x", ""),
        ("sh -c 'true && false' x", ""),
        ("curl http://host/?a=1&b=2 a|b x>y", ""),
        ("redis-cli XREADGROUP GROUP g c STREAMS s >", ""),
        ("pip install x >=1.0", ""),
        ("mail -r <me@example.org> you", ""),
        ("find . -name x -exec rm {} ; -o -exec ls {} \\;", ""),
        ("timeout 60 /usr/bin/ssh host cd /x && ./run", ""),
    ],
)
def test_an_operator_of_a_shell_is_found_among_the_words_of_a_line(line, operator):
    assert shlex.split(line)
    assert find_operator(line) == operator


@given(st.text("ab'\"\\ \t>\u00a0"))
def test_the_words_with_their_quotes_are_those_of_the_command(line):
    try:
        words = shlex.split(line)
    except ValueError:
        return
    assert [shlex.split(raw) for raw in RAW_WORD.findall(line)] == [[word] for word in words]
