"""Hooks: ``startup`` and ``shutdown`` of a worker, and a middleware around each run, sync and async."""

import asyncio
import contextlib
import contextvars
import itertools
import runpy
import threading
from contextlib import ContextDecorator, asynccontextmanager, contextmanager, nullcontext

import pytest

from redbike import BadConfig, Jobs, Redbike, RedbikeError, RoundRobin, Stopping, Tracing, current_run
from tests.durations import set_lines
from tests.loops import beside, join, raising, start
from tests.pages import find_block
from tests.waiting import wait_until

seen = contextvars.ContextVar("seen", default=())


class Recorder:
    """Middleware of both kinds, which note what happens, and pass a word on in the context."""

    def __init__(self):
        self.notes = []

    def sync(self, name):
        @contextmanager
        def around(run):
            with self._noted(name, run):
                yield

        return around

    def asynchronous(self, name):
        @asynccontextmanager
        async def around(run):
            await asyncio.sleep(0)
            with self._noted(name, run):
                yield
            await asyncio.sleep(0)

        return around

    @contextmanager
    def _noted(self, name, run):
        self.notes.append(f"{name} enters {run.jobid}")
        seen.set((*seen.get(), name))
        try:
            yield
        except BaseException as error:
            self.notes.append(f"{name} sees {type(error).__name__}")
            raise
        self.notes.append(f"{name} leaves")


@pytest.fixture
def recorder():
    return Recorder()


def make(kind, notes, error=None):
    """A worker class's `work` of a kind, which notes what it sees, and raises `error`."""

    def note(jobid):
        notes.append(f"works {jobid}, sees {' '.join(seen.get())}")
        assert current_run().jobid == jobid
        if error:
            raise error

    async def work(self, jobid):
        await asyncio.sleep(0)
        note(jobid)

    def call(self, jobid):
        note(jobid)

    def give(self, jobid):
        return work(self, jobid)

    return {"async": work, "sync": call, "awaitable": give}[kind]


def make_worker(**attributes):
    return type("Worker", (RoundRobin,), attributes)("A")


@pytest.fixture
def run_one(client, prefix):
    """Works a job by a worker, or a class with these attributes; returns its run."""

    def run_one(worker=None, jobid="job:A", **attributes):
        with Redbike(worker or make_worker(**attributes), prefix, client) as bike:
            bike.set(jobid, "NOW")
            assert bike.work_one() == jobid
            return bike.runs(jobid)[0]

    return run_one


def begin(shell, *methods):
    """Start a worker of job:A, which is due; its class has these lines, and says what it works."""
    text = (
        "import os, time\n"
        "from contextlib import asynccontextmanager, contextmanager\n"
        "from redbike import RoundRobin\n"
        "class Worker(RoundRobin):\n"
        "    def work(self, jobid): print('worked', flush=True)\n"
    )
    (shell.folder / "jobs.py").write_text(text + "\n".join(methods))
    shell.run("set", "job:A", "NOW")
    return shell.start("work", "jobs:Worker('A')")


@pytest.mark.parametrize("kind", ["sync", "async", "awaitable"])
@pytest.mark.parametrize("kinds", list(itertools.product(["sync", "asynchronous"], repeat=2)))
@pytest.mark.parametrize("error", [None, OSError("full")])
def test_a_middleware_is_around_work_the_first_one_outermost(run_one, recorder, kind, kinds, error):
    middleware = [getattr(recorder, each)(name) for each, name in zip(kinds, "AB", strict=True)]
    run = run_one(middleware=middleware, work=make(kind, recorder.notes, error))
    left = [f"sees {type(error).__name__}"] * 2 if error else ["leaves"] * 2
    assert recorder.notes == [
        "A enters job:A", "B enters job:A", "works job:A, sees A B", f"B {left[0]}", f"A {left[1]}"
    ]  # fmt: skip
    assert run.outcome == ("failed" if isinstance(error, OSError) else "ok")
    assert run.error == ("OSError: full" if isinstance(error, OSError) else "")


@contextmanager
def suppress(run):
    with contextlib.suppress(OSError):
        yield


