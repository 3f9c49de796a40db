"""Expressions of documents: `{{ … }}`."""

from pipecatapp.workflow.expressions.filters import ExpressionError, Missing
from pipecatapp.workflow.expressions.language import (
    Expression,
    Read,
    expression,
    expressions,
    is_expression,
    render,
)

__all__ = [
    "Expression",
    "ExpressionError",
    "Missing",
    "Read",
    "expression",
    "expressions",
    "is_expression",
    "render",
]
