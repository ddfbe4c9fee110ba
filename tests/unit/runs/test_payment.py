"""What a run is charged with, and that it is charged before it draws."""

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]
import pytest

import dptext as dp
from dptext.errors import (
    BudgetExceededError,
    ConfigError,
    DataError,
    IncomparableError,
    LedgerError,
    NoGuaranteeError,
    PrivacyError,
)
from dptext.ledger.books import Ledger
from dptext.ledger.subjects import SubjectKey
from dptext.mechanism import Mechanism
from dptext.mechanisms.words.word_metric import WordMetric
from dptext.privacy import accounting
from dptext.privacy.guarantee import Basis, Guarantee, Relation, Unit
from dptext.privacy.names import AS_SEEN, COMPARED, ONE_NAME
from dptext.runs import unfinished
from dptext.runs.certificate import Certificate, Charged, certificate_path
from dptext.runs.files import privatize_file, rehearse
from dptext.runs.payment import ONE_RECORD, Payment, request_for
from dptext.runs.plan import Plan
from dptext.runs.results import privatize
from dptext.runs.verification import verify
from dptext.sampling.randomness import secure, seeded
from dptext.text.reading import OnError
from dptext.text.records import Fields, Record
from kept_words import KeptWords
from vectors import sentences

KEY = SubjectKey(bytes(range(32)))
# Four tokens a text, at most 100 apart: 4 * 100 * 0.01 = 4 a document.
COST = 4.0
LIMITS = {
    "texts": Guarantee(10.0, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE),
    "people": Guarantee(10.0, 0.0, Unit.AUTHOR, Relation.REPLACE_ONE),
}


class Counted:
    """A mechanism that counts its draws and asks the ledger, at the first, whether it was paid."""

    def __init__(self, inner, ledger: Ledger) -> None:
        self.inner, self.ledger = inner, ledger
        self.draws = 0
        self.charges_at_first_draw = None
        self.fail = False

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def privatize(self, records, randomness):
        if not self.draws:
            self.charges_at_first_draw = sum(self.ledger.balance(name).charges for name in LIMITS)
        self.draws += 1
        if self.fail:
            raise KeyboardInterrupt
        return self.inner.privatize(records, randomness)


@pytest.fixture(scope="module")
def spec(vectors: Path) -> WordMetric:
    return WordMetric(epsilon=0.01, noise="tem", vectors=str(vectors), n_words=300, max_tokens=4, diameter=100.0)


@pytest.fixture(scope="module")
def fitted(spec: WordMetric) -> Mechanism[str]:
    return spec.fit()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with its accounts and no charges, of which each test has a copy: to make one takes longer."""
    path = tmp_path_factory.mktemp("opened") / "budget.db"
    books = Ledger.create(path, key=KEY)
    for name, limit in LIMITS.items():
        books.open_account(name, limit, by_subject=True)
    books.close()
    return path


@pytest.fixture
def ledger(opened: Path, tmp_path: Path) -> Ledger:
    return Ledger.at(shutil.copy(opened, tmp_path / "budget.db"), key=KEY)


@pytest.fixture
def mechanism(fitted: Mechanism[str], ledger: Ledger) -> Counted:
    return Counted(fitted, ledger)


def write(path: Path, names: list[str], **more: str) -> Path:
    texts = sentences(len(names))
    rows = [{"text": text, "who": name, "name": f"d{name}", **more} for text, name in zip(texts, names, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path / "in.jsonl", [f"w{i}" for i in range(30)])


def beside(folder: Path) -> list[str]:
    """What a run leaves in the folder, but for the books."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(("budget.db", "in")))


# --------------------------------------------------------------------------------------------------- requests


def test_documents_without_names_are_assumed_to_come_once(spec: WordMetric) -> None:
    limit = replace(LIMITS["texts"])
    assert ONE_RECORD in request_for(spec, limit, randomness=secure()).terms.assumptions
    named = request_for(spec, limit, randomness=secure(), by_subject=True).terms
    assert ONE_RECORD not in named.assumptions
    assert ONE_NAME in named.assumptions


def test_a_document_pays_for_its_tokens(spec: WordMetric) -> None:
    request = request_for(spec, LIMITS["texts"], randomness=secure(), reveals=("the number of records",))
    assert request.events == spec.events(Unit.DOCUMENT)
    assert accounting.epsilon(request.events) == spec.guarantee(Unit.DOCUMENT).epsilon == pytest.approx(COST)
    assert (request.unit, request.relation, request.units_per_subject) == (Unit.DOCUMENT, Relation.REPLACE_ONE, 1)
    assert request.terms.basis is Basis.CONDITIONAL
    assert request.terms.reveals == (*spec.guarantee().reveals, "the number of records")
    assert request.settings["epsilon"] == 0.01


