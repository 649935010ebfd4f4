"""The arithmetic behind national numbers: each function says whether a number's check digits fit."""

from collections.abc import Sequence

_ZERO = ord("0")
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")  # twice a digit, its two digits added up
_DNI = "TRWAGMYFPDXBNJZSQVHLCKE"
_HETU = "0123456789ABCDEFHJKLMNPRSTUVWXY"
_ODD = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (
            *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21),
            *(1, 0, 5, 7, 9, 13, 15, 17, 19, 21),
            *(2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        ),
        strict=True,
    )
)
_VERHOEFF_TIMES = (
    *("0123456789", "1234067895", "2340178956", "3401289567", "4012395678"),
    *("5987604321", "6598710432", "7659821043", "8765932104", "9876543210"),
)
_VERHOEFF_MOVES = (
    *("0123456789", "1576283094", "5803796142", "8916043527"),
    *("9453126870", "4286573901", "2793806415", "7046913258"),
)
_TEN = 10


def is_luhn(digits: str) -> bool:
    """Whether the last digit fits the others by Luhn's rule."""
    codes = digits.encode()
    return (sum(codes[-1::-2]) + sum(codes[-2::-2].translate(_DOUBLED)) - _ZERO * len(codes)) % 10 == 0


def spanish(number: str) -> bool:
    """Spain's DNI and NIE: the letter is the number's remainder."""
    digits = str("XYZ".index(number[0])) + number[1:8] if number[0] in "XYZ" else number[:8]
    return _DNI[int(digits) % 23] == number[-1]


def italian(number: str) -> bool:
    """Italy's codice fiscale."""
    total = sum(_ODD[char] for char in number[:15:2])
    total += sum(int(char, 36) - (_TEN if char.isalpha() else 0) for char in number[1:15:2])
    return chr(ord("A") + total % 26) == number[15]


def french(number: str) -> bool:
    """France's NIR, whose Corsican departments have a letter."""
    digits = number.replace("2A", "19").replace("2B", "18")
    return digits.isdigit() and 97 - int(digits[:13]) % 97 == int(digits[13:])


def finnish(number: str) -> bool:
    """Finland's henkilötunnus."""
    digits = number[:6] + number[-4:-1]
    return _HETU[int(digits) % 31] == number[-1]


def belgian(number: str) -> bool:
    """Belgium's national number, also of those born since 2000."""
    return any(97 - int(century + number[:9]) % 97 == int(number[9:]) for century in ("", "2"))


def swiss(number: str) -> bool:
    """Switzerland's AHV number, a bar code's sum."""
    return (sum(map(int, number[::2])) + 3 * sum(map(int, number[1::2]))) % _TEN == 0


def swedish(number: str) -> bool:
    """Sweden's personnummer: Luhn's rule over the last ten digits."""
    return is_luhn(number[-10:])


def polish(number: str) -> bool:
    """Poland's PESEL."""
    return _weighted(number, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % _TEN == 0


def norwegian(number: str) -> bool:
    """Norway's fødselsnummer has two check digits."""
    first = _weighted(number, (3, 7, 6, 1, 8, 9, 4, 5, 2, 1))
    second = _weighted(number, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1))
    return first % 11 == 0 and second % 11 == 0


def dutch(number: str) -> bool:
    """The Netherlands' BSN."""
    return _weighted(number, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def german(number: str) -> bool:
    """Germany's tax number."""
    rest = _TEN
    for digit in number[:10]:
        rest = (rest + int(digit)) % _TEN or _TEN
        rest = rest * 2 % 11
    return (11 - rest) % _TEN == int(number[10])


def british_health(number: str) -> bool:
    """The NHS number."""
    return _weighted(number, (10, 9, 8, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0


def brazilian(number: str) -> bool:
    """Brazil's CPF; the same digit eleven times would fit, and is nobody's."""
    if len(set(number)) == 1:
        return False
    return all(
        _weighted(number[:size], range(size + 1, 1, -1)) * _TEN % 11 % _TEN == int(number[size])
        for size in (9, 10)
    )


def indian(number: str) -> bool:
    """India's Aadhaar, by Verhoeff's rule."""
    check = 0
    for place, digit in enumerate(reversed(number)):
        check = int(_VERHOEFF_TIMES[check][int(_VERHOEFF_MOVES[place % 8][int(digit)])])
    return check == 0


def chinese(number: str) -> bool:
    """China's resident number, whose last digit may be X."""
    total = sum(int(digit) * pow(2, 17 - place, 11) for place, digit in enumerate(number[:17]))
    return (total + (_TEN if number[17] == "X" else int(number[17]))) % 11 == 1


def turkish(number: str) -> bool:
    """Turkey's T.C. kimlik."""
    odd, even = sum(map(int, number[:9:2])), sum(map(int, number[1:8:2]))
    return (odd * 7 - even) % _TEN == int(number[9]) and sum(map(int, number[:10])) % _TEN == int(number[10])


def unchecked(number: str) -> bool:
    """Whatever has no check digits: its form must do."""
    return bool(number)


def _weighted(number: str, weights: Sequence[int]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(number, weights, strict=False))
