"""Tools that repair texts which do not parse, such as answers of a model."""
