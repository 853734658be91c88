"""Made-up histories for the oracle."""

import re

from tests.chaos.history import read
from tests.chaos.journal import Journal
from tests.chaos.oracle import judge

EPOCH = 1_800_000_000.0  # of the monotonic clock; a full minute
JOB = "fast.still.1:A"
CRON = "* * * * * */10"
RUN = re.compile(r"([\d.]+)(?:@([\d.]+))?(?:\+([\d.]+))?(?:/(\d))?([!?]?)")
HELD = ("schedules", "statuses", "queued", "running", "skipped", "failures", "retry_states", "timeline")


class Story:
    """Writes a history; times are seconds after `EPOCH`. It begins with a job that is due at 10, 20, …, 60 s."""

    def __init__(self, folder, shards=1):
        self.folder = folder
        self.faults = Journal(folder / "faults.log")
        self.operations = Journal(folder / "operations.log")
        self.snapshots = Journal(folder / "snapshots.log")
        self.lines = []
        self.faults.note("clock", offset=EPOCH)
        self.faults.note("run", options={"--shards": shards})
        for pid in (1, 2):
            self.faults.note("start", name=f"w{pid}", role="worker", pid=pid, at=0, skew=0, many=False)
        self.snapshot("after", 1, timeline=10)

    def run(self, due, start=None, pid=1, tag=None, took=0.1, job=JOB, how="done"):
        start = due + 0.01 if start is None else start
        tag = tag or f"{pid}-{start}"
        self.lines.append(f"S {start} {pid} {tag} {EPOCH + due} {EPOCH + start - 0.001} {job}")
        if took is not None:
            self.lines.append(f"E {start + took} {pid} {tag} {how} {job}")

    def runs(self, text):
        """Runs by their due times: ``30@33+2/2`` began at 33 s, took 2, on worker 2; ``!`` failed, ``?`` has no end."""
        for word in text.split():
            due, start, took, pid, end = RUN.fullmatch(word).groups()
            took = None if end == "?" else float(took or 0.1)
            self.run(float(due), start and float(start), int(pid or 1), took=took, how="raised" if end else "done")

    def fault(self, name, began, ended, **more):
        self.faults.note("fault", name=name, began=began, ended=ended, **more)

    def died(self, pid, at):
        self.faults.note("exit", name=f"w{pid}", role="worker", pid=pid, at=at, status=-9)

    def change(self, kind, began, schedule=CRON, answer="ok", job=JOB, **more):
        told = {"job": job, "schedule": schedule, "answer": answer, "skipped": 0, **more}
        self.operations.note(kind, **told, began=began, ended=began + 0.01)

    def taken_over(self, pending=40, until=35.1):
        """A master goes at 35 s; the next one has what was acknowledged up to 34 s, and is there at 37 s."""
        self.snapshot("before", 37, timeline=pending)
        self.fault("master-kill", 35, 38, since=34, until=until)
        self.snapshot("after", 37, timeline=pending)

    def remember(self, *runs):
        """What `redbike runs` prints: due times, and maybe outcomes and processes."""
        rows = [(due, "ok", 1) if isinstance(due, int) else due for due in runs]
        workers = [f"web1:{pid}:x7Kd9QaZ" if pid else "" for _, _, pid in rows]
        lines = [
            f"{JOB},{EPOCH + due},{EPOCH + due},0.1,{how},1,,{worker},,\n"
            for (due, how, _), worker in zip(rows, workers, strict=True)
        ]
        header = "jobid,due,started,took,outcome,attempt,error,worker,cpu,memory\n"
        (self.folder / "remembered.csv").write_text(header + "".join(lines))

    def snapshot(self, when, at, job=JOB, schedule=CRON, timeline=None, skipped=0, **more):
        held = {name: {} for name in HELD}
        if schedule:
            held |= {"schedules": {job: schedule}, "statuses": {job: "TML:1800000000"}}
        if timeline is not None:
            held["timeline"] = {job: EPOCH + timeline}
        if skipped:
            counts = skipped if isinstance(skipped, dict) else {"missed": skipped}
            # With the id of another job, or of this one.
            names = {reason: reason if ":" in reason else f"{reason}:{job}" for reason in counts}
            held["skipped"] = {names[reason]: str(count) for reason, count in counts.items()}
        self.snapshots.note(when, began=at, ended=at, **(held | more))

    def verdict(self, pending=70, **more):
        """Judge, when the story ends at 65 s with the job due at `pending`."""
        self.faults.note("end", at=64)
        self.snapshot("before", 65, timeline=pending, **more)
        (self.folder / "runs.log").write_text("".join(f"{line}\n" for line in self.lines))
        return judge(read(self.folder))
