"""Numbers with their nouns, for what people read: `1 file`, `2 files`."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A count of things; the plural is the noun with an s unless it is given."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def are(number: int) -> str:
    """The verb that goes with so many."""
    return "is" if number == 1 else "are"