@asynccontextmanager
async def suppress_in_loop(run):
    with suppress(run):
        yield


@asynccontextmanager
async def replace(run):
    try:
        yield
    except OSError as error:
        raise ValueError("another") from error


async def forget_to_decorate(run):
    pass


class Wrapping:
    """Its instances are middleware."""

    def __call__(self, run):
        return nullcontext()


class Both(nullcontext, ContextDecorator):
    """Its instances are managers that can be called, but are not made with a run."""

    def __init__(self):
        super().__init__()


class Wrapped(nullcontext, ContextDecorator):
    """It is itself a middleware."""


NO_MANAGER = "TypeError: the middleware {} returned no context manager, but "


@pytest.mark.parametrize(
    ("middleware", "outcome", "error"),
    [
        (suppress, "ok", ""),
        (suppress_in_loop, "ok", ""),
        (replace, "failed", "ValueError: another"),
        (lambda run: None, "failed", NO_MANAGER.format("<lambda>")),
        (forget_to_decorate, "failed", NO_MANAGER.format("forget_to_decorate")),
        *((each, "failed", "OSError: full") for each in (Wrapping(), Wrapped, lambda run: Both(), nullcontext)),
    ],
)
@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.filterwarnings("error:.*was never awaited:RuntimeWarning")
def test_a_middleware_may_suppress_or_replace_what_is_raised(run_one, middleware, outcome, error, how):
    run = run_one(middleware=[middleware], work=make(how, [], OSError("full")))
    assert (run.outcome, run.error[: len(error)], bool(run.error)) == (outcome, error, bool(error))


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize(("other", "how"), [("sync", "sync"), ("asynchronous", "async")])
def test_one_that_cannot_be_entered_fails_the_run_and_the_others_are_left(run_one, recorder, position, other, how):
    @asynccontextmanager
    async def broken(run):
        raise OSError("no pool")
        yield

    middleware = [getattr(recorder, other)("A")]
    middleware.insert(position, broken)
    run = run_one(middleware=middleware, work=make(how, recorder.notes))
    assert (run.outcome, run.error) == ("failed", "OSError: no pool")
    assert recorder.notes == (["A enters job:A", "A sees OSError"] if position else [])


@pytest.mark.parametrize(("kind", "raises"), [("sync", False), ("asynchronous", True)])
def test_a_fork_that_comes_out_of_work_leaves_no_middleware(shell, kind, raises):
    worker = begin(
        shell,
        "    def work(self, jobid):",
        "        if child := os.fork(): os.waitpid(child, 0)",
        f"        elif {raises}: raise OSError('a child')",
        "@contextmanager",
        "def sync(run):",
        "    try: yield",
        "    finally: print('left', flush=True)",
        "@asynccontextmanager",
        "async def asynchronous(run):",
        "    with sync(run): yield",
        f"Worker.middleware = [{kind}]",
    )
    wait_until(lambda: [row[4] for row in shell.list_rows("runs")] == ["ok"])
    worker.terminate()
    assert worker.wait(60) == 0
    assert shell.log().count("left\n") == 1


def produce(*_):
    yield


async def produce_async(*_):
    yield


async def wait(*_):
    await asyncio.sleep(0)


async def give_coroutine(*_):
    return wait()


METHODS = ("work", "ended", "cancel", "abort", "startup", "shutdown")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        *((name, 3, "3") for name in ("startup", "shutdown", "middleware")),
        ("middleware", [3], "3 is no function"),
        *(("middleware", [kind], rf"{kind.__name__} is a class: ") for kind in (Wrapping, Both, Tracing)),
        # A call would run nothing of these.
        *((name, given, rf"{name}\(\) has a yield") for name in METHODS for given in (produce, produce_async)),
        # Nobody awaits these.
        *((name, give_coroutine, rf"{name}\(\) is called in a thread") for name in ("cancel", "abort")),
    ],
)
def test_an_invalid_hook_is_refused(client, prefix, name, value, said):
    with pytest.raises(BadConfig, match=f"bad {name} of Worker: .*{said}"):
        Redbike(make_worker(**{"work": make("sync", []), name: value}), prefix, client)
    if name in ("startup", "shutdown", "middleware"):
        with pytest.raises(BadConfig, match=f"bad {name} of Jobs: .*{said}"):
            Jobs(**{name: value})


