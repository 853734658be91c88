"""JSON Schemas of the requests and replies of the API, made from the library's types and the table of options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from redbike.config.definitions import OPTIONS, Parameter
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
KINDS = {"count": COUNT, "share": NUMBER}  # schemas of options that are numbers, by their kind


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request: its members, with their schemas and meanings."""

    members: Mapping[str, tuple[Schema, str]] = field(default_factory=dict)
    required: Sequence[str] = ()

    def describe(self) -> Schema:
        """Return the schema of the body."""
        found = {name: {**schema, "description": text} for name, (schema, text) in self.members.items()}
        schema = {"type": "object", "properties": found, "additionalProperties": False}
        return schema | ({"required": list(self.required)} if self.required else {})


def describe_type(kind: Any) -> Schema:
    """Return the schema of a Python type; for an unknown type, a schema that allows any value."""
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
        return describe_list(describe_type(given[0]))
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
    """Return the schema of a row with the attributes `names` of the class `kind`."""
    hints = get_type_hints(kind)
    found = {name: describe_type(hints[name]) for name in names}
    return {"type": "object", "properties": found, "required": list(names)}


def describe_option(option: Parameter) -> Schema:
    """Return the schema of an option of a job. Null and the text ``default`` both mean the default."""
    kinds = [{"type": "string", "enum": [*option.choices, "default"]} if option.choices else TEXT]
    if option.kind in KINDS or option.kind == "duration":
        kinds = [KINDS.get(option.kind, NUMBER), TEXT]
    if option.choices == ("no", "yes"):
        kinds.append(FLAG)
    return {"anyOf": [*kinds, {"type": "null"}], "description": option.help}


def describe_list(items: Schema, text: str = "") -> Schema:
    """Return the schema of an array of `items`. `text` is its description."""
    return {"type": "array", "items": items} | ({"description": text} if text else {})


def describe_members(**members: Schema) -> Schema:
    """Return the schema of an object in which all these members are required."""
    return {"type": "object", "properties": members, "required": list(members)}


def refer(name: str) -> Schema:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def or_null(schema: Schema) -> Schema:
    """Return a schema that allows what `schema` allows, and null."""
    return {"anyOf": [schema, {"type": "null"}]}


def may_have(schema: Schema, **members: Schema) -> Schema:
    """Return the schema of an object, with further optional members."""
    return {**schema, "properties": schema["properties"] | members}


def describe_page(name: str) -> Schema:
    """Return the schema of a page of a list."""
    cursor = or_null(TEXT) | {"description": "The cursor of the next page; null if this is the last one"}
    text = "The shards that do not answer: nothing of them is in the list; its last page names all"
    page = describe_members(items=describe_list(refer(name)), cursor=cursor)
    return may_have(page, missing=describe_list(TEXT, text))


def may_warn(schema: Schema) -> Schema:
    """Return the schema of an object, with an optional member ``warnings``."""
    text = "What you should know of this, such as why nothing will run; missing without such a thing"
    return may_have(schema, warnings=describe_list(TEXT, text))


def _describe_done() -> Schema:
    found = describe_rows(Steered, Steered._fields)
    text = "What became of each of the jobs, for a job for every host; missing otherwise"
    return may_have(found, jobs=describe_list(found, text))


def _describe_details() -> Schema:
    found = describe_typed_dict(JobDetails)
    return {**found, "properties": {"jobid": TEXT, **found["properties"]}, "required": ["jobid", *found["required"]]}


HELD = "Those of them at which the job, its queue or everything is paused; missing if none is"
ROWS = {
    "Job": describe_rows(Job, JOBS),
    "Run": may_have(describe_rows(PastRun, PAST_RUNS), result=ANYTHING, result_error=TEXT),
    "Failure": {**describe_rows(Failure, Failure._fields), "required": ["jobid", "failed", "error"]},
    "Queue": describe_rows(Queue, QUEUES),
    "Worker": describe_rows(Process, WORKERS),
    "LogEntry": describe_rows(LogEntry, LOG),
    "AgendaRow": describe_members(**{"from": TIME}, queue=TEXT, runs=COUNT, jobs=describe_list(TEXT)),
}
SCHEMAS: dict[str, Schema] = {
    **ROWS,
    **{f"{name}Page": describe_page(name) for name in ROWS},
    "JobDetails": _describe_details(),
    # If the job cannot be read after it was set, the reply has only its id and a warning.
    "JobSet": {**may_warn(_describe_details()), "required": ["jobid"]},
    "Event": describe_rows(Line, [each.name for each in fields(Line)]),
    "Done": may_warn(_describe_done()),
    "QueueDone": may_warn(describe_members(queue=TEXT, word=TEXT)),
    "QueueLimits": may_warn(describe_members(queue=TEXT, at_once=or_null(COUNT), rate=or_null(TEXT))),
    "Next": may_have(describe_members(jobid=TEXT, items=describe_list(TIME)), held=describe_list(TIME, HELD)),
    "Why": describe_members(jobid=TEXT, why=TEXT),
    "Health": describe_members(
        is_well=FLAG,
        line=TEXT,
        problems=describe_list(TEXT),
        metrics={"type": "object", "additionalProperties": NUMBER},
        paused=describe_list(TEXT),
        topics=describe_list(TEXT),
    ),
    "Problem": describe_members(type=TEXT, title=TEXT, status=COUNT, detail=TEXT),
    "Options": {
        "type": "object",
        "properties": {name: describe_option(option) for name, option in OPTIONS.items()},
        "additionalProperties": False,
    },
}
