"""Function words of languages: words that say nothing of a subject.

They are articles, pronouns, prepositions, conjunctions, auxiliary verbs, and adverbs that are used like them. They
stand as `dptext.text.tokens.words_of` gives words: in small letters and in NFC.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: The language whose words are taken where the language of texts is not known, as ISO 639 names it.
ENGLISH: Final = "en"

_ENGLISH: Final = """
a an the this that these those i me my mine we us our ours you your yours he him his she her hers it its they them their
theirs who whom whose which what of to in on at by for from with without into onto as than and or but nor so if then
because while be am is are was were been being do does did done doing have has had having will would shall should can
could may might must not no yes there here when where why how all any both each some such too very just also only own
same more most other up down out off over under again further once about between through
"""
_GERMAN: Final = """
der die das des dem den ein eine einer eines einem einen kein keine keiner keines keinem keinen ich mich mir du dich
dir er ihn ihm sie ihr ihnen es wir uns euch man sich selbst mein meine meiner meines meinem meinen dein deine deiner
deines deinem deinen sein seine seiner seines seinem seinen ihre ihrer ihres ihrem ihren unser unsere unserer unseres
unserem unseren euer eure eurer eures eurem euren dieser diese dieses diesem diesen jener jene jenes jenem jenen jeder
jede jedes jedem jeden welcher welche welches welchem welchen solche solcher solches wer wen wem wessen was wo wohin
woher wann warum wieso wie in im ins ab an am ans auf aus bei beim mit nach von vom vor zu zum zur für über unter durch
gegen ohne um bis seit zwischen während wegen trotz hinter neben und oder aber denn sondern doch dass daß ob wenn als
weil da damit obwohl sowie sowohl weder noch bin bist ist sind seid war warst waren wart gewesen wäre wären habe hast
hat haben habt hatte hattest hatten hätte hätten gehabt werde wirst wird werden werdet wurde wurden würde würden worden
geworden kann kannst können könnt konnte konnten könnte könnten muss musst müssen müsst musste mussten müsste darf
dürfen durfte soll sollst sollen sollte sollten will willst wollen wollt wollte wollten mag mögen möchte möchten nicht
nichts nein ja auch nur schon sehr so zu mehr noch dann hier dort alle aller alles allem allen beide einige etwas immer
wieder mal eben
"""
_SPANISH: Final = """
el la los las lo un una unos unas al del este esta esto estos estas ese esa eso esos esas aquel aquella aquello
aquellos aquellas yo me mí conmigo tú te ti contigo él ella ello ellos ellas usted ustedes nosotros nosotras nos
vosotros vosotras os le les se sí consigo mi mis mío mía tu tus tuyo tuya su sus suyo suya suyos suyas nuestro nuestra
nuestros nuestras vuestro vuestra vuestros vuestras que qué quien quién quienes cual cuál cuales cuyo cuya cuando
cuándo donde dónde como cómo cuanto cuánto cuánta por porque porqué para de en con sin sobre entre hasta desde hacia
según contra tras ante bajo durante mediante a y e o u ni pero sino aunque si pues mientras ser soy eres es somos sois
son era eras éramos eran fui fue fuimos fueron sido siendo sea sean sería serían estar estoy estás está estamos estáis
están estaba estaban estuve estuvo estado estando esté estén haber he has ha hemos habéis han había habían hubo haya
hayan habría habrían hay habido tener tengo tienes tiene tenemos tenéis tienen tenía tenían tuvo puedo puedes puede
podemos podéis pueden podía podían pude pudo podría podrían debo debe deben debería no nada ya muy más menos también
tampoco sólo solo así tan tanto entonces aquí ahí allí todo toda todos todas otro otra otros otras algo alguno alguna
algunos algunas algún ningún ninguno ninguna cada mismo misma mismos mismas ambos
"""
#: The function words of each language that has a list, by its name in ISO 639.
FUNCTION_WORDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {name: frozenset(words.split()) for name, words in ((ENGLISH, _ENGLISH), ("de", _GERMAN), ("es", _SPANISH))}
)
