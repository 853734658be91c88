"""Handle signals, write output, end forked processes, and supervise children."""
