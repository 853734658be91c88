"""Text from outside, as it may be shown on a terminal."""


def harmless(output: bytes) -> str:
    """`output` as text in which whatever could steer a terminal, or is not UTF-8, is spelled out."""
    text = output.decode(errors="backslashreplace")
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode() for char in text
    )


def harmless_lines(output: bytes) -> list[str]:
    """The lines of `output` without blank ones."""
    return [harmless(line.rstrip(b"\r")) for line in output.split(b"\n") if line.strip()]