def test_functions_need_a_list_of_middleware():
    with pytest.raises(BadConfig, match="bad middleware of Jobs: a list of functions is needed, not None"):
        Jobs(middleware=None)


@pytest.mark.parametrize("middleware", [[], [lambda run: nullcontext()]])
@pytest.mark.parametrize(
    ("given", "kind"), [(produce, "generator"), (produce_async, "async_generator"), (give_coroutine, "coroutine")]
)
def test_a_run_whose_code_nobody_runs_fails(run_one, middleware, given, kind):
    name = "wait" if kind == "coroutine" else given.__name__
    said = f"TypeError: work() returned the {kind} of {name}(), which nobody runs"
    run = run_one(work=lambda self, jobid: given(), middleware=middleware)
    assert (run.outcome, run.error) == ("failed", said)
    jobs = Jobs(middleware=middleware)
    jobs.job("job")(given if kind == "coroutine" else lambda: given())
    assert run_one(jobs, "job").error == said


@pytest.mark.parametrize("given", [produce, produce_async, give_coroutine])
def test_a_hook_whose_code_nobody_runs_fails(client, prefix, caplog, given):
    hook = {"startup": lambda self: given()}
    with pytest.raises(RedbikeError, match=r"startup\(\) returned the \w+ of \w+\(\), which nobody runs"):
        Redbike(make_worker(work=make("sync", []), **hook), prefix, client).work_one()
    bike = Redbike(make_worker(work=make("sync", []), ended=lambda self, run, end: given()), prefix, client)
    bike.set("job:A", "NOW")
    assert bike.work_one() == "job:A"
    assert "job:A: ended() of its worker class fails: TypeError: ended() returned the" in caplog.text


@pytest.mark.parametrize(("concurrency", "is_async"), [(1, False), (1, True), (3, True)])
def test_startup_and_shutdown_are_called_once_around_all_jobs(client, prefix, recorder, concurrency, is_async):
    notes, loops, threads = [], [], []

    def note(name):
        notes.append(name)

    async def note_in_loop(name):
        note(name)
        loops.append(asyncio.get_running_loop())

    def hook(name):
        return lambda: note_in_loop(name) if is_async else note(name)

    hooks = {name: hook(name) for name in ("startup", "shutdown")}
    # Read once: it may be any iterable.
    jobs = Jobs(concurrency=concurrency, **hooks, middleware=(each for each in [recorder.asynchronous("A")]))

    @jobs.job("job")
    async def work(jobid):
        assert seen.get() == ("A",)
        await note_in_loop(jobid)

    @jobs.job("sync")
    def work_in_thread():
        assert seen.get() == ("A",)
        threads.append(threading.current_thread().name)

    with Redbike(jobs, prefix, client) as bike, beside(bike.store, bike.work):
        for number in range(3):
            bike.set(f"job:{number}", "NOW")
        bike.set("sync", "NOW")
        wait_until(lambda: len(notes) == 4 and threads)
    assert threads != ["redbike-async"], "what blocks does not block the loop"
    assert (notes[0], sorted(notes[1:-1]), notes[-1]) == ("startup", ["job:0", "job:1", "job:2"], "shutdown")
    assert len(set(loops)) == 1, "what is opened in startup belongs to the loop of the jobs"


def test_each_call_of_work_has_a_startup_and_all_of_work_one_share_one(client, prefix):
    notes = []
    worker = make_worker(
        startup=lambda self: notes.append("startup"),
        shutdown=lambda self: notes.append("shutdown"),
        work=lambda self, jobid: notes.append("work"),
    )
    with Redbike(worker, prefix, client) as bike:
        for _ in range(2):
            bike.set("job:A", "NOW")
            assert bike.work_one() == "job:A"
        assert notes == ["startup", "work", "work"]
        with beside(bike.store, bike.work, bike.work):
            wait_until(lambda: notes.count("startup") == 3)
        assert notes.count("shutdown") == 2
    assert notes.count("shutdown") == 3


