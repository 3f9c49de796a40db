"""Commands for documents: workflows, layers, tools."""
