"""What a newcomer meets first: help, the list of mechanisms, recommendations, and `dptext.toml`."""

import functools
import json
import os
import pty
import re
import shlex
import tomllib
from pathlib import Path
from unittest.mock import Mock

import pytest
import typer.main
from typer.core import TyperArgument, TyperOption

import dptext as dp
from commands import dptext, in_turn
from dptext.batch.engines import DatasetPlan
from dptext.cli import COMMANDS, SECTIONS
from dptext.cli.app import LazyGroup, app
from dptext.cli.brought import brought
from dptext.cli.grouped import HEADINGS
from dptext.cli.many import Many
from dptext.cli.mechanisms import mechanisms
from dptext.cli.recommend import recommend
from dptext.registry import MECHANISMS, SYNTHESES

SCREEN = 24


#: Every command by its words, of the library and of installed packages.
EVERY = {
    tuple(name.split()): command
    for name, command in {**COMMANDS, **{name: command for name, (_, command) in brought().commands.items()}}.items()
}


def test_the_help_lists_every_command_in_a_section_once() -> None:
    assert {command.section for words, command in EVERY.items() if len(words) == 1} == {*SECTIONS}
    shown = dptext("-h").stdout
    assert shown == dptext("--help").stdout
    assert [line for line in shown.splitlines() if line[:-1] in SECTIONS] == [f"{title}:" for title in SECTIONS]
    for words in EVERY:
        if len(words) == 1:
            assert shown.count(f"\n  {words[0]} ") == 1


GROUPS = ["", *(" ".join(words) for words, command in EVERY.items() if not command.place)]


@pytest.mark.parametrize("group", GROUPS)
def test_each_command_is_listed_on_one_line_that_is_whole(group: str) -> None:
    lines = dptext(*group.split(), "-h").stdout.splitlines()
    below = {words[-1]: command for words, command in EVERY.items() if [*words[:-1]] == group.split()}
    assert below
    for name, command in below.items():
        (line,) = (line for line in lines if line.startswith(f"  {name} "))
        assert line.endswith(f"  {command.help.partition('. ')[0].removesuffix('.')}.")
        assert len(line) <= 80


def test_h_fits_a_screen_and_names_every_option() -> None:
    """Of many options `-h` lists the names; `--help` explains them, and shows the example."""
    names = [name for name, command in EVERY.items() if command.place]
    brief, whole = (in_turn(*((*name, flag) for name in names), cwd=Path.cwd()) for flag in ("-h", "--help"))
    short = 0
    for name, one, other in zip(names, brief, whole, strict=True):
        assert len(one.stdout.splitlines()) <= 40, name
        explained = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", other.stdout, re.MULTILINE)
        if "--help explains each" not in one.stdout:
            assert one.stdout == other.stdout
            continue
        short += 1
        assert {*explained} == {*re.findall(r"(--[a-z-]+)(?:,|$)", one.stdout, re.MULTILINE)}, name
        assert ("Example:" in one.stdout, "Example:" in other.stdout) == (False, True)
    assert short > 5


EXAMPLES = {words: command.example for words, command in EVERY.items() if command.example}


@functools.cache
def helps() -> dict[tuple[str, ...], str]:
    """What the help of each command prints."""
    done = in_turn(*((*name, "--help") for name in EVERY), cwd=Path.cwd())
    return {name: found.stdout for name, found in zip(EVERY, done, strict=True)}


@pytest.mark.parametrize("name", EXAMPLES, ids=" ".join)
def test_each_example_names_options_that_are_there(name: tuple[str, ...]) -> None:
    shown = helps()[name]
    example = shlex.split(EXAMPLES[name])
    assert example[: len(name) + 1] == ["dptext", *name]
    for option in (word for word in example if word.startswith("--")):
        assert f" {option} " in shown.partition("Example:")[0]


