# The public names of the laboratory, once: `dptext_lab/__init__.py` loads each from here when it is first used.
from . import figures as figures
from .adept.dpsgd import AdeptDpSgd as AdeptDpSgd
from .adept.published import PublishedAdept as PublishedAdept
from .adept.sound import Adept as Adept
from .baselines.dp_prompt import DpPrompt as DpPrompt
from .baselines.prediction import Prediction as Prediction
from .baselines.words import PrivatePhrases as PrivatePhrases
from .baselines.words import RandomReplacement as RandomReplacement
from .erae.erae import ErAe as ErAe
from .redaction.pii import PiiRedaction as PiiRedaction
from .redaction.random import CountRedaction as CountRedaction
from .redaction.random import RandomRedaction as RandomRedaction
from .redaction.smart import SmartRedaction as SmartRedaction
from .sentdp.sentdp import SentDp as SentDp
