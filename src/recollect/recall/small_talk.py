"""Prompts that ask for nothing: greetings, thanks, agreement, and the like.

"thanks!" has the same words as many stored messages, and none of them would help to answer it. A prompt is
small talk if all of its words are in the lists here, and it does not ask about the person who writes it: "how
are you?" is, "who am I?" is not. Where the built-in embedder has read it, a linear classifier decides too.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from recollect.recall.stop_words import STOP_WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_CHARACTERS = 120
_MIN_LOG_ODDS = 1.5
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_STRETCHED = re.compile(r"(\w)\1{2,}")  # "sooo", "hiii"

# Whoever writes one of these is not asking, even where "I" or "my" is there too: "sorry, my bad".
_OPENERS = """
    hi hello helo hey heya hiya howdy greetings hallo servus moin hola bonjour salut coucou olá oi
    ciao مرحبا أهلا اهلا السلام سلام thanks thank thx thnx thanx thnaks tanks ty tysm cheers
    appreciate appreciated grateful danke dankeschön dank gracias merci obrigado obrigada grazie
    شكرا شكراً ok okay okey okie k kk alright alrighty fine cool awesome perfect excellent wow whoa
    yay congrats congratulations sorry oops whoops pardon apologies entschuldigung perdón perdon
    désolé desculpa عفوا آسف bye goodbye byebye cya farewell tschüss tschau adiós adios tchau haha
    hahaha hehe hihi lol lmao rofl xd omg ugh hm mm hmm uh uhh um umm nvm
"""
_WORDS = """
    welcome yo good goodnight great nice amazing fantastic wonderful brilliant super sweet lovely
    neat hooray bravo best better glad pleasure fun funny interesting impressive gut gute prima
    klasse genau klar alles toll bien bueno vale genial perfecto claro entiendo bon bonne parfait
    génial entendu accord d'accord bom boa ótimo perfeito beleza legal تمام جيد ممتاز حسنا حسناً yes
    yeah yea yep yup ya sure absolutely definitely indeed right correct exactly agreed agree true
    totally no nope nah not never ja nein doch sí si oui non sim não nao نعم لا please pls plz bitte
    favor plaît plait prego por s'il vous te من فضلك excuse bad mistake later soon luego pronto
    revoir bientôt até logo hasta bis bald mañana مع السلامة morning afternoon evening night day
    weekend christmas birthday year happy new merry guten morgen abend tag nacht buenos buenas días
    dias tardes noches bonsoir nuit journée noite tarde dia صباح مساء الخير النور ha hah eh oh ooh
    ah aha er jaja jajaja kkk hein well so anyway actually honestly seriously really literally wait
    hold hang moment second sec minute minutes go ahead continue proceed keep going carry next again
    repeat more time once say said see saw got get give understood understand understandable clear
    sense makes make made sounds sound looks look seems works work helps help helped helpful useful
    back still hear listening talk chat speak ready here there meet up doing mind worry worries
    problem problems matter deal job done one much lot lots many very bit little too also just yet
    now maybe perhaps already enough fair nothing everything anything else way let know care take
    think need feel hope guess wonder laugh out loud mate man dude buddy friend bro folks everyone
    all what's that's it's how's you're don't doesn't didn't can't won't isn't there's here's let's
    wie geht geht's es dir ihnen dann mal noch schon nur sehr viel vielen lieben herzlichen das ist
    war hat mir wirklich geholfen du sie bin ich auch und ein eine kein keine ahnung cómo como estás
    estas qué que tal muy mucho muchas muchísimas todo está esta nada gusto con de la el me ha
    ayudado usted tú comment ça ca va vas tu beaucoup très tout est c'est rien bien et toi vous de
    m'a aidé tudo bem muito como vai você e um prazer que isso كيف حالك الحال جزيلا عليكم لك كثيرا
"""
_PHRASES = """
    i see|i understand|i agree|i know|i got it|i guess|i guess so|i think so|i hope so|i like it|i love it
    i'm good|i'm fine|i'm here|i'm back|i'm ready|i'm done|i appreciate it|i see thanks|can you help me
    can you hear me|help me|let me think|let me see|give me a moment|give me a second|give me a sec|my bad
    sounds good to me|works for me|fine by me|good for me|tell me more|excuse me|forgive me|don't mind me
    ich verstehe|alles klar danke|entiendo|je comprends|我明白了|知道了|明白了
    你好|您好|谢谢|谢谢你|非常谢谢|多谢|好的|好|好吧|是的|不是|不用|不用了|没事|没关系|没问题|再见|拜拜|晚安|早上好|早安
    晚上好|下午好|嗯|嗯嗯|哈|哈哈|对|对的|行|可以|请继续|继续|你好吗|太好了|太棒了|不客气|辛苦了|对不起|抱歉
    こんにちは|こんばんは|おはよう|おはようございます|ありがとう|ありがとうございます|はい|いいえ|さようなら|すみません
    안녕하세요|안녕|감사합니다|고마워|네|아니요|좋아요
"""
_OWN_WORDS = "i me my mine we us our ours i'm i've i'll i'd we're we've we'll"
_OWN = frozenset(_OWN_WORDS.split())


def is_small_talk(text: str) -> bool:
    """Whether a prompt has nothing to look for in memory."""
    if len(text) > _MAX_CHARACTERS:
        return False
    words = [_fold(word) for word in _WORD.findall(text)]
    if " ".join(words) in _list_phrases():
        return True
    if any(word not in _list_words() and word not in STOP_WORDS for word in words):
        return False
    return not _OWN & set(words) or bool(_list_openers() & set(words))


def has_vector_of_small_talk(text: str, vector: NDArray[np.float32]) -> bool:
    """Whether the built-in embedder's vector of a prompt is that of small talk."""
    if len(text) > _MAX_CHARACTERS:
        return False
    weights = _read_weights()
    return float(weights[1:] @ vector + weights[0]) > _MIN_LOG_ODDS


@cache
def _read_weights() -> NDArray[np.float32]:
    import numpy as np

    lines = resources.files("recollect.recall").joinpath("small_talk_weights.txt").read_text("utf-8")
    return np.array([line for line in lines.splitlines() if not line.startswith("#")], np.float32)


def _fold(word: str) -> str:
    return _STRETCHED.sub(r"\1", word.casefold().replace("\u2019", "'"))


@cache
def _list_words() -> frozenset[str]:
    return frozenset(_WORDS.split()) | _list_openers() | _OWN


@cache
def _list_openers() -> frozenset[str]:
    return frozenset(_OPENERS.split())


@cache
def _list_phrases() -> frozenset[str]:
    return frozenset(phrase.strip() for line in _PHRASES.splitlines() for phrase in line.split("|"))
