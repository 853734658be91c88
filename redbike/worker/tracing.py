"""A middleware that makes a span of OpenTelemetry for each run. It needs the package ``opentelemetry-api``.

The names of the attributes are those of the semantic conventions for messaging. There, a run is the processing of a
message by a consumer, and its queue is the destination.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from redbike.config.options import parse_options
from redbike.errors import Again, BadConfig, Overrun, StopWork, UnsetJob
from redbike.store.enums import Outcome
from redbike.store.run import Run
from redbike.text import __version__
from redbike.text.printable import describe
from redbike.worker.raised import is_interrupted

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, TracerProvider


class Tracing:
    """A middleware that makes a span for each run: ``Jobs(middleware=[Tracing()])``.

    The spans come from `tracer_provider`, or else from the global one. A span is current during its run, so spans that
    the run makes are its children. It has a link to the span that the option ``traceparent`` of the job names. Jobs
    that `JobFunction.enqueue` and `JobFunction.set` of these `Jobs` set have the current span as that option.

    The span of a failed run has the status ERROR, even if the run is retried. `StopWork`, `UnsetJob`, `Again`, and runs
    that are cancelled or handed back by a worker that stops, are no failures. Raise `BadConfig` without the package.
    """

    gives_traceparent = True  #: to the jobs that the functions of its `Jobs` set

    def __init__(self, tracer_provider: "TracerProvider | None" = None) -> None:
        self._api = _import_api()
        self._tracer = self._api.get_tracer("redbike", __version__, tracer_provider)

    @staticmethod
    def traceparent() -> str | None:
        """Return the current span as the option ``traceparent`` names it; None if there is none.

        ``bike.set("backup:A", "NOW", traceparent=Tracing.traceparent())`` links the runs of that job to it.
        """
        context = _import_api().get_current_span().get_span_context()
        if not context.is_valid:
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    @contextmanager
    def __call__(self, run: Run) -> Iterator[None]:
        """Make the span of `run`, and let it be current."""
        with self._tracer.start_as_current_span(
            f"process {run.queue}",
            kind=self._api.SpanKind.CONSUMER,
            attributes=_list_attributes(run),
            links=self._list_links(run),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                self._end(span, run, error)
                raise
            self._end(span, run, None)

    def _list_links(self, run: Run) -> "list[Link]":
        # A link, not a parent: a run may be days later, a job has many runs, and the worker may have spans around them.
        text = parse_options(run.options).get("traceparent") if run.options else None
        if text is None:
            return []
        _, trace, span, flags = str(text).split("-")
        flags = self._api.TraceFlags(int(flags, 16))
        context = self._api.SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=flags)
        return [self._api.Link(context)]

    def _end(self, span: "Span", run: Run, error: BaseException | None) -> None:
        outcome, is_error = _judge(run, error)
        span.set_attribute("messaging.redbike.outcome", outcome.value)
        if not is_error:
            return
        if error is None:
            error = Overrun(f"overran its timeout of {run.timeout:g} s")
        else:
            span.record_exception(error)
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        span.set_attribute("error.type", name)
        span.set_status(self._api.Status(self._api.StatusCode.ERROR, describe(error)))


def _import_api() -> ModuleType:
    """Return `opentelemetry.trace`. Most programs never load it."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError as error:
        raise BadConfig(f"Tracing needs a package ({error}): pip install 'redbike[opentelemetry]'") from None
    return trace


def _list_attributes(run: Run) -> dict[str, Any]:
    known = {
        "messaging.system": "redbike",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": run.queue,
        "messaging.message.id": run.key,
        "messaging.client.id": run.worker,
        "messaging.redbike.job.id": run.jobid,
        "messaging.redbike.message.delivery_attempt": run.attempt,
    }
    return {name: value for name, value in known.items() if value}


def _judge(run: Run, error: BaseException | None) -> tuple[Outcome, bool]:
    """Return the outcome of `run` after `error`, as ``redbike runs`` shows it, and whether that is an error."""
    if run.cancelled:
        return Outcome.CANCELLED, False
    if isinstance(error, Overrun) or run.now() >= run.deadline:
        return Outcome.OVERRUN, True
    if error is None or isinstance(error, StopWork | UnsetJob):
        return Outcome.OK, False
    if isinstance(error, Again) or is_interrupted(run, error):
        return Outcome.RETRY, False
    return (Outcome.RETRY if run.will_retry(error) else Outcome.FAILED), True
