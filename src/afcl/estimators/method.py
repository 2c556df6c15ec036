# SPDX-License-Identifier: Apache-2.0
"""Any registered method as a scikit-learn clusterer of the same form as AFCL."""

from __future__ import annotations

from typing import Any, Self

from afcl.core.protocol import AnyMethod
from afcl.estimators.federated import FederatedClusterer
from afcl.methods import get_method


class MethodClusterer(FederatedClusterer):
    """A method by name; what is not listed here goes to the method itself.

    Parameters
    ----------
    method : str
        One of :func:`afcl.method_names`.
    participation, scale, missing, max_rounds, random_state, verbose
        As in :class:`afcl.AFCL`.
    **options
        The method's own parameters, such as `n_clusters`.
    """

    def __init__(
        self,
        method: str,
        participation: Any = None,
        scale: Any = "minmax",
        missing: str = "error",
        max_rounds: int = 100,
        random_state: Any = None,
        verbose: bool = False,
        **options: Any,
    ) -> None:
        self.method = method
        self.participation = participation
        self.scale = scale
        self.missing = missing
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.verbose = verbose
        self.options = options

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments, the method's options among them."""
        params: dict[str, Any] = super().get_params(deep)
        return {**params, **self.options}

    def set_params(self, **params: Any) -> Self:
        """Set arguments; unknown ones are the method's options."""
        own = set(super().get_params(deep=False))
        for name, value in params.items():
            if name in own:
                setattr(self, name, value)
            else:
                self.options = {**self.options, name: value}
        return self

    def _method(self) -> tuple[AnyMethod, dict[str, Any]]:
        return get_method(self.method), dict(self.options)


def make_method(name: str, **params: Any) -> MethodClusterer:
    """Return an estimator for a method by name.

    Parameters
    ----------
    name : str
        One of :func:`afcl.method_names`.
    **params
        Arguments of :class:`MethodClusterer`, and the method's own.

    Returns
    -------
    MethodClusterer
        Unfitted; the name and the options are checked here.

    Examples
    --------
    >>> from afcl import make_method
    >>> make_method("afcl", min_cell=3, random_state=0).get_params()["min_cell"]
    3
    """
    estimator = MethodClusterer(name, **params)
    method, options = estimator._method()
    method.parameters(**options)
    return estimator
