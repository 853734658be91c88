"""Draw a tree of jobs that follow each other, as SVG: parents on the left, followers on the right."""

from markupsafe import Markup

from redbike.queries.following.tree import Neighbourhood, Node
from redbike.text.printable import name_number
from redbike.web.rendering import draw_svg, show_text

COLUMN, BOX = 220, 160  # the distance of two generations, and the width of a job, in the units of the picture
ROW, HEIGHT = 34, 24  # the distance of two jobs in a column, and the height of a job
CHARACTERS = 22  # of an id that fit into a box

Place = tuple[int, int]  # the left upper corner of a job


def draw_tree(around: Neighbourhood) -> Markup:
    """Return a picture of a neighbourhood. Its label says in words which job follows which."""
    places = _place(around)
    width = max(x for x, _ in places.values()) + BOX + 2
    height = max(y for _, y in places.values()) + HEIGHT + 2
    lines = (_draw_link(places[parent], places[follower]) for parent, follower in around.links)
    boxes = (_draw_node(node, places[jobid], around.jobid) for jobid, node in around.nodes.items())
    return draw_svg("tree", width, height, _describe(around), [*lines, *boxes], width=width)


def _place(around: Neighbourhood) -> dict[str, Place]:
    """Return the place of each job by id. Each generation has a column, which is centred vertically."""
    columns: dict[int, list[str]] = {}
    for node in around.nodes.values():
        columns.setdefault(node.level, []).append(node.jobid)
    most, first = max(map(len, columns.values())), min(columns)
    return {
        jobid: (1 + COLUMN * (level - first), 1 + ROW * number + ROW * (most - len(jobids)) // 2)
        for level, jobids in columns.items()
        for number, jobid in enumerate(jobids)
    }


def _draw_link(parent: Place, follower: Place) -> Markup:
    """Return an arrow from the right side of a parent to the left side of its follower."""
    x, y = parent[0] + BOX, parent[1] + HEIGHT // 2
    end, low = follower[0], follower[1] + HEIGHT // 2
    middle = (x + end) // 2
    return Markup('<path d="M{} {}C{} {} {} {} {} {}m-6 -3l6 3l-6 3"/>').format(x, y, middle, y, middle, low, end, low)


def _draw_node(node: Node, place: Place, own: str) -> Markup:
    kind = "own" if node.jobid == own else "other" if node.is_there else "missing"
    text = show_text(node.name, CHARACTERS)
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}" rx="3"/><text x="{}" y="{}">{}</text>').format(
        kind, *place, BOX, HEIGHT, place[0] + 8, place[1] + 16, text
    )


def _describe(around: Neighbourhood) -> str:
    links = [
        f"{show_text(around.nodes[follower].name, 60)} after {show_text(around.nodes[parent].name, 60)}"
        for parent, follower in around.links
    ]
    return f"What follows what, {name_number(len(around.nodes), 'job')}: {'; '.join(links)}"
