"""One name, one spelling."""

from hypothesis import given
from hypothesis import strategies as st

from dptext.privacy.names import normal_form


def test_spellings_of_one_name_are_one() -> None:
    for spelling in ("María", "MARÍA", "Mari\u0301a", " María\t", "\uff2d\uff41\uff52\u00ed\uff41", "María\u3000"):
        assert normal_form(spelling) == "maría"
    assert normal_form("Strasse") == normal_form("STRAẞE") == "strasse"


def test_other_names_stay_other_names() -> None:
    assert len({normal_form(name) for name in ("Maria", "María", "Mario", "Ma ria", "")}) == 5


@given(st.text())
def test_the_form_is_stable(name: str) -> None:
    assert normal_form(normal_form(name)) == normal_form(name)
