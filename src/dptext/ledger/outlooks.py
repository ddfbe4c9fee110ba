"""What an account can still pay: the cost of charges to everyone that are not made yet.

>>> from dptext.privacy.events import PureEvent
>>> from dptext.privacy.guarantee import Guarantee, Relation, Unit
>>> outlook = Outlook(Guarantee(3.0, 0.0, Unit.DOCUMENT, Relation.REPLACE_ONE), ((PureEvent(1.0),),))
>>> outlook.spent([PureEvent(0.5)]), outlook.room([PureEvent(0.5)]), outlook.largest(PureEvent, 3)
(1.5, 4, 0.666)
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from dptext.ledger.entries import is_within, spent_epsilon
from dptext.privacy import accounting
from dptext.privacy.events import Event
from dptext.privacy.guarantee import Guarantee

MOST_COUNTED: Final = 1000  #: charges; more are not counted
_LARGEST: Final = 10**6  # of an epsilon


@dataclass(frozen=True, slots=True)
class Outlook:
    """The limit of an account, and what was charged to its subjects."""

    limit: Guarantee
    histories: tuple[tuple[Event, ...], ...]  #: the distinct lists of events charged to a subject; at least one

    def spent(self, asked: Sequence[Event], *, times: int = 1) -> float:
        """Return the epsilon of the subject who spent most, after `times` charges of `asked` to everyone."""
        more = accounting.repeat(asked, times)
        return max(spent_epsilon([*before, *more], self.limit) for before in self.histories)

    def room(self, asked: Sequence[Event]) -> int:
        """Return how many charges of `asked` to everyone fit into the limit, at most `MOST_COUNTED`."""
        return bisect_left(range(1, MOST_COUNTED + 1), x=True, key=lambda times: not self._fits(asked, times))

    def largest(self, made: Callable[[float], Event], releases: int) -> float:
        """Return the largest epsilon, in thousandths, of which so many equal releases fit; 0 if it is below 0.001.

        `made` returns the event of one release with this epsilon. ConfigError: `releases` is not at least 1.
        """
        most = int(min(self.limit.epsilon, _LARGEST) * 1000)
        tried = range(1, most + 1)
        return bisect_left(tried, x=True, key=lambda each: not self._fits([made(each / 1000)], releases)) / 1000

    def _fits(self, asked: Sequence[Event], times: int) -> bool:
        return is_within(self.spent(asked, times=times), self.limit)