def options_below(lines: list[str]) -> dict[str, list[str]]:
    """The long names of the options under each heading of a help."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.endswith(":") and not line.startswith(" "):
            found[line[:-1]] = []
        elif name := re.match(r"  (?:-\w, )?(--[a-z-]+)", line):
            found[[*found][-1]].append(name[1])
    return found


@pytest.mark.parametrize("name", EXAMPLES, ids=" ".join)
def test_options_are_grouped_by_meaning_between_arguments_and_example(name: tuple[str, ...]) -> None:
    command = typer.main.get_command(app)
    for each in name:
        assert isinstance(command, LazyGroup)
        command = command.load(each)
    headed: dict[str, list[str]] = {heading: [] for heading in HEADINGS}
    for each in command.params:
        if isinstance(each, TyperOption):
            headed[str(each.rich_help_panel)].append(max(each.opts, key=len))  # KeyError: an option without a heading
    headed[HEADINGS[-1]].append("--help")
    every = [option for some in headed.values() for option in some]
    lines = helps()[name].splitlines()
    assert max(map(len, lines)) <= 80
    shown = options_below(lines[: lines.index("  Example:")])
    if any(isinstance(each, TyperArgument) for each in command.params):
        assert next(iter(shown)) == "Arguments"
        assert shown.pop("Arguments") == []
    if len(every) > 9:
        assert [*shown.items()] == [(heading, some) for heading, some in headed.items() if some]
    else:
        assert [*shown] == ["Options"]
        assert sorted(shown["Options"]) == sorted(every)


def test_the_help_of_all_fits_80_columns() -> None:
    for group in GROUPS:
        assert max(map(len, dptext(*group.split(), "--help").stdout.splitlines())) <= 80


def test_the_default_of_a_part_is_that_of_the_library() -> None:
    """The command names the number itself, so that a single file loads nothing for folders."""
    assert Many().part_size == DatasetPlan().part_size


def test_an_unknown_reader_is_refused_with_those_that_there_are() -> None:
    done = dptext("explain", "out.jsonl", "--for", "lawyer")
    assert (done.returncode, done.stderr) == (2, "dptext: Expected --for 'lawyer' to be one of legal.\n")


def test_the_version_is_said() -> None:
    assert dptext("--version").stdout == f"dptext {dp.__version__}\n"


def test_mechanisms_are_a_line_each() -> None:
    """Those that guarantee nothing share a line."""
    lines = dptext("mechanisms").stdout.splitlines()
    assert len(lines) <= SCREEN
    (line,) = (line for line in lines if line.startswith("Without a guarantee, to compare with: "))
    bare = line.rstrip(".").split(": ")[1].split(", ")
    for kind in (*MECHANISMS.usable(), *SYNTHESES):
        assert sum(line.startswith(f"{kind} ") for line in lines) == (kind not in bare)
    assert {"random_redaction", "pii_redaction"} <= {*bare}
    head = next(line for line in lines if line.startswith("EACH TEXT"))
    units = {line.split()[0]: line[len(head.partition("UNIT")[0]) :].split()[0] for line in lines if line}
    assert units["candidates"] == "document"
    assert units["word_metric"] == "token"


@pytest.mark.slow_cases("adept_dpsgd", "embedded", why="the other mechanisms stay")
@pytest.mark.parametrize("kind", [*MECHANISMS.usable(), *SYNTHESES])
def test_one_mechanism_is_explained_with_all_its_settings(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(**options: bool) -> str:
        mechanisms(kind, **options)
        return capsys.readouterr().out

    brief, whole = printed(), printed(details=True)
    [data] = json.loads(printed(as_json=True))
    assert data["use"]
    assert set(data["first"]) <= set(data["settings"])
    assert set(data["required"]) <= set(data["settings"])
    assert len(brief) <= len(whole)
    for name in data["settings"]:
        assert name in brief
        assert f"  {name}" in whole
    for line in whole.splitlines():
        if line.startswith("  ") and line.rstrip().endswith(":"):
            pytest.fail(f"a setting without a word: {line}")


@pytest.mark.slow_cases(
    *("steering", "votes", "topics", "prediction"), why="prototypes stays; no kind but summary has words of its own"
)
@pytest.mark.parametrize("kind", SYNTHESES)
def test_a_synthesis_is_explained_by_name_with_its_own_command(kind: str) -> None:
    command = f"synthesize PRIVATE OUT --public POOL --mechanism {kind} "
    if kind == "summary":
        command = "summarize PRIVATE OUT --public POOL "
    assert f"dptext {command}" in dptext("mechanisms", kind).stdout
    assert any(line.startswith(f"{kind} ") for line in dptext("mechanisms").stdout.splitlines())
    for command in (("explain",), ("fit", "--public", "x", "--out", "y"), ("privatize", "x", "y")):
        refused = dptext(*command, "--mechanism", kind, "--set", "epsilon=1")
        assert refused.returncode == 2
        assert f"dptext {SYNTHESES[kind].command}" in refused.stderr


def test_an_unknown_mechanism_is_refused_with_those_that_are_there() -> None:
    done = dptext("mechanisms", "candidate")
    assert done.returncode == 2
    assert "candidates" in done.stderr


@pytest.mark.slow_cases("options1", "options2", why="tests/unit/recommend has the answers")
@pytest.mark.parametrize("options", [(), ("--epsilon", "2", "--task", "meaning"), ("--epsilon", "0.01")])
def test_a_recommendation_fits_ten_lines_and_begins_with_its_answer(options: tuple[str, ...]) -> None:
    asked, both, *lines = dptext("recommend", *options).stdout.splitlines()
    assert asked == "Do readers need each text, or a corpus that says what all of them say?"
    assert both.startswith("--of corpus: one epsilon for all of them")
    assert dptext("recommend", *options, "--of", "texts").stdout.splitlines() == lines
    assert len(lines) <= 14  # with the splits of corpora on which single texts were measured, too
    assert lines[0].startswith(("Take ", "None: "))
    found = json.loads(dptext("recommend", *options, "--json").stdout)["corpora"]
    best = [each["qualified"][0] for each in found.values() if each["qualified"]]
    if lines[0] == "Take none: use the public texts.":
        assert not best
        assert lines[1].startswith("Nothing was measured at epsilon 0.01 ")
    elif lines[0].startswith("Take none: use the public texts."):
        assert best
    elif best:
        kind = lines[0].removeprefix("Take ").partition(":")[0]
        assert kind in {each["kind"] for each in best}
        assert f"on {sum(each['kind'] == kind for each in best)} of {len(found)} corpora" in lines[0]
    else:
        assert lines[0].startswith("None: ")
    assert "more rows do not have the guarantee" in dptext("recommend", *options, "--details").stdout


def test_a_recommendation_of_a_corpus_is_per_its_unit() -> None:
    document, author = (dptext("recommend", "--of", "corpus", "--unit", unit) for unit in ("document", "author"))
    assert " per document for the whole corpus " in document.stdout
    assert " author: accuracy" not in document.stdout
    first, *lines = author.stdout.splitlines()
    assert " per author for the whole corpus " in first
    assert first.startswith("None: ") or (lines and "--author-field" in author.stdout)
    for given in (("--delta", "1e-9"), ("--epsilon", "0.3")):
        assert dptext("recommend", "--of", "corpus", *given).stdout.startswith("Not measured at epsilon ")
    for given in (("--unit", "token"), ("--task", "meaning")):
        assert dptext("recommend", "--of", "corpus", *given).returncode == 2


def test_public_text_is_recommended_where_it_is_no_worse_and_an_epsilon_comes_with_its_legal_verdict() -> None:
    """Numbers worse than those of public text stood below "measured best", and an epsilon that the page condemns."""
    none = dptext("recommend", "--of", "texts").stdout
    assert none.startswith("Take none: use the public texts. Up to epsilon 10 per document ")
    assert "  ATIS: label_only epsilon=10: accuracy 0.647 (public text 0.259, " in none
    assert "dptext fit" not in none
    for given, said in (
        (("--of", "texts", "--task", "meaning"), "protects nobody from somebody who knows what to look for"),
        (
            ("--of", "corpus", "--epsilon", "1"),
            "The bound is moderate: a guess of one in a hundred becomes at most 6.95% about",
        ),
    ):
        taken = dptext("recommend", *given).stdout
        assert "(dptext explain OUT --for legal): " in taken
        assert said in taken
        for line in taken.splitlines():
            if "take none: use the public texts" in line:
                own, public = re.search(r"classifier (0\.\d+) \(public text (0\.\d+)", line).groups()  # type: ignore[union-attr]
                assert float(own) <= float(public) + 0.02


@pytest.mark.parametrize(("answer", "said"), [("corpus", "for the whole corpus"), ("texts", "per document")])
def test_who_sits_there_is_asked_what_leaves(
    answer: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Mock(isatty=lambda: True))
    monkeypatch.setattr("dptext.cli.recommend.prompt", lambda *_, **__: answer)
    recommend()
    assert said in capsys.readouterr().out.splitlines()[0]


# ------------------------------------------------------------------ dptext.toml


@pytest.fixture
def room(tmp_path: Path, vectors: Path) -> Path:
    (tmp_path / "in.csv").write_text("review,stars\nso it is,1\nla di da,2\n")
    (tmp_path / "dptext.toml").write_text(
        'text-field = "review"\nlabel-field = "stars"\nkeep = ["stars"]\n[mechanism]\nkind = "word_metric"\n'
        f'epsilon = 4.0\nn_words = 300\nvectors = "{vectors}"\n'
    )
    return tmp_path


def test_the_file_gives_what_options_leave_out(room: Path) -> None:
    done = dptext("privatize", "in.csv", "out.csv", "--output-format", "jsonl", cwd=room)
    assert done.returncode == 0, done.stderr
    assert "Read: dptext.toml" in done.stderr
    rows = [json.loads(line) for line in (room / "out.csv").read_text().splitlines()]
    assert [row["stars"] for row in rows] == ["1", "2"]
    settings = json.loads((room / "out.csv.guarantee.json").read_text())["settings"]
    assert settings["epsilon"] == 4.0


def test_the_next_command_names_the_public_file_of_the_file(room: Path) -> None:
    for public in ("PUBLIC", "our public.csv"):
        done = dptext("privatize", "in.csv", "out.csv", "--force", cwd=room)
        assert f" in.csv out.csv --public {shlex.quote(public)} --text-field review" in done.stdout
        written = (room / "dptext.toml").read_text()
        (room / "dptext.toml").write_text(f'public = "our public.csv"\n{written}')


def test_an_option_is_stronger_than_the_file(room: Path, vectors: Path) -> None:
    told = dptext("privatize", "in.csv", "out.csv", "--set", "epsilon=7", cwd=room)
    assert told.returncode == 0, told.stderr
    assert json.loads((room / "out.csv.guarantee.json").read_text())["settings"]["epsilon"] == 7.0
    other = dptext("privatize", "in.csv", "out2.csv", "--text-field", "nope", cwd=room)
    assert other.returncode in (2, 4)
    assert "nope" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("privatize", "in.csv", "out.csv"), "--spec FILE.toml, --model MODEL (what dptext fit wrote) and dptext.toml"),
        (("explain",), "--spec FILE.toml, OUT (a release or a model) and dptext.toml"),
        (("fit", "--public", "in.csv", "--out", "a.model"), "--spec FILE.toml and dptext.toml"),
    ],
)
def test_without_a_mechanism_the_error_names_all_that_the_command_takes(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("text\nso it is\n")
    done = dptext(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert f"Expected one of --mechanism NAME, {said} with a mechanism" in done.stderr


def test_another_file_is_named(room: Path) -> None:
    (room / "dptext.toml").rename(room / "mine.toml")
    assert dptext("privatize", "in.csv", "out.csv", cwd=room).returncode == 2
    assert dptext("--config", "mine.toml", "privatize", "in.csv", "out.csv", cwd=room).returncode == 0


@pytest.mark.parametrize("text", ["x = 1", "model = 3", "mechanism = 3", "not toml", 'seed = "1"'])
def test_a_file_that_cannot_be_used_is_refused(room: Path, text: str) -> None:
    (room / "dptext.toml").write_text(text)
    done = dptext("privatize", "in.csv", "out.csv", cwd=room)
    assert done.returncode == 2
    assert "dptext.toml" in done.stderr


def test_a_model_of_the_file_is_fitted_and_used(room: Path) -> None:
    (room / "dptext.toml").write_text(
        'text-field = "review"\nlabel-field = "stars"\npublic = "in.csv"\nmodel = "own.model"\n'
        '[mechanism]\nkind = "label_only"\nepsilon = 4.0\nlabels = ["1", "2"]\n'
    )
    assert dptext("fit", cwd=room).returncode == 0
    done = dptext("privatize", "in.csv", "out.jsonl", cwd=room)
    assert done.returncode == 0, done.stderr
    assert json.loads((room / "out.jsonl.guarantee.json").read_text())["settings"]["kind"] == "label_only"


# ------------------------------------------------------------------ dptext init


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    for name, part in (("public.jsonl", range(80)), ("in.jsonl", range(80, 120))):
        records = [dp.sample_records(120)[i] for i in part]
        rows = [json.dumps({"review": each.text, "topic": each.label}) for each in records]
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    return tmp_path


def test_init_writes_what_fit_and_privatize_read(reviews: Path) -> None:
    done = dptext(
        *("init", "in.jsonl", "--for", "texts", "--text-field", "review", "--label-field", "topic"),
        *("--public", "public.jsonl"),
        cwd=reviews,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Take ")
    commands = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("  dptext ")]
    assert [each[0] for each in commands] == ["fit", "privatize", "explain"]
    early = dptext(*commands[1], cwd=reviews)
    assert "Fit first: dptext fit, which reads dptext.toml" in early.stderr
    for each in commands:
        ran = dptext(*each, cwd=reviews)
        assert ran.returncode == 0, ran.stderr
    settings = json.loads((reviews / "in.released.jsonl.guarantee.json").read_text())["settings"]
    assert settings["labels"] == ["health", "leisure", "money", "travel"]
    again = dptext("init", "in.jsonl", "--for", "texts", cwd=reviews)
    assert again.returncode == 2
    assert "--force" in again.stderr


def test_init_reads_no_private_label(reviews: Path) -> None:
    """The set of labels is public: a label that stands in the private file alone must not be written."""
    text = (reviews / "in.jsonl").read_text()
    (reviews / "in.jsonl").write_text(text + '{"review": "so", "topic": "zq9canary"}\n')
    options = ("--text-field", "review", "--label-field", "topic", "--public", "public.jsonl")
    assert dptext("init", "in.jsonl", "--for", "texts", *options, cwd=reviews).returncode == 0
    assert "zq9canary" not in (reviews / "dptext.toml").read_text()


def test_init_without_public_text_says_what_there_is(reviews: Path) -> None:
    refused = dptext("init", "in.jsonl", "--for", "texts", "--text-field", "review", cwd=reviews)
    assert refused.returncode == 2
    assert "--unit token" in refused.stderr
    done = dptext("init", "in.jsonl", "--for", "texts", "--text-field", "review", "--unit", "token", cwd=reviews)
    assert done.stdout.startswith(
        "Nothing measured is worth taking for meaning at epsilon 8 per token. word_metric is "
    )
    assert "dptext fit" not in done.stdout
    assert 'kind = "word_metric"' in (reviews / "dptext.toml").read_text()


def test_init_refuses_the_private_file_as_public(reviews: Path) -> None:
    (reviews / "copy.jsonl").write_bytes((reviews / "in.jsonl").read_bytes())
    for name in ("in.jsonl", "copy.jsonl"):
        done = dptext("init", "in.jsonl", "--for", "texts", "--text-field", "review", "--public", name, cwd=reviews)
        assert done.returncode == 2
        assert "other than the private corpus" in done.stderr


def test_init_takes_no_field_because_of_its_texts(reviews: Path) -> None:
    """The longest texts suggest a field; only the user, or the name `text`, decides."""
    done = dptext("init", "in.jsonl", "--for", "texts", "--public", "public.jsonl", cwd=reviews)
    assert done.returncode == 2
    assert "Expected --text-field NAME" in done.stderr
    assert "'review', 'topic' (the longest texts are in 'review')" in done.stderr
    assert not (reviews / "dptext.toml").exists()


@pytest.mark.parametrize("public", [True, False])
def test_what_the_private_file_suggests_is_printed_and_what_the_public_one_says_is_written(
    reviews: Path, public: bool
) -> None:
    name = "public.jsonl" if public else "in.jsonl"
    rows = [json.loads(line) for line in (reviews / name).read_text().splitlines()]
    for i in range(len(rows) // 10):
        rows[2 + i]["review"] = f"<b>so {i}</b>"
    rows[1]["review"] = None
    (reviews / name).write_text("".join(json.dumps(row) + "\n" for row in rows) + "{\n" * (not public))
    done = dptext(
        "init", "in.jsonl", "--for", "texts", "--text-field", "review", "--public", "public.jsonl", cwd=reviews
    )
    assert done.returncode == 0, done.stderr
    written = (reviews / "dptext.toml").read_text()
    for key in ("empty-nulls", "strip-html"):
        assert (f"{key} = true\n" in written) == public
    commands = "\n".join(line for line in done.stdout.splitlines() if line.startswith("  dptext "))
    assert not [option for option in ("--empty-nulls", "--strip-html", "--on-error") if option in commands]
    suggested = "in.jsonl also suggests --empty-nulls --strip-html --on-error skip."
    assert (suggested in done.stdout) == (not public)
    assert ("Decide by how the file was made" in done.stdout) == (not public)


def test_init_writes_the_form_of_the_public_file(reviews: Path) -> None:
    """Where the private file has another one, the command says it."""
    rows = [json.loads(line)["review"] for line in (reviews / "public.jsonl").read_text().splitlines()]
    (reviews / "public.csv").write_bytes(b"review;n\n" + "".join(f'"{row} é";1\n' for row in rows).encode("cp1252"))
    (reviews / "in.csv").write_text("review,n\nschön,1\n", "utf-8")
    done = dptext("init", "in.csv", "--for", "texts", "--text-field", "review", "--public", "public.csv", cwd=reviews)
    assert done.returncode == 0, done.stderr
    assert 'delimiter = ";"\nencoding = "cp1252"\n' in (reviews / "dptext.toml").read_text()
    commands = [shlex.split(line)[1:] for line in done.stdout.splitlines() if line.startswith("  dptext ")]
    assert commands[0] == ["fit"]
    assert commands[1][3:] == ["--delimiter", ",", "--encoding", "utf-8"]
    for each in commands:
        ran = dptext(*each, cwd=reviews)
        assert ran.returncode == 0, (each, ran.stderr)


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan"])
def test_init_takes_no_epsilon_that_is_none(reviews: Path, epsilon: str) -> None:
    options = ("--text-field", "review", "--public", "public.jsonl", "--epsilon", epsilon)
    assert dptext("init", "in.jsonl", "--for", "texts", *options, cwd=reviews).returncode == 2
    assert not (reviews / "dptext.toml").exists()


def test_init_asks_again_where_an_answer_cannot_be(reviews: Path) -> None:
    ours, theirs = pty.openpty()
    answers = ("reviw", "review", "nowhere.jsonl", "in.jsonl", "public.jsonl", "topik", "topic")
    os.write(
        ours, "".join(f"{each}\n" for each in (*answers, "author", "paragraph", "document", "ten", "-1", "10")).encode()
    )
    done = dptext("init", "in.jsonl", "--for", "texts", cwd=reviews, stdin=os.ttyname(theirs))
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    said = done.stderr
    assert said.count("Error: ") == 8
    for words in (
        *("--text-field 'reviw' to be a field", "--label-field 'topik' to be a field", "nowhere.jsonl: No such file"),
        *(
            "other than the private corpus",
            "--max-per-author N",
            "'paragraph' to be one of",
            "found 'ten'",
            "found '-1'",
        ),
    ):
        assert words in said
    written = tomllib.loads((reviews / "dptext.toml").read_text())
    assert (written["text-field"], written["label-field"], written["public"]) == ("review", "topic", "public.jsonl")
    assert written["mechanism"]["epsilon"] == 10


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--label-field", "topik"), "'topik' to be a field of in.jsonl, found 'review', 'topic'"),
        (("--public", "nowhere.jsonl"), "Cannot read the public file nowhere.jsonl"),
        (("--unit", "author"), "--max-per-author N"),
        (("--unit", "sentence"), "--unit document or token"),
    ],
)
def test_init_refuses_at_once_what_an_option_says_wrongly(reviews: Path, option: tuple[str, str], words: str) -> None:
    given = {"--text-field": "review", "--public": "public.jsonl", **dict([option])}
    done = dptext("init", "in.jsonl", "--for", "texts", *(part for pair in given.items() for part in pair), cwd=reviews)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (reviews / "dptext.toml").exists()


@pytest.mark.slow  # files of one form stay
def test_init_reads_files_of_two_forms(reviews: Path) -> None:
    rows = [json.loads(line) for line in (reviews / "public.jsonl").read_text().splitlines()]
    (reviews / "public.csv").write_bytes(
        "review;topic\r\n".encode("cp1252")
        + b"".join(f'"{row["review"]} schön";{row["topic"]}\r\n'.encode("cp1252") for row in rows)
    )
    options = ("--text-field", "review", "--label-field", "topic", "--public", "public.csv")
    done = dptext("init", "in.jsonl", "--for", "texts", *options, cwd=reviews)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        if line.startswith("  dptext "):
            ran = dptext(*shlex.split(line)[1:], cwd=reviews)
            assert ran.returncode == 0, (line, ran.stderr)


def test_a_recommendation_says_the_same_in_json() -> None:
    """Also that public text does as well, the margin, and what the legal page would say."""
    for options in (
        ("--epsilon", "10"),
        ("--epsilon", "10", "--task", "authorship"),
        ("--epsilon", "10", "--unit", "token"),
    ):
        shown = dptext("recommend", "--of", "texts", *options).stdout
        found = json.loads(dptext("recommend", "--of", "texts", *options, "--json").stdout)
        assert "\n".join(found["answer"]) in shown
        for corpus in found["corpora"].values():
            assert (corpus["answer"] == "none") == (corpus["public_text_does_as_well"] or not corpus["qualified"])
    corpus = json.loads(dptext("recommend", "--of", "corpus", "--epsilon", "1", "--json").stdout)
    said = dptext("recommend", "--of", "corpus", "--epsilon", "1").stdout
    assert said.startswith(f"Take {corpus['answer']} (a summary, and its writer pool): ")
    assert corpus["by_law"] in said
    beaten = [row["split"] for row in corpus["rows"] if not row["beats_public_text"]]
    assert beaten
    assert all(f"  {split}: take none (" in said for split in beaten)
    assert f"SNIPS: take none (no more than {corpus['margin']:g} above public text)" in said
    assert "SNIPS, another mix: take none (below public text)" in said


def test_public_text_hides_authors_as_well() -> None:
    """An attack that finds fewer authors is better: public text, with .130, beats a mechanism with .270."""
    said = dptext("recommend", "--of", "texts", "--task", "authorship", "--epsilon", "10").stdout
    assert said.startswith("Take none: use the public texts.")
    assert "hides authors better than they do" in said
