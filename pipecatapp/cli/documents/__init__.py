"""Commands for documents: workflows as they are written, layers, tools."""
