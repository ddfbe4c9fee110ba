"""The answer in sentences, from planted rows."""

import pytest

from dptext.privacy.guarantee import Basis, Unit
from dptext_lab.compare.folder import read_table
from dptext_lab.compare.report import read_results
from dptext_lab.compare.report.verdict import verdict
from pages_folder import Folder, guarantee

ACCURACY, COSINE = "classification.accuracy", "fidelity.cosine"


@pytest.fixture
def folder(tmp_path) -> Folder:
    """References on one corpus: public text .85 and .30; the label .40 at epsilon 10 and .60 at 20; originals .95."""
    return references(Folder(tmp_path / "results"))


def references(folder: Folder, corpus: str = "weather", *, original: float = 0.95) -> Folder:
    folder.cell("original", "", {ACCURACY: original, COSINE: 1.0}, corpus=corpus)
    folder.cell("public-only", "", {ACCURACY: 0.85, COSINE: 0.3}, epsilon=0.0, corpus=corpus)
    for epsilon, kept in ((10.0, 0.4), (20.0, 0.6)):
        given = {"stated": guarantee(epsilon), "settings": {"epsilon": epsilon}, "corpus": corpus}
        folder.cell("label_only", "label_only", {ACCURACY: 0.85, COSINE: kept}, **given)
    return folder


def release(folder: Folder, accuracy: float, cosine: float, epsilon: float = 10.0, *, row: str = "", **more) -> None:
    values = {ACCURACY: accuracy, COSINE: cosine}
    name = f"{row or 'adept'} epsilon={epsilon:g}"
    folder.cell(name, "adept", values, **{"stated": guarantee(epsilon), **more})


def said(folder: Folder) -> list[str]:
    return verdict(read_results(folder.write()).rows)


def test_a_release_that_is_better(folder) -> None:
    release(folder, 0.92, 0.5)
    release(folder, 0.94, 0.9, 20.0)  # the smallest epsilon is told, not the largest number
    assert said(folder) == [
        (
            "For classification a release is worth more than public text alone from epsilon 10 per document: "
            "adept 0.920 against 0.850."
        ),
        (
            "The meaning of single texts is kept better than by public text or a label from epsilon 10 per document: "
            "adept 0.500 against 0.400."
        ),
    ]


def test_the_best_of_equal_epsilons_is_named_and_a_small_gain_is_slight(folder) -> None:
    release(folder, 0.891, 0.441, epsilon=9.9999999, width=0.01, row="other")  # as calibrated to 10
    release(folder, 0.892, 0.449, width=0.01)
    assert said(folder) == [
        (
            "For classification a release is worth slightly more than public text alone from epsilon 10 per document: "
            "adept 0.892 against 0.850."
        ),
        (
            "The meaning of single texts is kept slightly better than by public text or a label from epsilon 10 per "
            "document: adept 0.449 against 0.400."
        ),
    ]


def test_intervals_that_overlap_show_nothing(folder) -> None:
    release(folder, 0.9, 0.45)
    release(folder, 0.2, 0.1, row="other")
    assert said(folder) == [
        (
            "For classification no release is shown to be worth more than public text alone: at best 0.900 against "
            "0.850; their intervals overlap."
        ),
        (
            "The meaning of single texts is not shown to be kept better than by public text or a label: at best 0.450 "
            "against 0.400; their intervals overlap."
        ),
    ]


def test_where_the_originals_are_no_better_that_is_told(tmp_path) -> None:
    folder = references(Folder(tmp_path / "results"), original=0.9)
    release(folder, 0.87, 0.5)
    assert said(folder)[0] == (
        "For classification neither a release nor the originals are shown to be worth more than public text alone: "
        "at best 0.870 against 0.850; their intervals overlap."
    )


def test_a_label_at_a_larger_epsilon_is_no_reference_and_a_large_epsilon_is_called_weak(folder) -> None:
    token = guarantee(1.0, unit=Unit.TOKEN)
    release(folder, 0.5, 0.5, stated=token, epsilon=1.0, document_epsilon=15.0)
    assert said(folder)[1].endswith("from epsilon 1 per token: adept 0.500 against 0.400.")
    folder.rows = [row for row in folder.rows if not row["row"].startswith("adept")]
    release(folder, 0.5, 0.5, epsilon=20.0)
    assert "kept worse than" in said(folder)[1]
    release(folder, 0.5, 0.9, epsilon=20.0, row="other")
    assert "from epsilon 20 per document (which protects little): other 0.900 against 0.600." in said(folder)[1]


def test_epsilons_of_one_meaning_are_judged_together_whole_documents_first(folder) -> None:
    release(folder, 0.95, 0.9, row="words", stated=guarantee(1.0, unit=Unit.TOKEN), document_epsilon=10.0)
    assert said(folder)[1].endswith("from epsilon 1 per token: words 0.900 against 0.400.")
    release(folder, 0.5, 0.2)
    assert [" worse " in sentence or " worth less " in sentence for sentence in said(folder)[:2]] == [True, True]
    assert said(folder)[2:] == ["Not counted in these answers: words epsilon=10 (its epsilon has another meaning)."]


