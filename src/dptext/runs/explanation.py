"""`dptext.explain`: guarantees in plain words, of settings, mechanisms, results and certificates."""

from os import PathLike
from pathlib import Path

from dptext.errors import ConfigError
from dptext.mechanism import HasRemarks, Promise
from dptext.privacy.guarantee import Guarantee
from dptext.runs.certificate import Certificate, certificate_path
from dptext.runs.results import Privatized
from dptext.runs.statements import Promising


def explain(
    what: str | PathLike[str] | Guarantee | Certificate | Promise | Promising | Privatized,
    *,
    delta: float = 0.0,
    legal: bool = False,
) -> str:
    """Return in plain words what an object guarantees.

    Args:
        what: a guarantee; a certificate; settings of a mechanism or a synthesis; a fitted mechanism or synthesis; the
            result of `privatize`; or the path of a released file or its certificate, which are verified.
        delta: the delta at which guarantees of settings are stated.
        legal: return one page for the person who answers for a released file; `what` is the path of the file or of
            its certificate.

    Raises:
        ConfigError: `what` carries no guarantee.
        DataError: a certificate does not hold.
    """
    if legal and not isinstance(what, str | PathLike):
        raise ConfigError("Expected the path of a released file, or of its certificate, with legal=True.")
    if isinstance(what, Guarantee | Certificate):
        return what.explain()
    if isinstance(what, Privatized):
        return "\n\n".join(each.explain() for each in what.guarantees)
    if isinstance(what, str | PathLike):
        from dptext.runs.legal import legal_page  # noqa: PLC0415 (loads all mechanisms, as does the next)
        from dptext.runs.verification import verify  # noqa: PLC0415

        path = Path(what)
        beside = certificate_path(path)
        found = verify(beside if beside.is_file() else path)
        return legal_page(found).text() if legal else found.certificate.explain()
    spec = what.spec if hasattr(what, "spec") else what
    if not isinstance(spec, Promise):
        raise ConfigError(f"Expected something that carries a guarantee, found {type(what).__name__}.")
    said = [spec.guarantee(unit, delta).explain() for unit in spec.units]
    said += [each.remarks().text for each in dict.fromkeys((spec, what)) if isinstance(each, HasRemarks)]
    return "\n\n".join(said)
