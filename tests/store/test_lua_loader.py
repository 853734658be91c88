"""What of the parts, and which keys, a script is given."""

import pytest

from redbike.store.keys import GIVEN
from redbike.store.lua_loader import SCRIPTS, select

PARTS = """-- What all scripts have.
local given, call = ARGV[1], redis.call
for i = 1, 2 do call('PING') end
local ONE, TWO = 1, 2  -- three is in the next line
local function three()
  return TWO + 1
end
local function four() return three() + ONE end
local function five()
  -- four and one, see three
  return 5
end
"""


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("return TWO", {"ONE, TWO"}),
        ("return three()", {"ONE, TWO", "three()"}),
        ("return four()", {"ONE, TWO", "three()", "four()"}),
        ("return five()", {"five()"}),
        ("-- four\n  -- five\nreturn 1", set()),
        ("return fourth", set()),
    ],
)
def test_a_script_has_the_statements_that_it_names_and_those_that_these_name(body, names):
    text = select(PARTS, body)
    statements = {"ONE, TWO", "three()", "four()", "five()"}
    assert {name for name in statements if f"local {name}" in text or f"local function {name}" in text} == names
    assert "for i" in text
    assert "local given" in text
    assert sorted(names, key=text.index) == sorted(names, key=PARTS.index)


@pytest.mark.parametrize("verb", sorted(SCRIPTS))
def test_a_script_gets_the_keys_that_it_names_in_the_common_order(verb):
    script = SCRIPTS[verb]
    keys = [key for key in GIVEN if key in script.keys]
    names = [key.rstrip("-").replace("-", "_") for key in keys]
    assert list(script.keys) == keys
    assert script.text.splitlines()[1] == f"local FIXED, {', '.join(names)} = {len(keys)}, unpack(KEYS)"


def test_a_script_that_only_reads_has_nothing_that_writes():
    assert "local function write" not in SCRIPTS["inspect"].text
    assert "requests" not in SCRIPTS["inspect"].keys
    assert "local function write" in SCRIPTS["end"].text
