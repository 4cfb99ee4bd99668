"""The table of known sets: how large they are, where they come from, what is in them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownSet:
    """What is known of a set.

    ``labels`` and ``digest`` are checked in files from outside; sets in the package have none.
    """

    n: int
    d: int
    origin: str
    embedded: bool = False
    remote: str | None = None  # file name on the LIBSVM data pages
    labels: dict[float, int] | None = None  # how often each label occurs
    digest: str | None = None  # _content.digest of rows and labels
    meanings: tuple[str, ...] = ()  # of the labels in ascending order, where known
    l2: float | None = None  # lambda of the paper


_SONAR = "UCI Connectionist Bench (Sonar, Mines vs. Rocks); Gorman and Sejnowski 1988"
_BREAST = (
    "UCI Breast Cancer Wisconsin (Original) without its 16 incomplete rows; Wolberg and Mangasarian"
    " 1990"
)
_SPLICE = (
    "UCI Molecular Biology (splice junctions), two classes; Noordewier, Towell and Shavlik 1991"
)
_IJCNN = "IJCNN 2001 challenge; Prokhorov 2001, as transformed by Chang and Lin 2001"
_FOURCLASS = "Ho and Kleinberg 1996, two classes"
_DIABETES = "UCI / Statlog Pima Indians Diabetes; Smith et al. 1988"
_MNIST = "MNIST handwritten digits; LeCun, Bottou, Bengio and Haffner 1998"

_CELLS = ("benign", "malignant")
_JUNCTIONS = ("junction", "no junction")
_TESTED = ("tested positive", "tested negative")

SETS = {
    "sonar_scale": KnownSet(208, 60, _SONAR, embedded=True, meanings=("mine", "rock"), l2=1e-2),
    "breast-cancer": KnownSet(683, 10, _BREAST, embedded=True, meanings=_CELLS),
    "breast-cancer_scale": KnownSet(683, 10, _BREAST, embedded=True, meanings=_CELLS, l2=1e-2),
    "splice": KnownSet(1000, 60, _SPLICE, embedded=True, meanings=_JUNCTIONS),
    "splice_scale": KnownSet(1000, 60, _SPLICE, embedded=True, meanings=_JUNCTIONS, l2=1e-3),
    "splice.t": KnownSet(2175, 60, _SPLICE, embedded=True, meanings=_JUNCTIONS),
    "diabetes": KnownSet(768, 8, _DIABETES, embedded=True, meanings=_TESTED),
    "diabetes_scale": KnownSet(768, 8, _DIABETES, embedded=True, meanings=_TESTED, l2=1e-2),
    "fourclass": KnownSet(
        862,
        2,
        _FOURCLASS,
        remote="fourclass",
        labels={-1: 555, 1: 307},
        digest="db6b828c3df427f2b48a43afe523c0a23bdbc92059d31e6fb117cd3424650929",
    ),
    "fourclass_scale": KnownSet(
        862,
        2,
        _FOURCLASS,
        remote="fourclass_scale",
        labels={-1: 555, 1: 307},
        digest="10cdbee4ba80b98fd930a1ecd5a258233ce20496e73b79bd55b48d951db8bfdc",
        l2=1e-2,
    ),
    "ijcnn1.tr": KnownSet(
        35000,
        22,
        _IJCNN,
        remote="ijcnn1.tr.bz2",
        labels={-1: 31585, 1: 3415},
        digest="457f142262ba3437c17752d4482a8c302e321d30095975692785721256391020",
        l2=1e-4,
    ),
    "ijcnn1.val": KnownSet(
        14990,
        22,
        _IJCNN,
        remote="ijcnn1.val.bz2",
        labels={-1: 13552, 1: 1438},
        digest="8cb93d33332f8d048683e41392fc3ba695c47c52fda52fdfcc9fa87570ae2f82",
    ),
    "ijcnn1.t": KnownSet(
        91701,
        22,
        _IJCNN,
        remote="ijcnn1.t.bz2",
        labels={-1: 82989, 1: 8712},
        digest="ed329ac9024f6eaa5a6d56687f585df72c107f8fbc2ed6ad425b7bd990ddb82a",
    ),
    "a9a": KnownSet(
        32561,
        123,
        "UCI Adult; Kohavi 1996, made binary by Platt 1998",
        remote="a9a",
        labels={-1: 24720, 1: 7841},
        digest="59a9e37c288115597508d993bd6d84ea8328f3718f5ee49ef0f50f1b0648b949",
        meanings=("income up to 50K", "income above 50K"),
    ),
    "w8a": KnownSet(
        49749,
        300,
        "web pages; Platt 1998",
        remote="w8a",
        labels={-1: 48270, 1: 1479},
        digest="2f41ac32397b4388a4701da6774642671a02520d0500e9ff92e63f83b34e97b2",
    ),
    "phishing": KnownSet(
        11055,
        68,
        "UCI Phishing Websites; Mohammad, Thabtah and McCluskey 2012",
        remote="phishing",
        labels={0: 4898, 1: 6157},
        digest="bca7c837caa714eb1b83e1a18a3143914e8aac6d9266336608fba0a4799ebfb1",
        meanings=("phishing", "legitimate"),
    ),
    "mushrooms": KnownSet(
        8124,
        112,
        "UCI Mushroom; Schlimmer 1987",
        remote="mushrooms",
        labels={1: 3916, 2: 4208},
        digest="5192ad8493c3797543f5a8db60381d70dec0995a6ad5a474d7557ae112dacdaf",
        meanings=("poisonous", "edible"),
    ),
    "cod-rna_scale": KnownSet(
        59535,
        8,
        "Uzilov, Keegan and Mathews 2006, scaled to [-1, 1]",
        labels={-1: 39690, 1: 19845},
        digest="c34951de92e7cc8e13e92ea6d09260dbaed3d0192662a4499729faf4b06f0cd7",
    ),
    "farm-ads": KnownSet(
        4143,
        54877,
        "UCI Farm Ads; Mesterharm and Pazzani 2011",
        labels={-1: 1933, 1: 2210},
        digest="e1bbe2d88ccf0207d487333c3cd41aeb7f5265434e5c65cb983ba4df72b30ac4",
    ),
    "skin_nonskin": KnownSet(
        245057,
        3,
        "UCI Skin Segmentation; Bhatt and Dhall 2012",
        remote="skin_nonskin",
        labels={1: 50859, 2: 194198},
        digest="d3dfedce44a0d1f7da76e4eccdbe2adab63618398830f49c3a1ca08672ad68f9",
        meanings=("skin", "no skin"),
    ),
    "mnist": KnownSet(
        60000,
        784,
        _MNIST,
        labels={
            0: 5923,
            1: 6742,
            2: 5958,
            3: 6131,
            4: 5842,
            5: 5421,
            6: 5918,
            7: 6265,
            8: 5851,
            9: 5949,
        },
        digest="f5586c4e317b31c49a167afe502c98ae2711c93a6068b5f58aa30ae16bef1e7f",
    ),
    "mnist.t": KnownSet(
        10000,
        784,
        _MNIST,
        labels={
            0: 980,
            1: 1135,
            2: 1032,
            3: 1010,
            4: 982,
            5: 892,
            6: 958,
            7: 1028,
            8: 974,
            9: 1009,
        },
        digest="03eda212da33133531b46e817ab5507e196961dee6730b0fb32f2b9234ba5734",
    ),
}
