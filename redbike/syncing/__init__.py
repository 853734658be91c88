"""Make the stored jobs those of a file, or of a program."""
