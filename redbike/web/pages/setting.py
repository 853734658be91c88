"""The form that sets a new or an existing job, and the preview of its schedule."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from redbike.config.definitions import OPTIONS
from redbike.config.options import DATA
from redbike.control.options import change_options
from redbike.control.setter import Setter
from redbike.errors import BadConfig, BadJobId, BadQueueName, BadSchedule, NoSuchJob, ServerError
from redbike.queries.following.remarks import describe_unknown
from redbike.schedule.clock import Clock
from redbike.schedule.kinds import Stop
from redbike.schedule.parser import parse, parse_stored
from redbike.store.names import check_known_jobid, is_jobid
from redbike.web.control import Sent, Steerer
from redbike.web.drafts import SECRET, Draft, Kept, Preview, compare, name_default
from redbike.web.login import say
from redbike.web.memory import Note
from redbike.web.permits import explain_role
from redbike.web.rendering import describe_warnings, quote_part, show_text
from redbike.web.site import Site

GOOD, BAD, CHANGED = 200, 400, 409  # statuses
UNCHANGED = "Nothing differs, so nothing was done."
STAYS = "While it stays as it is, only options and data change."
UNKNOWN = "It may have been done or not: check before you try again."


def show_form(site: Site, request: Request) -> Response:
    """Show the form for a new job, or for the job whose id is in the query."""
    if not request.state.permit.may("write"):
        return say(403, explain_role(request.state.permit, "write", site.write))
    jobid = request.query_params.get("id", "")
    kept = Kept.read(site.bike.store, check_known_jobid(jobid)) if jobid else Kept()
    return _answer(site, request, Draft.show(jobid, kept, site.keys, site.show_data), kept, GOOD)


def show_preview(site: Site, request: Request) -> Response:
    """Return the preview of a schedule, as a part of a page."""
    texts = {name: request.query_params.get(name, "").strip() for name in ("id", "schedule", "tz", "spread")}
    draft = Draft(texts["id"], texts["schedule"], texts["tz"], {"spread": texts["spread"]})
    kept = Kept.read(site.bike.store, draft.jobid) if is_jobid(draft.jobid) else Kept()
    try:
        clock = site.read_clock()
    except ServerError:  # a preview is possible while Redis is away
        clock = site.make_clock()
    preview = draft.preview(clock.zone, kept, clock.now)
    return site.answer(
        request, "act_preview.html", preview.clock, preview=preview, named=_name_rehearsal(draft, kept, preview)
    )


def _name_rehearsal(draft: Draft, kept: Kept, preview: Preview) -> str:
    """Return the query of the rehearsal of a schedule; "" without a job id, or for an invalid schedule.

    A rehearsal uses the stored options, so a changed ``spread`` cannot be rehearsed.
    """
    spread = [each.options.get("spread", "") for each in (draft, kept)]
    if not draft.jobid or preview.errors or spread[0] != spread[1]:
        return ""
    query = {"action": "set", "id": draft.jobid, "schedule": draft.schedule, "tz": preview.clock.zone}
    return urlencode(query, errors="surrogateescape")


def save(sent: Sent) -> Response:
    """Set the job in a form; or show the form again, with its errors, a preview, or what has changed meanwhile."""
    if not sent.permit.may("write"):
        return say(403, explain_role(sent.permit, "write", sent.site.write))
    site, draft, clock = sent.site, Draft.read(sent.form), sent.site.read_clock()
    errors = draft.check(site.bike.store, clock.zone, clock.now)
    kept = Kept() if "id" in errors else Kept.read(site.bike.store, draft.jobid)
    if errors or sent.form.get("step") == "preview":
        return _answer(site, sent.request, draft, kept, BAD if errors else GOOD, errors, clock, is_previewed=True)
    return sent.do_once(lambda: _save(sent, draft, clock), f"./job?id={quote_part(draft.jobid)}")


def _save(sent: Sent, draft: Draft, clock: Clock) -> Note | Response:
    # Another form may change the job at the same time.
    with sent.site.memory.changing:
        kept = Kept.read(sent.site.bike.store, draft.jobid)
        if draft.seen != kept.seal(sent.site.keys):
            return _show_conflict(sent, draft, kept, clock)
        try:
            return _set(sent.make_steerer(), draft, kept)
        except (BadConfig, BadJobId, BadQueueName, BadSchedule) as error:  # nothing was done
            return _answer(sent.site, sent.request, draft, kept, BAD, {"schedule": str(error)}, clock)


def _show_conflict(sent: Sent, draft: Draft, kept: Kept, clock: Clock) -> Response:
    """Show the form again, merged with the present job, because the job has changed since the form was made."""
    site = sent.site
    fresh = Draft.show(draft.jobid, kept, site.keys, site.show_data)
    merged = draft.merge(fresh, site.keys)
    return _answer(site, sent.request, merged, kept, CHANGED, {}, clock, is_previewed=True, is_conflict=True)


def _answer(
    site: Site,
    request: Request,
    draft: Draft,
    kept: Kept,
    status: int,
    errors: dict[str, str] | None = None,
    clock: Clock | None = None,
    is_previewed: bool = False,
    is_conflict: bool = False,
) -> Response:
    settings = site.bike.settings
    clock = clock or site.read_clock()
    preview: Preview | None = draft.preview(clock.zone, kept, clock.now) if is_previewed or draft.schedule else None
    if preview and not preview.errors and _stays(draft, kept):
        preview.remark = STAYS
    return site.answer(
        request,
        "act_set.html",
        clock,
        status,
        here="jobs",
        draft=draft,
        kept=kept,
        errors=errors or {},
        preview=preview,
        named=_name_rehearsal(draft, kept, preview) if preview else "",
        options=list(OPTIONS.values()),
        defaults={
            name: SECRET if option.kind == "url" and kept.options.get(name) else name_default(name, settings)
            for name, option in OPTIONS.items()
        },
        changes=_list_changes(draft, kept) if is_previewed and not errors else None,
        is_conflict=is_conflict,
        back=f"job?id={quote_part(draft.jobid)}" if kept.schedule is not None else "jobs",
    )


def _list_changes(draft: Draft, kept: Kept) -> list[str]:
    """Return what a draft would change, in words."""
    changes = draft.list_changes(kept)
    data = {DATA: "other than before" if changes[DATA] is not None else "removed"} if DATA in changes else {}
    texts = {name: value or "default" for name, value in changes.items() if name != DATA} | data
    schedule = [f"schedule: {kept.schedule or 'none'} → {draft.schedule}"] if draft.schedule != kept.schedule else []
    # For options that may be secret, show only the typed value, not the stored one.
    hidden = {name for name, option in OPTIONS.items() if option.kind == "url"} | {DATA}
    return schedule + [
        f"{name}: {text}" if name in hidden else f"{name}: {kept.options.get(name) or 'default'} → {text}"
        for name, text in texts.items()
    ]


def _stays(draft: Draft, kept: Kept) -> bool:
    """Tell whether only options and data are to change, because the schedule is the stored command, such as NOW.

    To set NOW again would run the job again, and to set STOP again would remove its failure.
    """
    return draft.schedule == kept.schedule and parse_stored(draft.schedule).is_command


def _set(steerer: Steerer, draft: Draft, kept: Kept) -> Note:
    """Set a job, and return a note with the result. Raise `BadSchedule`, or another `ValueError`, if it is refused."""
    name, changes = show_text(draft.jobid), draft.list_changes(kept)
    stays = _stays(draft, kept)
    if not changes and draft.schedule == kept.schedule and (stays or not draft.tz):
        return Note(f"{name}: {UNCHANGED}")
    warnings = list[str]()
    try:
        if stays:
            change_options(steerer.store, steerer.settings, draft.jobid, warnings.append, **changes)
            left, after = "", Kept.read(steerer.store, draft.jobid)
        else:
            left, after = _enter(steerer, draft, kept, changes, warnings)
        differences = compare(kept, after)
    except (NoSuchJob, ServerError) as error:
        return Note(f"{name}: {error}. {UNKNOWN}", is_problem=True)
    said = "; ".join(differences) or "set as it was"
    return Note(f"{name}: {said}.{left}{describe_warnings(warnings, draft.jobid)}")


def _enter(
    steerer: Steerer, draft: Draft, kept: Kept, changes: dict[str, Any], warnings: list[str]
) -> tuple[str, Kept]:
    """Set a job. Return a sentence if it has no run left, or else "", and the job as it was set."""
    settings = replace(steerer.settings, timezone=draft.find_zone(kept, steerer.settings.timezone))
    setter = Setter(steerer.store, settings, warnings.append)
    # Parse before the job is set, so that an error cannot come after it.
    schedule = parse(draft.schedule, draft.tz or settings.timezone, draft.jobid, setter.read_clock())
    has_runs = setter.enter(draft.jobid, draft.schedule, None, draft.tz or None, **changes)
    after = Kept.read(steerer.store, draft.jobid)
    if schedule.is_awaiting:
        warnings += describe_unknown(steerer.store, draft.jobid)
    if has_runs and schedule.is_immediate:
        warnings += steerer.list_closed([draft.jobid])
    if has_runs and schedule.runs_once and after.schedule == Stop.text:
        after = replace(after, schedule=schedule.text)  # it has run already
    return "" if has_runs or schedule.never_runs else " Nothing is left to run of it.", after
