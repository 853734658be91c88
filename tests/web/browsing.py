"""A browser without JavaScript: it loads pages, finds their forms, and sends them as a person does."""

import warnings
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode, urljoin

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient


@dataclass
class Form:
    """A form of a page, with what it sends before anything is typed."""

    action: str
    method: str
    id: str = ""
    fields: list[tuple[str, str]] = field(default_factory=list)
    boxes: list[tuple[str, str]] = field(default_factory=list)  # that are not ticked
    buttons: list[tuple[str, str, str]] = field(default_factory=list)  # name, value, text

    def fill(self, button="", tick=(), **typed):
        """What it sends when the button with this text, or the first one, is pressed."""
        names = {name for name, _ in self.fields}
        assert typed.keys() <= names, (typed, names)
        assert set(tick) <= {value for _, value in self.boxes}
        pressed = next(each for each in self.buttons if button in ("", each[2]))
        sent = [(name, typed.get(name, value)) for name, value in self.fields]
        sent += [box for box in self.boxes if box[1] in tick]
        return sent + ([pressed[:2]] if pressed[0] else [])


class Page(HTMLParser):
    """What a browser makes of a page."""

    def __init__(self, answer):
        super().__init__()
        self.status, self.url, self.html = answer.status_code, answer.url, answer.text
        self.forms: list[Form] = []
        self.texts: list[str] = []
        self.notes: list[str] = []
        self.kinds: list[str] = []  # the classes of each note
        self._form = self._select = self._button = self._area = None
        self._in_note = False
        self.feed(answer.text)

    @property
    def text(self):
        """Everything that is to be read."""
        return " ".join(" ".join(self.texts).split())

    def find(self, button):
        """The form that has a button with this text."""
        found = [form for form in self.forms if any(button == each[2] for each in form.buttons)]
        assert found, (button, [form.buttons for form in self.forms], self.text)
        return found[0]

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "form":
            self._form = Form(given.get("action", ""), given.get("method", "get"), given.get("id", ""))
            self.forms.append(self._form)
        form = self._form
        if "form" in given:
            form = next(each for each in self.forms if each.id == given["form"])
        name, value = given.get("name", ""), given.get("value") or ""
        if tag == "input" and form is not None:
            if given.get("type") in ("checkbox", "radio"):
                (form.fields if "checked" in given else form.boxes).append((name, value))
            elif name:
                form.fields.append((name, value))
        elif tag == "textarea":
            self._area = [name, ""]
        elif tag == "select":
            self._select = [name, None]
        elif tag == "option" and self._select and (self._select[1] is None or "selected" in given):
            self._select[1] = value
        elif tag == "button" and form is not None:
            self._button = [name, value, ""]
            form.buttons.append(self._button)
        is_note = "note" in (given.get("class") or "").split()
        self.kinds += [given["class"]] if is_note else []
        self._in_note = self._in_note or is_note

    def handle_endtag(self, tag):
        if tag == "form":
            self._form = None
        elif tag == "select" and self._select:
            self._form.fields.append((self._select[0], self._select[1] or ""))
            self._select = None
        elif tag == "textarea" and self._area:
            self._form.fields.append((self._area[0], self._area[1].removeprefix("\n")))
            self._area = None
        elif tag == "button":
            self._button = None
        elif tag in ("p", "div"):
            self._in_note = False

    def handle_data(self, data):
        self.texts.append(data)
        if self._area:
            self._area[1] += data
        if self._button:
            self._button[2] += data.strip()
        if self._in_note and data.strip():
            self.notes.append(data.strip())


class Browser:
    """One person's browser."""

    def __init__(self, app, **options):
        self.client = TestClient(app, base_url="http://localhost", headers={"accept": "text/html"}, **options)

    def get(self, path):
        return Page(self.client.get(path))

    def send(self, page, button, tick=(), **typed):
        """Press a button on a page; the page that comes of it."""
        form = page.find(button)
        return self.post(form.fill(button, tick, **typed), urljoin(str(page.url), form.action))

    def post(self, fields, path="/do", **options):
        headers = {"content-type": "application/x-www-form-urlencoded", **options.pop("headers", {})}
        return Page(self.client.post(path, content=urlencode(fields), headers=headers, **options))
