"""Write what runs imported jobs: the config file, and units of systemd for the users that they belong to."""

from collections.abc import Iterator, Sequence

from redbike.moving.local_system import LocalTime

WORKER = "redbike.commands:Commands('{queues}', 'commands.ini')"


def make_config(queue: str, users: Sequence[str], local_time: LocalTime, mark: str) -> str:
    """Return the config file. Decisions begin with `mark`."""
    return "".join(f"{line}\n" for line in _list_settings(queue, users, local_time, mark))


def _list_settings(queue: str, users: Sequence[str], local_time: LocalTime, mark: str) -> Iterator[str]:
    yield "[redbike]"
    if len(users) < 2:
        yield f"worker: {WORKER.format(queues=make_queue(queue, *users))}"
    else:
        yield "# Each user has a worker of his own: see the units beside this file."
    if local_time.doubt:
        yield f"# {mark} {local_time.doubt}. Cron ran its lines in the time of /etc/localtime."
    elif local_time.timezone is None:
        yield f"# {mark} the local time of this machine is not known. Cron ran its lines in local time."
    else:
        yield "# Cron ran its lines in the local time of this machine."
    yield f"timezone: {local_time.timezone or 'UTC'}"
    yield "# Cron does not run later what it has missed, while the machine was down."
    yield "catchup: none"
    yield "# To cron, a command that fails is no reason to stop."
    yield "on-error: reschedule"
    yield "on-timeout: reschedule"
    yield "# Cron starts a command also while its last run goes on. A job of Redbike never overlaps itself:"
    yield "# such an occurrence is skipped and counted. With queue, it runs once when the last run has ended."
    yield "overlap: skip"
    if len(users) > 1:
        yield ""
        yield "[redbike-redis]"
        yield f"# {mark} name a server that the workers of all users reach; a user's embedded server is his alone."
        yield "# url: unix:///run/redis/redis-server.sock"


def make_queue(queue: str, user: str = "") -> str:
    """Return the name of the queue for the jobs of `user`; "" for a crontab that has only one user."""
    return f"{queue}-{user}" if user else queue


def make_units(queue: str, users: Sequence[str], folder: str, program: str) -> dict[str, str]:
    """Return the units by their file names: a worker for each user, and a dispatcher if there are several users."""
    if not users:
        return {}
    if len(users) == 1:
        return {_name_unit(queue, users[0]): _make_unit(f"of {users[0]}", users[0], folder, f"{program} up")}
    units = {}
    for user in users:
        worker = WORKER.format(queues=make_queue(queue, user))
        units[_name_unit(queue, user)] = _make_unit(f"of {user}", user, folder, f'{program} work "{worker}"')
    units[_name_unit(queue, "dispatch")] = _make_unit(
        "of all users: the dispatcher", users[0], folder, f"{program} dispatch"
    )
    return units


def _name_unit(queue: str, user: str) -> str:
    return f"redbike-{queue}-{user}.service"


def _make_unit(whose: str, user: str, folder: str, command: str) -> str:
    return f"""\
# Copy this file to /etc/systemd/system, and start it with: systemctl enable --now NAME
[Unit]
Description=Redbike: jobs {whose}
After=network.target

[Service]
User={user}
WorkingDirectory={folder}
ExecStart={command}
Restart=on-failure
KillMode=mixed
TimeoutStopSec=2h

[Install]
WantedBy=multi-user.target
"""
