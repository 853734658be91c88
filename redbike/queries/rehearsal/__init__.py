"""What would happen if somebody did something: it is rehearsed, and nothing is changed."""
