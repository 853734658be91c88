"""Which test runs which block of a page, if tests/test_pages.py does not; a block is named by how it begins."""

README = "test_readme.py"
TOUR = f"{README}::test_the_tour_shows_what_happens"
AGAIN = f"{README}::test_the_tour_shows_a_job_that_runs_again_and_again"
SMALL = f"{README}::test_the_small_example_works"
PYTHON = f"{README}::test_the_page_for_programmers_shows_what_happens"
PROGRAM = "test_howto_pages.py::test_the_program_of_a_page_prints_what_it_says_and_is_typed"
DJANGO = "test_howto_pages.py::test_the_project_of_the_page_on_django_runs_its_jobs"
RETRIES = "test_howto_pages.py::test_the_tests_of_the_page_on_retries_pass"
ZONES = "test_howto_pages.py::test_the_commands_of_the_page_on_zones_print_what_it_says"
FUNCTIONS = "test_program_pages.py::test_the_program_of_functions_runs_with_one_command"
TESTING = "test_program_pages.py::test_the_tests_that_are_shown_pass"
SECURITY = "test_security.py::users"
SYSTEMD = "deploy/check_systemd.py::INSTALL"
DOCKER = "deploy/check_docker.py::BUILD"
SCHEDULES = "deploy/test_backup.py::test_schedules_are_restored_to_an_empty_server_and_nothing_runs_again"
DATA = "deploy/test_backup.py::test_a_copy_of_the_data_is_restored_and_jobs_go_on_where_they_were"
CODE = "test_page_code.py"
PROGRAMS = "test_page_programs.py"
PAGE = "web/test_docs.py"
ALERTING = "test_alerting_page.py"
MAKE = f"{CODE}::test_the_targets_of_make_are_there"
SETTINGS = f"{CODE}::test_settings_are_read"
URLS = f"{CODE}::test_urls_are_read"
OUTPUT = f"{CODE}::test_rows_have_the_fields_that_are_shown"
FROM_CRON = f"{CODE}::test_a_crontab_moves_in"