def test_a_startup_that_fails_ends_the_worker_with_its_line(shell):
    worker = begin(
        shell,
        "    def startup(self): raise OSError('no database')",
        "    def shutdown(self): print('closed', flush=True)",
    )
    assert worker.wait(60) == 1
    said = "redbike: the worker does not start: its startup() fails: OSError: no database"
    assert shell.log().splitlines()[-1] == said
    assert not {"closed", "worked"} & set(shell.log().splitlines())
    assert [*shell.list_rows("workers"), *shell.list_rows("runs")] == []


def test_a_signal_during_startup_stops_the_worker_in_order_whatever_shutdown_raises(shell):
    worker = begin(
        shell,
        "    def startup(self):",
        "        print('opening', flush=True)",
        "        while not os.path.exists('opened'): time.sleep(0.01)",
        "    async def shutdown(self):",
        "        print('closed', flush=True)",
        "        raise OSError('lost it')",
    )
    wait_until(lambda: "opening\n" in shell.log())
    worker.terminate()
    wait_until(lambda: "SIGTERM: stopping" in shell.log())
    (shell.folder / "opened").touch()
    assert worker.wait(60) == 0
    assert shell.log().count("closed\n") == 1
    assert "shutdown() of the worker class fails" in shell.log()
    assert "OSError: lost it" in shell.log()
    assert "worked" not in shell.log()
    assert shell.list_rows("workers") == []


@pytest.mark.parametrize(("kind", "hook"), [("def", "startup"), ("async def", "startup"), ("async def", "shutdown")])
def test_a_hook_that_never_ends_is_named_and_holds_nobody_up(shell, kind, hook):
    hanging = f"    {kind} {hook}(self): print('hangs', flush=True); time.sleep(1000)"
    # The worker has so long from its stop to its shutdown().
    worker = begin(shell, hanging, set_lines(leaving__CLOSING=3.0 if hook == "shutdown" else 0.3))
    wait_until(lambda: ("hangs" if hook == "startup" else "worked") in shell.log())
    worker.terminate()
    assert worker.wait(60) == 0
    assert f"{hook}() of the worker class goes on, in line " in shell.log()
    assert shell.list_rows("workers") == []


def test_a_worker_that_has_not_started_is_not_shut_down(client, prefix):
    notes = []
    jobs = Jobs(startup=raising(OSError("no database")), shutdown=lambda: notes.append("shutdown"))
    jobs.job("job")(lambda: notes.append("job"))
    with Redbike(jobs, prefix, client) as bike:
        bike.set("job", "NOW")
        for call in (bike.work_one, bike.work):
            with pytest.raises(RedbikeError, match=r"its startup\(\) fails: OSError: no database"):
                call()
    assert notes == []


def test_a_startup_that_was_interrupted_is_called_again(client, prefix):
    notes, raised = [], [KeyboardInterrupt()]
    worker = make_worker(
        startup=lambda self: raising(raised.pop())() if raised else notes.append("begun"),
        work=lambda self, jobid: notes.append(jobid),
    )
    with Redbike(worker, prefix, client) as bike:
        bike.set("job:A", "NOW")
        with pytest.raises(KeyboardInterrupt):
            bike.work_one()
        bike.work_one()
    assert notes == ["begun", "job:A"]


@pytest.mark.parametrize("is_async", [False, True])
def test_startup_may_work_a_job(client, prefix, is_async):
    worked = []

    def startup(self):
        bike.work_one()

    async def startup_in_loop(self):
        bike.work_one()

    hooks = {"startup": startup_in_loop if is_async else startup, "work": lambda self, jobid: worked.append(jobid)}
    with Redbike(make_worker(**hooks), prefix, client) as bike:
        for number in range(2):
            bike.set(f"{number}:A", "NOW")
        assert bike.work_one() == "1:A"
    assert worked == ["0:A", "1:A"]


