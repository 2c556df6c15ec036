# SPDX-License-Identifier: Apache-2.0
"""The paper's UCI sets: where each is, how its file is laid out, what it must hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """Where a set is, how its public file is laid out, and what the paper's file is.

    Attributes
    ----------
    number, slug : int, str
        The set's address is NUMBER/SLUG.zip.
    member : str
        The file inside, in whatever folder.
    features : sequence of int
        The columns that are features, counted from 0.
    label : int
        The column that is the class.
    classes : mapping of str to str
        The class's spelling in the public file, and in the paper's. A line with
        another one is no row: headers are skipped this way.
    checksum : str
        Of the whole content, see :func:`afcl_bench.fetch.checksum`.
    delimiter : str or None
        None splits at white space.
    words : mapping of str to str
        Numbers that the paper's file has where the public one has words.
    digits : int or None
        Numbers are rounded to so many digits, those before the point included.
    """

    number: int
    slug: str
    member: str
    features: Sequence[int]
    label: int
    classes: Mapping[str, str]
    checksum: str
    delimiter: str | None = ","
    words: Mapping[str, str] = field(default_factory=dict)
    digits: int | None = None


def _numbered(*names: str) -> dict[str, str]:
    """Map names to the numbers from 1."""
    return {name: str(number) for number, name in enumerate(names, 1)}


#: The public file of each set.
SOURCES = {
    "IR": Source(
        number=53,
        slug="iris",
        member="iris.data",
        features=range(4),
        label=4,
        classes=_numbered("Iris-setosa", "Iris-versicolor", "Iris-virginica"),
        checksum="189fa5735b72c5a9d5ef9b834ba0dd08461355f55dd277df15380bf0374075e2",
    ),
    "SE": Source(
        number=236,
        slug="seeds",
        member="seeds_dataset.txt",
        delimiter=None,
        features=range(7),
        label=7,
        classes=_numbered("1", "2", "3"),
        checksum="40a5832fbbc7cd33822d5232f15390092779f5a1d7ee153b226375a07e520659",
    ),
    "AL": Source(
        number=459,
        slug="avila",
        member="avila-tr.txt",
        features=range(10),
        label=10,
        classes=_numbered(*"ABCDEFGHIWXY"),
        checksum="ca3f1f9bb82f0ed8999ec995f085e5be76f35fb62727f28296fce719ff4d94e9",
    ),
    "AB": Source(
        number=1,
        slug="abalone",
        member="abalone.data",
        features=range(1, 8),
        label=8,
        classes=_numbered(*map(str, range(1, 30))),
        checksum="533e73465e988e9ce52310a9b5453b8ef58cb5a9d057efab4ccb80d472be875b",
    ),
    "CC": Source(
        number=17,
        slug="breast+cancer+wisconsin+diagnostic",
        member="wdbc.data",
        features=(0, *range(2, 32)),
        label=1,
        classes=_numbered("M", "B"),
        checksum="c52b4d77e93e0eb35d48f2d0cb60a5edd0631a3e1a91edd5e0d5f21b5c41c446",
    ),
    "AC": Source(
        number=518,
        slug="speaker+accent+recognition",
        member="accent-mfcc-data-1.csv",
        features=range(1, 13),
        label=0,
        classes=_numbered("ES", "FR", "GE", "IT", "UK", "US"),
        digits=10,
        checksum="aa9b761e7becb474944631e0c7b2496f4051d9416ee712f2c455f9f63a9a1c5c",
    ),
    "SG": Source(
        number=50,
        slug="image+segmentation",
        member="segmentation.test",
        features=range(1, 20),
        label=0,
        classes=_numbered(
            "BRICKFACE", "SKY", "FOLIAGE", "CEMENT", "WINDOW", "PATH", "GRASS"
        ),
        checksum="055eb08b5f8a33a0d1a51bc60f5316d2f266bdea37d21315b2eeb21a48ab0d3e",
    ),
    "LI": Source(
        number=488,
        slug="facebook+live+sellers+in+thailand",
        member="Live_20210128.csv",
        features=range(3, 12),
        label=1,
        classes={"video": "1", "photo": "2", "link": "link", "status": "status"},
        checksum="e1c9fe50a0b9331401fd6b77934a0a1b25b6dcae8386b55fa2cc5c1e95cc6bb2",
    ),
    "PA": Source(
        number=174,
        slug="parkinsons",
        member="parkinsons.data",
        features=(*range(1, 17), *range(18, 24)),
        label=17,
        classes=_numbered("0", "1"),
        checksum="df9b421384596d9886aef8260cb88122fe1a089f097057a587f59cb51a7edf06",
    ),
    "AU": Source(
        number=475,
        slug="audit+data",
        member="audit_risk.csv",
        features=(*range(18), *range(19, 24), 25),
        label=26,
        classes=_numbered("0", "1"),
        words={"LOHARU": "8", "NUH": "8", "SAFIDON": "8"},
        checksum="0c5987fd009fb07012e48fcd56c6fb6f5afd8af1bec9c0c8bf181aa9f0b23778",
    ),
    "TF": Source(
        number=176,
        slug="blood+transfusion+service+center",
        member="transfusion.data",
        features=range(4),
        label=4,
        classes=_numbered("0", "1"),
        checksum="a7378e073d549e68b2c83ed795665e97814c4e3f3c2d081c9a3ad7b0d07de45f",
    ),
}
