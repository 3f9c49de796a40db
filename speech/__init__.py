"""Speech-to-text and text-to-speech behind OpenAI's audio API, with exchangeable engines."""
