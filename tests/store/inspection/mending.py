"""What all tests of repairs ask: whether all is well then, and what runs."""


def repaired(bike):
    """The lines of a repair after which all is well."""
    lines = list(bike.repair())
    assert lines
    assert all(well for _, well in lines), lines
    assert list(bike.fsck()) == []
    assert list(bike.repair()) == [], "the second time there is nothing to do"
    return [line for line, _ in lines]


def drained(bike):
    """What runs until all queues are empty, in this order."""
    bike.worker.worked.clear()
    while bike.work_one():
        pass
    return list(bike.worker.worked)


def state_of(bike, jobid="job:A", queues=("work-A",)):
    return bike.store.questions.inspect([jobid], {jobid: [*queues]})[0]
