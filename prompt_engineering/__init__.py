"""Improve prompts by evolution on measured runs, and propose the result to a person.

The package uses the application only through `pipecatapp.client`; see docs/howto/evolve-prompts.md.
"""
