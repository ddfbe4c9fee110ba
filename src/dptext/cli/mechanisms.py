"""`dptext mechanisms` lists the mechanisms, or explains one with its settings. `dptext fit` makes a model."""

import json
import math
import re
import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING
from functools import partial
from pathlib import Path
from typing import Annotated, Final, NoReturn

from typer import Argument

from dptext.cli import options
from dptext.cli.chosen import (
    SpecOptions,
    check_label_field,
    fitted_on,
    kinds,
    load_encoder,
    say_if_in_other_language,
)
from dptext.cli.grouped import COMPUTED, runs
from dptext.cli.kept import kept_beside
from dptext.cli.options import DetailsOption, JsonOption
from dptext.cli.terminal import advising, say
from dptext.doors import absent
from dptext.errors import ConfigError
from dptext.mechanism import Answers, HasRemarks, HasTraining, Learns, Promise, Spec, Traits, setting_fields, settings
from dptext.privacy.guarantee import Basis, format_delta, format_epsilon
from dptext.registry import MECHANISMS, SYNTHESES, answers
from dptext.runs.carried import with_carried_types
from dptext.runs.models import save_model
from dptext.text.files import require_free
from dptext.text.records import ID_FIELD
from dptext.types import Json

_NEEDS: Final = {
    Learns.NOTHING: "nothing",
    Learns.PUBLIC: "public texts",
    Learns.PRIVATE: "public, private",
    Learns.EITHER: "any texts",
}
Named = type[Promise]
#: Settings that change where and how a mechanism computes.
_COMPUTED: Final = ("device", "precision")
_UNPROTECTED: Final = "none"
_FIRST: Final = "Set first: "
_SECTIONS: Final = ("Use", "Guarantee")
_GUIDE: Final = "The guide `Add a mechanism` (docs/guides/add-a-mechanism.md) says what both hold."


