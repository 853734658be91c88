"""JSON Schema of what the API takes and gives: made of the types of the library, and of the table of options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from redbike.config.parameters import OPTIONS, Parameter
from redbike.queries.events import Line
from redbike.queries.fields import JOBS, LOG, PAST_RUNS, QUEUES, WORKERS
from redbike.store.details import JobDetails
from redbike.store.history import PastRun
from redbike.store.job import Job
from redbike.store.log import LogEntry
from redbike.store.past_runs import Failure
from redbike.store.patterns import Steered
from redbike.store.processes import Process
from redbike.store.totals import Queue

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
TIME: Schema = {"type": "number", "description": "epoch seconds"}
SAID_TIME: Schema = {"anyOf": [NUMBER, TEXT, {"type": "null"}]}
ANYTHING: Schema = {}
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
KINDS = {"count": COUNT, "share": NUMBER}  # of options; all others may be a text


@dataclass(frozen=True, slots=True)
class Body:
    """What a request carries: its members, with their schemas and what they mean."""

    members: Mapping[str, tuple[Schema, str]] = field(default_factory=dict)
    required: Sequence[str] = ()

    def describe(self) -> Schema:
        """Return its schema."""
        found = {name: {**schema, "description": text} for name, (schema, text) in self.members.items()}
        schema = {"type": "object", "properties": found, "additionalProperties": False}
        return schema | ({"required": list(self.required)} if self.required else {})


def describe_type(kind: Any) -> Schema:
    """Return the schema of a type of Python; of one that is not known here, that of anything."""
    origin, given = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if origin in (Union, UnionType):
        return {"anyOf": [describe_type(each) for each in given]}
    if origin is NotRequired:
        return describe_type(given[0])
    if origin is Literal:
        return {"type": "string", "enum": list(given)}
    if origin in (list, tuple):
        return {"type": "array", "items": describe_type(given[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": describe_type(given[1])}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [str(each.value) for each in kind]}
    return describe_typed_dict(kind) if is_typeddict(kind) else {}


def describe_typed_dict(kind: Any) -> Schema:
    """Return the schema of a `TypedDict`."""
    hints = get_type_hints(kind, include_extras=True)
    required = [name for name in hints if get_origin(hints[name]) is not NotRequired]
    found = {name: describe_type(hint) for name, hint in hints.items()}
    return {"type": "object", "properties": found, "required": required}


def describe_rows(kind: Any, names: Sequence[str]) -> Schema:
    """Return the schema of a row that has these attributes of a class."""
    hints = get_type_hints(kind)
    found = {name: describe_type(hints[name]) for name in names}
    return {"type": "object", "properties": found, "required": list(names)}


def describe_option(option: Parameter) -> Schema:
    """Return the schema of an option of a job: null is its default, also the word ``default``."""
    kinds = [{"type": "string", "enum": [*option.choices, "default"]} if option.choices else TEXT]
    if option.kind in KINDS or option.kind == "duration":
        kinds = [KINDS.get(option.kind, NUMBER), TEXT]
    if option.choices == ("no", "yes"):
        kinds.append(FLAG)
    return {"anyOf": [*kinds, {"type": "null"}], "description": option.help}


def describe_members(**members: Schema) -> Schema:
    """Return the schema of an object that has all these members."""
    return {"type": "object", "properties": members, "required": list(members)}


def refer(name: str) -> Schema:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def describe_page(name: str) -> Schema:
    """Return the schema of a page of a list."""
    cursor = {
        "anyOf": [TEXT, {"type": "null"}],
        "description": "The cursor of the next page; null if this is the last one",
    }
    found = describe_members(items={"type": "array", "items": refer(name)}, cursor=cursor)
    found["properties"]["missing"] = {
        "type": "array",
        "items": TEXT,
        "description": "The shards that do not answer: nothing of them is in the list; its last page names all",
    }
    return found


def describe_with_warnings(schema: Schema) -> Schema:
    """Return the schema of what has such an object, and may have warnings."""
    text = "What you should know of this, such as why nothing will run; missing without such a thing"
    warnings = {"type": "array", "items": TEXT, "description": text}
    return {**schema, "properties": {**schema["properties"], "warnings": warnings}}


def _describe_done() -> Schema:
    found = describe_rows(Steered, Steered._fields)
    text = "What became of each of the jobs, for a job for every host; missing otherwise"
    jobs = {"type": "array", "items": found, "description": text}
    return {**found, "properties": {**found["properties"], "jobs": jobs}}


def _describe_details() -> Schema:
    found = describe_typed_dict(JobDetails)
    return {**found, "properties": {"jobid": TEXT, **found["properties"]}, "required": ["jobid", *found["required"]]}


def _describe_run() -> Schema:
    found = describe_rows(PastRun, PAST_RUNS)
    more: Schema = {"result": ANYTHING, "result_error": TEXT}
    return {**found, "properties": {**found["properties"], **more}}


def _describe_failure() -> Schema:
    shown = describe_rows(Failure, Failure._fields)
    return {**shown, "required": ["jobid", "failed", "error"]}


ROWS = {
    "Job": describe_rows(Job, JOBS),
    "Run": _describe_run(),
    "Failure": _describe_failure(),
    "Queue": describe_rows(Queue, QUEUES),
    "Worker": describe_rows(Process, WORKERS),
    "LogEntry": describe_rows(LogEntry, LOG),
    "AgendaRow": describe_members(
        **{"from": TIME, "queue": TEXT, "runs": COUNT, "jobs": {"type": "array", "items": TEXT}}
    ),
}
SCHEMAS: dict[str, Schema] = {
    **ROWS,
    **{f"{name}Page": describe_page(name) for name in ROWS},
    "JobDetails": _describe_details(),
    # If it cannot be read then, no more is known than that it is set.
    "JobSet": {**describe_with_warnings(_describe_details()), "required": ["jobid"]},
    "Event": describe_rows(Line, [each.name for each in fields(Line)]),
    "Done": describe_with_warnings(_describe_done()),
    "QueueDone": describe_with_warnings(describe_members(queue=TEXT, word=TEXT)),
    "QueueLimits": describe_with_warnings(
        describe_members(
            queue=TEXT, at_once={"anyOf": [COUNT, {"type": "null"}]}, rate={"anyOf": [TEXT, {"type": "null"}]}
        )
    ),
    "Next": {
        **describe_members(
            jobid=TEXT,
            items={"type": "array", "items": TIME},
            held={
                "type": "array",
                "items": TIME,
                "description": "Those of them at which the job, its queue or everything is paused; missing if none is",
            },
        ),
        "required": ["jobid", "items"],
    },
    "Why": describe_members(jobid=TEXT, why=TEXT),
    "Health": describe_members(
        is_well=FLAG,
        line=TEXT,
        problems={"type": "array", "items": TEXT},
        metrics={"type": "object", "additionalProperties": NUMBER},
        paused={"type": "array", "items": TEXT},
        topics={"type": "array", "items": TEXT},
    ),
    "Problem": describe_members(type=TEXT, title=TEXT, status=COUNT, detail=TEXT),
    "Options": {
        "type": "object",
        "properties": {name: describe_option(option) for name, option in OPTIONS.items()},
        "additionalProperties": False,
    },
}
