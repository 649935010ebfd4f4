"""How long telephone numbers and IBANs are.

Written by tools/make_number_tables.py, not by hand, from phonenumbers 9.0.43 (Apache-2.0)
and python-stdnum 2.2 (LGPL-2.1 or later): codes and lengths only.
"""

PHONE_LENGTHS = {
    (4, 5): "290",
    (4, 7): "683 690",
    (5, 5): "247 500 682",
    (5, 7): "676 677 678 688",
    (5, 8): "686",
    (5, 10): "358 685",
    (5, 11): "352",
    (6, 6): "298 299 672 681 687",
    (6, 7): "597",
    (6, 9): "252 27 359 376 40 421 48 508 61",
    (6, 10): "53 63 880 95 98",
    (6, 11): "82",
    (6, 12): "39",
    (6, 13): "43 49",
    (7, 7): "238 239 246 248 269 291 297 501 592 673 674 679 680 691 692 960",
    (7, 8): (
        "216 222 223 226 227 228 230 232 235 236 241 253 257 266 267 268 350 356 357 370 371 372 373 374 382 "
        "386 389 502 503 504 505 506 507 509 591 598 599 670 675 689 800 808 852 853 961 965 968 973 974 975 "
        "993"
    ),
    (7, 9): (
        "211 212 213 218 220 221 224 231 233 237 240 242 244 245 249 250 251 254 255 256 258 260 261 262 264 "
        "265 351 354 355 375 377 380 385 387 420 423 46 590 593 594 595 596 855 962 963 966 967 970 971 979 "
        "992 994 995 996 998"
    ),
    (7, 10): "225 229 234 243 263 353 378 850 856 881 964 976 977",
    (7, 11): "86 886 888",
    (7, 12): "381 383 62 870 878 882 883 972",
    (8, 8): "45 47 65",
    (8, 9): "32 33 34 36 41 51 56 66 93 94",
    (8, 10): "20 30 44 52 57 58 60 64 81 84 90 91 92",
    (8, 11): "31 54 55",
    (10, 10): "1 7",
}
"""Calling codes by how many digits may follow them."""

IBAN_LENGTHS = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "AO CV GW LY MZ PT ST",
    26: "DZ IR IS TR",
    27: "BI CF CG CM DJ FR GA GQ GR IT KM MC MG MR SM TD",
    28: "AL AZ BF BJ BY CI CY DO GT HN HU LB MA ML NE NI PL SN SV TG",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
"""Countries by how many letters and digits an IBAN has."""
