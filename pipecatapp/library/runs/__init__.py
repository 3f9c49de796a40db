"""What is kept of runs, and what is told of many: histories, exports, conversations."""
