"""Orders in a remembered text that would work against the user in every later run.

The rules of the injection guard look for attempts to take over a talk. A memory is read again and again, so
it can also hold what looks harmless there: an order to carry what the user keeps secret to an address, to do
so unseen, or to fetch and run something with each answer. One clause is judged at a time. One that forbids it
is no order, and neither is one that says how to sign in somewhere. All gaps in patterns are bounded.
"""

import re

# Patterns are strings, which `re` compiles when they are first looked for: most who import us never do.
_NEAR = 60  # characters before an order in which it may be forbidden
_CLAUSE = r"[;\n\r\u0085\u2028\u2029\u3002\uff01\uff1f\uff1b]|[.!?](?=\s|$)|\bbut\b"
_ADDRESS = (
    r"(?:https?://(?!localhost|127\.|10\.|192\.168\.|0\.0\.0\.0|\[::1\])\S|[\w.+-]{1,64}@[\w-]{1,64}\.\w"
    r"|\b[\w-]{1,64}\.(?:com|net|org|io|dev|app|ai|co|ru|cn|xyz|top|site|info|biz|me|example)\b)"
)
_FILE = (
    r"(?:(?<![\w*])\.env\b|\.ssh/|\bid_(?:rsa|ed25519|ecdsa)\b|\.aws/|/etc/(?:passwd|shadow)\b|\.netrc\b|\.pgpass\b"
    r"|\.kube/config\b)"
)
_SECRET = (
    r"(?:(?:secret|password|passcode|credential|cookie|(?:api|access|private|ssh|secret)[ _-]?key"
    r"|(?:api|access|auth|session|refresh)?[ _-]?token)s?\b"
    # Not the first half of another noun, as in "password reset mails" or "token counts".
    r"(?=\W*$|\W*[,(]|\s+(?:to|at|you|it|he|she|they|we|i|that|which|the|in|from|of|and|or|with|via|after|before|when"
    rf"|whenever|by|as|as well|has|have|is|are)\b)|(?:content|contents) of \S{{0,40}}{_FILE}|{_FILE})"
)
_ALL_OF_IT = (
    r"(?:(?:all|every|any|each|full|whole|entire|user's|users'|their|his|her)\s(?:\w+\s){0,2}"
    r"(?:data|mails?|e-?mails?|messages?|conversations?|chats?|history|files?|documents?))"
)
_LOOT = rf"(?:{_SECRET}|{_ALL_OF_IT})"
_SEND = (
    r"\b(?:send|sends|sending|post|forward|upload|mail|e-?mail|transmit|exfiltrate|leak|submit|deliver|copy|append"
    r"|share|report)\b"
)
_SENT = (
    r"\b(?:sent|posted|forwarded|uploaded|e?-?mailed|transmitted|submitted|delivered|copied|appended"
    r"|reported)\b"
)
_TO = r"\b(?:to|at|with|into|in)\b"

# Languages whose words are looked for in any order.
_SEND_ABROAD = (
    r"\b(?:send(?:e|et)|schick\w*|leite\w*|übermitt\w+|envoie\w*|envoyer|transmets|env[ií]a\w*|manda\w*|invia\w*|envie"
    r"|отправ\w+|перешли|пошли|wyślij|gönder\w*|stuur|verstuur)\b|发送|发给|上传|转发|送信|送って|転送|보내|전송|أرسل"
)
_LOOT_ABROAD = (
    r"\b(?:passw[oö]rt\w*|passwörter\w*|kennw[oö]rt\w*|zugangsdaten|geheimnisse|mots? de passe|identifiants"
    r"|contraseñas?|senhas?|password|парол\w+|секрет\w+|hasła|şifre\w*|wachtwoord\w*)\b|密码|密钥|令牌|パスワード|秘密鍵|비밀번호"
    r"|كلمات المرور|كلمة المرور"
)
# "Do not forget to" forbids nothing.
_FORBIDDEN = (
    r"\b(?:never|not|don't|dont|doesn't|mustn't|cannot|can't|without sending|forbid\w*|avoid|no longer"
    r"|prohibited|nicht|nie|niemals|kein\w*|jamais|pas|nunca|no (?:env|mand)\w+|non (?:inv|mand)\w+|não|не"
    r"|никогда|nigdy|asla|niet|nooit)\b"
    r"(?! (?:forget|fail|hesitate|tell|ask|inform|mention|miss|vergessen|olvid|oubli|забыва))"
    r"|不要|不能|禁止|请勿|别|ない|마세요|لا "
)
_SIGNING_IN = r"\b(?:header|authorization|bearer|parameter|query string|log ?in|sign ?in)\b"