def test_each_corpus_has_its_own_answer(folder) -> None:
    for corpus, kept in (("cooking", 0.9), ("sports", 0.45), ("news", 0.1)):
        references(folder, corpus)
        release(folder, 0.77, kept, corpus=corpus)
    release(folder, 0.77, 0.8)
    release(folder, 0.77, 0.8, 2.0, corpus="cooking")
    assert said(folder) == [
        (
            "For classification these releases are worth less than public text alone on cooking (at best 0.770 against "
            "0.850), sports (at best 0.770 against 0.850), news (at best 0.770 against 0.850), weather (at best 0.770 "
            "against 0.850)."
        ),
        (
            "The meaning of single texts is kept better than by public text or a label from epsilon 2 per document on "
            "cooking (adept 0.800 against 0.300); from epsilon 10 per document on weather (adept 0.800 against 0.400); "
            "not shown on sports (at best 0.450 against 0.400); worse on news (at best 0.100 against 0.400)."
        ),
    ]


def test_what_has_no_reference_or_no_number_is_left_out(folder) -> None:
    release(folder, 0.9, 0.5)
    folder.rows = [row for row in folder.rows if (row["row"], row["metric"]) != ("public-only", ACCURACY)]
    assert [sentence.split(" is ")[0] for sentence in said(folder)] == ["The meaning of single texts"]
    folder.rows = [row for row in folder.rows if row["row"] != "label_only"]
    assert "better than by public text alone from epsilon 10" in said(folder)[0]
    folder.rows = [row for row in folder.rows if row["row"] != "public-only"]
    assert said(folder) == [
        "Neither classification nor the meaning of texts was measured beside public-only: nothing is known.",
        "Not counted in these answers: adept epsilon=10 (not measured beside public-only).",
    ]


def test_only_guarantees_that_count_are_worth_something(folder) -> None:
    release(folder, 0.95, 0.9, row="claim", stated=guarantee(1.0, basis=Basis.CLAIMED))
    release(folder, 0.95, 0.9, row="leaky", stated=guarantee(1.0, delta=0.5))
    release(folder, 0.95, 0.9, row="none", stated=guarantee(float("inf"), basis=Basis.NONE, reason="none"))
    folder.cell("broken", "adept", {}, stated=guarantee(1.0), error="ConfigError: no")
    nothing = "No release has a guarantee that counts, so none can be said to protect anybody."
    left = (
        "Not counted in these answers: claim epsilon=10 (its guarantee is claimed and not checked); leaky epsilon=10, "
        "none epsilon=10 (no guarantee that protects); broken (it did not run: ConfigError: no)."
    )
    assert said(folder) == [nothing, left]
    folder.cell("false", "adept", {ACCURACY: 0.95, COSINE: 0.9, "distinguish.refuted": 1.0}, stated=guarantee(1.0))
    assert said(folder) == ["An audit refutes what is claimed for false: do not use it.", nothing, left]
    release(folder, 0.5, 0.2, row="sound")
    assert [sentence.split(" ")[0] for sentence in said(folder)] == ["An", "For", "The", "Not"]
    assert said(folder)[-1] == left


def test_rows_that_did_not_run_are_named_with_the_reason_and_the_corpus(folder) -> None:
    """Also those of one corpus alone; without folders, and a few of many."""
    references(folder, "cooking")
    release(folder, 0.92, 0.5)
    release(folder, 0.92, 0.5, corpus="cooking")
    error = "MissingExtraError: word vectors are not in /home/me/secret/glove.txt. Run: pip install dptext"
    folder.cell("word_metric epsilon=1", "word_metric", {}, stated=guarantee(1.0), error=error, corpus="cooking")
    *answers, left = said(folder)
    assert len(answers) == 2
    assert left == (
        "Not counted in these answers: word_metric epsilon=1 on cooking (it did not run: MissingExtraError: word "
        "vectors are not in glove.txt. Run: pip install dptext)."
    )
    for i in range(6):
        folder.cell(f"more{i}", "word_metric", {}, stated=guarantee(1.0), error="ConfigError: no")
    assert "more3 on weather and 2 more (it did not run" in said(folder)[-1]


def test_a_table_whose_label_only_has_one_name_gives_the_same_answer(folder) -> None:
    """The table of the package has one name for all epsilons of `label_only`: they are not put together."""
    release(folder, 0.9, 0.5)
    release(folder, 0.9, 0.9, 20.0)
    folder.write()
    assert verdict(read_table(folder.path)) == said(folder)
    assert "0.500 against 0.400" in said(folder)[1]


def test_releases_that_are_worse(folder) -> None:
    release(folder, 0.77, 0.2)
    release(folder, 0.6, 0.1, row="other")
    assert said(folder) == [
        "For classification these releases are worth less than public text alone: at best 0.770 against 0.850.",
        "The meaning of single texts is kept worse than by public text or a label: at best 0.200 against 0.400.",
    ]