def mechanisms(
    name: Annotated[str | None, Argument(metavar="[NAME]", help="Explain this one, with its settings.")] = None,
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    known = MECHANISMS.usable(say)
    every: dict[str, Named] = {**known, **SYNTHESES.usable(say)}
    if name is not None and name not in every:
        said = absent(MECHANISMS.group, name) or absent(SYNTHESES.group, name) or f" There are: {', '.join(every)}."
        raise ConfigError(f"Expected a mechanism, found {name!r}.{said}")
    if as_json:
        shown = every if name is not None else known  # the list has the mechanisms that answer each text
        print(json.dumps([_data(kind, cls) for kind, cls in shown.items() if name in (None, kind)], indent=2))
    elif name is None:
        _list(known)
    else:
        _explain(name, every[name], details=details)


def _list(known: Mapping[str, Named]) -> None:
    """Print the ways to answer a whole corpus, and those to answer each text. Those without a guarantee are named."""
    corpora = SYNTHESES.usable(say)
    heads = ("A WHOLE CORPUS", "COMMAND", "TAKE IT")
    _print_rows(
        heads,
        [(kind, cls.command, (_use(cls)[0] or _summary(cls)).partition(". ")[0]) for kind, cls in corpora.items()],
    )
    units = {kind: _unit(cls) for kind, cls in known.items()}
    rows = [
        (kind, units[kind], _NEEDS[cls.tiny()[0].traits.learns], _use(cls)[0] or _summary(cls))
        for kind, cls in known.items()
        if units[kind] != _UNPROTECTED
    ]
    print()
    _print_rows(("EACH TEXT", "UNIT", "LEARNS FROM", "TAKE IT"), rows)
    bare = [kind for kind, unit in units.items() if unit == _UNPROTECTED]
    print(f"\nWithout a guarantee, to compare with: {', '.join(bare)}." if bare else "")
    print("UNIT is what one epsilon protects. dptext mechanisms NAME explains one, dptext recommend says what is best.")


def _print_rows(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _explain(kind: str, cls: Named, *, details: bool) -> None:
    use, first = _use(cls)
    print(
        f"{kind}: take it {use}.\n" if use else f"{kind}: {_summary(cls) or 'its package does not say what it does.'}\n"
    )
    of = "It answers a whole corpus, under one epsilon. " if answers(kind) is Answers.CORPUS else ""
    _print(f"{of}It learns from {_NEEDS[cls.tiny()[0].traits.learns]}. {_guarantee(cls) or _stated(cls)}")
    print()
    told, values = _attributes(cls), _settings(cls)
    print("Settings that matter:" if first else "No setting is required.")
    for name in first:
        _print(f"  {_shown(name, cls, values)}{_told(told, name)}")
    others = [name for name in values if name not in first]
    for heading, names in (
        ("The others", [name for name in others if name not in _COMPUTED]),
        (COMPUTED, [name for name in others if name in _COMPUTED]),
    ):
        _print_settings(heading, {name: _shown(name, cls, values) for name in names}, told if details else None)
    needed = " ".join(f"--set {name}=..." for name in _required(cls))
    if answers(kind) is Answers.CORPUS:
        promised = "--labels a,b --label-field LABEL" if first[0] == "labels" else "--epsilon 1"
        command = SYNTHESES[kind].command
        named = f" --mechanism {kind}" if command == "synthesize" else ""
        print(f"\nExample: dptext {command} PRIVATE OUT --public POOL{named} {promised}")
        _say_what_lacks(cls)
        return
    learns = cls.tiny()[0].traits.learns is not Learns.NOTHING
    do = "fit" if learns else "privatize IN OUT"
    labelled = " --label-field LABEL" if all(each.traits.takes_labels for each in cls.tiny()) else ""
    files = " --public FILE --out MODEL" if learns else ""
    print(f"\nExample: dptext {do} --mechanism {kind} {needed}{labelled}{files}")
    _say_what_lacks(cls)


def _say_what_lacks(cls: Named) -> None:
    """Name the sections that the docstring of a package's class lacks, and where they are described."""
    if lacks := [f"`{title}:`" for title in _SECTIONS if not _section(cls, title)]:
        print()
        _print(f"The docstring of {cls.__name__} has no {' or '.join(lacks)}: its package can say more. {_GUIDE}")


def _told(told: Mapping[str, str], name: str) -> str:
    return f": {told[name]}" if told.get(name) else ""


def _stated(cls: Named) -> str:
    """Return what a class without a section on its guarantee promises, by its settings of the example `tiny`."""
    spec = cls.tiny()[0]
    return f"With the settings of its example: {spec.guarantee(spec.units[-1]).sentence()}"


def _print_settings(heading: str, shown: Mapping[str, str], told: Mapping[str, str] | None) -> None:
    """Print settings below a heading, each with its description from `told`, if given."""
    if told is not None and shown:
        print(f"\n{heading}:")
        for name, text in shown.items():
            _print(f"  {text}{_told(told, name)}")
    elif shown:
        print()
        _print(f"{heading} (--details explains): {', '.join(shown.values())}.")


def _print(text: str) -> None:
    print(textwrap.fill(text, 100, subsequent_indent="    "))


def _shown(name: str, cls: Named, values: dict[str, object]) -> str:
    return name if name in _required(cls) else f"{name} ({json.dumps(values[name], default=str)})"


def _data(kind: str, cls: Named) -> dict[str, object]:
    use, first = _use(cls)
    return {
        "kind": kind,
        "summary": _summary(cls),
        "use": use,
        "unit": _unit(cls),
        "learns": cls.tiny()[0].traits.learns,
        "guarantee": _guarantee(cls) or _stated(cls),
        "first": first,
        "required": _required(cls),
        "settings": _settings(cls),
    }


def _unit(cls: Named) -> str:
    """Return the smallest unit of the guarantee, by the settings of the example `tiny`."""
    spec = cls.tiny()[0]
    protects = any(math.isfinite(spec.guarantee(unit).effective_epsilon) for unit in spec.units)
    return str(spec.units[0]) if protects else _UNPROTECTED


def _summary(cls: Named) -> str:
    """Return the first line of the docstring; empty without one. A dataclass without one has its signature there."""
    found = (cls.__doc__ or "").strip().partition("\n")[0]
    return "" if found.startswith(f"{cls.__name__}(") else found


def _section(cls: Named, title: str) -> str:
    return (cls.__doc__ or "").partition(f"{title}:\n")[2]


def _use(cls: Named) -> tuple[str, list[str]]:
    use, _, first = " ".join(_section(cls, "Use").partition("\n\n")[0].split()).partition(_FIRST)
    names = [name.split()[0] for name in first.strip(" .").split(",") if name.strip()]  # "labels if there are any"
    return use.removeprefix("Take it ").strip(" ."), names or _required(cls)


def _guarantee(cls: Named) -> str:
    return " ".join(_section(cls, "Guarantee").partition("\n\n")[0].split()).replace("`", "")


def _attributes(cls: Named) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in reversed(cls.__mro__):  # base classes explain their own settings
        told = (part.__doc__ or "").partition("Attributes:\n")[2].partition("\n\n    ")[0]
        for entry in re.split(r"\n        (?=\S)", "\n" + told):
            names, _, said = entry.partition(":")
            found |= {name.strip(): " ".join(said.split()).replace("`", "") for name in names.split(",")}
    return found


def _settings(cls: Named) -> dict[str, object]:
    return {field.name: None if field.default is MISSING else field.default for field in setting_fields(cls)}


def _required(cls: Named) -> list[str]:
    return [field.name for field in setting_fields(cls) if field.default is MISSING]


def fit(
    *,
    target: Annotated[Path, options.output_folder_option("--out", metavar="MODEL", help="New folder of the model.")],
    named: SpecOptions,
    epsilon: options.EpsilonOption = None,
    public: options.PublicOption = None,
    private: Annotated[
        Path | None, options.file_option(help="Private records, for a mechanism that trains on them.")
    ] = None,
    pool: Annotated[Path | None, options.file_option(help="Public records to choose among. Default: --public.")] = None,
    stand_in: Annotated[
        Path | None,
        options.file_option(
            help="Texts like the private ones, but without need of protection. Says how well public texts fit them."
        ),
    ] = None,
    layout: options.Layout,
    label_field: options.LabelFieldOption = None,
    carry: options.CarryOption = None,
    seed: Annotated[int | None, runs(help="Seed of the training. The seed is public.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    wanted = named.chosen_spec(epsilon=epsilon, carry=carry)
    seed = options.seed_of(seed)
    if clash := [name for name in wanted.traits.carries if name in (ID_FIELD, layout.text_field, label_field)]:
        raise ConfigError(
            f"Expected columns that leave under names of their own, found {clash[0]!r} in --carry, which `privatize` "
            "writes: rename it in the public file."
        )
    if not wanted.traits.learns_labels:
        read = partial(layout.read_public, public, label=label_field)
        needed = wanted.traits.releases_labels and wanted.traits.learns is not Learns.NOTHING
        check_label_field(wanted, label_field, needed=needed, public=read)
    elif label_field is None:
        raise ConfigError(f"Expected --label-field NAME: {wanted.kind} learns from public labels what tells most.")
    _check_texts(wanted, public, private, pool)
    if stand_in is not None and (pool or public) is None:
        raise ConfigError("Expected --public FILE with --stand-in: it measures how well public texts fit.")
    if private is not None:
        from dptext.runs.apart import refuse_same

        for each in (public, pool):
            refuse_same(private, each)
    require_free(target)
    others = layout.read_public(stand_in, label=label_field)  # before the work
    with advising(lambda: f"Nothing is kept of an unfinished fit: there is no {target}. Run the command again."):
        learns, carries = wanted.traits.learns is not Learns.NOTHING, wanted.traits.carries
        learned = layout.read_public(
            public if learns else None, label=label_field, keep=carries if pool is None else ()
        )
        say_if_in_other_language(wanted, learned)
        offered = None if pool is None else layout.read_public(pool, label=label_field, keep=carries)
        source, kind = pool or public, layout.settings()["input_format"]
        wanted = with_carried_types(wanted, learned if offered is None else offered, source, kind)
        own = [] if private is None else layout.read(private, label=label_field)
        remembered = kept_beside(source, learned if offered is None else offered) if private is None else nullcontext()
        with remembered:
            model = fitted_on(wanted, public=learned, private=own, pool=offered, seed=seed)
        fit_of_pool = None
        if stand_in is not None:
            from dptext.utility.corpus import pool_fit

            chosen_among = layout.read_public(pool or public, label=label_field)
            fit_of_pool = pool_fit(chosen_among, others, embedder=load_encoder())
        save_model(model, target)
    promised = [wanted.guarantee(unit) for unit in wanted.units]
    if private is not None:
        _warn(wanted)
    if as_json:
        data: dict[str, Json] = {
            "model": str(target),
            "settings": settings(wanted),
            "digests": dict(model.digests),
            "guarantees": [guarantee.to_dict() for guarantee in promised],
            **(model.remarks().numbers if isinstance(model, HasRemarks) else {}),
            **({} if fit_of_pool is None else {"stand_in": fit_of_pool.to_dict()}),
        }
        print(json.dumps(data, indent=2))
        return
    print("\n\n".join(guarantee.explain() for guarantee in promised))
    if isinstance(model, HasRemarks):
        print(model.remarks().text)
    if fit_of_pool is not None:
        print("\n".join(["", *fit_of_pool.sentences()]))
    label = None if wanted.traits.learns_labels else label_field
    asked = all(guarantee.basis is Basis.NONE for guarantee in promised)
    more = options.as_typed(model=target, label_field=label, without_guarantee=asked) + layout.typed()
    print(f"\nModel: {target}\nNext: dptext privatize IN OUT {shlex.join(more)}")


def _check_texts(spec: Spec, public: Path | None, private: Path | None, pool: Path | None) -> None:
    if private is not None and not spec.traits.takes_private:
        _refuse("private", spec, "learns from public text alone", lambda traits: traits.takes_private)
    if pool is not None and not spec.traits.takes_pool:
        _refuse("pool", spec, "chooses among no candidates", lambda traits: traits.takes_pool)
    if spec.traits.learns is Learns.NOTHING:
        if public is not None:
            say(f"{spec.kind} learns from no text: --public is not read.")
    elif spec.traits.learns is Learns.PRIVATE and public is not None and private is None:
        raise ConfigError(  # its guarantee would count a training on private text that never happened
            f"Expected --private FILE: {spec.kind} is trained on private text. Mechanisms that learn from public text "
            f"alone promise more: {kinds(lambda traits: traits.learns in (Learns.PUBLIC, Learns.EITHER))}."
        )
    elif public is None and (private is None or spec.traits.learns is Learns.PRIVATE):
        raise ConfigError(f"Expected --public FILE: {spec.kind} learns from public text.")


def _refuse(option: str, spec: Spec, why: str, has: Callable[[Traits], bool]) -> NoReturn:
    raise ConfigError(f"Expected no --{option}: {spec.kind} {why}. Others: {kinds(has)}.")


def _warn(spec: Spec) -> None:
    if not isinstance(spec, HasTraining):
        say("Trained on private text: the model is as private as that text. Keep it where the text is kept.")
        return
    training = spec.training_guarantee()
    say(
        "Trained on private text, and no ledger charged it. Whoever sees the model learns of that text up to epsilon "
        f"{format_epsilon(training.epsilon)} at delta {format_delta(training.delta)} (replacing one document). What is "
        "said below is about training and one release together."
    )
