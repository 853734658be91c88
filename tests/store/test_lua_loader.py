"""What of the parts, and which keys, a script is given. The headers of all files name the keys that they use."""

import re

import pytest

from redbike.store.keys import GIVEN
from redbike.store.lua_loader import NAMES, PARTS, join_parts, list_words, load_all, read_files, read_keys, select

FILES, SCRIPTS = read_files(), load_all()
KEYS = set(NAMES.values())

STATEMENTS = """-- What all scripts have.
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
    text = select(STATEMENTS, body)
    statements = {"ONE, TWO", "three()", "four()", "five()"}
    assert {name for name in statements if f"local {name}" in text or f"local function {name}" in text} == names
    assert "for i" in text
    assert "local given" in text
    assert sorted(names, key=text.index) == sorted(names, key=STATEMENTS.index)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("call('GET', key)  -- of a job", {"call", "key"}),
        ("""a = "b 'c" .. 'd -- \\' e' .. f""", {"f"}),
        ("run.due, x = {due = due, y == z}, run.due..last", {"run", "due", "y", "z", "last"}),
    ],
)
def test_only_names_count(text, words):
    """Not comments, strings, fields, and what gets a value: that is used elsewhere, or it is of no use."""
    assert list_words(text) == words


@pytest.mark.parametrize("verb", sorted(SCRIPTS))
def test_a_script_gets_the_keys_of_its_header_in_the_common_order(verb):
    script = SCRIPTS[verb]
    listed = read_keys(verb, FILES)
    assert script.keys == tuple(key for key in GIVEN if NAMES[key] in listed)
    names = [NAMES[key] for key in script.keys]
    assert script.text.splitlines()[1] == f"local FIXED, {', '.join(names)} = {len(names)}, unpack(KEYS)"
    assert names, "a cluster finds the server by a key"


def test_no_other_word_of_a_script_makes_a_key():
    header = "#!lua\n-- set: nothing.\n-- keys   schedules,\n--         _write\n-- given  spent\n"
    files = FILES | {"set": f"{header}local timers = call('GET', journal)\n", "_write": "-- keys   slots\n"}
    assert read_keys("set", files) == {"schedules", "slots"}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_lists_the_keys_that_it_uses_and_no_others(name):
    """Also those of the functions that it needs of other parts, unless it lists such a part as a whole."""
    assert read_keys(name, FILES) == list_words(join_parts(name, FILES)) & KEYS


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_key_that_a_file_uses_itself_is_listed_by_its_name(name):
    listed = read_keys(name, {**dict.fromkeys(FILES, ""), name: FILES[name]})
    assert list_words(FILES[name]) & KEYS <= listed


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_else_has_the_name_of_a_key(name):
    """So that a word in the body is the key wherever it is no field."""
    code = re.sub(r"--.*", "", FILES[name])
    made = re.findall(r"\blocal (?:function )?([\w, ]+)|function[ \w.]*\((.*?)\)|\bfor ([\w, ]+?) (?:in|=)", code)
    assert not KEYS & set(re.findall(r"\w+", str(made)))


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_belongs_to_all_scripts_or_to_one(name):
    assert name in SCRIPTS or name in PARTS or name.split("_")[1] in SCRIPTS


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_fits_the_screen(name):
    lines = FILES[name].splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 90