def test_calls_that_work_one_job_at_the_same_time_begin_once(client, prefix):
    notes, meets, worked = [], threading.Barrier(2), threading.Event()

    class Worker(RoundRobin):
        meets = False

        @property
        def middleware(self):
            """It is read for each worker that is made, while another call may make one."""
            if self.meets:
                with contextlib.suppress(threading.BrokenBarrierError):
                    meets.wait(0.3)
            return ()

        def startup(self):
            notes.append("begins")
            worked.wait(0.3)
            notes.append("begun")

        def work(self, jobid):
            worked.set()
            notes.append(jobid)

    with Redbike(Worker("A"), prefix, client) as bike:
        for number in range(2):
            bike.set(f"{number}:A", "NOW")
        bike.worker.meets = True
        join(*[start(bike.work_one) for _ in range(2)])
    assert notes[:2] == ["begins", "begun"]
    assert sorted(notes[2:]) == ["0:A", "1:A"]


def test_an_async_middleware_that_never_enters_ends_at_the_deadline(run_one):
    @asynccontextmanager
    async def hang(run):
        await asyncio.sleep(1000)
        yield

    jobs = Jobs(middleware=[hang])
    jobs.job("job", timeout=0.2)(lambda: None)
    # The heartbeat may have been faster.
    said = "Overrun: a middleware was cancelled at its deadline", "overran its timeout of 0.2 s"
    assert run_one(jobs, "job").error in said


@pytest.mark.parametrize("kind", ["sync", "asynchronous"])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_middleware_sees_that_a_coroutine_was_ended_at_its_deadline(client, prefix, recorder, kind, concurrency):
    pending = []

    @asynccontextmanager
    async def close(run):
        try:
            yield
        finally:
            await asyncio.sleep(0)
            pending.append(asyncio.current_task().cancelling())

    jobs = Jobs(middleware=[getattr(recorder, kind)("outer"), close, recorder.asynchronous("inner")])

    @jobs.job("slow", timeout=0.1)
    async def slow() -> None:
        await asyncio.sleep(1000)

    with Redbike(jobs, prefix, client) as bike, beside(bike.store, lambda: bike.work(concurrency)):
        bike.set("slow", "NOW")
        wait_until(lambda: bike.runs("slow") and len(recorder.notes) == 4)
    assert recorder.notes[2:] == ["inner sees Overrun", "outer sees Overrun"]
    assert pending == [0], "a task group would end what waits then, from Python 3.13 on"


def test_a_job_whose_middleware_loses_its_event_loop_runs_again(client, prefix):
    inside, goes_on = threading.Event(), threading.Event()

    @asynccontextmanager
    async def wrap(run):
        yield

    jobs = Jobs(middleware=[wrap], concurrency=2)

    @jobs.job("job")
    def job() -> None:
        inside.set()
        assert goes_on.wait(60)

    @jobs.job("stops")
    async def stops() -> None:
        asyncio.get_running_loop().stop()

    with Redbike(jobs, prefix, client) as bike, beside(bike.store, bike.work):
        bike.set("job", "NOW")
        assert inside.wait(60)
        bike.set("stops", "NOW")
        wait_until(lambda: any(each["jobid"] == "stops" for each in bike.failures()))
        goes_on.set()
        wait_until(lambda: [past.outcome for past in bike.runs("job")] == ["ok", "lost"])
        assert [past.error for past in bike.runs("job")] == ["", "the event loop was stopped by a job"]


def test_the_example_of_the_page(run_one, tmp_path):
    (tmp_path / "piece.py").write_text(find_block("workers", "from contextlib import contextmanager"))
    names = runpy.run_path(str(tmp_path / "piece.py"), init_globals={"RoundRobin": RoundRobin})
    assert run_one(names["Worker"]("A")).outcome == "ok"


@pytest.mark.parametrize("is_set", [False, True])
def test_stopping_is_true_or_false(is_set):
    flag = threading.Event()
    if is_set:
        flag.set()
    stopping = Stopping(flag)
    assert (stopping == is_set, stopping == (not is_set), f"{stopping}", bool(stopping)) == (
        *(True, False, str(is_set), is_set),
    )
    assert stopping != Stopping(flag)
    assert len({stopping, Stopping(flag)}) == 2
