"""What a process must do well: end by signals, write its output, fork, and supervise its children."""
