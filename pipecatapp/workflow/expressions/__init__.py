"""Expressions of documents: `{{ … }}`."""

from pipecatapp.workflow.expressions.filters import ExpressionError, Meter, Missing, text_of
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
    "Meter",
    "Missing",
    "Read",
    "expression",
    "expressions",
    "is_expression",
    "render",
    "text_of",
]
