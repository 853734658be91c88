"""Charts, drawn by the server as SVG: they need no script, and a style sheet colours them."""

from collections.abc import Sequence

from markupsafe import Markup

from redbike.web.rendering import show_number
from redbike.web.samples import Point

WIDTH, HEIGHT = 120, 24  # of a small chart, in the units of its picture
MINUTES = 60


def draw_hour(points: Sequence[Point], now: float) -> Markup:
    """Return a chart of the runs that ended in each minute of the last hour, and its meaning in words."""
    if not points:
        return Markup('<span class="empty">{}</span>').format("from now on")
    most = max(point.ended for point in points)
    total = sum(point.ended for point in points)
    label = f"{show_number(total)} runs in the last {len(points)} minutes, at most {show_number(most)} in one"
    width = WIDTH / MINUTES
    bars = Markup("").join(
        Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            WIDTH - ((now - point.time) // 60 + 1) * width, HEIGHT - height, width * 0.8, height
        )
        for point in points
        if (height := HEIGHT * point.ended / most if most else 0.0)
    )
    return Markup('<svg class="hour" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, label, bars
    )
