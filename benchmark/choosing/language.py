"""Whether texts are clearly not English, so that advice which holds for English is not given for them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_WORDS = re.compile(r"[^\W\d_]+")
_ENGLISH = frozenset("the of and to is in that it for was with on are this be you not what how".split())
# The commonest words of other languages in Latin letters, without those that English has too.
_OTHERS = [
    frozenset(words.split())
    for words in (
        "der die das und ist nicht ein eine mit von zu den auf für ich wie",
        "le la les des et est une dans que pour pas sur du au avec qui",
        "el los las del y es una en que por para con como su al se",
        "il di che è una per non con sono del della le si nel come gli",
        "het een van en dat niet met voor zijn op te wat hoe ik je",
        "o os um uma de do da que não para com em por se mais como",
        "i na nie się jest z do to że w jak co dla po od ze",
        "och att det som en är på för inte med av till den har ett hur",
    )
]


def is_other_than_english(texts: Sequence[str], most: int = 2_000) -> bool:
    """Return whether texts are clearly in another language: other letters, or more of its commonest words.

    False for English, and where nothing shows it, as in lists of products.
    """
    words = [word for text in texts[:: max(1, len(texts) // most)][:most] for word in _WORDS.findall(text.lower())]
    letters = sum(map(len, words))
    if sum(sum(letter > "\u024f" for letter in word) for word in words) * 2 > letters:
        return True
    counts = Counter(words)
    english, *others = (sum(counts[word] for word in common) for common in (_ENGLISH, *_OTHERS))
    return max(others) > 2 * english and max(others) * 50 >= len(words) > 0
