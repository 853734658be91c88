"""A web app that reminds its users. Run ``redbike up reminders:jobs``, and beside it ``uvicorn reminders:app``."""

from functools import lru_cache
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, BaseModel

from redbike import BadConfig, BadJobId, BadSchedule, Jobs, Redbike


async def refuse(request: Request, error: Exception) -> JSONResponse:
    """Answer what Redbike refuses: a bad id, instant or text."""
    return JSONResponse({"detail": str(error)}, 422)


app = FastAPI(exception_handlers=dict.fromkeys((BadJobId, BadSchedule, BadConfig), refuse))
jobs = Jobs()
get_bike = lru_cache(lambda: Redbike.from_config(worker=jobs))  # connects once, at the first request
Bike = Annotated[Redbike, Depends(get_bike)]


class Reminder(BaseModel):
    """What a user asks for."""

    at: AwareDatetime
    text: str


@jobs.job("remind", timeout="30s", retries=3)
def remind(jobid: str, data: dict[str, str]) -> None:
    """Send a reminder; here, print it."""
    print(jobid.partition(":")[2], "is reminded of", data["text"])


@app.put("/reminders/{user}", status_code=204)
def set_reminder(user: str, reminder: Reminder, bike: Bike) -> None:
    """Set the reminder of a user, or change it."""
    bike.enter(f"remind:{user}", reminder.at, data={"text": reminder.text})


@app.get("/reminders/{user}")
def get_reminder(user: str, bike: Bike) -> dict[str, float | None]:
    """Say when a user will be reminded."""
    job = bike.tell(f"remind:{user}")
    if job["status"] is None:
        raise HTTPException(404, f"no reminder for {user}")
    return {"next_run": job["next_run"]}


@app.delete("/reminders/{user}", status_code=204)
def delete_reminder(user: str, bike: Bike) -> None:
    """Forget the reminder of a user."""
    if not bike.unset(f"remind:{user}"):
        raise HTTPException(404, f"no reminder for {user}")
