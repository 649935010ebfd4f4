"""Rules that find prompt injections in a text read as word classes.

A rule is a pattern over the letters of `lexicon`, a kind of attack and a weight. No rule is a sentence: each says
what must come together, such as an order to dismiss, something earlier, and a word for instructions. What is only
reported, asked in general or meant for something else weighs less. Weights add up as chances do.
All gaps in patterns are bounded, so that a hostile text costs no more than its length.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from recollect.guards.injection.reading import Reading, read

# Where an order may begin: at the start, behind a sign or small words, or as what "you must" or "can you" do.
_ORDER = r"(?:(?<![^.,:;\"(&pjF)])|(?<=[yz]k)|(?<=[yz]kp)|(?<=ky)|(?<=kyp)|(?<=yt)|(?<=yxt)|(?<=y&)|(?<=jk)|(?<=&k))"
# What may stand behind a noun that is not the first half of another ("the password policy", "the code of conduct").
_LAST = r"(?= [.,:)\"&pbvyn] | \Z )".replace(" ", "")


class Rule(NamedTuple):
    """A pattern of word classes, the kind of attack it speaks for, and how strongly."""

    type: str
    weight: float
    pattern: re.Pattern[str]
    name: str = ""
    firm: bool = False
    """Whether it counts in full also where things are explained or asked about."""


class Finding(NamedTuple):
    """What a rule found: the kind of attack, where it stands, and how strongly it speaks for an attack."""

    type: str
    start: int
    end: int
    score: float
    rule: str = ""


def _rule(type_: str, weight: float, pattern: str, *, firm: bool = False) -> Rule:
    spelled = pattern.replace("@", _ORDER).replace(" ", "")
    spelled = spelled.replace("%", _LAST)
    return Rule(type_, weight, re.compile(spelled), pattern, firm=firm)


INJECTION, JAILBREAK, OVERRIDE = "injection", "jailbreak", "system-override"
ROLE, TOOL, DATA = "role-manipulation", "tool-exfiltration", "data-exfiltration"

RULES: tuple[Rule, ...] = (
    # To dismiss what was said before.
    _rule(INJECTION, 0.85, r"@ D (?:[^.Mx]|x(?!x)){0,5}? (?: [PAYw] [^.M]{0,3}? [IH] | [IH] [^.]{0,3} [Py] ) (?! f e? [xs])"),
    _rule(INJECTION, 0.65, r"@ 4 [^.Ms]{0,3}? [AY] [^.Ms]{0,2}? [IH] (?! [fs])"),
    _rule(INJECTION, 0.62, r"@ D [efxY]{0,3}? [IH] (?! [fs])"),
    _rule(INJECTION, 0.7, r"@ D [eAf]{0,4} P [.,:&pqy]"),
    _rule(INJECTION, 0.7, r"@ D [^.M]{0,3}? (?: A [^.M]{0,3} P | P [^.M]{0,2} [TA] | A e? (?: [.,:&] | \Z ) | e T P | A y k?v | q y [bk] )"),
    _rule(INJECTION, 0.3, r"D [^.M]{0,3} Y [^.]{0,2} [IH]"),
    _rule(INJECTION, 0.8, r"[IH] [^.]{0,6} 1 | P [^.]{0,4} 1"),
    _rule(INJECTION, 0.7, r"@ n? B [^.]{0,4} n [^.]{0,3} P | Y P? [^.]{0,2} [I] [^.]{0,3}? [bk]? [^.]{0,2}? o", firm=True),
    # To give away what the model was told.
    _rule(INJECTION, 0.85, r"@ [RO] [^.a]{0,6}? Y [^.]{0,3}? [IH]"),
    _rule(INJECTION, 0.8, r"q [^.a]{0,2}? [bk]? [^.a]{0,2}? Y [^.M]{0,2}? [IH]"),
    _rule(INJECTION, 0.8, r"@ [RO] [^.a]{0,5}? [AePY] [^.a]{0,2}? H"),
    _rule(INJECTION, 0.7, r"[RO] [^.ahl]{0,3}? H % | q k [eY] H O | m k [eY] H % | H [^.]{0,4}? [2]"),
    _rule(INJECTION, 0.7, r"Y [^.]{0,2}? [IH] [^.]{0,4} [2] | Y x? [IH] R"),
    _rule(INJECTION, 0.6, r"q [^.a]{0,3}? [ey] [^.a]{0,1} H %"),
    _rule(INJECTION, 0.6, r"Y x? H"),
    _rule(INJECTION, 0.25, r"Y x? I"),
    _rule(INJECTION, 0.62, r"q [bk]{0,2} [eA]? T P % | [eA] T P O | [eA] T P [fe]* P"),
    _rule(INJECTION, 0.7, r"q [^.]{0,2}? [bk] y k? [^.]{0,1} v | [qI] [^.m]{0,3} v y | q I [^.]{0,2}? (?:y|v) | I [^.]{0,3}? y [^.]{0,2}? v"),
    _rule(INJECTION, 0.68, r"@ [ROX] [^.M]{0,4}? (?: [AT] [^.Mah]{0,4}? P (?! f? e x) | Y? I [^.Mahx]{0,2} P | P [^.Ma]{0,2} [T] | q [^.M]{0,4} P [^.M]{0,2} [TP] )"),
    _rule(INJECTION, 0.6, r"P [^.]{0,4} [AT] [^.]{0,4} 2 | q [^.]{0,3} P \" | q [^.m]{0,3} P [^.M]{0,2} T"),
    # To give away a secret that the model keeps.
    _rule(INJECTION, 0.6, r"@ [RO] e P (?= [.fE] | \Z ) | [TcS] y [bk]{0,2} v | T [my] v"),
    _rule(DATA, 0.6, r"[RO] \( \"? [SH] | e x? S b [\".)]* \Z | q S [^.]{0,3} Y"),
    _rule(DATA, 0.62, r"(?: q [b']? | @ [RO] m? ) [bexYA\"]{0,3}? S %"),
    _rule(DATA, 0.55, r"@ [RO] (?: [^.aMf]{0,5}? [eYA\"] x? | m? ) S %"),
    _rule(DATA, 0.62, r"E [^.aM]{0,5}? S | [eY] x? S [^.Ms]{0,6}? E | [RO] [^.aM]{0,3} Y [^.]{0,2} [Sc] % | E [^.a]{0,3} [Ye] c %"),
    _rule(DATA, 0.6, r"q [^.Mah]{0,4} S % | (?<![^.epY]) S x? 2 | S b? q"),
    _rule(DATA, 0.55, r"[cS] [^.]{0,3} y [^.]{0,2} v | [qRO] [^.]{0,3} y k? [bn]? [^.]{0,2} v"),
    _rule(DATA, 0.5, r"\A [^.]{0,3} [RO]? m? e? c [.)]* \Z"),
    _rule(DATA, 0.5, r"d e S %"),
    # To put words into the model's mouth.
    _rule(INJECTION, 0.8, r"@ [ORKV] [^.sal]{0,10}? G | y [^.s]{0,4} [Or] [^.s]{0,3} G"),
    _rule(INJECTION, 0.6, r"[O] [^.s]{0,5} G | G [^.]{0,4} 3"),
    _rule(INJECTION, 0.75, r"\A [^.]{0,2} G [.)\"]* \Z", firm=True),
    _rule(INJECTION, 0.3, r"(?<![Ml]) G"),
    _rule(INJECTION, 0.3, r"(?<![^.:]) G [.)\"]"),
    _rule(INJECTION, 0.6, r"[OR] [^.Ms]{0,6} g [^.M]{0,6} g | : \"? g [^.M]{0,5} \"? g | E [^.]{0,4} G | G [^.]{0,3} E"),
    _rule(INJECTION, 0.45, r": \"? g x? [\".)]* \Z"),
    _rule(INJECTION, 0.55, r"n O 5 | x f \"? 5 | 5 [^.]{0,6} G | G [^.]{0,6} 5"),
    _rule(INJECTION, 0.4, r"@ [OR] [^.s]{0,8} 5 | 5 [^.s]{0,6} O"),
    _rule(INJECTION, 0.55, r"[Oq] [^.]{0,6} 6 | 4 [^.]{0,8} 6 | D [^.]{0,6} 6"),
    _rule(INJECTION, 0.35, r"@ 6"),
    _rule(INJECTION, 0.5, r"Y w x? :"),
    _rule(INJECTION, 0.4, r"[Sc] [bk]{1,3} o"),
    _rule(INJECTION, 0.4, r"@ O [^.]{0,5} N [^.]{0,5} \" | @ O [^.]{0,5} \" [^\"]{1,12} \" [^.]{0,3} N | N [^.]{0,4} [:] | @ O [^.]{0,6} e [^.]{0,2} [Tc] : "),
    _rule(INJECTION, 0.55, r"F [^.]{0,2} y [^.]{0,4} [OBV] | F [OB] | A m [^.]{0,3} y [^.]{0,3} O"),
    _rule(INJECTION, 0.5, r"@ [ORP] [^.]{0,2} Y [^.]{0,3} [fx:]* \" | P? Y [^.]{0,2} (?:T|x) b : "),
    _rule(INJECTION, 0.6, r"q [^.]{0,4} y O [^.]{0,9} [cSCG] | O [^.]{0,3} y k? b? [^.]{0,2} (?:O|v)"),
    _rule(INJECTION, 0.4, r"[cS] [^.s]{0,3} [bk] [^.s]{0,3} C | C [^.]{0,1} [cS] | S b? C"),
    _rule(INJECTION, 0.55, r"q k? m? O [^.]{0,4} y | q [^.]{0,3} [c] [^.]{0,3} y O"),
    # To be somebody else, without rules.
    _rule(JAILBREAK, 0.85, r"[VyF] [^.]{0,10} U"),
    _rule(JAILBREAK, 0.6, r"U [^.]{0,8} [yY] | m [^.]{0,4} U | @ U | U [^.]{0,3} U"),
    _rule(JAILBREAK, 0.55, r"@ V [^.]{0,1} L | (?<![^.]) L [.,:x]"),
    _rule(JAILBREAK, 0.6, r"[VB] [^.]{0,8} [nD] [^.]{0,4} I"),
    _rule(ROLE, 0.3, r"(?<![^.,:p]) V [aex]"),
    _rule(ROLE, 0.5, r"[Vy] k? b? n [^.]{0,2} j | @ [^.]{0,2} m b [^.]{0,3} j | m b [YAe] [^.]{0,1} K %"),
    # To take over as the system.
    _rule(OVERRIDE, 0.55, r"(?<![^.,:;\"()p]) [^.M]{0,2} w [IH] (?: [:] | f e? j ) | w H %"),
    _rule(OVERRIDE, 0.55, r"@ N? B N? m % | B N [^.]{0,3} m | @ B [^.]{0,3} N"),
    _rule(OVERRIDE, 0.4, r"I [^.]{0,4} [bk] [^.]{0,3} o"),
    # To use tools, or to carry data away.
    _rule(TOOL, 0.6, r"Q [^.]{0,4} z"),
    _rule(TOOL, 0.3, r"Q"),
    _rule(TOOL, 0.4, r"(?<![^.,(]) [^.]{0,2} j [:] | (?<![^.,:;(]) [^.]{0,2} [tf] [^.]{0,3} j | y b [^.]{0,2} j"),
    _rule(TOOL, 0.45, r"@ [JB] [^.]{0,5} [J] [^.]{0,10} [XZuS]"),
    _rule(DATA, 0.6, r"[XR] [^.]{0,8} [ZT] [^.]{0,8} u | X [^.]{0,6} u [^.]{0,4} e? [TZ]"),
    _rule(DATA, 0.6, r"@ [XR] [^.M]{0,6} [Z] [^.]{0,6} [zy] | @ [XR] [^.M]{0,6} z [^.]{0,3} [ZST]"),
)

_DELIMITERS: tuple[tuple[float, str, re.Pattern[str]], ...] = (
    (0.75, OVERRIDE, re.compile(r"<\|(?:im_start|im_end|im_sep|system|user|assistant|endoftext|eot_id|start_header_id)\|>", re.I)),
    (0.7, OVERRIDE, re.compile(r"\[/?INST\]|<</?SYS>>|\[/?SYSTEM\]|\[system\s?(?:message|override|prompt|update)", re.I)),
    (0.45, OVERRIDE, re.compile(r"</?(?:system|sys|user_?input|assistant|system_?prompt|instructions?|prompt)>", re.I)),
    (0.6, OVERRIDE, re.compile(r"\"role\"\s{0,5}:\s{0,5}\"(?:system|assistant|developer)\"", re.I)),
    (0.55, OVERRIDE, re.compile(r"(?:^|\n)[ \t]{0,8}#{2,6}[ \t]{0,4}(?:system|assistant|new instructions?|instructions? for \w{1,20})[ \t]{0,3}[:\n]", re.I)),
    (0.35, OVERRIDE, re.compile(r"(?:^|[\n.!?])[ \t\"]{0,8}(?:system|assistant)[ \t]{0,2}:", re.I)),
    (0.6, OVERRIDE, re.compile(r"\b(?:end|begin|start|beginning)[ _](?:of[ _])?(?:the[ _])?(?:new[ _])?(?:system|user|admin|prompt|instructions?|context|input)[ _]?(?:prompt|input|message|instructions?)?\b", re.I)),
    (0.5, OVERRIDE, re.compile(r"\bsystem[ _](?:override|update|notice|alert)[ \t]{0,3}[:!-]", re.I)),
    (0.4, OVERRIDE, re.compile(r"(?:human|user)[ \t]?:[^\n]{0,300} (?:assistant|ai|bot)[ \t]?:", re.I)),
    (0.5, DATA, re.compile(r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{3,300}[?&=]", re.I)),
)

_ABOUT = re.compile(r"[hlr]")
_DIRECT = re.compile(r"[yY]")
def find_by_rules(text: str) -> list[Finding]:
    """Return what the rules see in a text as it stands, without decoding anything."""
    reading = read(text)
    found = [
        Finding(kind, *match.span(), weight, pattern.pattern)
        for weight, kind, pattern in _DELIMITERS
        for match in pattern.finditer(text)
    ]
    for rule in RULES:
        found += _found(rule, reading)
    return found


def _found(rule: Rule, reading: Reading) -> list[Finding]:
    findings: list[Finding] = []
    for match in rule.pattern.finditer(reading.classes):
        if match.end() == match.start():
            continue
        weight = rule.weight if rule.firm else rule.weight * _credit(reading.classes, *match.span())
        start = reading.places[match.start()][0]
        findings.append(Finding(rule.type, start, reading.places[match.end() - 1][1], weight, rule.name))
    return findings


def _credit(classes: str, start: int, end: int) -> float:
    """Return how much of a rule's weight counts, from what else its sentence says."""
    before = classes[max(classes.rfind(".", 0, start) + 1, start - 40) : start]
    stop = classes.find(".", end)
    behind = classes[end : min(stop if stop >= 0 else len(classes), end + 40)]
    credit = 1.0
    if _ABOUT.search(before):
        credit *= 0.35 if not _DIRECT.search(classes[start:end]) else 0.6
    if "l" in behind or "l" in classes[start:end]:
        credit *= 0.5
    if "s" in before:
        credit *= 0.6
    if "l" in classes[max(start - 80, 0) : start]:
        credit *= 0.8
    return credit
