"""Charts and diagrams as SVG, rendered to PNG: the same data gives the same bytes."""
