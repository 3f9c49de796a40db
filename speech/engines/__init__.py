"""Engines for speech-to-text and text-to-speech, with one interface each."""