@pytest.mark.parametrize("way", ["file", "memory"])
def test_the_books_know_what_a_run_reveals(way: str, tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    payment = Payment(ledger, "texts", everyone=True)
    if way == "file":
        plan = Plan(fields=Fields(id="name", keep=("who",)))
        found = privatize_file(source, tmp_path / "out.jsonl", mechanism, plan=plan, payment=payment)
    else:
        rows = [{"text": "so it is", "name": "d", "who": "anna"}]
        found = privatize(rows, mechanism, id="name", keep=["who"], payment=payment).certificate
    (charge,) = ledger.log("texts")
    assert any("who" in each for each in found.also_reveals)
    assert set(found.also_reveals) <= set(charge.request.terms.reveals)
    assert set(charge.request.terms.reveals) == set(ledger.balance("texts").spent.reveals)


def test_an_author_pays_for_the_maximum_of_documents(spec: WordMetric) -> None:
    request = request_for(spec, LIMITS["people"], randomness=secure(), max_per_author=3)
    assert accounting.epsilon(request.events) == pytest.approx(3 * COST)
    assert request.units_per_subject == 3
    enforced = f"no author has more than 3 records in a run (enforced; names are {COMPARED})"
    assert enforced in request.terms.assumptions
    with pytest.raises(ConfigError, match="--max-per-author"):
        request_for(spec, LIMITS["people"], randomness=secure())


def test_what_has_no_bound_is_not_charged(spec: WordMetric) -> None:
    with pytest.raises(NoGuaranteeError, match="secure randomness"):
        request_for(spec, LIMITS["texts"], randomness=seeded(1))
    with pytest.raises(NoGuaranteeError, match="all words leave verbatim"):
        request_for(KeptWords(), LIMITS["texts"], randomness=secure())
    with pytest.raises(IncomparableError, match="protects is the token"):
        request_for(replace(spec, max_tokens=None), LIMITS["texts"], randomness=secure())


# ------------------------------------------------------------------------------------------------------- runs


def test_a_run_is_charged_before_its_first_draw(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    target = tmp_path / "out.jsonl"
    certificate = privatize_file(
        source, target, mechanism, payment=Payment(ledger, "texts", everyone=True), plan=Plan(batch_size=10)
    )
    assert mechanism.charges_at_first_draw == 1
    assert mechanism.draws == 3
    (charge,) = ledger.log("texts")
    assert charge.release == certificate.sha256
    assert charge.subjects is None
    assert certificate.charged == Charged("texts", "texts", Unit.DOCUMENT, charge.number, by_subject=False)
    assert Certificate.from_json(certificate_path(target).read_text("utf-8")) == certificate
    assert "each repetition is charged again" in certificate.explain()
    assert "one release" not in certificate.explain()
    assert ledger.balance("texts").spent.epsilon == pytest.approx(COST)
    assert ledger.balance("people").charges == 0


def test_without_a_ledger_it_says_one_release(tmp_path: Path, source: Path, mechanism) -> None:
    certificate = privatize_file(source, tmp_path / "out.jsonl", mechanism)
    assert certificate.charged is None
    assert "one release; each repetition adds" in certificate.explain()


@pytest.mark.parametrize("schema", [1, 3, 5])
def test_a_certificate_of_another_schema_is_refused(tmp_path: Path, source: Path, mechanism, schema: int) -> None:
    privatize_file(source, tmp_path / "out.jsonl", mechanism)
    data = json.loads((tmp_path / "out.jsonl.guarantee.json").read_text("utf-8"))
    assert Certificate.from_json(json.dumps(data)).charged is None
    with pytest.raises(ConfigError, match=f"Expected a certificate of schema 4, found schema {schema}: read it with"):
        Certificate.from_json(json.dumps({**data, "schema": schema}))


def late_fault(name: str, folder: Path) -> tuple[Path, Plan]:
    """A file of 1,500 records, more than five batches, that is at fault at its end, and how it is read."""
    rows = [{"text": "ok", "who": f"w{i}"} for i in range(1500)]
    source, plan, cut = folder / "in.jsonl", Plan(), 0
    if name == "null":
        rows[1400]["text"] = None  # type: ignore[assignment]
    elif name == "author":
        rows[1401]["who"] = rows[1400]["who"]
        plan = Plan(Fields(author="who"), max_per_author=1)
    elif name == "id":
        rows[1401]["who"] = rows[1400]["who"]
        plan = Plan(Fields(id="who"))
    elif name == "line":
        cut = 5
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if name == "quote":
        source = folder / "in.csv"
        data = b"text\n" + b"ok\n" * 1500 + b'"open\n'
    elif name == "gzip":
        source, data, cut = folder / "in.jsonl.gz", gzip.compress(data), 20
    source.write_bytes(data[: len(data) - cut])
    return source, plan


@pytest.mark.parametrize("fault", ["null", "author", "id", "line", "quote", "gzip"])
def test_a_fault_late_in_the_file_costs_nothing(fault: str, tmp_path: Path, mechanism, ledger: Ledger) -> None:
    source, plan = late_fault(fault, tmp_path)
    with pytest.raises(DataError):
        privatize_file(
            source, tmp_path / "out.jsonl", mechanism, plan=plan, payment=Payment(ledger, "texts", everyone=True)
        )
    assert (ledger.balance("texts").charges, mechanism.draws) == (0, 0)
    assert beside(tmp_path) == []


def test_skipped_records_of_a_paid_run_are_told_once(tmp_path: Path, mechanism, ledger: Ledger) -> None:
    source, _ = late_fault("null", tmp_path)
    told: list[int] = []
    plan, payment = Plan(on_error=OnError.SKIP), Payment(ledger, "texts", everyone=True)
    certificate = privatize_file(
        source,
        tmp_path / "out.jsonl",
        mechanism,
        plan=plan,
        payment=payment,
        on_skip=lambda number, _: told.append(number),
    )
    assert (told, certificate.records) == ([1401], 1499)


def test_a_fault_after_the_charge_names_its_key(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    def refuse(*_: object) -> None:
        raise DataError("Expected less.")

    target = tmp_path / "out.jsonl"
    broken = Counted(mechanism, ledger)
    broken.privatize = refuse  # type: ignore[method-assign]
    with pytest.raises(DataError, match="--charge-key") as found:
        privatize_file(source, target, broken, payment=Payment(ledger, "texts", everyone=True))
    (charge,) = ledger.log("texts")
    assert f"Expected less. What was charged stays charged: --charge-key {charge.key} pays" in str(found.value)
    privatize_file(source, target, mechanism, payment=Payment(ledger, "texts", charge.key, everyone=True))
    assert ledger.balance("texts").charges == 1


def test_an_overdraft_draws_and_leaves_nothing(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    payment = Payment(ledger, "texts", everyone=True)
    for name in ("first.jsonl", "second.jsonl"):
        privatize_file(source, tmp_path / name, mechanism, payment=payment)
    before, draws = beside(tmp_path), mechanism.draws
    with pytest.raises(
        BudgetExceededError, match=r"asked epsilon = 4\.001.*left 1\.999 of 10, together 2\.001 above the limit"
    ) as caught:
        privatize_file(source, tmp_path / "third.jsonl", mechanism, payment=payment)
    assert caught.value.asked == pytest.approx(4)
    assert caught.value.left == pytest.approx(2)
    assert caught.value.gap == pytest.approx(2)
    assert mechanism.draws == draws
    assert beside(tmp_path) == before
    assert ledger.balance("texts").charges == 2


def test_an_interrupted_run_goes_on_with_its_charge(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    target, payment = tmp_path / "out.jsonl", Payment(ledger, "texts", everyone=True)
    mechanism.fail = True
    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, mechanism, payment=payment, plan=Plan(batch_size=10))
    assert ledger.balance("texts").charges == 1  # the budget is spent
    mechanism.fail = False
    certificate = privatize_file(source, target, mechanism, payment=payment, plan=Plan(batch_size=10, resume=True))
    (charge,) = ledger.log("texts")
    assert charge.release == certificate.sha256
    assert target.read_bytes().count(b"\n") == 30


def test_an_interrupted_run_to_parquet_begins_anew_under_its_charge(
    tmp_path: Path, source: Path, mechanism, ledger: Ledger
) -> None:
    target, payment = tmp_path / "out.parquet", Payment(ledger, "texts", everyone=True)

    def stop(done: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, mechanism, payment=payment, plan=Plan(batch_size=10), on_progress=stop)
    assert (tmp_path / ".out.parquet.part").stat().st_size
    going_on = Plan(batch_size=10, resume=True)
    *_, due, _ = rehearse(source, target, mechanism, plan=going_on, randomness=secure(), payment=payment)
    assert due is None  # nothing more
    with pytest.raises(ConfigError, match="settings of the run to resume"):
        privatize_file(source, target, mechanism, plan=going_on)
    certificate = privatize_file(source, target, mechanism, payment=payment, plan=going_on)
    (charge,) = ledger.log("texts")
    assert charge.release == certificate.sha256
    assert pq.read_table(target).num_rows == certificate.records == 30
    assert beside(tmp_path) == ["out.parquet", "out.parquet.guarantee.json"]


def test_a_resumed_run_needs_its_account(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    target = tmp_path / "out.jsonl"
    mechanism.fail = True
    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, mechanism, payment=Payment(ledger, "texts", everyone=True))
    mechanism.fail = False
    with pytest.raises(ConfigError, match="settings of the run to resume"):
        privatize_file(source, target, mechanism, plan=Plan(resume=True))
    assert not target.exists()


def test_a_thrown_away_run_is_paid_again_unless_it_has_a_key(
    tmp_path: Path, source: Path, mechanism, ledger: Ledger
) -> None:
    target = tmp_path / "out.jsonl"
    for key, charges in ((None, 1), (None, 2), ("nightly 7", 3), ("nightly 7", 3)):
        mechanism.fail = True
        with pytest.raises((KeyboardInterrupt, BudgetExceededError)):
            privatize_file(
                source, target, mechanism, payment=Payment(ledger, "texts", key, everyone=True), plan=Plan(force=True)
            )
        # Ten pay for two and a half.
        assert ledger.balance("texts").charges == min(charges, 2)
        mechanism.fail = False


def test_a_key_pays_for_one_release(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    target, payment = tmp_path / "out.jsonl", Payment(ledger, "texts", "nightly 7", everyone=True)
    mechanism.fail = True
    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, target, mechanism, payment=payment)
    mechanism.fail = False
    privatize_file(source, target, mechanism, payment=payment, plan=Plan(force=True))  # a retry from nothing
    assert ledger.balance("texts").charges == 1
    first, draws = target.read_bytes(), mechanism.draws
    with pytest.raises(PrivacyError, match="paid for a release already"):
        privatize_file(source, target, mechanism, payment=payment, plan=Plan(force=True))
    assert (target.read_bytes(), mechanism.draws) == (first, draws)
    other = replace(mechanism.spec, epsilon=0.005).fit()
    with pytest.raises(PrivacyError, match="paid for another run"):
        privatize_file(source, tmp_path / "other.jsonl", other, payment=payment)
    assert not (tmp_path / "other.jsonl").exists()


def test_two_runs_with_one_key_release_once(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    payment = Payment(ledger, "texts", "nightly 7", everyone=True)

    def meanwhile(_: int) -> None:
        if not (tmp_path / "fast.jsonl").exists():
            privatize_file(source, tmp_path / "fast.jsonl", mechanism.inner, payment=payment)

    with pytest.raises(PrivacyError, match="paid for another release"):
        privatize_file(source, tmp_path / "slow.jsonl", mechanism, payment=payment, on_progress=meanwhile)
    assert beside(tmp_path) == ["fast.jsonl", "fast.jsonl.guarantee.json"]
    assert ledger.balance("texts").charges == 1


def test_a_kill_between_settling_and_publishing_is_mended(
    tmp_path: Path, source: Path, mechanism, ledger: Ledger, monkeypatch
) -> None:
    target, payment = tmp_path / "out.jsonl", Payment(ledger, "texts", everyone=True)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(unfinished, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            privatize_file(source, target, mechanism, payment=payment)
    (charge,) = ledger.log("texts")
    draws = mechanism.draws
    certificate = privatize_file(source, target, mechanism, payment=payment, plan=Plan(resume=True))
    assert certificate.sha256 == charge.release
    assert mechanism.draws == draws
    assert beside(tmp_path) == ["out.jsonl", "out.jsonl.guarantee.json"]


@pytest.mark.parametrize("came", ["out.jsonl", "out.jsonl.guarantee.json"])
def test_a_target_that_came_during_the_run_can_be_moved_away(
    came: str, tmp_path: Path, source: Path, mechanism, ledger: Ledger
) -> None:
    target, payment = tmp_path / "out.jsonl", Payment(ledger, "texts", everyone=True)

    def put(_: int) -> None:
        (tmp_path / came).write_text("another's", "utf-8")

    with pytest.raises(ConfigError, match=r"paid and whole: move that away, then go on with --resume.*charges again"):
        privatize_file(source, target, mechanism, payment=payment, on_progress=put)
    assert next(ledger.log("texts")).release is None
    draws = mechanism.draws
    (tmp_path / came).rename(tmp_path / "in-another")
    certificate = privatize_file(source, target, mechanism, payment=payment, plan=Plan(resume=True))
    (charge,) = ledger.log("texts")
    assert (charge.release, mechanism.draws) == (certificate.sha256, draws)
    assert beside(tmp_path) == ["out.jsonl", "out.jsonl.guarantee.json"]


@pytest.mark.parametrize("fault", ["other bytes", "no file"])
def test_a_sealed_run_publishes_what_it_wrote_or_nothing(
    fault: str, tmp_path: Path, source: Path, mechanism, ledger: Ledger, monkeypatch
) -> None:
    target, payment = tmp_path / "out.jsonl", Payment(ledger, "texts", "nightly 7", everyone=True)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "settle", killed)
        with pytest.raises(KeyboardInterrupt):
            privatize_file(source, target, mechanism, payment=payment)
    with pytest.raises(ConfigError, match="whole and paid for: go on with --resume"):
        privatize_file(source, target, mechanism, payment=payment, plan=Plan(force=True))
    with pytest.raises(ConfigError, match="Expected the charge key of the run to resume"):
        privatize_file(
            source, target, mechanism, payment=Payment(ledger, "texts", "other", everyone=True), plan=Plan(resume=True)
        )
    part = tmp_path / ".out.jsonl.part"
    kept = part.read_bytes()
    part.unlink() if fault == "no file" else part.write_text("secret raw text", "utf-8")
    with pytest.raises(ConfigError, match="is not what the run wrote"):
        privatize_file(source, target, mechanism, payment=payment, plan=Plan(resume=True))
    assert not target.exists()
    (charge,) = ledger.log("texts")
    assert charge.release is None
    part.write_bytes(kept)
    certificate = privatize_file(source, target, mechanism, payment=payment, plan=Plan(resume=True))
    assert target.read_bytes() == kept
    assert next(ledger.log("texts")).release == certificate.sha256


def test_a_state_that_cannot_be_read_does_not_bar_a_new_beginning(
    tmp_path: Path, source: Path, mechanism, ledger: Ledger
) -> None:
    target, payment = tmp_path / "out.jsonl", Payment(ledger, "texts", "nightly 7", everyone=True)
    (tmp_path / ".out.jsonl.resume.json").write_text("{", "utf-8")
    privatize_file(source, target, mechanism, payment=payment, plan=Plan(force=True))
    assert beside(tmp_path) == ["out.jsonl", "out.jsonl.guarantee.json"]


def test_a_paid_run_in_parquet_is_published_after_a_kill(
    tmp_path: Path, source: Path, mechanism, ledger: Ledger, monkeypatch
) -> None:
    target, payment = tmp_path / "out.parquet", Payment(ledger, "texts", everyone=True)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "settle", killed)
        with pytest.raises(KeyboardInterrupt):
            privatize_file(source, target, mechanism, payment=payment)
    privatize_file(source, target, mechanism, payment=payment, plan=Plan(resume=True))
    assert beside(tmp_path) == ["out.parquet", "out.parquet.guarantee.json"]


def test_nothing_is_published_where_the_ledger_cannot_be_told(
    tmp_path: Path, source: Path, mechanism, ledger: Ledger, monkeypatch
) -> None:
    target, payment = tmp_path / "out.jsonl", Payment(ledger, "texts", everyone=True)

    def unreachable(*_: object) -> None:
        raise LedgerError("The ledger cannot be reached.")

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "settle", unreachable)
        with pytest.raises(LedgerError, match="--resume publishes it"):
            privatize_file(source, target, mechanism, payment=payment)
    assert not target.exists()
    privatize_file(source, target, mechanism, payment=payment, plan=Plan(resume=True))
    assert ledger.balance("texts").charges == 1
    assert target.exists()


def test_a_charge_of_unknown_outcome_can_be_resumed(
    tmp_path: Path, source: Path, mechanism, ledger: Ledger, monkeypatch
) -> None:
    target, payment = tmp_path / "out.jsonl", Payment(ledger, "texts", everyone=True)
    charge = Ledger.charge

    def lost(*arguments: object, **named: object) -> None:
        charge(*arguments, **named)
        raise LedgerError("The connection was lost.", unsure=True)

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "charge", lost)
        with pytest.raises(LedgerError, match="Go on with --resume"):
            privatize_file(source, target, mechanism, payment=payment)
    assert not mechanism.draws
    privatize_file(source, target, mechanism, payment=payment, plan=Plan(resume=True))
    assert ledger.balance("texts").charges == 1


# --------------------------------------------------------------------------------------------------- subjects

BY_NAME = Plan(fields=Fields(subject="name"))


def test_other_documents_pay_for_themselves(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    payment = Payment(ledger, "texts")
    for day in range(4):  # everyone would have paid 16 of 10
        names = [f"{day}-{i}" for i in range(20)]
        daily = write(tmp_path / f"in{day}.jsonl", names)
        certificate = privatize_file(daily, tmp_path / f"out{day}.jsonl", mechanism, payment=payment, plan=BY_NAME)
        assert certificate.charged.by_subject
        (stated,) = (each for each in certificate.guarantees if each.unit is Unit.DOCUMENT)
        assert (ONE_NAME in stated.assumptions, ONE_RECORD in stated.assumptions) == (True, False)
        path = certificate_path(tmp_path / f"out{day}.jsonl")
        verify(path)
        path.write_text(replace(certificate, charged=None).to_json(), "utf-8")
        with pytest.raises(DataError, match="does not follow from its settings"):
            verify(path)
    balance = ledger.balance("texts")
    assert balance.spent.epsilon == pytest.approx(COST)
    assert (balance.charges, balance.subjects) == (4, 80)
    mixed = write(tmp_path / "in-mixed.jsonl", ["0-3", "new"])
    privatize_file(mixed, tmp_path / "mixed.jsonl", mechanism, payment=payment, plan=BY_NAME)
    assert ledger.balance("texts").spent.epsilon == pytest.approx(2 * COST)
    with pytest.raises(BudgetExceededError):
        privatize_file(mixed, tmp_path / "again.jsonl", mechanism, payment=payment, plan=BY_NAME)
    assert ledger.balance("texts", subject="dnew").spent.epsilon == pytest.approx(COST)
    assert not ledger.verify("texts").problems


def test_a_rehearsal_weighs_what_each_subject_spent(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    payment, other = Payment(ledger, "texts"), write(tmp_path / "in2.jsonl", ["new"])
    twice = write(tmp_path / "in3.jsonl", ["w0", "w0"])
    for i in range(2):
        privatize_file(source, tmp_path / f"{i}.jsonl", mechanism, plan=BY_NAME, payment=payment)
    before, draws, n_charges = beside(tmp_path), mechanism.draws, ledger.balance("texts").charges
    given = {"plan": BY_NAME, "randomness": secure()}
    assert rehearse(other, tmp_path / "out.jsonl", mechanism, payment=payment, **given)[0] == 1  # spent nothing yet
    for path, plan, error in (
        (source, BY_NAME, BudgetExceededError),
        (other, Plan(), BudgetExceededError),  # everyone, the others too
        (twice, BY_NAME, DataError),
    ):
        said, paying = [], replace(payment, everyone=plan is not BY_NAME)
        for run in (rehearse, privatize_file):
            with pytest.raises(error) as caught:
                run(path, tmp_path / "out.jsonl", mechanism, payment=paying, **{**given, "plan": plan})
            said.append(str(caught.value))
        assert said[0] == said[1] or error is DataError
    assert (beside(tmp_path), mechanism.draws, ledger.balance("texts").charges) == (before, draws, n_charges)


def test_a_rehearsal_takes_a_key_as_the_run_would(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    payment, out = Payment(ledger, "texts", "one", everyone=True), tmp_path / "out.jsonl"
    given = {"payment": payment, "randomness": secure()}
    mechanism.fail = True
    with pytest.raises(KeyboardInterrupt):
        privatize_file(source, out, mechanism, **given)
    mechanism.fail = False
    payment.due(mechanism.spec, randomness=secure()).charge("two", None)  # 2 are left
    for plan in (Plan(force=True), Plan(resume=True)):
        n_records, _, due, _ = rehearse(source, out, mechanism, plan=plan, **given)
        assert (n_records, due) == (30, None)  # the charge is there
    by_name = {**given, "payment": replace(payment, everyone=False)}
    with pytest.raises(PrivacyError, match="paid for another run"):
        rehearse(source, out, mechanism, plan=replace(BY_NAME, force=True), **by_name)
    with pytest.raises(BudgetExceededError):
        rehearse(
            source, tmp_path / "2.jsonl", mechanism, plan=Plan(), **{**given, "payment": replace(payment, key=None)}
        )
    for run in (rehearse, privatize_file):
        with pytest.raises(ConfigError, match="An unfinished run lies beside"):
            run(source, out, mechanism, plan=Plan(), **given)
    privatize_file(source, out, mechanism, plan=Plan(resume=True), **given)
    with pytest.raises(PrivacyError, match="to be unused"):
        rehearse(source, tmp_path / "2.jsonl", mechanism, plan=Plan(), **given)


def test_authors_pay_for_their_maximum(tmp_path: Path, mechanism, ledger: Ledger) -> None:
    payment = Payment(ledger, "people")
    plan = Plan(fields=Fields(author="who", subject="who"), max_per_author=2)
    twice = write(tmp_path / "in.jsonl", ["a", "b", "a"])
    privatize_file(twice, tmp_path / "out.jsonl", mechanism, payment=payment, plan=plan)
    assert ledger.balance("people", subject="b").spent.epsilon == pytest.approx(2 * COST)  # not what it used
    assert ledger.balance("people").subjects == 2
    thrice = write(tmp_path / "in3.jsonl", ["c", "c", "c"])
    with pytest.raises(DataError):
        privatize_file(thrice, tmp_path / "out3.jsonl", mechanism, payment=payment, plan=plan)
    assert ledger.balance("people").charges == 1
    with pytest.raises(ConfigError, match="name the same field for both"):
        privatize_file(
            twice,
            tmp_path / "no.jsonl",
            mechanism,
            payment=payment,
            plan=replace(plan, fields=Fields(author="who", subject="name")),
        )


def test_one_name_for_two_documents_is_refused(tmp_path: Path, mechanism, ledger: Ledger) -> None:
    source = write(tmp_path / "in.jsonl", ["a", "b", "a"])
    with pytest.raises(DataError, match="at most 1 record of each subject") as caught:
        privatize_file(source, tmp_path / "out.jsonl", mechanism, payment=Payment(ledger, "texts"), plan=BY_NAME)
    assert "da" not in str(caught.value).split()
    assert beside(tmp_path) == []
    assert (ledger.balance("texts").charges, mechanism.draws) == (0, 0)


def test_the_terms_of_a_charge_by_name_say_how_names_are_compared(
    tmp_path: Path, source: Path, mechanism, ledger: Ledger
) -> None:
    privatize_file(source, tmp_path / "texts.jsonl", mechanism, payment=Payment(ledger, "texts"), plan=BY_NAME)
    said = f"each subject has one name in all runs (names are {AS_SEEN})"
    (charge,) = ledger.log("texts")
    assert said in charge.request.terms.assumptions
    spent = ledger.balance("texts").spent
    assert (said in spent.assumptions, spent.basis) == (True, Basis.CONDITIONAL)
    request = Payment(ledger, "texts", everyone=True).due(mechanism.spec, randomness=secure()).request
    assert not any("names are" in assumption for assumption in request.terms.assumptions)


def test_look_alike_names_are_one_subject_of_a_run(tmp_path: Path, mechanism, ledger: Ledger) -> None:
    payment, plan = Payment(ledger, "people"), Plan(fields=Fields(author="who", subject="who"), max_per_author=2)
    twice = write(tmp_path / "in.jsonl", ["Mar\u00eda", "MARI\u0301A "])
    privatize_file(twice, tmp_path / "out.jsonl", mechanism, payment=payment, plan=plan)
    balance = ledger.balance("people", subject="mar\u00eda")
    assert (balance.subjects, balance.spent.epsilon) == (1, pytest.approx(2 * COST))
    thrice = write(tmp_path / "in3.jsonl", ["anna", "Anna", "anna "])
    with pytest.raises(DataError):
        privatize_file(thrice, tmp_path / "out3.jsonl", mechanism, payment=payment, plan=plan)
    documents = write(tmp_path / "in2.jsonl", ["a", "A"])
    with pytest.raises(DataError, match="at most 1 record of each subject"):
        privatize_file(documents, tmp_path / "out2.jsonl", mechanism, payment=Payment(ledger, "texts"), plan=BY_NAME)
    assert beside(tmp_path) == ["out.jsonl", "out.jsonl.guarantee.json"]


def test_a_record_without_a_name_is_refused_or_skipped(tmp_path: Path, mechanism, ledger: Ledger) -> None:
    source = write(tmp_path / "in.jsonl", ["a", "b"])
    with source.open("a", encoding="utf-8") as file:
        file.write('{"text": "ba"}\n')
    payment = Payment(ledger, "texts")
    with pytest.raises(DataError, match="record 3"):
        privatize_file(source, tmp_path / "out.jsonl", mechanism, payment=payment, plan=BY_NAME)
    assert ledger.balance("texts").charges == 0
    skipped = []
    plan = replace(BY_NAME, on_error=OnError.SKIP)
    certificate = privatize_file(
        source, tmp_path / "out.jsonl", mechanism, payment=payment, plan=plan, on_skip=lambda n, _: skipped.append(n)
    )
    assert (certificate.records, skipped, ledger.balance("texts").subjects) == (2, [3], 2)


def test_an_input_that_changes_under_the_run_is_not_released(tmp_path: Path, mechanism, ledger: Ledger) -> None:
    names, long = [f"w{i}" for i in range(400)], "x" * 800  # more than a buffer holds
    source = write(tmp_path / "in.jsonl", names, more=long)

    def swap(done: int) -> None:
        if done == 40:
            write(source, [name.replace("w", "x") for name in names], more=long)
        if done == len(names):
            write(source, names, more=long)  # as if nothing had been

    plan = replace(BY_NAME, batch_size=40)
    with pytest.raises(DataError, match="changed while it was read"):
        privatize_file(
            source, tmp_path / "out.jsonl", mechanism, payment=Payment(ledger, "texts"), plan=plan, on_progress=swap
        )
    assert beside(tmp_path) == []
    assert ledger.balance("texts").charges == 1  # spent all the same


def test_subjects_without_a_ledger_are_a_mistake(tmp_path: Path, source: Path, mechanism) -> None:
    with pytest.raises(ConfigError, match="Expected a ledger"):
        privatize_file(source, tmp_path / "out.jsonl", mechanism, plan=BY_NAME)


def test_a_lost_key_file_refuses_and_leaves_nothing(tmp_path: Path, source: Path, mechanism, ledger: Ledger) -> None:
    for key in (None, SubjectKey(bytes(32))):
        books = Ledger.at(tmp_path / "budget.db", key=key)
        with pytest.raises(ConfigError, match="subject key"):
            privatize_file(source, tmp_path / "out.jsonl", mechanism, payment=Payment(books, "texts"), plan=BY_NAME)
    assert beside(tmp_path) == []
    assert (ledger.balance("texts").charges, mechanism.draws) == (0, 0)


# ---------------------------------------------------------------------------------------------------- streams


def test_a_stream_is_paid_before_it_begins(mechanism, ledger: Ledger) -> None:
    records = [Record(str(i), text) for i, text in enumerate(sentences(5))]
    payment = Payment(ledger, "texts", everyone=True)
    stream = privatize(records, mechanism, payment=payment)
    assert ledger.balance("texts").charges == 1
    assert mechanism.draws == 0
    assert len(list(stream)) == 5
    privatize(records, mechanism, payment=payment)  # never read, and paid
    with pytest.raises(BudgetExceededError):
        privatize(records, mechanism, payment=payment)
    with pytest.raises(NoGuaranteeError):
        privatize(records, mechanism, payment=payment, randomness=seeded(3))


def test_a_stream_with_a_key_runs_once(mechanism, ledger: Ledger) -> None:
    payment = Payment(ledger, "texts", "nightly 7", everyone=True)
    privatize(["a text"], mechanism, payment=payment)
    with pytest.raises(PrivacyError, match="a release already"):
        privatize(["a text"], mechanism, payment=payment)
    assert ledger.balance("texts").charges == 1


ROWS = [{"text": text, "who": f"w{i}", "shop": "north"} for i, text in enumerate(sentences(3))]
FAULTY = {
    "field": ([*ROWS, {"txt": "so", "who": "w3", "shop": "north"}], {}),
    "kept": ([*ROWS, {"text": "so"}], {"keep": ["shop"]}),
    "id": ([*ROWS, ROWS[0]], {"id": "who"}),
    "author": ([*ROWS, ROWS[0]], {"author": "who", "max_per_author": 1}),
    "null": ([*(row["text"] for row in ROWS), None], {}),
    "surrogate": (["so", "\ud800"], {}),
    "empty": ([], {}),
}


@pytest.mark.parametrize("case", FAULTY)
def test_what_can_be_read_again_is_checked_before_it_is_paid(case: str, mechanism, ledger: Ledger) -> None:
    rows, given = FAULTY[case]
    with pytest.raises(DataError):
        privatize(rows, mechanism, payment=Payment(ledger, "texts", everyone=True), **given)
    assert (ledger.balance("texts").charges, mechanism.draws) == (0, 0)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("in.csv", "txt\nso\n"),
        ("in.csv", 'text\nso\n"open\n'),
        ("in.csv", "text\ncafé\n"),
        ("in.jsonl", '{"text": "so"}\n{"txt": "so"}\n'),
        ("in.jsonl", ""),
    ],
)
def test_a_file_is_checked_before_it_is_paid(name: str, data: str, tmp_path: Path, mechanism, ledger: Ledger) -> None:
    (tmp_path / name).write_text(data, "cp1252")
    with pytest.raises(DataError):
        privatize(tmp_path / name, mechanism, payment=Payment(ledger, "texts", everyone=True))
    assert (ledger.balance("texts").charges, mechanism.draws) == (0, 0)


def test_a_file_that_pays_is_read_twice_and_not_kept(source: Path, mechanism, ledger: Ledger) -> None:
    stream = privatize(source, mechanism, payment=Payment(ledger, "texts", everyone=True))
    assert len(list(stream)) == stream.certificate.records == 30
    with pytest.raises(ConfigError, match="drawn already"):
        stream.to_records()


def test_a_frame_is_checked_before_it_is_paid(mechanism, ledger: Ledger) -> None:
    frame = pytest.importorskip("pandas").DataFrame({"text": ["so", None]})
    with pytest.raises(DataError, match=r"record 2.* Nothing is charged or released"):
        privatize(frame, mechanism, payment=Payment(ledger, "texts", everyone=True))
    assert (ledger.balance("texts").charges, mechanism.draws) == (0, 0)


@pytest.mark.parametrize("rows", [[], [{"txt": "so"}]])
def test_the_first_of_a_stream_is_checked_before_it_is_paid(rows: list, mechanism, ledger: Ledger) -> None:
    with pytest.raises(DataError):
        privatize(iter(rows), mechanism, payment=Payment(ledger, "texts", everyone=True))
    assert (ledger.balance("texts").charges, mechanism.draws) == (0, 0)


def test_one_record_of_a_stream_is_read_before_it_is_paid(mechanism, ledger: Ledger) -> None:
    payment, rows = Payment(ledger, "texts", everyone=True), iter([*sentences(3), None])  # the fault would come later
    stream = privatize(rows, mechanism, payment=payment, batch_size=1)
    assert ledger.balance("texts").charges == 1
    assert len(list(rows)) == 3
    assert len(list(stream)) == 1
    assert len(list(privatize(iter(sentences(4)), mechanism, payment=payment))) == 4
    untouched = iter(sentences(2))
    with pytest.raises(BudgetExceededError):
        privatize(untouched, mechanism, payment=payment)
    assert len(list(untouched)) == 2


def test_nobody_sees_the_ledger_in_a_payment(ledger: Ledger) -> None:
    assert repr(Payment(ledger, "texts")) == "Payment(account='texts', key=None, everyone=False)"


@pytest.mark.parametrize("account", ["texts", "people"])
def test_nobody_forgets_the_field_of_the_subjects(
    tmp_path: Path, source: Path, mechanism, ledger: Ledger, account: str
) -> None:
    """An account that charges each by name charges everyone where that is said, and not where the field is missing."""
    payment, said = Payment(ledger, account), Payment(ledger, account, everyone=True)
    plan = Plan(fields=Fields(author="name"), max_per_author=1)
    runs = (
        lambda given: privatize_file(source, tmp_path / "out.jsonl", mechanism, plan=plan, payment=given),
        lambda given: rehearse(source, tmp_path / "o.jsonl", mechanism, plan=plan, randomness=secure(), payment=given),
        lambda given: dp.privatize([{"text": "so", "a": "b"}], mechanism, author="a", max_per_author=1, payment=given),
    )
    before = beside(tmp_path)
    for run in runs:
        with pytest.raises(ConfigError, match=r"--subject-field NAME\. .* --everyone"):
            run(payment)
    with pytest.raises(ConfigError, match="found both"):
        privatize_file(source, tmp_path / "out.jsonl", mechanism, plan=BY_NAME, payment=said)
    assert (beside(tmp_path), mechanism.draws, ledger.balance(account).charges) == (before, 0, 0)
    for run in runs:
        run(said)
    assert ledger.balance(account).charges == 2
    assert all(charge.subjects is None for charge in ledger.log(account))
