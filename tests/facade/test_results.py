"""What works while its results are read cannot be dropped silently."""

import io
import re
import subprocess
import sys
import warnings

import pytest

from redbike.facade.results import Results
from tests.commandline import ROOT

PAIRS = [("a:A", "EVERY:1h"), ("b:A", "EVERY:1h"), ("c:A", "EVERY:1h")]


def calls(bike):
    rows = "".join(f"{jobid},{schedule}\n" for jobid, schedule in PAIRS)
    return {"set_many()": lambda: bike.set_many(PAIRS), "load()": lambda: bike.load(io.StringIO(rows))}


def list_said(caplog):
    """What was logged, but for runs: those of an earlier test are told up to a second later."""
    return [each.getMessage() for each in caplog.records if each.name != "redbike.worker"]


@pytest.mark.parametrize("name", ["set_many()", "load()"])
def test_what_was_never_read_is_a_warning_and_a_line_of_log(bike, name, caplog):
    text = f"{name} was never read: nothing was done"
    with pytest.warns(RuntimeWarning) as warned:
        calls(bike)[name]()
    assert [str(each.message) for each in warned] == [text]
    assert list_said(caplog) == [f"{text}; read its results to the end, as with list()"]
    assert list(bike.get_schedules()) == []
    for number, shown in ((1, "1 result"), (2, "2 results")):
        said = rf"{re.escape(name)} was dropped after {shown}: later batches were not done"
        with pytest.warns(RuntimeWarning, match=said):
            for _ in zip(range(number), calls(bike)[name](), strict=False):
                pass
        # All of the batch is done.
        assert len(list(bike.get_schedules())) == 3
    assert len(list_said(caplog)) == 3


@pytest.mark.parametrize("name", ["set_many()", "load()"])
def test_what_is_read_to_its_end_or_closed_or_has_failed_is_none(bike, name, caplog):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(calls(bike)[name]())) == 3
        results = calls(bike)[name]()
        assert iter(results) is results
        next(results)
        results.close()
        results.close()
        with pytest.raises(StopIteration):
            next(results)
        del results
        calls(bike)[name]().close()
        assert list(bike.set_many([])) == []
        with pytest.raises(ZeroDivisionError):
            list(Results("call()", (1 // number for number in (1, 0, 1))))
    assert list_said(caplog) == []


@pytest.mark.parametrize(("read", "said"), [("list(results)", 0), ("next(results)", 1)])
def test_it_is_said_also_where_the_program_ends_but_not_after_the_last_result(read, said):
    code = f"from redbike.facade.results import Results\nresults = Results('call()', iter('ab'))\n{read}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.count("RuntimeWarning: call() was") == said
