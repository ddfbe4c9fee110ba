"""Records and releases. A record is private, and its `repr` shows nothing. A release may be written out."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from dptext.errors import ConfigError
from dptext.text.formats import Scalar

Output_co = TypeVar("Output_co", covariant=True)
Item = TypeVar("Item")
ID_FIELD: Final = "id"
TEXT_FIELD: Final = "text"
LABEL_FIELD: Final = "label"


@dataclass(frozen=True, slots=True)
class Record:
    """One private text. Its ``repr`` shows nothing, because an id or a label can be as private as the text.

    Attributes:
        id: Name of the record, by default its position.
        text: The private text.
        label: Private class of the text, if there is one.
        author: Who wrote it, if the records say so.
        subject: Whose privacy budget pays for it, if the records say so; see `dptext.ledger`.
        kept: Fields that the caller declared public; they are copied to the release.
    """

    id: str = field(repr=False)
    text: str = field(repr=False)
    label: str | None = field(default=None, repr=False)
    author: str | None = field(default=None, repr=False)
    subject: str | None = field(default=None, repr=False, kw_only=True)
    kept: Mapping[str, Scalar] = field(default_factory=dict, repr=False, hash=False)

    def __repr__(self) -> str:
        return "Record(...)"


@dataclass(frozen=True)
class Release(Generic[Output_co]):
    """The output of a mechanism for one record. Nothing else may be written out.

    Without slots: a frozen, slotted, generic dataclass cannot be made as ``Release[str](...)`` in Python 3.11.

    Attributes:
        id: Id of the record.
        output: The text that the mechanism drew. It is empty if only a vector leaves.
        label: The privatized label, if the mechanism privatizes labels.
        kept: Fields of the record that were declared public.
        vector: The privatized embedding, if the mechanism releases one. Files hold it in float32.
    """

    id: str
    output: Output_co
    label: str | None = None
    kept: Mapping[str, Scalar] = field(default_factory=dict, hash=False)
    vector: tuple[float, ...] | None = field(default=None, kw_only=True)


#: The option and the argument of Python that name the field of each role.
ASKED: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("--text-field", "text="), "id": ("--id-field", "id="), "label": ("--label-field", "label="),
    "author": ("--author-field", "author="), "subject": ("--subject-field", "subject="), "keep": ("--keep", "keep="),
    "measured": ("--column", "columns="),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the input fields (keys of JSON objects and rows, columns of CSV and Parquet).

    Attributes:
        text: Field of the private text.
        id: Field of the ids, strings or integers; ``None`` numbers the records.
        label: Field of the label: a string, a number, a boolean, or null for no label.
        author: Field of the author, a string or an integer.
        subject: Field of the name under which a ledger charges the record, a string or an integer: the lasting name
            of the document, or of its author.
        keep: Fields that are public and are copied to the release.
        measured: Fields that a summary measures, read as texts into ``kept``. No value of theirs makes a record bad.

    ConfigError: If a name is empty or given twice in ``keep`` or ``measured``, or the text field is to be used as
        something else.
    """

    text: str = TEXT_FIELD
    id: str | None = None
    label: str | None = None
    author: str | None = None
    keep: tuple[str, ...] = ()
    subject: str | None = None
    measured: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        others = [name for name in (self.id, self.label, self.author, self.subject) if name is not None]
        if not all([self.text, *others, *self.keep, *self.measured]):
            raise ConfigError("Expected names of fields that are not empty. Name the field or leave it out.")
        if self.text in others or self.text in (*self.keep, *self.measured):
            options, arguments = self.asked[self.text]
            raise ConfigError(
                f"Expected the field {self.text!r} of the texts to be no other field, found it named by {options} "
                f"({arguments} in Python). A text must not leave as an id, a label, an author, a subject or a kept "
                "field."
            )
        for name in ("keep", "measured"):
            fields = getattr(self, name)
            if len(set(fields)) < len(fields):
                option, argument = ASKED[name]
                twice = next(each for each in fields if fields.count(each) > 1)
                raise ConfigError(
                    f"Expected {option} ({argument} in Python) to name each field once, found {twice!r} twice. Remove "
                    "the repetition."
                )
        if twice := [name for name in self.measured if name in others]:
            raise ConfigError(
                f"Expected the measured column {twice[0]!r} to be no other field, found that the field of ids, labels, "
                "authors or subjects: leave one out."
            )
        if set(self.keep) & set(self.measured):
            raise ConfigError(
                "Expected no field of --keep (keep= in Python) that is measured, which is private, found "
                f"{', '.join(name for name in self.keep if name in self.measured)}."
            )

    @property
    def asked(self) -> dict[str, tuple[str, str]]:
        """The options, and the arguments of Python, that name each field."""
        found: dict[str, tuple[str, str]] = {}
        for role, (option, argument) in ASKED.items():
            value = getattr(self, role)
            for name in (value,) if isinstance(value, str) else value or ():
                options, arguments = found.get(name, ("", ""))
                both = " and " if options else ""
                found[name] = f"{options}{both}{option}", f"{arguments}{both}{argument}"
        return found


def require_labels(records: Sequence[Record], labels: Sequence[str], name: str) -> None:
    """Raise ConfigError if a record has none of the public `labels`. An empty set of labels refuses nothing.

    `name` is the word of the message for the records, such as "public". The message counts the records without.
    """
    unknown = sum(record.label not in labels for record in records) if labels else 0
    if unknown:
        raise ConfigError(
            f"Expected every {name} record to have one of the {len(labels)} labels of the settings, found "
            f"{unknown} of {len(records)} without: name the field of the label, complete labels=, or leave them out."
        )


def records_digest(records: Iterable[Record]) -> str:
    """Return the sha256 of a set of labelled texts. Order, ids and repetitions do not change it."""
    lines = {hashlib.sha256(f"{r.label or ''}\x1f{r.text}".encode("utf-8", "surrogatepass")).digest() for r in records}
    return hashlib.sha256(b"".join(sorted(lines))).hexdigest()
