"""What the library shows of documents: reference pages, and plans for people."""
