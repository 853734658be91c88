"""What cron takes from the system, and the units that run imported jobs there."""

import importlib.resources
import re
import shutil
import subprocess
import zoneinfo
from pathlib import Path

import pytest

from redbike.importers.crontab import CONFIG, Host, convert
from redbike.importers.crontab_system import LocalTime, find_local_time, read_variables
from redbike.worker.loader import load_worker


@pytest.mark.parametrize("program", ["/tmp/a bläh/redbike", "/tmp/50%/$HOME/redbike"])
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_reads_the_units_as_they_are_meant(tmp_path, program):
    program, folder = f"{tmp_path}{program}", f"{tmp_path}/the jobs 100%"
    for path in (Path(program).parent, Path(folder)):
        path.mkdir(parents=True)
    shutil.copy("/bin/true", program)
    imported = convert(
        "0 1 * * * root a\n0 2 * * * corp\\b%b b\n", Host(LocalTime("UTC"), {}, folder, program), has_users=True
    )
    units = [name for name in imported.files if name.endswith(".service")]
    assert re.fullmatch(r"redbike-cron-\w{4}-corp\\x5cb\\x25b\.service", units[1])
    for name in units:
        (tmp_path / name).write_text(imported.files[name])
        # It says so if there is no such program, or a line that it cannot read.
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", tmp_path / name], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert f"\nWorkingDirectory={folder}%\n" in imported.files[units[1]]
    assert "\nUser=corp\\b%%b\n" in imported.files[units[1]]
    # The queue is that of the jobs, whatever the name of the user has in it.
    [worker] = re.findall(r'work "(.*)"', imported.files[units[1]])
    spec = worker.replace("%%", "%").replace("\\\\", "\\")
    assert load_worker(spec, str(tmp_path)).queue_names() == ["work-cron-corp\\b%b"]
    assert imported.jobs[1].jobid.endswith(":cron-corp\\b%b")


@pytest.fixture
def system(tmp_path):
    """The root of a system with the folder of the zones, and an own file of one that has no name."""
    (tmp_path / "etc/default").mkdir(parents=True)
    (tmp_path / "usr/share/zoneinfo/Asia").mkdir(parents=True)
    (tmp_path / "usr/share/zoneinfo/Asia/Tokyo").touch()
    return tmp_path


def test_the_link_of_the_local_time_tells_the_zone_as_cron_reads_nothing_else(system):
    assert find_local_time(str(system)) == LocalTime(None)
    (system / "etc/timezone").write_text("Europe/Paris\n")
    (system / "etc/localtime").symlink_to(system / "usr/share/zoneinfo/Asia/Tokyo")
    assert find_local_time(str(system)) == LocalTime("Asia/Tokyo")


def copy_zone(name, path):
    data = next((Path(each, name) for each in zoneinfo.TZPATH if Path(each, name).exists()), None)
    path.write_bytes(
        data.read_bytes() if data else importlib.resources.files("tzdata.zoneinfo").joinpath(name).read_bytes()
    )


def test_a_copy_of_a_zone_has_the_name_that_the_system_says_unless_it_has_other_rules(system):
    copy_zone("UTC", system / "etc/localtime")
    assert find_local_time(str(system)) == LocalTime(None)
    (system / "etc/timezone").write_text("../../etc/passwd\n")
    assert find_local_time(str(system)) == LocalTime(None)
    (system / "etc/timezone").write_text("Etc/UTC\n")
    assert find_local_time(str(system)) == LocalTime("Etc/UTC")
    (system / "etc/timezone").write_text("Europe/Paris\n")
    found = find_local_time(str(system))
    assert found.timezone == "Europe/Paris"
    assert found.doubt == "/etc/timezone says Europe/Paris, but /etc/localtime has other rules"
    imported = convert("0 0 * * * x\n", Host(found))
    assert imported.decisions == 1
    assert f"# DECIDE: {found.doubt}. Cron" in imported.files[CONFIG]
    # Without the file, the C library takes UTC.
    (system / "etc/localtime").unlink()
    assert find_local_time(str(system)).doubt
    (system / "etc/timezone").write_text("UTC\n")
    assert find_local_time(str(system)) == LocalTime("UTC")


def test_the_system_tells_its_variables(system):
    assert read_variables(str(system)) == {}
    (system / "etc/environment").write_text("H=a#b\nFOO=bar # c\nK=x   \n#L=1\n  A='b c'\n")
    assert read_variables(str(system)) == {"H": "a", "FOO": "bar ", "K": "x   ", "A": "b c"}
    (system / "etc/environment").write_text("# no\nLANG=C\nA='b c'\n")
    (system / "etc/default/locale").write_text('export LANG="de_DE.UTF-8"\n')
    assert read_variables(str(system)) == {"LANG": "de_DE.UTF-8", "A": "b c"}
