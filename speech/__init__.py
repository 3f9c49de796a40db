"""Hearing (STT) and speaking (TTS) behind OpenAI's audio API; what does the work can be swapped."""
