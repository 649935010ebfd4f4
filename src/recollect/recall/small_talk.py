"""Prompts that ask for nothing: greetings, thanks, agreement, and the like.

"thanks!" has the same words as many stored messages, and none of them would help to answer it. A prompt is
small talk if all of its words are in the lists here, and it does not speak of the person who writes it: "how
are you?" is, "who am I?" is not.
"""

from __future__ import annotations

import re
from functools import cache

from recollect.recall.stop_words import STOP_WORDS

_MAX_CHARACTERS = 120
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_STRETCHED = re.compile(r"(\w)\1{2,}")  # "sooo", "hiii"

_WORDS = """
    hi hello hey hiya yo howdy greetings welcome hallo servus moin hola buenas bonjour salut coucou olá ola oi
    ciao مرحبا أهلا اهلا السلام عليكم سلام
    thanks thank thx thnx thanx ty tysm cheers appreciated appreciate grateful danke dankeschön gracias merci
    obrigado obrigada grazie شكرا شكراً جزيلا
    ok okay okey k kk alright allright fine good great nice cool awesome amazing perfect excellent fantastic
    wonderful brilliant super sweet lovely neat wow whoa yay hooray congrats congratulations bravo
    gut prima klasse genau klar alles bien vale genial perfecto claro bon parfait génial cool entendu accord
    bom ótimo perfeito beleza legal تمام جيد ممتاز حسنا حسناً
    yes yeah yep yup ya sure absolutely definitely indeed right correct exactly agreed agree true totally
    no nope nah not never ja nein doch sí si oui non sim não nao نعم لا
    please bitte favor plaît plait prego faz por s'il vous te من فضلك
    sorry oops pardon excuse apologies entschuldigung perdón perdon désolé desculpa عفوا آسف
    bye goodbye cya later soon farewell tschüss tschau adiós adios hasta luego pronto revoir bientôt tchau até
    مع السلامة
    morning afternoon evening night day weekend christmas birthday year happy new merry guten morgen abend tag
    nacht buenos días dias buenas tardes noches bonne bonsoir nuit journée boa noite tarde dia صباح مساء الخير
    النور
    haha hahaha ha hah hehe hihi lol lmao rofl xd hm hmm hmmm mm mmm uh um er eh oh ooh ah aha well so anyway
    go ahead continue proceed keep going carry next again repeat say said see saw got get understood understand
    understandable clear sense makes make sounds sound looks look seems works helps help helped helpful useful
    wait hold hang moment second sec minute minutes back still hear listening talk chat speak ready
    mind worry worries problem problems matter welcome deal job done one much lot lots very really so
    bit little too also just still yet now maybe perhaps already enough there here nothing everything else
    way way's let know care take doing going thing what's that's it's how's you're don't doesn't
    wie geht geht's es dir dann mal noch schon nur sehr viel vielen dank das ist war
    cómo como estás estas qué que tal muy mucho muchas todo está esta nada
    comment ça ca va vas tu beaucoup très tout est c'est rien
    tudo bem muito como vai está
    كيف حالك الحال
"""
_PHRASES = """
    i see|i understand|i agree|i know|i got it|i guess|i guess so|i think so|i hope so|i like it|i love it
    i'm good|i'm fine|i'm here|i'm back|i'm ready|i'm done|i appreciate it|i see thanks|can you help me
    can you hear me|help me|let me think|let me see|give me a moment|give me a second|give me a sec|my bad
    sounds good to me|works for me|fine by me|good for me|tell me more|excuse me|forgive me|don't mind me
    ich verstehe|alles klar danke|entiendo|je comprends|我明白了|知道了|明白了
    你好|您好|谢谢|谢谢你|非常谢谢|多谢|好的|好|好吧|是的|不是|不用|不用了|没事|没关系|没问题|再见|拜拜|晚安|早上好|早安
    晚上好|下午好|嗯|嗯嗯|哈哈|哈哈哈|对|对的|行|可以|请继续|继续|你好吗|太好了|太棒了|不客气|辛苦了|对不起|抱歉
    こんにちは|こんばんは|おはよう|おはようございます|ありがとう|ありがとうございます|はい|いいえ|さようなら|すみません
    안녕하세요|안녕|감사합니다|고마워|네|아니요|좋아요
"""
_OWN = frozenset(
    [
        "i",
        "me",
        "my",
        "mine",
        "we",
        "us",
        "our",
        "ours",
        "i'm",
        "i've",
        "i'll",
        "i'd",
        "we're",
        "we've",
        "we'll",
    ]
)


def is_small_talk(text: str) -> bool:
    """Whether a prompt has nothing to look for in memory."""
    if len(text) > _MAX_CHARACTERS:
        return False
    words = [_fold(word) for word in _WORD.findall(text)]
    if " ".join(words) in _list_phrases():
        return True
    return all(word in _list_words() or word in STOP_WORDS for word in words) and not _OWN & set(words)


def _fold(word: str) -> str:
    return _STRETCHED.sub(r"\1", word.casefold().replace("\u2019", "'"))


@cache
def _list_words() -> frozenset[str]:
    return frozenset(_WORDS.split())


@cache
def _list_phrases() -> frozenset[str]:
    return frozenset(phrase.strip() for line in _PHRASES.splitlines() for phrase in line.split("|"))
