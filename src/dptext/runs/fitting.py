"""Fitting on what people hold: `dptext.fit`."""

from collections.abc import Callable
from functools import partial

from dptext.errors import ConfigError
from dptext.mechanism import Learns, Mechanism, OnProgress, Spec
from dptext.text.reading import as_records
from dptext.text.records import TEXT_FIELD
from dptext.text.tables import Texts


def fit(
    spec: Spec,
    public: Texts = None,
    *,
    private: Texts = None,
    pool: Texts = None,
    text: str = TEXT_FIELD,
    label: str | None = None,
    empty_nulls: bool = False,
    seed: int | None = None,
    on_progress: OnProgress | None = None,
) -> Mechanism[str]:
    """Fit a mechanism on texts, rows, records, a data frame, a Dataset, or the path of a file.

    Args:
        spec: the settings. `spec.traits` says which of the texts its fit takes.
        public: texts that need no protection; None where it learns from nothing.
        private: texts of which the guarantee counts the training, where there is one.
        pool: public candidates.
        text: column of the texts.
        label: column of the labels, where labels are privatized or learned from.
        empty_nulls: whether null texts are read as empty ones. Otherwise they are an error.
        seed: of what is random in the fit; drawn where it is None. It is no secret.
        on_progress: called with each step, where the fit takes long.

    Raises:
        ConfigError: the spec cannot be fitted on these texts, or its fit takes no such argument.
        DataError: a record cannot be read.
        MissingExtraError: a package is not installed.
    """
    if not hasattr(spec, "fit"):
        raise ConfigError(f"Expected settings such as dptext.Candidates(epsilon=10), found {type(spec).__name__}.")
    traits = spec.traits
    if private is not None and not traits.takes_private:
        raise ConfigError(f"Expected private=None: {spec.kind} learns from public text alone. Give it as public.")
    if pool is not None and not traits.takes_pool:
        raise ConfigError(f"Expected pool=None: {spec.kind} chooses among no candidates.")
    if public is None and private is None and traits.learns is not Learns.NOTHING:
        raise ConfigError(f"Expected public texts: {spec.kind} learns from them.")
    records = partial(as_records, text=text, label=label, empty_nulls=empty_nulls)
    given: dict[str, object] = {"public": [], "seed": seed}
    if public is not None and traits.learns is not Learns.NOTHING:
        given["public"] = records(public)
    given |= {name: records(each) for name, each in (("private", private), ("pool", pool)) if each is not None}
    if traits.trains and on_progress is not None:
        given["on_progress"] = on_progress
    call: Callable[..., Mechanism[str]] = spec.fit
    try:
        return call(**given)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # from within the fit
    raise ConfigError(
        f"Expected the fit of {spec.kind} to take {', '.join(given)}, as its traits say: it does not. Tell the "
        "authors of its package; dptext.testing.check_mechanism finds such faults."
    )
