"""Lines of a crontab, as Debian's cron reads them; ``python -m tests.beside_cron`` compares all of this with cron."""

import pytest

from redbike.importers.crontab_lines import Comment, Entry, Refused, Variable, read_lines, split_input

LEFT_OUT = {"when the machine starts", "no command"}  # and nothing is wrong with the line


def read(text, has_users=False):
    [line] = read_lines(text, has_users)
    return line


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("A = b c ", "A", "b c"),
        ("  A\t=\tb#c", "A", "b#c"),
        ('A="b c"', "A", "b c"),
        ("A='  b'", "A", "  b"),
        # Quotes keep no blanks at the end, whatever the manual says, and a second pair of them is taken away too.
        ("A='b  '", "A", "b"),
        ("A=\"'b'\"", "A", "b"),
        ("A='b\"'", "A", 'b"'),
        ("'A b'=c", "A b", "c"),
        ("A=$HOME/%\\", "A", "$HOME/%\\"),
        ("5=6", "5", "6"),
    ],
)
def test_a_line_sets_a_variable(line, name, value):
    assert read(f"{line}\n") == Variable(1, name, value)


@pytest.mark.parametrize(
    ("time", "schedule"),
    [
        ("0,30 9-17/2 1,15 jan-MAR 1-7", "0,30 9-17/2 1,15 jan-MAR 1-7"),
        ("\t*/5\t* *  *\t*", "*/5 * * * *"),
        ("@daily", "@daily"),
        # Cron does not look at what follows an item.
        ("5#2 * * * *", "5 * * * *"),
        ("*-7 1-5-9 * * mon#1", "* 1-5 * * mon"),
        # A range that ends before it begins has no values.
        ("0 22-2,4 * * *", "0 4 * * *"),
        ("0 0 * * fri-sun,2", "0 0 * * 2"),
        ("0 0 1 * 5-3,*/2,*", "0 0 1 * 0-7/2,*"),
        ("0 0 7-1,* * 5", "0 0 1-31 * 5"),
    ],
)
def test_a_schedule_is_what_cron_reads(time, schedule):
    line = read(f"{time} x\n")
    assert isinstance(line, Entry)
    assert (line.schedule, line.command, line.user) == (schedule, "x", "")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("60 * * * * x", "cron refuses '60': bad minute"),
        ("* * * * 8 x", "cron refuses '8': bad day-of-week"),
        ("* * * * monday x", "cron refuses 'monday': bad day-of-week"),
        ("5/15 * * * * x", "cron refuses '5/15': bad minute"),
        ("*/0 * * * * x", "cron refuses '*/0': bad minute"),
        ("1- * * * * x", "cron refuses '1-': bad minute"),
        ("H * * * * x", "cron refuses 'H': bad minute"),
        ("- * * * * x", "cron refuses '-': bad minute"),
        ("5 4", "it has no day-of-month"),
        ("@every 5m x", "bad time specifier"),
        ("* * * * * * x", "bad command"),
        ("A='b' c", "bad minute"),
        (f"* * * * * {'x' * 999}", "998 bytes"),
        (f"A={'x' * 996}", "997 bytes"),
        ("22-2 * * * * x", "cron never runs it: no minute is in '22-2'"),
        # These are right, but only cron can run them.
        ("@reboot x", "when the machine starts"),
        ("* * * * *", "no command"),
        ("* * * * * %input", "no command"),
        ("* * * * * x\r", "carriage return"),
        ("* * * * * x\\ ", "INI file"),
        ("* * * * * x\udcff", "not UTF-8"),
    ],
)
def test_a_line_that_cron_does_not_run_or_that_only_cron_can_run_is_refused(line, reason):
    found = read(f"{line}\n")
    assert isinstance(found, Refused)
    assert reason in found.reason
    assert found.text == line
    assert found.is_wrong == (reason not in LEFT_OUT)


@pytest.mark.parametrize(
    ("text", "command", "data"),
    [
        ("cat%one%two", "cat", "one\ntwo\n"),
        ("cat%%", "cat", "\n"),
        ("cat% one ", "cat", " one \n"),
        ("cat%100\\%%\\n", "cat", "100%\n\\n\n"),
        # In the command, cron removes a backslash before another one; in the input, it does not.
        ("sed 's/\\\\/x/'%a\\\\b", "sed 's/\\/x/'", "a\\\\b\n"),
        ("a \\\\\\% b", "a \\% b", ""),
        ("a \\\\%b", "a \\", "b\n"),
        ("a%\\", "a", "\\"),
        ("a%b\\", "a", "b\\\n"),
    ],
)
def test_input_begins_after_the_first_percent_sign(text, command, data):
    assert split_input(text) == (command, data)


def test_a_variable_holds_for_the_lines_below_it():
    text = "* * * * * a\nX=1\n* * * * * b\nX=2\nY=3\n* * * * * c\n"
    entries = [line for line in read_lines(text) if isinstance(line, Entry)]
    assert [entry.variables for entry in entries] == [{}, {"X": "1"}, {"X": "2", "Y": "3"}]
    assert [entry.number for entry in entries] == [1, 3, 6]


@pytest.mark.parametrize("user", ["root", "corp\\bob", "a.b@c.d", "host$", "jürgen", "x" * 64])
def test_a_line_of_the_system_names_any_user(user):
    for time, schedule in (("17 *\t* * *", "17 * * * *"), ("@daily", "@daily")):
        line = read(f"{time}\t{user}\tcd / && x\n", has_users=True)
        assert (line.schedule, line.user, line.command) == (schedule, user, "cd / && x")


@pytest.mark.parametrize("rest", ["", "root", "../root x", "$(id) x", "A=1 x", "backup.sh x"])
def test_a_line_of_the_system_without_a_user_and_a_command_is_refused(rest):
    assert isinstance(read(f"0 0 * * * {rest}\n", has_users=True), Refused)


def test_comments_and_empty_lines_are_kept():
    assert list(read_lines("\n  # a % \n#b")) == [Comment(1, ""), Comment(2, "# a %"), Comment(3, "#b")]
    assert list(read_lines("")) == []
