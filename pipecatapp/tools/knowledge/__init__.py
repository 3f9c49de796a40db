"""Knowledge: documents of this home that are indexed, searched by meaning and words, and cited."""