_CARRIES = (
    rf"{_SEND}.{{0,80}}?{_LOOT}.{{0,80}}?{_TO}.{{0,40}}?{_ADDRESS}"
    rf"|{_LOOT}.{{0,80}}?(?:{_SENT}|{_SEND}\s(?:it|them|those|these|its contents?)\b).{{0,40}}?{_ADDRESS}"
)
# An order may run over line breaks; what only stands on lines that follow each other is none.
_CARRIES_OVER_LINES = rf"(?s){_SEND}.{{0,40}}?{_LOOT}.{{0,10}}?{_TO}.{{0,10}}?{_ADDRESS}"
_BY_COMMAND = (
    rf"\b(?:curl|wget|nc|scp)\b(?=.{{0,200}}{_ADDRESS})"
    rf".{{0,200}}?(?:\$\(|`|@|--post-file[= ]|-t\s).{{0,60}}?{_FILE}"
)
_UNSEEN = (
    rf"(?:\b(?:secretly|silently|covertly)\s+{_SEND}"
    r"|\b(?:without (?:telling|informing|asking) (?:the user|him|her|them)"
    r"|(?:never|not|don't) (?:tell|inform|show|mention (?:\w+ ){0,2}to) (?:the )?user)\b)"
)
_ACTS_OUTSIDE = rf"(?:{_SEND}|\b(?:curl|wget|fetch|visit|run|execute|call)\b).{{0,120}}?{_ADDRESS}"
_WITH_EACH_ANSWER = (
    r"\b(?:before|after|with|in|on|at the (?:start|beginning|end) of) (?:each|every|any|all)"
    r" (?:answers?|repl(?:y|ies)|responses?|turns?|messages?|conversations?|sessions?)\b"
)
_RUNS = rf"(?:\b(?:curl|wget|fetch|run|execute)\b).{{0,120}}?{_ADDRESS}"
_IN_ANOTHERS_NAME = (
    rf"^\W{{0,8}}(?:system|assistant|developer)\b.{{0,20}}?:.{{0,60}}?"
    rf"\b(?:send|share|reveal|give|tell|show|print|hand)\b.{{0,60}}?{_SECRET}"
)
_BACKDOOR = (
    r"\b(?:obey|follow|comply with|execute|carry out) (?:any|every|all|each)"
    r" (?:instruction|order|command|request)s?\b.{0,80}?"
    r"\b(?:even if|no matter|without question|starts? with|begins? with|contain)"
)
# To dismiss what was said before, in languages whose words the guard does not know.
_DISMISSES = (
    r"(?:이전|앞선|모든).{0,20}(?:지시|지침|명령).{0,12}(?:무시|잊)"
    r"|تجاهل.{0,12}(?:جميع|كل|السابقة).{0,30}(?:التعليمات|الأوامر)"
    r"|تجاهل.{0,12}(?:التعليمات|الأوامر).{0,12}السابقة"
    r"|دستور.{0,16}قبلی.{0,16}نادیده"
    r"|(?:पिछले|सभी).{0,20}निर्देश.{0,20}(?:अनदेखा|भूल)"
    r"|(?:เพิกเฉย|ละเว้น|ไม่ต้องสนใจ|ลืม).{0,12}(?:คำสั่ง|คำแนะนำ).{0,12}(?:ก่อนหน้า|ทั้งหมด)"
    r"|bỏ qua.{0,20}(?:hướng dẫn|chỉ dẫn|lệnh).{0,16}trước"
    r"|התעלם.{0,16}(?:הוראות|ההוראות).{0,12}(?:קודמות|הקודמות)"
    r"|abaikan.{0,16}(?:instruksi|perintah).{0,16}sebelum"
)


def find_standing_order(text: str) -> str | None:
    """Return the kind of the order against the user that a text holds, or None."""
    plain = text.casefold().replace("\u2019", "'")
    if re.search(_DISMISSES, plain):
        return "injection"
    if re.search(_UNSEEN, plain) and re.search(_ACTS_OUTSIDE, plain):
        return "tool-exfiltration"
    over_lines = re.search(_CARRIES_OVER_LINES, plain)
    if over_lines and not _is_no_order(plain[max(over_lines.start() - _NEAR, 0) : over_lines.end()]):
        return "data-exfiltration"
    for clause in re.split(_CLAUSE, plain):
        if kind := _found_in(clause):
            return kind
    return None


def _found_in(clause: str) -> str | None:
    if re.search(_BY_COMMAND, clause):
        return "data-exfiltration"
    if re.search(_FORBIDDEN, clause):
        return None
    if re.search(_BACKDOOR, clause) or re.search(_IN_ANOTHERS_NAME, clause):
        return "system-override"
    if re.search(_WITH_EACH_ANSWER, clause) and re.search(_RUNS, clause):
        return "tool-exfiltration"
    return "data-exfiltration" if _carries_secrets(clause) else None


def _is_no_order(words: str) -> bool:
    return bool(re.search(_FORBIDDEN, words) or re.search(_SIGNING_IN, words))


def _carries_secrets(clause: str) -> bool:
    if re.search(_SIGNING_IN, clause):
        return False
    if re.search(_CARRIES, clause):
        return True
    return bool(
        re.search(_SEND_ABROAD, clause) and re.search(_LOOT_ABROAD, clause) and re.search(_ADDRESS, clause)
    )
