"""Texts with something to find in them, one for each kind, and long ones; each with what must not leak."""

from typing import NamedTuple

import pytest


class Sample(NamedTuple):
    """A text of about forty characters, its kind, and the part of it that must be gone."""

    kind: str
    text: str
    secret: str


SAMPLES = (
    Sample("email", "Write to ada.l@engines.example.org now!!", "ada.l@engines.example.org"),
    Sample("phone", "Please call +1 415-555-0132 x12 at noon.", "415-555-0132 x12"),
    Sample("phone", "Mon portable: 06 12 34 56 78, ce soir...", "06 12 34 56 78"),
    Sample("card", "Pay with 4111 1111 1111 1111, please....", "4111 1111 1111 1111"),
    Sample("ssn", "The SSN of Ada is 123-45-6789, you know.", "123-45-6789"),
    Sample("national_id", "It is AB 12 34 56 C, as she wrote to me.", "AB 12 34 56 C"),
    Sample("iban", "To DE89 3704 0044 0532 0130 00 by Friday", "DE89 3704 0044 0532 0130 00"),
    Sample("ip", "It came from 203.0.113.42, or elsewhere.", "203.0.113.42"),
    Sample("ip", "Host 2001:db8::8a2e:370:7334 is up again", "2001:db8::8a2e:370:7334"),
    Sample("mac", "The card is 00:1A:2B:3C:4D:5E, they say.", "00:1A:2B:3C:4D:5E"),
    Sample("secret", "The password is hunter2!x, do not tell.", "hunter2!x"),
    Sample("secret", "at postgres://app:s3cr3t@db/main, I hope", "app:s3cr3t"),
    Sample("secret", "key AKIAIOSFODNN7EXAMPLE was left there.", "AKIAIOSFODNN7EXAMPLE"),
    Sample("dob", "She was born on May 12, 1980, in Leeds..", "May 12, 1980"),
    Sample("url", "Look at https://example.org/a?b=1, there", "https://example.org/a?b=1"),
    Sample("badge", "My badge is B-1234-X, if you ask me now.", "B-1234-X"),
)

each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=[f"{s.kind}-{i}" for i, s in enumerate(SAMPLES)])
"""Runs a test with every sample."""

BADGE = r"B-\d{4}-X"
"""A pattern of one's own."""

PRIVATE_KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "\n".join(("MIIEpAIBAAKCAQEA7bq" + "q0Rz7+/Xk" * 5)[:64] for _ in range(25))
    + "\nYWJjZA==\n-----END RSA PRIVATE KEY-----"
)
"""A private key of 25 lines."""

LONG_SECRETS = {
    "private key": (f"Here: {PRIVATE_KEY} and so on.", "MIIEpAIB"),
    "token": (f"Here: sk-proj-{'Zx9' * 300} and so on.", "Zx9Zx9"),
    "web token": (f"Here: eyJhbGciOiJIUzI1NiJ9.{'Zx9' * 300}.{'Zx9' * 20} and so on.", "Zx9Zx9"),
    "labelled": (f"password: {'Zx!9' * 200} and so on.", "Zx!9Zx!9"),
    "address": (f"See https://example.org/{'Zx9/' * 200} and so on.", "Zx9/Zx9"),
}
"""Texts with a secret that is longer than may be held back, and a part that must not leak."""

BENIGN = (
    "The quick brown fox jumps over the lazy dog, twice.",
    "It cost $1,234.56 on 2024-01-05 at 10:22:33, or 1.234,56 € on 05.01.2024.",
    "ISBN 978-3-16-148410-0, version 1.2.3.4, v2.10.0, #1a2b3c, 50 %, 3.14159",
    "def f(x: int = 10) -> list[str]:\n    return [a[1::2] for a in std::map(x)]\n",
    "2024-01-05T10:22:33.123Z INFO worker[1234] job 987654321 took 12.5 ms",
    "uuid 123e4567-e89b-12d3-a456-426614174000 commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "# Title\n\n1. one\n2. two\n\n| a | 12 | 345 |\n|---|---|---|\n**bold** _it_ `x_1`",
    "order number 4155550132, invoice 2024-000123, part no. 5551234567",
    "The password is required. Token: string. Risk-averse sk-learn users @ work.",
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30",
    "Unix time 1704067200 or 1704067200000; lat 52.520008, lon 13.404954; 83 149 300 people",
    "nginx/1.25.3 on 6.1.0-18-amd64, Chrome/126.0.6478.127, RFC 2616 section 14.9.1.2, § 12.3.4.5",
    "-rw-r--r-- 1 root root 1234567 Nov 16 03:04 a.txt; Max-Age=31536000; 0x7ffee4b5c0a0; PID 4321",
    "See [the guide](https://example.com/a/1234567890?x=12345678901) and ![img](./a-1234567.png).",
    "npm i @types/node@18.11.9; import x from '@scope/pkg'; @decorator; git@host.example:org/repo.git",
    "Flight LH 1234, seats 12A-12C, B-52, 737-800, 90210-1234, CH-8001, score 21-19, 6-4 6-3 7-6.",
    "0.12345678 12.345678 1e-10 2^64 = 18446744073709551616, pi 3.14159 26535 89793 23846",
    "# Copyright (C) 1998-2007 by the callers, 5 Harbour Lane, Suite 330, Boston, MA 02199-0042 USA",
    "See bug #1172785 and CVE-2019-18348; fixed in 1.7.3.5; `harbour==2.31.0.1`; OID 2.5.29.17, PEP 3147/488",
    "The default number is 1000000, timeout 10000 (10 seconds); call text(0.5772156649) for 3.10.0 - 3.10.8",
    "aGVsbG8gd29ybGQgdGhpcyBpcyBhIGxvbmcgYmFzZTY0IHRleHQgd2l0aG91dCBhbnkgc2VjcmV0cyBpbiBpdA==" * 5,
)
"""Texts that look like something and are not."""