ELSEWHERE = {
    "CONTRIBUTING": {"make install": MAKE},
    "README": {
        "python3 -m venv .venv && .venv/bin/pip install -q '.[embedded]'": (
            f"{README}::test_the_first_command_shows_jobs_of_different_schedules_within_ten_seconds"
        ),
        "python3 -m venv .venv && .venv/bin/pip install -q '.[dev]'": (
            f"{README}::test_the_second_command_is_the_one_that_is_run_before_a_change_is_accepted"
        ),
        "# tour.py": SMALL,
        "$ redbike set hello:A NOW": SMALL,
    },
    "alerting": {
        "[redbike]\nping-url: https://hc-ping.com": SETTINGS,
        "[redbike]\nping-url: https://status": SETTINGS,
        "$ export": f"{ALERTING}::test_the_dispatcher_calls_its_switch",
        "[commands]": f"{ALERTING}::test_a_command_mails_after_a_failure",
        "# app.py": f"{ALERTING}::test_a_program_mails_after_a_failure",
        "[Unit]\nOnFailure": f"{CODE}::test_a_unit_is_extended",
        "[Unit]\nDescription": f"{CODE}::test_units_are_right",
        "redbike --config": f"{ALERTING}::test_nagios_is_told_that_it_is_critical",
        "curl -f": f"{ALERTING}::test_the_figures_are_served",
        "rule_files:": "deploy/check_files.py::test_the_page_on_alerting_configures_prometheus",
        "groups:": "deploy/check_files.py::test_the_page_on_alerting_configures_prometheus",
    },
    "benchmarks": {"make bench": MAKE},
    "command-line": {
        "$ redbike tail": f"{CODE}::test_what_happens_is_shown",
        "for event in": f"{PROGRAMS}::test_a_program_listens",
        "work-A,1200": OUTPUT,
        "web1:4711": OUTPUT,
    },
    "deployment": {
        "$ python3 -m venv /opt/redbike": SYSTEMD,
        "$ systemctl enable": SYSTEMD,
        "$ cd /etc/redbike": SYSTEMD,
        "$ /opt/redbike/bin/pip": f"{PAGE}::test_the_unit_of_the_page_is_right",
        "$ docker build": DOCKER,
        "FROM redbike": f"{CODE}::test_an_image_of_your_own_replaces_what_is_in_app",
        "$ (umask 077": DOCKER,
        "$ redbike schedules --full": SCHEDULES,
        "$ redbike load": SCHEDULES,
        "$ valkey-cli BGSAVE": DATA,
        "$ cp backup.rdb": DATA,
    },
    "django": {
        "from typing import Any\n\nfrom django.db": DJANGO,
        "import os": DJANGO,
        "redbike up": DJANGO,
        "from typing import Any\n\nfrom django.core": DJANGO,
        "transaction.on_commit": f"{PROGRAMS}::test_a_job_is_set_when_a_transaction_is_committed",
    },
    "durability": {
        "'report:A': its status": f"{CODE}::test_a_job_that_is_nowhere_is_repaired",
        "$ redis-check-aof": f"{CODE}::test_a_damaged_log_is_cut_off",
        "bike.set(": f"{PROGRAMS}::test_a_program_asks_how_many_replicas_have_a_job",
    },
    "fastapi": {
        "from collections.abc": PROGRAM,
        "redbike up": f"{PROGRAMS}::test_the_jobs_of_the_web_app_are_worked",
        "from fastapi.testclient": PROGRAM,
    },
    "first-steps": {
        "# tour.py": TOUR,
        "$ redbike set hello": TOUR,
        "$ redbike dispatch": TOUR,
        "$ redbike work": TOUR,
        "$ redbike set tick:A": AGAIN,
        "$ redbike unset tick:A": AGAIN,
        "$ redbike server stop": AGAIN,
        "$ redbike runs": TOUR,
        "from redbike import Redbike": f"{README}::test_the_library_is_used_as_shown",
    },
    "from-apscheduler": {"from datetime": PROGRAM},
    "from-celery": {"from redbike import Jobs": PROGRAM, "from redbike import current_run": PROGRAM},
    "from-cron": {
        "redbike import crontab --out": FROM_CRON,
        "redbike import crontab --system": f"{CODE}::test_a_crontab_of_the_system_moves_in",
        "[Unit]": f"{CODE}::test_units_are_right",
        "[*]": f"{ALERTING}::test_the_mail_of_cron_has_one_in_its_place",
    },
    "from-rq-scheduler": {"from datetime": PROGRAM},
    "installation": dict.fromkeys(
        ("$ python3 -m venv", "$ pip install '/path", "$ pip install --config"),
        f"{CODE}::test_what_is_installed_is_there",
    ),
    "jobs": {
        "from redbike import Jobs": FUNCTIONS,
        "$ redbike up": FUNCTIONS,
        "$ redbike run": FUNCTIONS,
        "from redbike import Redbike\n\nfrom app import jobs\n\nbike = Redbike(jobs)\nbike.set": FUNCTIONS,
        "[redbike]": SETTINGS,
        "from redbike import Redbike\n\nfrom app import jobs\n\nbike = Redbike(jobs)\nprint": FUNCTIONS,
    },
    "long-jobs": {"import time": PROGRAM, "done:": PROGRAM},
    "monitoring": {
        "$ redbike metrics": f"{ALERTING}::test_the_figures_are_served",
        "from prometheus_client": (
            "test_howto_pages.py::test_the_program_of_the_page_on_monitoring_registers_its_figures"
        ),
        "2026-03-02T03:04:11Z": f"{PROGRAMS}::test_the_lines_of_the_log_are_like_those_shown",
    },
    "page": {
        "$ redbike web": f"{PAGE}::test_the_page_starts_as_shown",
        "$ export REDBIKE_WEB_TOKEN": f"{PAGE}::test_the_page_starts_with_a_token_as_shown",
        "location /redbike/": f"{PAGE}::test_the_page_is_behind_nginx",
        "redir /redbike": f"{PAGE}::test_the_page_is_behind_caddy",
        "from fastapi import": PROGRAM,
        "from fastapi.testclient": PROGRAM,
        "$ redis-cli ACL": f"{PAGE}::test_a_user_who_only_reads_can_open_every_page",
    },
    "python": {
        "from datetime": PYTHON,
        "from croniter": PYTHON,
        "pairs": PYTHON,
        'bike.set("data:A"': PYTHON,
        "wanted": PYTHON,
        "import threading": PYTHON,
        "import asyncio": PYTHON,
    },
    "reliability": {"make chaos": MAKE},
    "retries": {"from redbike": RETRIES, "invoices": RETRIES, "from datetime": RETRIES},
    "scale": {
        "# shards.py": "serving/test_shards.py::test_jobs_are_spread_over_prefixes_and_masters",
        "$ redis-cli": "serving/test_shards.py::test_the_page_tells_how_to_find_the_slot_of_a_prefix",
    },
    "schedules": {"CRON_TZ": f"{CODE}::test_the_holidays_of_the_example_are_left_out"},
    "schedules-in-git": {
        "jobid,schedule": "test_pages.py::in_git",
        "from redbike import Redbike": PROGRAM,
    },
    "scripts": dict.fromkeys(
        ("$ python", "$ redis-server", "$ redbike", "import redis"), f"{CODE}::test_a_script_is_tried_by_hand"
    ),
    "security": {
        "REDBIKE_URL='rediss:": URLS,
        "[redbike-redis]": SETTINGS,
        "REDBIKE_URL='redis+sentinel:": URLS,
        "$ redis-cli ACL": SECURITY,
        "ACL SETUSER": SECURITY,
    },
    "testing": {"from datetime import datetime": TESTING, "from datetime import timedelta": TESTING},
    "time-zones": {"$ redbike set": ZONES, "$ redbike next": ZONES, "from datetime": PROGRAM},
    "workers": {
        "from redbike import Limit": f"{PROGRAMS}::test_a_worker_class_limits_queues",
        "class Worker": f"{PROGRAMS}::test_a_worker_class_hears_of_failures",
        "[commands]": f"{PROGRAMS}::test_a_command_is_chosen_by_the_id_of_a_job",
    },
}
# Diagrams, trees and formulas.
NO_CODE = {
    "README": ["             set "],
    "architecture": ["cli/ ", "             set "],
    "scale": ["jobs at once ="],
}
