"""What a page shows, as plain values, checked here once for the renderer and the script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Verdict = Literal["holds", "does not hold", "holds in part", "not measured"]
Numbers = NDArray[np.float64]
Frames = tuple[Numbers | None, ...]
"""One array per frame of training, None where there is none."""

_SLUG = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One curve of a figure.

    Every array-like becomes an array of floats, in which NaN and infinity are gaps.

    Parameters
    ----------
    name : str
        In the legend. A name has the same colour, dashes and marker in all figures of a page.
    x, y : array-like of shape (m,)
    low, high : array-like of shape (m,), default=None
        A band around the curve: both or neither.
    runs : sequence of array-likes of shape (m,), default=()
        The curve of each seed, shown on request.
    """

    name: str
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    runs: Sequence[Numbers] = ()

    def __post_init__(self) -> None:
        x = _array(self.x, f"x of series {self.name!r}", (None,))
        _set(self, x=x)
        for name in ("y", "low", "high"):
            if getattr(self, name) is not None:
                _set(
                    self,
                    **{
                        name: _array(
                            getattr(self, name), f"{name} of series {self.name!r}", x.shape
                        )
                    },
                )
        if (self.low is None) != (self.high is None):
            raise ValueError(f"series {self.name!r} has one of low and high; a band needs both")
        _set(
            self,
            runs=tuple(_array(run, f"a run of series {self.name!r}", x.shape) for run in self.runs),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """Curves over one axis.

    Parameters
    ----------
    id : str
        Lower-case letters, digits and single hyphens or underscores: the figure's address within
        the page, and the name of its downloads.
    title : str
    series : sequence of Series
    caption, x_label, y_label : str, default=""
    log_x, log_y : bool, default=False
        Logarithmic axes to begin with; the reader can change that of y. What is not positive is a
        gap there.
    from_zero : bool, default=False
        Whether an axis of y that is not logarithmic starts at 0, so that heights can be compared
        between figures.
    group : str, default=""
        Figures of one group, say of one data set, stand side by side under its name.
    """

    id: str
    title: str
    series: Sequence[Series]
    caption: str = ""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = False
    group: str = ""

    def __post_init__(self) -> None:
        if not _SLUG.fullmatch(self.id):
            raise ValueError(
                f"id={self.id!r}: use lower-case letters, digits and single hyphens or underscores,"
                " such as 'sonar-objective'"
            )
        _set(self, series=tuple(self.series))
        _refuse_twins((series.name for series in self.series), f"series of figure {self.id!r}")


@dataclass(frozen=True, slots=True)
class PageClaim:
    """A claim of the paper, and its verdict.

    Parameters
    ----------
    claim : str
    verdict : {"holds", "does not hold", "holds in part", "not measured"}
    measured : str, default=""
        The number that decides, in few words.
    detail : str, default=""
    """

    claim: str
    verdict: Verdict
    measured: str = ""
    detail: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in get_args(Verdict):
            raise ValueError(
                f"verdict={self.verdict!r}: use one of {', '.join(map(repr, get_args(Verdict)))}"
            )


@dataclass(frozen=True, slots=True)
class PageTable:
    """Rows of text and numbers: numbers stand to the right, with four digits, and NaN is a dash."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    def __post_init__(self) -> None:
        wrong = [len(row) for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(
                f"table {self.title!r} has {len(self.columns)} columns, and a row of {wrong[0]}"
                " cells"
            )


@dataclass(frozen=True, slots=True, eq=False)
class TrainingFrames:
    """One way of training, frame by frame, in the plane of an :class:`Explorer`.

    Parameters
    ----------
    name : str
    boundaries : array-like of shape (frames, 3), or sequence of (a, b, c) and None
        Where the decision changes: the line ``a x + b y + c = 0``. None, a NaN, or ``a = b = 0``
        mean that there is no line.
    objective : array-like of shape (frames,)
    gradients, product : default=None
        Those at this method's own weights, in place of the explorer's.
    """

    name: str
    boundaries: Numbers
    objective: Numbers
    gradients: Sequence[Numbers | None] | None = None
    product: Sequence[Numbers | None] | None = None

    def __post_init__(self) -> None:
        lines = [(np.nan,) * 3 if line is None else line for line in self.boundaries]
        boundaries = (
            _array(lines, f"boundaries of method {self.name!r}", (None, 3))
            if lines
            else np.empty((0, 3))
        )
        _set(self, boundaries=boundaries)
        _set(
            self,
            objective=_array(
                self.objective, f"objective of method {self.name!r}", (len(boundaries),)
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Explorer:
    """A data set in the plane, its antithetic table and its training: an interactive Figure 1.

    Parameters
    ----------
    name : str
    points : array-like of shape (n, 2)
        Where each row stands; see :class:`Plane` for rows of more than two features.
    labels : array-like of shape (n,)
        -1 and +1.
    partner : array-like of shape (n,)
        The antithetic table, a permutation.
    frames : sequence of float, default=()
        The epochs, or steps, at which the methods are shown.
    methods : sequence of TrainingFrames, default=()
        A panel each; none gives one panel without a decision.
    gradients : array-like of shape (frames, n, 2), or sequence, default=None
        Gradient of each row's loss in the plane. A sequence has an (n, 2) array-like or None for
        each frame; a frame with None takes the gradients of the last frame that has some. With no
        frames, one entry.
    product : array-like of shape (frames, n), or sequence, default=None
        Inner product of each row's gradient with its partner's, in all features. A sequence has an
        (n,) array-like or None for each frame. Without ``product``, the inner product of the
        gradients in the plane is shown, and labelled as such.
    optimum : (a, b, c), default=None
        The decision at the optimum, a solid line.
    axis_labels : (str, str)
    frame_label : str, default="epoch"
        What ``frames`` counts.
    classes : (str, str), default=("−1", "+1")
        Names of the labels -1 and +1.
    note : str, default=""
        A sentence under the panels.
    """

    name: str
    points: Numbers
    labels: NDArray[np.intp]
    partner: NDArray[np.intp]
    frames: Sequence[float] = ()
    methods: Sequence[TrainingFrames] = ()
    gradients: Sequence[Numbers | None] | None = None
    product: Sequence[Numbers | None] | None = None
    optimum: Sequence[float] | None = None
    axis_labels: tuple[str, str] = ("first principal component", "second principal component")
    frame_label: str = "epoch"
    classes: tuple[str, str] = ("\N{MINUS SIGN}1", "+1")
    note: str = ""

    def __post_init__(self) -> None:
        what = f"of explorer {self.name!r}"
        points = _array(self.points, f"points {what}", (None, 2))
        if not np.isfinite(points).all():
            raise ValueError(
                f"points {what} hold NaN or infinity; leave such rows out, from labels and partner"
                " as well"
            )
        n, n_frames = len(points), max(1, len(self.frames))
        labels = np.asarray(self.labels)
        if labels.shape != (n,) or not np.isin(labels, (-1, 1)).all():
            raise ValueError(f"labels {what} must be {n} values of -1 and +1")
        partner = np.asarray(self.partner)
        if not np.array_equal(np.sort(partner), np.arange(n)):
            raise ValueError(f"partner {what} must be a permutation of 0..{n - 1}")
        _set(
            self,
            points=points,
            labels=labels.astype(np.intp),
            partner=partner.astype(np.intp),
            frames=tuple(map(float, self.frames)),
        )
        _refuse_twins((method.name for method in self.methods), f"methods {what}")
        for method in self.methods:
            if len(method.objective) != len(self.frames):
                raise ValueError(
                    f"method {method.name!r} {what} has {len(method.objective)} frames, the"
                    f" explorer {len(self.frames)}"
                )
            _set(
                method,
                gradients=_frames(
                    method.gradients, f"gradients of method {method.name!r}", n_frames, (n, 2)
                ),
            )
            _set(
                method,
                product=_frames(
                    method.product, f"product of method {method.name!r}", n_frames, (n,)
                ),
            )
        _set(
            self,
            methods=tuple(self.methods),
            gradients=_frames(self.gradients, f"gradients {what}", n_frames, (n, 2)),
        )
        _set(self, product=_frames(self.product, f"product {what}", n_frames, (n,)))
        if self.optimum is not None:
            _array(self.optimum, f"optimum {what}", (3,))


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """Everything that a page shows, in the order in which it shows it.

    All but the title may be left out.

    Parameters
    ----------
    title : str
    subtitle : str, default=""
    summary : sequence of str, default=()
        Sentences. Text between ``**`` is emphasised; in a sentence without any, its numbers are.
    claims : sequence of PageClaim, default=()
    figures : sequence of Figure, default=()
    explorer : sequence of Explorer, default=()
        One per data set.
    tables : sequence of PageTable, default=()
    settings, versions, machine : mapping of str to object, default={}
    citation : str, default=""
        How to cite, shown as it is.
    """

    title: str
    subtitle: str = ""
    summary: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    claims: Sequence[PageClaim] = ()
    tables: Sequence[PageTable] = ()
    explorer: Sequence[Explorer] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, object] = field(default_factory=dict)
    machine: Mapping[str, object] = field(default_factory=dict)
    citation: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.summary, str):
            raise TypeError("summary is one string; give a list of sentences")
        _refuse_twins((figure.id for figure in self.figures), "ids of figures")
        _refuse_twins((explorer.name for explorer in self.explorer), "names of explorers")


def _set(value: object, **fields: object) -> None:
    for name, held in fields.items():
        object.__setattr__(value, name, held)  # frozen to the user, who may have given lists


def _array(value: Any, what: str, shape: tuple[int | None, ...]) -> Numbers:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != len(shape) or any(
        want not in (None, have) for want, have in zip(shape, array.shape, strict=True)
    ):
        wanted = ", ".join("any" if want is None else str(want) for want in shape)
        raise ValueError(f"{what} has shape {array.shape}; it must have ({wanted})")
    return array


def _frames(
    value: Sequence[Any] | None, what: str, n_frames: int, shape: tuple[int, ...]
) -> Frames | None:
    if value is None:
        return None
    if len(value) != n_frames:
        raise ValueError(
            f"{what} has {len(value)} entries; it must have one per frame, {n_frames}, None where"
            " there is nothing to show"
        )
    return tuple(None if entry is None else _array(entry, what, shape) for entry in value)


def _refuse_twins(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} must differ, and {name!r} occurs twice")
        seen.add(name)
