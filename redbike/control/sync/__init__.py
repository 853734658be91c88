"""Make the stored jobs those of a file or a program."""
